"""Verdict: what a range says about a demand, and in which words."""

import factories
from cases import for_each
from factories import LASTED, ROUNDS
from golden import assert_golden

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.looks import Look
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.analysis.verdict import decision, judge, stands
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Speedup
from pytest_gpuperf.model.units import digits

SURE = looks.at_end(ROUNDS, LASTED)
EARLY = Look(1.1, 1.5)


def speedup(value=2.9, low=2.6, high=3.2, **changes) -> Speedup:
    return factories.speedup(value, low, high, **changes)


LOST_TIME = Disturbance(speedup=speedup(10, 4, 21), least=4, most=21, reason="a neighbour")


@for_each(
    ("expected", "low", "high", "demand"),
    [
        ("passed", 3.04, 5.0, Demand(min=3)),
        ("failed", 1.0, 2.96, Demand(min=3)),
        (None, 2.9, 3.1, Demand(min=3)),
        (None, 3.03, 5.0, Demand(min=3)),  # 1 % beyond, and not more
        (None, 1.0, 2.98, Demand(min=3)),
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
        ("passed", 3.1, None, Demand(min=3)),
        (None, 3.1, None, Demand(min=3, max=4)),
        (None, None, None, Demand(min=3)),
        (None, None, None, Demand(max=3)),
    ],
)
def test_the_whole_range_decides(expected, low, high, demand):
    assert expected == decision(speedup(3.0, low, high), demand, SURE)


@for_each(
    ("expected", "low", "high", "demand"),
    [
        ("passed", 3.4, 9.0, Demand(min=3)),
        (None, 3.2, 9.0, Demand(min=3)),
        ("failed", 1.0, 1.9, Demand(min=3)),
        (None, 1.0, 2.1, Demand(min=3)),
        ("passed", 1.0, 2.7, Demand(max=3)),
        (None, 1.0, 2.8, Demand(max=3)),
        ("failed", 4.6, 9.0, Demand(max=3)),
        (None, 4.4, 9.0, Demand(max=3)),
    ],
)
def test_after_a_short_time_a_limit_is_missed_farther_away_than_it_is_met(expected, low, high, demand):
    assert expected == decision(speedup(3.0, low, high), demand, EARLY)


@for_each(
    ("status", "ratios"),
    [
        ("passed", [15.0, 16.0]),  # 4.9 times the limit, and more
        ("inconclusive", [14.0, 16.0]),
        ("failed", [0.6, 0.5]),
        ("passed", [8.2, 8.2, 8.2]),  # 2.7 times
        ("inconclusive", [8.2, 8.0, 8.2]),
        ("inconclusive", [100.0]),
    ],
)
def test_few_rounds_are_a_verdict_if_they_lie_far_from_the_limit(status, ratios):
    found = factories.sampled(*ratios)
    assert judge(found.speedup(), Demand(min=3), found.look).status == status


@for_each(("expected", "demand"), [("recorded", Demand()), ("passed", Demand(min=2))])
def test_without_limits_a_speedup_is_recorded_and_above_the_minimum_it_passes_without_a_reason(
    expected, demand
):
    verdict = judge(speedup(), demand, SURE)
    assert (expected, None, None) == (verdict.status, verdict.reason, verdict.reason_code)


@for_each(
    ("code", "found", "demand", "look"),
    [
        ("limit_too_close", (2.9, 2.6, 3.2), Demand(min=3), SURE),
        ("limit_too_close", (2.9, 2.6, 3.2), Demand(max=3), EARLY),
        ("limit_too_close", (3.1, 3.02, 3.2), Demand(min=3), SURE),
        ("limit_too_close", (2.9, 2.8, 2.98), Demand(min=3), EARLY),
        ("not_enough_time", (2.9, 2.8, 2.95), Demand(min=3), EARLY),
        ("not_enough_time", (2.9, None, None), Demand(min=3), SURE),
        ("not_enough_time", (2.9, None, 3.1), Demand(min=3), SURE),
    ],
)
def test_an_open_limit_is_inconclusive_for_what_would_decide(code, found, demand, look):
    verdict = judge(speedup(*found, rounds=12), demand, look)
    assert ("inconclusive", code) == (verdict.status, verdict.reason_code)


def test_a_verdict_says_the_demand_the_number_its_range_and_what_would_decide():
    range_of = Demand(min=2, max=4)
    cases = [
        (speedup(), Demand(min=4), SURE),
        (speedup(rounds=12), Demand(min=3), SURE),
        (speedup(3.1, 3.02, 3.2, rounds=12), Demand(max=3.0), SURE),
        (speedup(2.9, 2.8, 2.95, rounds=12), Demand(min=3), EARLY),
        (speedup(low=None, high=None), range_of, SURE),
        (speedup(12.4, 6.2, 24.8), Demand(max=1.5, transfer="always"), SURE),
        (speedup(), Demand(min=4, transfer="once", calls=8, latency=True), SURE),
        (speedup(10, 9, 11), Demand(min=5), SURE, LOST_TIME),
        (speedup(10, 9, 11), Demand(min=5), SURE, None, "the GPU was slowed down"),
    ]
    assert_golden("words/verdicts.txt", "".join(f"{judge(*case).reason}\n" for case in cases))


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


def stands_within(low, high, demand):
    """Return whether the verdict on 10x [9, 11] stands where the range is another one."""
    return stands(speedup(10, 9, 11), speedup(10, low, high), demand, SURE)


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
    assert expected is stands_within(low, 11, demand)


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
    assert expected is stands_within(9, high, demand)


@for_each("demand", [Demand(min=5), Demand(max=5), Demand(min=20), Demand(max=20)])
@for_each(
    ("code", "doubts"), [("interference", (LOST_TIME,)), ("gpu_throttled", (None, "the GPU was slowed down"))]
)
def test_a_verdict_that_rests_on_lost_time_or_a_slow_gpu_is_inconclusive_on_either_side(code, doubts, demand):
    found = judge(speedup(10, 9, 11), demand, SURE, *doubts)
    assert ("inconclusive", code) == (found.status, found.reason_code)
