"""Units: seconds and bytes in words, with three digits."""

import pytest

from pytest_gpuperf.model.units import bandwidth, seconds, size


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ("3600 s", 3600.0),
        ("1.00 s", 0.99996),
        ("999 ms", 0.9994),
        ("1.23 ms", 1.234e-3),
        ("12.3 us", 12.34e-6),
        ("100 us", 99.97e-6),
        ("5.00 ns", 5e-9),
        ("0.05 ns", 5e-11),
        ("0 ns", 0.0),
    ],
)
def test_a_time_has_three_digits_and_its_unit(expected, value):
    assert expected == seconds(value)


@pytest.mark.parametrize(
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
