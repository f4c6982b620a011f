"""Estimation: when sampling stops, what it has found by then, and how seldom it is wrong."""

from itertools import islice
from math import exp

import numpy as np
import pytest

from pytest_gpuperf.analysis.estimation import SequentialEstimator, estimate
from pytest_gpuperf.analysis.stopping import should_stop
from pytest_gpuperf.analysis.verdict import judge
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.measurement import Round

PLENTY = 10.0


def taken(ratio: float) -> Round:
    return Round(cpu=ratio * 1e-3, gpu=1e-3)


def estimation_of(ratios, demand: Demand, plan: RunOptions | None = None) -> SequentialEstimator:
    estimation = SequentialEstimator(demand, plan or RunOptions())
    for ratio in ratios:
        estimation.add(taken(ratio))
    return estimation


def rounds_until_enough(ratios, demand, plan=None, *, each=1e-6, allowed=PLENTY) -> int:
    """Return how many rounds are taken when each of them takes `each` seconds."""
    estimation = SequentialEstimator(demand, plan or RunOptions())
    source = iter(ratios)
    count = 0
    while not should_stop(estimation, spent=count * each, left=allowed - count * each):
        estimation.add(taken(next(source)))
        count += 1
    return count


def noisy(seed: int, *, spread: float, centre: float = 1.0):
    draws = np.random.default_rng(seed).standard_normal(1000)
    return (centre * exp(spread * draw) for draw in draws)


def test_a_clear_case_stops_at_three_rounds_when_the_precision_time_is_used_up():
    assert rounds_until_enough([10.0] * 60, Demand(min=3), each=0.1) == 3


def test_a_clear_case_goes_on_for_precision_while_it_is_cheap():
    assert rounds_until_enough([10.0] * 60, Demand(min=3), each=1e-3) == 10


@pytest.mark.parametrize("demand", [Demand(min=3), Demand()])
@pytest.mark.parametrize(("expected", "allowed"), [(20, 1000.0), (15, 10.0), (8, 5.0)])
def test_a_slow_workload_has_its_rounds_where_a_change_must_show(expected, allowed, demand):
    plan = RunOptions(max_time=allowed, sampling=SamplingPlan(precision=1e-9, precision_rounds=20))
    assert rounds_until_enough([10.0] * 60, demand, plan, each=0.5, allowed=allowed) == expected


def test_a_slow_workload_that_is_precise_takes_no_more_rounds():
    plan = RunOptions(max_time=1000.0, sampling=SamplingPlan(precision_rounds=20))
    assert rounds_until_enough([10.0] * 60, Demand(min=3), plan, each=0.5) == 10


def test_a_verdict_in_doubt_is_waited_for_beyond_the_precision_time():
    # the sign alone decides here: (2**(n + 1) - 1) / (n + 1) / 3 reaches 40 at ten rounds
    assert rounds_until_enough([1.1] * 60, Demand(min=1), each=0.1) == 10


def test_a_failing_case_stops_as_soon_as_a_passing_one():
    assert rounds_until_enough([1.0] * 60, Demand(min=3), each=0.02) == 3


def test_a_ceiling_stops_like_a_floor():
    assert rounds_until_enough([0.1] * 60, Demand(max=1), each=0.02) == 3


def test_both_limits_have_to_be_decided():
    assert rounds_until_enough([2.2] * 60, Demand(min=1, max=2.4), each=0.02) == 10


def test_a_bare_demand_stops_at_precision():
    assert rounds_until_enough([10.0] * 60, Demand()) == 10


def test_a_bare_demand_stops_when_its_time_is_used_up():
    # 9 x 0.3 s is the first time beyond a record_time of 2.5 s
    assert (
        rounds_until_enough(
            noisy(0, spread=0.3), Demand(), RunOptions(sampling=SamplingPlan(record_time=2.5)), each=0.3
        )
        == 9
    )


def test_a_bare_demand_stops_when_its_rounds_are_used_up():
    assert rounds_until_enough(noisy(0, spread=0.3), Demand(), each=0.0) == 500


@pytest.mark.parametrize("demand", [Demand(min=3), Demand()])
@pytest.mark.parametrize("allowed", [0.0, -1.0, 1.0])
def test_two_rounds_are_taken_when_there_is_no_time_for_them(demand, allowed):
    assert rounds_until_enough([10.0] * 60, demand, each=1.0, allowed=allowed) == 2


def test_no_round_is_begun_that_would_leave_no_time_for_the_last_calls():
    assert rounds_until_enough([1.0] * 60, Demand(min=1), each=0.4, allowed=2.1) == 4


def test_two_clear_rounds_are_a_verdict_when_there_is_no_time_for_more():
    estimation = estimation_of([10.0, 10.0], Demand(min=3))
    assert judge(estimation.speedup("interleaved"), Demand(min=3), RunOptions()).status == "passed"


def test_sixty_rounds_at_the_limit_are_inconclusive():
    demand = Demand(min=1)
    alternating = [0.9, 1.1] * 40
    assert rounds_until_enough(alternating, demand) == 60
    found = estimation_of(islice(alternating, 60), demand).speedup("interleaved")
    assert judge(found, demand, RunOptions()).status == "inconclusive"


def test_before_the_first_round_there_is_no_speedup():
    assert SequentialEstimator(Demand(), RunOptions()).speedup("interleaved") is None


def test_the_speedup_is_the_median_ratio_with_its_interval():
    found = estimation_of([2.0] * 10, Demand(min=1)).speedup("siblings")
    assert found.value == pytest.approx(2.0)
    assert found.low == pytest.approx(2.0 / 1.01)
    assert found.high == pytest.approx(2.0 * 1.01)
    assert found.confidence == pytest.approx(0.95)
    assert (found.resolution, found.rounds, found.sampling) == (0.01, 10, "siblings")


def test_after_one_round_both_ends_are_unbounded():
    found = estimation_of([2.0], Demand(min=1)).speedup("interleaved")
    assert (None, None) == (found.low, found.high)


def test_the_evidence_is_the_e_value_at_the_limit():
    found = estimation_of([3.0] * 3, Demand(min=1)).speedup("interleaved")
    assert found.evidence == pytest.approx((3.75 + 39.304 + 5832) / 3)


def test_the_evidence_is_that_of_the_stronger_side():
    found = estimation_of([1.0] * 3, Demand(min=3)).speedup("interleaved")
    assert found.evidence == pytest.approx((3.75 + 39.304 + 5832) / 3)


def test_the_evidence_stands_at_the_nearest_limit():
    far, near = Demand(min=1), Demand(min=1, max=3)
    at_far = estimation_of([2.9] * 3, far).speedup("interleaved").evidence
    at_near = estimation_of([2.9] * 3, near).speedup("interleaved").evidence
    assert at_near < at_far


def test_without_a_demand_there_is_no_evidence():
    assert estimation_of([3.0] * 3, Demand()).speedup("interleaved").evidence is None


@pytest.mark.parametrize("ratio", [1.1, 1.005])
def test_evidence_at_the_limit_reaches_its_threshold_with_the_verdict(ratio):
    demand, plan = Demand(min=1), RunOptions()
    for rounds in range(1, 12):
        found = estimation_of([ratio] * rounds, demand).speedup("interleaved")
        assert (judge(found, demand, plan).status == "passed") == (found.evidence >= 1 / plan.alpha)


def test_a_drifting_median_widens_the_interval():
    found = estimation_of([2.0] * 12 + [3.0] * 14, Demand()).speedup("interleaved")
    assert found.value == pytest.approx(3.0)
    assert found.high == pytest.approx(3.0 * 1.01)
    assert found.low <= 2.0


def test_an_estimate_beside_its_interval_is_never_its_end():
    """Early rounds reject what later ones show: the interval reaches beyond the estimate on both sides."""
    found = estimation_of([0.045] * 30 + [0.035] * 40, Demand()).speedup("interleaved")
    assert found.low <= found.value / 1.01 + 1e-12
    assert found.high >= found.value * 1.01 - 1e-12


def in_two_heaps(seed: int) -> list[float]:
    """Return 60 ratios, about 40 % of them three times the others."""
    draws = np.random.default_rng(seed)
    others = np.exp(0.05 * draws.standard_normal(60))
    return (others * np.where(draws.random(60) < 0.4, 3.0, 1.0)).tolist()


@pytest.mark.parametrize("resolution", [0.01, 0.0])
def test_an_estimate_never_lies_outside_of_its_interval(resolution):
    plan = RunOptions(sampling=SamplingPlan(resolution=resolution))
    found = {seed: estimate(in_two_heaps(seed), plan, "siblings") for seed in range(100)}
    assert {} == {
        seed: (each.low, each.value, each.high)
        for seed, each in found.items()
        if not each.low <= each.value <= each.high
    }


@pytest.mark.parametrize(
    ("seed", "low", "high"),
    [(10, 1.0471 / 1.01, 2.0846), (26, 1.3715, 2.6435 * 1.01)],
    ids=["below", "above"],
)
def test_an_interval_reaches_the_resolution_beyond_an_estimate_that_it_would_leave_out(seed, low, high):
    found = estimate(in_two_heaps(seed), RunOptions(), "siblings")
    assert (low, high) == pytest.approx((found.low, found.high), rel=1e-4)


def test_two_halves_that_contradict_each_other_are_a_doubt():
    demand = Demand(min=1.9)
    found = estimation_of([2.0] * 12 + [1.5] * 60, demand).speedup("interleaved")
    assert found.high >= 2.0 / 1.01 - 1e-9, "earlier rounds rejected every median below it"
    assert judge(found, demand, RunOptions(sampling=SamplingPlan(max_rounds=100))).status == "inconclusive"


def test_samples_in_two_heaps_are_a_doubt_and_not_a_precise_value():
    """They break what the margin terms assume, so the evidence rejects medians from both sides."""
    heaps = [0.1, 10.0] * 30
    found = estimation_of(heaps, Demand()).speedup("interleaved")
    assert found.low < 0.25
    assert found.high > 4
    assert rounds_until_enough(heaps, Demand(min=2)) == 60
    assert judge(found, Demand(min=2), RunOptions()).status == "inconclusive"


def near_one(rounds, demand):
    """Return whether that many rounds about 1.05 are enough to tell a size of a family."""
    estimation = SequentialEstimator(demand, RunOptions(), exclusions=[(1.0, 1.0)])
    for step in range(rounds):
        estimation.add(Round(cpu=(1.02, 1.05, 1.08)[step % 3], gpu=1.0))
    return should_stop(estimation, spent=5.0, left=100.0)


@pytest.mark.parametrize("demand", [Demand(), Demand(min=0.5)])
def test_a_size_of_a_family_is_sampled_until_it_is_won_or_lost(demand):
    assert not near_one(8, demand)
    assert near_one(40, demand)


def test_a_size_that_nothing_tells_from_one_ends_all_the_same():
    estimation = SequentialEstimator(
        Demand(), RunOptions(sampling=SamplingPlan(max_rounds=20)), exclusions=[(1.0, 1.0)]
    )
    for step in range(20):
        estimation.add(Round(cpu=0.9 + 0.2 * (step % 2), gpu=1.0))
        assert (step == 19) == should_stop(estimation, spent=5.0, left=100.0)
