"""Scaling: efficiency, Karp and Flatt's share, curves of records, and what holds them back."""

import pytest
from cases import for_each
from factories import GPU, estimate, measurement, record
from factories import speedup as some_speedup
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.analysis import scaling
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Speedup
from pytest_gpuperf.model.scaling import Scaling


def of(count, *, mode="strong", counts=(1, 2, 4), required=None) -> Scaling:
    return Scaling(name="test_it", mode=mode, count=count, counts=counts, required=required)


def speedup(value, low=None, high=None) -> Speedup:
    return some_speedup(value, value if low is None else low, value if high is None else high)


def measured(count, over_base=None, **options):
    """Return the record of a test whose time on the fewest devices is so many times its own."""
    found = scaling.with_speedup(of(count, **options), over_base, measurement(GPU, 1.0))
    return record(nodeid=f"test_it[{count}devices]", gpu=measurement(GPU, 0.5), scaling=found)


@for_each(
    ("expected", "scaling_of", "over_fewest"),
    [
        ((0.8, 0.75, 0.85), of(4), (3.2, 3.0, 3.4)),  # strong: of the ratio of devices
        ((0.5, None, None), of(8, counts=(2, 8)), (2.0, None, None)),  # to the fewest of the group
        ((0.9, 0.8, 1.0), of(4, mode="weak"), (0.9, 0.8, 1.0)),
    ],
)
def test_efficiency_is_a_share_of_the_ideal_speedup_over_the_fewest_devices(
    expected, scaling_of, over_fewest
):
    found = scaling.efficiency_of(scaling_of, estimate(*over_fewest))
    assert expected == (found.value, found.low, found.high)
    assert scaling.speedup_of(scaling_of, found) == estimate(*over_fewest)


def test_the_share_of_karp_and_flatt_for_an_efficiency_of_80_percent_on_4_devices_is_a_twelfth():
    share = scaling.karp_flatt(estimate(0.8, 0.5, 1.0), 4)
    assert (1 / 12, 0.0, 1 / 3) == pytest.approx((share.value, share.low, share.high))


@given(serial=st.floats(0.0, 1.0), ratio=st.integers(2, 64))
def test_the_share_of_karp_and_flatt_is_that_of_amdahls_law(serial, ratio):
    time = serial + (1 - serial) / ratio
    efficiency = 1 / (time * ratio)
    share = scaling.karp_flatt(estimate(efficiency), ratio)
    assert (pytest.approx(serial, abs=1e-9), None, None) == (share.value, share.low, share.high)


def test_a_required_efficiency_is_a_speedup_over_the_fewest_devices():
    assert scaling.with_required_speedup(Demand(), of(4, required=0.75)).min == 3.0
    assert scaling.with_required_speedup(Demand(), of(4, required=0.75, mode="weak")).min == 0.75
    assert scaling.with_required_speedup(Demand(), of(2)).min is None


def test_a_curve_has_a_point_for_each_number_of_devices_fewest_first():
    records = [measured(4, speedup(3.2), required=0.7), measured(1), measured(2, speedup(1.8)), record()]
    (curve,) = scaling.curves(records)
    assert (curve.name, curve.mode, curve.required) == ("test_it", "strong", 0.7)
    assert [point.count for point in curve.points] == [1, 2, 4]
    assert [point.efficiency and point.efficiency.value for point in curve.points] == [None, 0.9, 0.8]
    assert [point.time for point in curve.points] == [0.5, 0.5, 0.5]


AMDAHL = [measured(2, speedup(1.818, 1.81, 1.83)), measured(4, speedup(3.077, 3.06, 3.09))]


def codes(*records) -> list[str]:
    (curve,) = scaling.curves(records)
    return [diagnosis.code for diagnosis in curve.diagnosis]


@for_each(
    ("expected", "two", "four"),
    [
        # The share stays the same; Amdahl with a tenth: 1 / (0.1 + 0.9 / p)
        (["serial_part"], (1.818, 1.81, 1.83), (3.077, 3.06, 3.09)),
        # It grows
        (["communication_bound"], (1.95, 1.94, 1.96), (2.5, 2.49, 2.51)),
        # It may have grown
        ([], (1.95, 1.5, 2.2), (2.5, 2.49, 2.51)),
        ([], (1.85, 1.79, 1.92), (2.96, 2.86, 3.05)),
        # The devices are slower together
        (["communication_bound"], (0.7, 0.69, 0.71), (0.6, 0.59, 0.61)),
        # A good efficiency needs no explanation
        ([], (1.99, 1.98, 2.0), (3.9, 3.89, 3.91)),
        # A share in doubt
        (["serial_part"], (1.9, 1.0, 2.5), (3.5, 2.0, 3.79)),
        ([], (1.9, 1.0, 2.5), (3.5, 2.0, 4.1)),
        # It may be more than all of the work
        ([], (1.02, 0.6, 2.1), (1.12, 0.36, 2.36)),
    ],
)
def test_how_the_share_changes_tells_what_holds_the_devices_back(expected, two, four):
    assert expected == codes(measured(1), measured(2, speedup(*two)), measured(4, speedup(*four)))


@for_each(
    ("expected", "records"),
    [
        ([], [measured(1), measured(2, speedup(1.2))]),  # one comparison alone tells no cause
        # Counts that were measured are explained although there are too few devices for the most.
        (["serial_part"], [measured(1), *AMDAHL, measured(8)]),
        # The fewest devices of a group count though their test did not run: 4 are no slower than 1.
        (["communication_bound"], [measured(2, speedup(1.5)), measured(4, speedup(1.6))]),
    ],
)
def test_of_an_incomplete_curve_what_was_measured_counts(expected, records):
    (curve,) = scaling.curves(records)
    assert curve.counts == (1, 2, 4)
    assert expected == codes(*records)
    assert not any("slower" in each.sentence for each in curve.diagnosis)
