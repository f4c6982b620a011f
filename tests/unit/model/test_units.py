"""Units: seconds and bytes in words, with three digits; counts and lists of names."""

from cases import for_each

from pytest_gpuperf.model.units import (
    bandwidth,
    change,
    count,
    digits,
    first_few,
    interval,
    minute,
    percent,
    seconds,
    size,
)


@for_each(
    ("expected", "shown", "value"),
    [
        ("3600 s", seconds, 3600.0),
        ("1.00 s", seconds, 0.99996),
        ("999 ms", seconds, 0.9994),
        ("1.23 ms", seconds, 1.234e-3),
        ("100 us", seconds, 99.97e-6),
        ("5.00 ns", seconds, 5e-9),
        ("0.050 ns", seconds, 5e-11),
        ("0 ns", seconds, 0.0),
        ("0 B", size, 0),
        ("999 B", size, 999),
        ("1.00 kB", size, 1000),
        ("4.19 MB", size, 2**22),
        ("1.00 GB", size, 999_600_000),
        ("2500 TB", size, 2.5e15),
        ("12.3 GB/s", bandwidth, 12.34e9),
        ("2.90", digits, 2.9),
        ("99.9", digits, 99.94),
        ("100", digits, 99.96),
        ("1.00", digits, 0.9999),
        ("0.050", digits, 0.05),
        ("0", digits, 0),
        ("999999999", digits, 999_999_999.0),  # a huge value has no more digits than others
        ("1.00e+09", digits, 1e9),
        ("1.00e+300", digits, 1e300),
        ("10 %", percent, 0.1),
        ("2.5 %", percent, 0.025),
        ("-18 %", change, 0.82),
        ("+3.5 %", change, 1.035),  # a digit more where it is small
        ("+9.9 %", change, 1.099),
        ("+10 %", change, 1.0996),
        ("+100 %", change, 2.0),
        ("+0.0 %", change, 1.0),
        ("2026-11-20 10:00", minute, "2026-11-20T10:00:31+00:00"),
        ("a", first_few, "a"),
        ("a, b, c and 1 more", first_few, "abcd"),
        ("", first_few, ""),
    ],
)
def test_a_value_has_three_digits_and_its_unit(expected, shown, value):
    assert expected == shown(value)


def test_an_open_end_of_an_interval_is_a_question_mark():
    assert "[2.60, 3.20]" == interval(2.6, 3.2, digits)
    assert "[?, ?]" == interval(None, None, digits)


def test_a_count_has_the_plural_of_its_noun():
    assert ["0 tests", "1 test", "1,200 tests"] == [count(number, "test") for number in (0, 1, 1200)]
    assert ["1 entry", "2 entries"] == [count(number, "entry", "entries") for number in (1, 2)]
