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
    ("expected", "value"),
    [
        ("3600 s", 3600.0),
        ("1.00 s", 0.99996),
        ("999 ms", 0.9994),
        ("1.23 ms", 1.234e-3),
        ("12.3 us", 12.34e-6),
        ("100 us", 99.97e-6),
        ("5.00 ns", 5e-9),
        ("0.050 ns", 5e-11),
        ("0 ns", 0.0),
    ],
)
def test_a_time_has_three_digits_and_its_unit(expected, value):
    assert expected == seconds(value)


@for_each(
    ("expected", "bytes"),
    [
        ("0 B", 0),
        ("999 B", 999),
        ("1.00 kB", 1000),
        ("4.19 MB", 2**22),
        ("1.00 GB", 999_600_000),
        ("999 MB", 999_400_000),
        ("141 GB", 141e9),
        ("2500 TB", 2.5e15),
    ],
)
def test_a_size_has_three_digits_and_its_unit(expected, bytes):
    assert expected == size(bytes)


def test_a_bandwidth_is_a_size_per_second():
    assert bandwidth(12.34e9) == "12.3 GB/s"


def test_an_open_end_of_an_interval_is_a_question_mark():
    assert "[2.60, 3.20]" == interval(2.6, 3.2, digits)
    assert "[?, ?]" == interval(None, None, digits)


@for_each(("expected", "number"), [("0 tests", 0), ("1 test", 1), ("2 tests", 2), ("1,200 tests", 1200)])
def test_a_count_has_the_plural_of_its_noun(expected, number):
    assert expected == count(number, "test")


def test_a_count_takes_a_plural_of_its_own():
    assert "1 entry" == count(1, "entry", "entries")
    assert "2 entries" == count(2, "entry", "entries")


@for_each(("expected", "names"), [("a", "a"), ("a, b, c", "abc"), ("a, b, c and 1 more", "abcd"), ("", "")])
def test_of_many_names_the_first_three_are_listed(expected, names):
    assert expected == first_few(names)


@for_each(
    ("expected", "ratio"),
    [
        ("-18 %", 0.82),
        ("+3.5 %", 1.035),
        ("+9.9 %", 1.099),
        ("+10 %", 1.0996),
        ("+100 %", 2.0),
        ("+0.0 %", 1.0),
    ],
)
def test_a_change_has_its_sign_and_a_digit_more_where_it_is_small(expected, ratio):
    assert expected == change(ratio)


def test_a_share_is_in_percent_and_a_time_ends_with_its_minute():
    assert ("10 %", "2.5 %") == (percent(0.1), percent(0.025))
    assert minute("2026-11-20T10:00:31+00:00") == "2026-11-20 10:00"


def test_a_huge_value_has_no_more_digits_than_others():
    assert ["999999999", "1.00e+09", "1.00e+300"] == [digits(value) for value in (999_999_999.0, 1e9, 1e300)]
