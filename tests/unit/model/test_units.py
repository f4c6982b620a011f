"""Numbers for people: as many digits as they have."""

from cases import for_each

from pytest_gpuperf.model import units


@for_each(
    ("expected", "value", "low", "high"),
    [
        ("8.23", 8.23, 8.22, 8.24),
        ("0.46", 0.464, 0.414, 0.509),
        ("0.464", 0.464, 0.430, 0.5),
        ("1.5", 1.46, 0.61, 2.9),
        ("4.6", 4.56, 4.0, 5.0),
        ("10", 9.96, 6.0, 14.0),
        ("0.09", 0.0865, 0.0588, 0.3955),
        ("0.087", 0.0871, 0.08, 0.093),
        ("1200", 1234.0, 800.0, 1700.0),
        ("10.0", 10.0, 10.0, 10.0),
        ("0", 0.0, 0.0, 1.0),
        ("3.00e+10", 3e10, 1e10, 5e10),
    ],
)
def test_a_value_has_no_more_digits_than_its_range_leaves(expected, value, low, high):
    assert expected == units.digits_within(value, low, high)
