"""Verdict: what a range says about a demand, and in which words."""

import factories
from cases import for_each
from factories import LASTED, ROUNDS
from golden import assert_golden

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.looks import Look
from pytest_gpuperf.analysis.verdict import Pace, apply_memory_limit, decision, judge
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Interference, Memory, Speedup
from pytest_gpuperf.model.record import Verdict

SURE = looks.at_end(ROUNDS, LASTED)
EARLY = Look(1.1, 1.5)


def speedup(value=2.9, low=2.6, high=3.2, **changes) -> Speedup:
    return factories.speedup(value, low, high, **changes)


# A speedup of 10 that may have been from 4 to 25
HALF = Interference(kind="cpu_contention", own_share=0.4, waited=0.6, threads=1)
SPREAD = Interference(kind="unstable_cpu_times", own_share=0.4, median=1e-3, fastest=4e-4)
LOST_TIME = factories.sampled(*[10.0] * ROUNDS).in_spite_of(HALF, SPREAD, ("the CPU", "the GPU"))


@for_each(
    ("expected", "low", "high", "demand", "look"),
    [
        ("passed", 3.04, 5.0, Demand(min=3), SURE),
        ("failed", 1.0, 2.96, Demand(min=3), SURE),
        (None, 3.03, 5.0, Demand(min=3), SURE),  # 1 % beyond, and not more
        (None, 1.0, 2.98, Demand(min=3), SURE),
        ("passed", 0.5, 0.9, Demand(max=1), SURE),
        ("failed", 1.1, 2.0, Demand(max=1), SURE),
        (None, 0.9, 1.1, Demand(max=1), SURE),
        ("passed", 2.1, 3.9, Demand(min=2, max=4), SURE),
        ("failed", 1.0, 1.9, Demand(min=2, max=4), SURE),
        ("failed", 4.1, 9.0, Demand(min=2, max=4), SURE),
        (None, 1.9, 3.0, Demand(min=2, max=4), SURE),
        ("passed", 3.1, None, Demand(min=3), SURE),
        (None, None, None, Demand(min=3), SURE),
        # After a short time a limit is missed farther away than it is met.
        ("passed", 3.4, 9.0, Demand(min=3), EARLY),
        (None, 3.2, 9.0, Demand(min=3), EARLY),
        ("failed", 1.0, 1.9, Demand(min=3), EARLY),
        (None, 1.0, 2.1, Demand(min=3), EARLY),
        ("passed", 1.0, 2.7, Demand(max=3), EARLY),
        (None, 4.4, 9.0, Demand(max=3), EARLY),
    ],
)
def test_the_whole_range_decides(expected, low, high, demand, look):
    assert expected == decision(speedup(3.0, low, high), demand, look)


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


SLOW_GPU = "the GPU was slowed down"


@for_each(
    ("status", "code", "found", "demand", "look", "doubts"),
    [
        ("recorded", None, speedup(), Demand(), SURE, ()),
        ("passed", None, speedup(), Demand(min=2), SURE, ()),
        ("failed", "speedup_outside_limits", speedup(), Demand(min=4), SURE, ()),
        ("inconclusive", "limit_too_close", speedup(2.9, 2.6, 3.2), Demand(min=3), SURE, ()),
        ("inconclusive", "limit_too_close", speedup(3.1, 3.02, 3.2), Demand(min=3), SURE, ()),
        ("inconclusive", "limit_too_close", speedup(2.9, 2.8, 2.98), Demand(min=3), EARLY, ()),
        ("inconclusive", "not_enough_time", speedup(2.9, 2.8, 2.95), Demand(min=3), EARLY, ()),
        ("inconclusive", "not_enough_time", speedup(2.9, None, None), Demand(min=3), SURE, ()),
        ("inconclusive", "not_enough_time", speedup(2.9, None, 3.1), Demand(min=3), SURE, ()),
        *(
            ("inconclusive", code, speedup(10, 9, 11), demand, SURE, doubts)
            for code, doubts in (("interference", (LOST_TIME,)), ("gpu_throttled", (None, SLOW_GPU)))
            for demand in (Demand(min=5), Demand(max=5), Demand(min=20), Demand(max=20))
        ),
    ],
)
def test_a_verdict_has_a_status_and_a_code_for_what_would_decide(status, code, found, demand, look, doubts):
    verdict = judge(found, demand, look, *doubts)
    assert (status, code) == (verdict.status, verdict.reason_code)
    assert (verdict.reason is None) == (status in ("recorded", "passed"))


@for_each(
    ("expected", "rounds", "found", "pace"),
    [
        ("max_time=12", 2, (5.0, 4.9, 5.1), Pace(1.0, 4.0)),  # seven rounds
        ("max_time=48", 3, (4.0, 3.95, 4.05), Pace(4.0, 12.0)),
        ("max_time=43", 8, (3.2, 3.15, 3.25), Pace(1.0, 12.0)),  # 28 of them
        ("max_time=10", 60, (3.2, 3.15, 3.25), Pace(0.03, 3.0)),  # and 7.5 s
        ("max_time", 8, (3.2, 3.15, 3.25), Pace(1.0, 50.0)),  # it had more
        ("max_time", 8, (3.2, 3.15, 3.25), None),
    ],
)
def test_what_took_too_few_rounds_says_in_what_time_they_are_enough(expected, rounds, found, pace):
    seen = speedup(*found, rounds=rounds)
    verdict = judge(
        seen, Demand(min=3), looks.at_end(rounds, rounds * pace.round_time if pace else 8.0), pace=pace
    )
    assert "not_enough_time" == verdict.reason_code
    assert verdict.reason.endswith(f"; allow more time with {expected}")


def test_a_verdict_says_the_demand_the_number_its_range_and_what_would_decide():
    cases = [
        (speedup(), Demand(min=4), SURE),
        (speedup(rounds=12), Demand(min=3), SURE),
        (speedup(3.1, 3.02, 3.2, rounds=12), Demand(max=3.0), SURE),
        (speedup(2.9, 2.8, 2.95, rounds=12), Demand(min=3), EARLY),
        (speedup(low=None, high=None), Demand(min=2, max=4), SURE),
        (speedup(12.4, 6.2, 24.8), Demand(max=1.5, transfer="always"), SURE),
        (speedup(), Demand(min=4, transfer="once", calls=8, latency=True), SURE),
        (speedup(), Demand(min=4, transfer="once", calls=1), SURE),
        (speedup(), Demand(min=4, latency=True), SURE),
        (speedup(10, 9, 11), Demand(min=5), SURE, LOST_TIME),
        (speedup(10, 9, 11), Demand(min=5), SURE, None, SLOW_GPU),
    ]
    assert_golden("words/verdicts.txt", "".join(f"{judge(*case).reason}\n" for case in cases))


@for_each(
    ("held", "most", "peak", "limit"),
    [
        ("12,000 B", "11,999 B", 12_000, 11_999),  # three digits show no difference
        ("12.1 kB", "12.0 kB", 12_100, 12_000),
        ("1 B", "0 B", 1, 0),
    ],
)
def test_memory_above_its_limit_is_said_in_numbers_that_differ(held, most, peak, limit):
    verdict = Verdict(status="passed", reason=None)
    found = apply_memory_limit(verdict, Memory(peak=peak), Demand(max_memory=limit))
    assert f"the workload holds {held} on the device, max_memory is {most}" == found.reason
