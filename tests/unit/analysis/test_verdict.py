"""Verdict: what an interval says about a demand, and in which words."""

import factories
from cases import for_each

from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.analysis.verdict import (
    autocorrelation_note,
    decision,
    describe_demand,
    judge,
    ratio,
    stands,
)
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import Estimate, Speedup
from pytest_gpuperf.model.units import digits


def speedup(value=2.9, low=2.6, high=3.2, **changes) -> Speedup:
    return factories.speedup(value, low, high, **changes)


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
    assert expected == decision(low, high, demand)


@for_each(("expected", "demand"), [("recorded", Demand()), ("passed", Demand(min=2))])
def test_without_limits_a_speedup_is_recorded_and_above_the_minimum_it_passes_without_a_reason(
    expected, demand
):
    verdict = judge(speedup(), demand, RunOptions())
    assert (expected, None) == (verdict.status, verdict.reason)


@for_each("confirmation", [None, "confirmed"])
def test_a_failure_says_the_number_the_interval_and_the_demand_in_one_line(confirmation):
    verdict = judge(speedup(confirmation=confirmation), Demand(min=4), RunOptions())
    assert (verdict.status, verdict.reason_code) == ("failed", "speedup_outside_limits")
    assert verdict.reason == "required at least 4x, speedup 2.90x [2.60, 3.20]"


@for_each(("expected", "confirmation"), [("inconclusive", "dependent"), ("passed", "no_time")])
def test_rounds_like_their_neighbours_meet_a_limit_only_if_others_meet_it(expected, confirmation):
    verdict = judge(speedup(confirmation=confirmation), Demand(min=2), RunOptions())
    assert verdict.status == expected
    assert ("like their neighbours" in (verdict.reason or "")) == (expected == "inconclusive")


@for_each(
    ("said", "confirmation"),
    [
        ("did not confirm it; use a quieter machine", "contradicted"),
        ("allow more time with max_time", "no_time"),
        ("was interrupted", "interrupted"),
        ("use the fixture `device`, or a limit farther from 2.90x", "not_apart"),
    ],
)
def test_a_failure_that_rounds_far_apart_do_not_confirm_is_inconclusive_and_says_why(said, confirmation):
    verdict = judge(speedup(confirmation=confirmation), Demand(min=4), RunOptions())
    assert ("inconclusive", "not_confirmed") == (verdict.status, verdict.reason_code)
    assert verdict.reason.startswith("required at least 4x, speedup 2.90x [2.60, 3.20]: ")
    assert said in verdict.reason


def test_a_wide_interval_is_inconclusive_and_says_what_would_decide():
    verdict = judge(speedup(), Demand(min=3), RunOptions())
    assert (verdict.status, verdict.reason_code) == ("inconclusive", "not_enough_time")
    assert verdict.reason.startswith(
        "required at least 3x, speedup 2.90x [2.60, 3.20]: inconclusive after 12 rounds"
    )
    assert "max_time" in verdict.reason
    assert "\n" not in verdict.reason


def test_more_time_is_no_remedy_once_all_rounds_are_taken():
    verdict = judge(speedup(rounds=60), Demand(min=3), RunOptions())
    assert verdict.reason_code == "not_enough_rounds"
    assert "max_time" not in verdict.reason
    assert "quieter machine" in verdict.reason


def test_an_unbounded_end_is_a_doubt_and_shown_as_such():
    verdict = judge(speedup(low=None, high=None), Demand(min=3), RunOptions())
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


def test_independent_rounds_need_no_note_and_dependent_ones_are_noted_with_their_number():
    for autocorrelation in (None, -0.9, 0.0, 0.3):
        assert autocorrelation_note(speedup(autocorrelation=autocorrelation)) is None
    note = autocorrelation_note(speedup(autocorrelation=0.42))
    assert "dependent samples: lag-1 autocorrelation 0.42" in note


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
        ("0.050", 0.05),
        ("0", 0),
    ],
)
def test_a_ratio_has_three_digits(expected, value):
    assert expected == digits(value)


def test_a_speedup_is_shown_with_its_interval():
    assert ratio(speedup(12.4, 6.2, 24.8)) == "12.4x [6.20, 24.8]"


def certain(low, high):
    return Estimate(value=10, low=low, high=high)


@for_each(
    ("expected", "demand", "low"),
    [
        (True, Demand(min=3), 9.0),
        (True, Demand(min=3), 3.6),
        (False, Demand(min=3), 2.7),
        (False, Demand(min=3), None),
        (True, Demand(max=30), None),
        (False, Demand(max=3), 2.7),
        (True, Demand(min=30), None),
        (True, Demand(), None),
    ],
)
def test_a_verdict_stands_while_it_does_not_rest_on_a_slow_cpu(expected, demand, low):
    assert expected is stands(speedup(10, 9, 11), demand, certain(low, 11))


@for_each(
    ("expected", "demand", "high"),
    [
        (True, Demand(min=30), 29.0),
        (False, Demand(min=30), 31.0),
        (False, Demand(min=30), None),
        (True, Demand(min=3), None),
        (False, Demand(max=30), None),
        (True, Demand(max=3), None),
    ],
)
def test_a_verdict_stands_while_it_does_not_rest_on_a_slow_emulated_gpu(expected, demand, high):
    assert expected is stands(speedup(10, 9, 11), demand, certain(9, high))


@for_each("demand", [Demand(min=5), Demand(max=5), Demand(min=20), Demand(max=20)])
def test_a_verdict_that_rests_on_lost_time_is_inconclusive_on_either_side(demand):
    interval = certain(4, 21)
    disturbance = Disturbance(estimate=interval, medians=interval, reason="a neighbour")
    found = judge(speedup(10, 9, 11), demand, RunOptions(), disturbance)
    assert ("inconclusive", "interference") == (found.status, found.reason_code)
    assert "a neighbour; use a quieter machine" in found.reason
