"""The summary: what every table says of a test, and its properties in the files of other tools."""

import pytest
from cases import for_each
from factories import record, scaled, skipped

from pytest_gpuperf.report.summary import format_time, properties


@for_each(
    ("expected", "seconds"),
    [
        ("-", None),
        ("0 ns", 0.0),
        ("1.00 ns", 1e-9),
        ("12.3 ns", 12.34e-9),
        ("0.500 ns", 0.5e-9),
        ("999 ns", 999e-9),
        ("1.00 us", 1e-6),
        ("999 us", 999e-6),
        ("1.00 ms", 1e-3),
        ("1.23 ms", 1.234e-3),
        ("1.00 s", 1.0),
        ("3600 s", 3600.0),
        ("1.00 ms", 999.9e-6),
        ("1.00 s", 0.99996),
        ("100 us", 99.97e-6),
    ],
)
def test_a_time_has_three_digits_and_its_unit(expected, seconds):
    assert expected == format_time(seconds)


def test_a_test_has_its_speedup_or_its_efficiency():
    assert {"gpuperf.status": "skipped"} == dict(properties(skipped("a")))
    assert {
        "gpuperf.status": "passed",
        "gpuperf.speedup": 10.0,
        "gpuperf.low": 9.0,
        "gpuperf.high": 11.0,
    } == (dict(properties(record("a"))))
    found = dict(properties(scaled(4, 0.5)))
    assert {"gpuperf.status", "gpuperf.efficiency", "gpuperf.low", "gpuperf.high"} == set(found)
    assert (0.5, 0.45) == pytest.approx((found["gpuperf.efficiency"], found["gpuperf.low"]))
