"""Estimation: what rounds show of a ratio, and what is certain of it."""

from dataclasses import replace

import pytest
from cases import for_each
from factories import evidence_of, noisy

from pytest_gpuperf.analysis import estimation, looks
from pytest_gpuperf.analysis.estimation import Evidence, OwnShares, speedup, undisturbed
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Interference, Round

FIRST, _, QUARTER = looks.planned("quick")
END = looks.last(99, 7, 7.5, 0.025)


def approx(*values):
    return pytest.approx(values)


def test_a_speedup_is_the_median_ratio_with_the_range_of_its_stretches():
    found = speedup(evidence_of([2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6]), FIRST)
    assert (found.value, found.low, found.high) == approx(2.3, 2.0, 2.6)
    assert (found.rounds, found.sampling) == (7, "interleaved")


@for_each("look", [FIRST, QUARTER, END])
def test_what_is_certain_reaches_as_far_beyond_as_the_look_is_unsure(look):
    found = speedup(evidence_of([3.0] * 28), look)
    assert (found.certain.low, found.certain.high) == approx(3.0 / look.sure, 3.0 * look.sure)
    assert found.certain.factor == look.sure


def test_a_limit_that_is_met_rests_on_the_factor_of_the_look_that_decided():
    eighth = looks.planned("quick")[1]
    found = speedup(evidence_of([3.0] * 28), eighth, decided=True)
    assert (found.decided_by.look, found.decided_by.factor) == ("eighth", 1.2)
    assert (found.quick.low, found.quick.high) == approx(3.0 / 1.2, 3.0 * 1.2)
    assert (found.sure.low, found.sure.high) == approx(1.5, 6.0)


def test_where_no_look_decided_nothing_is_quick():
    found = speedup(evidence_of([3.0] * 28), FIRST)
    assert found.decided_by is None
    assert found.quick == found.sure


@for_each(("rounds", "factor"), [(2, 4.86), (3, 2.7), (6, 2.7)])
def test_fewer_rounds_than_stretches_are_certain_of_less(rounds, factor):
    found = speedup(evidence_of([3.0] * rounds), looks.last(rounds, 7, 7.5, 0.025))
    assert (found.low, found.high) == approx(3.0, 3.0)
    assert found.certain.low == pytest.approx(3.0 / factor, rel=0.01)


def test_one_round_has_a_value_and_no_interval():
    found = speedup(evidence_of([3.0]), FIRST)
    assert found.value == pytest.approx(3)
    assert (None, None, None, None) == (found.low, found.high, found.certain.low, found.certain.high)


def test_without_a_round_there_is_no_speedup():
    assert speedup(evidence_of([]), FIRST) is None


def test_sides_that_were_sampled_apart_are_compared_stretch_with_any_stretch():
    apart = Evidence(
        reference=[10.0] * 7 + [12.0] * 7, candidate=[1.0] * 21 + [2.0] * 7, alpha=0.025, sampling="siblings"
    )
    found = speedup(apart, END)
    assert (found.low, found.high) == approx(10 / 2, 12 / 1)
    assert found.rounds == 14


def test_the_share_of_a_block_beside_its_calls_is_doubt_on_the_side_where_it_could_be_wrong():
    filled = replace(evidence_of([3.0] * 28), own=OwnShares(candidate=0.9))
    found = speedup(filled, END)
    assert (found.low, found.high) == approx(3.0, 3.0)
    assert (found.certain.low, found.certain.high) == approx(3 / 1.01, 3 / 0.9 * 1.01)
    filled = replace(evidence_of([3.0] * 28), own=OwnShares(reference=0.9))
    assert speedup(filled, END).certain.low == pytest.approx(3 * 0.9 / 1.01)


def test_a_gpu_whose_clocks_had_not_risen_may_be_as_fast_as_it_likes():
    unsettled = replace(evidence_of([3.0] * 28), own=OwnShares(candidate=0.0))
    found = speedup(unsettled, END)
    assert (found.certain.low, found.certain.high) == (pytest.approx(3 / 1.01), None)
    assert not unsettled.is_decided(looks.Limit(99.0, 99.0, "below"), END)
    assert unsettled.is_decided(looks.Limit(1.0, 1.0, "below"), END)


def test_full_stretches_alone_tell_that_no_later_rounds_decide():
    evidence = evidence_of([2.0] * 5 + [4.0] * 5 + [9.0] * 4)
    assert evidence.in_stretches_of(5) == approx(2.0, 4.0)
    assert evidence.in_stretches_of(20) is None


def test_a_time_has_the_range_of_its_stretches_and_is_certain_within_a_factor():
    found = estimation.estimate_time([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 0.025)
    assert (found.value, found.low, found.high) == (4.0, 1.0, 7.0)
    assert estimation.estimate_time([2.0] * 7, 0.025, 1.5).high == pytest.approx(3.0)
    assert estimation.estimate_time([], 0.025) is None


@for_each(
    ("expected", "demand"),
    [
        (1.0, Demand()),
        (1.5, Demand(transfer="always")),
        (1.05, Demand(transfer="once", calls=10)),
    ],
)
def test_the_candidates_time_has_the_copies_that_the_demand_includes(expected, demand):
    copies = 0.0 if demand.transfer == "never" else 0.5
    times = estimation.candidate_times([Round(cpu=3.0, gpu=1.0, copies=copies)], demand)
    assert times == [pytest.approx(expected)]


def test_independent_noise_lies_wholly_beyond_its_median_once_in_64_runs():
    beyond = 0
    for seed in range(1000):
        seen = evidence_of([ratio for ratio, _ in zip(noisy(seed, spread=0.3), range(21), strict=False)]).seen
        beyond += seen.low > 1 or seen.high < 1
    assert beyond <= 30  # 1.6 % expected


UNSTABLE = Interference(kind="unstable_cpu_times", own_share=0.5, median=0.5, fastest=0.1)
NOT_ITS_OWN = replace(UNSTABLE, own_share=0.0)


def without(evidence, **sides):
    return undisturbed(
        evidence, END, decided=True, reference=sides.get("reference"), candidate=sides.get("candidate")
    )


def test_lost_time_of_the_reference_leaves_less_certain_below():
    found = without(evidence_of([4.0] * 28), reference=UNSTABLE)
    assert (found.certain.certain.low, found.certain.certain.high) == approx(2 / 1.01, 4 * 1.01)
    assert found.medians == approx(2.0, 4.0)


def test_lost_time_of_the_candidate_leaves_less_certain_above():
    found = without(evidence_of([4.0] * 28), candidate=UNSTABLE)
    assert (found.certain.certain.low, found.certain.certain.high) == approx(4 / 1.01, 8 * 1.01)
    assert found.medians == approx(4.0, 8.0)


def test_where_no_time_is_an_arms_own_nothing_is_certain_of_that_side():
    assert without(evidence_of([4.0] * 28), reference=NOT_ITS_OWN).certain.certain.low is None
    assert without(evidence_of([4.0] * 28), candidate=NOT_ITS_OWN).certain.certain.high is None


def test_without_other_work_or_without_rounds_there_is_no_disturbance():
    assert without(evidence_of([4.0] * 28)) is None
    assert without(evidence_of([]), reference=UNSTABLE) is None
