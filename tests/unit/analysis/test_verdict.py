"""Verdict: what an interval says about a demand, and in which words."""

from dataclasses import replace

import factories
from cases import for_each

from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.analysis.verdict import decision, describe_demand, judge, ratio
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Certain, DecidedBy, Speedup
from pytest_gpuperf.model.units import digits


def speedup(value=2.9, low=2.6, high=3.2, **changes) -> Speedup:
    factor = changes.pop("factor", 1.0)
    return replace(factories.speedup(value, low, high, factor=factor), **changes)


@for_each(
    ("expected", "low", "high", "demand"),
    [
        ("passed", 3.1, 5.0, Demand(min=3)),
        ("failed", 1.0, 2.9, Demand(min=3)),
        (None, 2.9, 3.1, Demand(min=3)),
        (None, 3.0, 5.0, Demand(min=3)),
        (None, 1.0, 3.0, Demand(min=3)),
        ("passed", 0.5, 0.9, Demand(max=1)),
        ("failed", 1.1, 2.0, Demand(max=1)),
        (None, 0.9, 1.1, Demand(max=1)),
        (None, 0.5, 1.0, Demand(max=1)),
        (None, 1.0, 2.0, Demand(max=1)),
        ("passed", 2.1, 3.9, Demand(min=2, max=4)),
        ("failed", 1.0, 1.9, Demand(min=2, max=4)),
        ("failed", 4.1, 9.0, Demand(min=2, max=4)),
        (None, 1.9, 3.0, Demand(min=2, max=4)),
        (None, 3.0, 4.1, Demand(min=2, max=4)),
        (None, 1.0, 9.0, Demand(min=2, max=4)),
        ("passed", 3.1, float("inf"), Demand(min=3)),
        (None, 3.1, float("inf"), Demand(min=3, max=4)),
        (None, 0.0, float("inf"), Demand(min=3)),
        (None, 0.0, float("inf"), Demand(max=3)),
    ],
)
def test_the_whole_interval_decides(expected, low, high, demand):
    high = None if high == float("inf") else high
    assert expected == decision(speedup(10.0, low or None, high), demand)


def test_without_limits_a_speedup_is_recorded():
    verdict = judge(speedup(), Demand())
    assert ("recorded", None) == (verdict.status, verdict.reason)


def test_an_interval_above_the_minimum_passes_without_a_reason():
    verdict = judge(speedup(), Demand(min=2))
    assert ("passed", None) == (verdict.status, verdict.reason)


def test_a_failure_says_the_number_the_interval_and_the_demand_in_one_line():
    verdict = judge(speedup(), Demand(min=4))
    assert (verdict.status, verdict.reason_code) == ("failed", "speedup_outside_limits")
    assert verdict.reason == "speedup 2.90x [2.60, 3.20], required at least 4x"


@for_each(("expected", "factor"), [("failed", 1.2), (None, 1.5)])
def test_a_failure_takes_all_that_is_certain(expected, factor):
    assert expected == decision(speedup(factor=factor), Demand(min=4))
    assert expected == decision(speedup(factor=factor), Demand(max=2.1))


@for_each(("expected", "quick"), [("passed", 1.2), (None, 1.5)])
def test_a_limit_is_met_by_the_factor_of_the_look_that_decided(expected, quick):
    decided = speedup(factor=2.0, decided_by=DecidedBy(look="eighth", factor=quick))
    assert expected == decision(decided, Demand(min=2))
    assert decision(speedup(factor=2.0), Demand(min=2)) is None


def test_stretches_on_both_sides_of_a_limit_are_not_decided_by_more_time():
    verdict = judge(speedup(), Demand(min=3))
    assert (verdict.status, verdict.reason_code) == ("inconclusive", "limit_too_close")
    assert verdict.reason.startswith(
        "speedup 2.90x [2.60, 3.20], required at least 3x: inconclusive after 12 rounds"
    )
    assert "quieter machine" in verdict.reason
    assert "max_time" not in verdict.reason
    assert "\n" not in verdict.reason


def test_stretches_on_one_side_of_a_limit_may_need_more_time():
    verdict = judge(speedup(factor=1.5), Demand(min=2.5))
    assert (verdict.status, verdict.reason_code) == ("inconclusive", "not_enough_time")
    assert "max_time" in verdict.reason


def test_a_gpu_that_may_be_faster_than_it_was_seen_fails_no_minimum_and_says_why():
    unsettled = speedup(certain=Certain(low=2.6, high=None, factor=1.01))
    verdict = judge(unsettled, Demand(min=4), unsettled="its clocks were low")
    assert (verdict.status, verdict.reason_code) == ("inconclusive", "gpu_clocks")
    assert verdict.reason.endswith(": its clocks were low")
    assert judge(unsettled, Demand(min=2), unsettled="its clocks were low").status == "passed"


def test_an_unbounded_end_is_a_doubt_and_shown_as_such():
    verdict = judge(speedup(low=None, high=None), Demand(min=3))
    assert verdict.status == "inconclusive"
    assert "2.90x [?, ?]" in verdict.reason


@for_each(
    ("expected", "demand"),
    [
        ("at least 3x", Demand(min=3)),
        ("at most 1.5x", Demand(max=1.5)),
        ("at least 2x and at most 4x", Demand(min=2, max=4)),
    ],
)
def test_a_demand_is_said_in_words(expected, demand):
    assert expected == describe_demand(demand)


@for_each(
    ("expected", "value"),
    [
        ("2.90", 2.9),
        ("1.00", 1),
        ("12.3", 12.345),
        ("99.9", 99.94),
        ("100", 99.96),
        ("100", 100),
        ("1234", 1234.4),
        ("999999", 999_999),
        ("0.100", 0.1),
        ("0.999", 0.999),
        ("1.00", 0.9999),
        ("0.05", 0.05),
        ("0", 0),
    ],
)
def test_a_ratio_has_three_digits(expected, value):
    assert expected == digits(value)


def test_a_speedup_is_shown_with_its_interval():
    assert ratio(speedup(12.4, 6.2, 24.8)) == "12.4x [6.20, 24.8]"


@for_each("demand", [Demand(min=5), Demand(max=5), Demand(min=20), Demand(max=20)])
def test_a_verdict_that_rests_on_lost_time_is_inconclusive_on_either_side(demand):
    disturbance = Disturbance(certain=speedup(10, 4, 21), medians=(4, 21), reason="a neighbour")
    found = judge(speedup(10, 9, 11), demand, disturbance)
    assert ("inconclusive", "interference") == (found.status, found.reason_code)
    assert "a neighbour; use a quieter machine" in found.reason


@for_each(("expected", "demand"), [("passed", Demand(min=3)), ("failed", Demand(min=30))])
def test_a_verdict_that_lost_time_does_not_change_stands(expected, demand):
    disturbance = Disturbance(certain=speedup(10, 4, 21), medians=(4, 21), reason="a neighbour")
    assert expected == judge(speedup(10, 9, 11), demand, disturbance).status
