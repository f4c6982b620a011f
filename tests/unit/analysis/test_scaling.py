"""Scaling: efficiency, Karp and Flatt's share, curves of records, and what holds them back."""

import pytest
from cases import for_each
from factories import GPU, measurement, record
from factories import speedup as some_speedup
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.analysis import scaling
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Estimate, Speedup
from pytest_gpuperf.model.scaling import Scaling


def of(count, *, mode="strong", counts=(1, 2, 4), required=None) -> Scaling:
    return Scaling(name="test_it", mode=mode, count=count, counts=counts, required=required)


def speedup(value, low=None, high=None) -> Speedup:
    return some_speedup(value, value if low is None else low, value if high is None else high)


def measured(count, over_base=None, **options):
    """Return the record of a test whose time on the fewest devices is so many times its own."""
    found = scaling.with_speedup(of(count, **options), over_base, measurement(GPU, 1.0))
    return record(nodeid=f"test_it[{count}devices]", gpu=measurement(GPU, 0.5), scaling=found)


def test_strong_efficiency_is_the_speedup_over_the_ratio_of_devices():
    assert scaling.efficiency_of(of(4), Estimate(value=3.2, low=3.0, high=3.4)) == Estimate(
        value=0.8, low=0.75, high=0.85
    )


def test_the_ratio_is_to_the_fewest_devices_of_the_group():
    efficiency = scaling.efficiency_of(of(8, counts=(2, 8)), Estimate(value=2.0, low=None, high=None))
    assert efficiency == Estimate(value=0.5, low=None, high=None)


def test_weak_efficiency_is_the_speedup_itself():
    assert scaling.efficiency_of(of(4, mode="weak"), Estimate(value=0.9, low=0.8, high=1.0)).value == 0.9


def test_the_share_of_karp_and_flatt_for_an_efficiency_of_80_percent_on_4_devices_is_a_twelfth():
    share = scaling.karp_flatt(Estimate(value=0.8, low=0.5, high=1.0), 4)
    assert share.value == pytest.approx(1 / 12)
    assert share.low == 0.0
    assert share.high == pytest.approx(1 / 3)


@given(serial=st.floats(0.0, 1.0), ratio=st.integers(2, 64))
def test_the_share_of_karp_and_flatt_is_that_of_amdahls_law(serial, ratio):
    time = serial + (1 - serial) / ratio
    efficiency = 1 / (time * ratio)
    share = scaling.karp_flatt(Estimate(value=efficiency, low=None, high=None), ratio)
    assert share.value == pytest.approx(serial, abs=1e-9)
    assert (share.low, share.high) == (None, None)


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


def codes(*speedups, mode="strong"):
    records = [measured(1), *(measured(2 * 2**i, each, mode=mode) for i, each in enumerate(speedups))]
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
    assert expected == codes(speedup(*two), speedup(*four))


def test_one_comparison_alone_tells_no_cause():
    assert codes(speedup(1.2)) == []


def test_counts_that_were_measured_are_explained_although_there_are_too_few_devices_for_the_most():
    of_all = [measured(1), measured(2, speedup(1.818, 1.81, 1.83)), measured(4, speedup(3.077, 3.06, 3.09))]
    (curve,) = scaling.curves([*of_all, measured(8)])
    assert ["serial_part"] == [diagnosis.code for diagnosis in curve.diagnosis]


def test_the_fewest_devices_of_a_group_count_though_their_test_did_not_run():
    records = [measured(2, speedup(1.5)), measured(4, speedup(1.6))]
    (curve,) = scaling.curves(records)
    assert curve.counts == (1, 2, 4)
    assert not any("slower" in each.sentence for each in curve.diagnosis)
