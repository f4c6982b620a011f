"""Estimation: when sampling stops, what it has found by then, and how seldom it is wrong."""

from dataclasses import replace

import numpy as np
import pytest
from cases import for_each
from factories import estimation_of

from pytest_gpuperf.analysis.estimation import (
    SequentialEstimator,
    estimate,
    estimate_for_demand,
    undisturbed,
)
from pytest_gpuperf.analysis.evidence import ALPHA
from pytest_gpuperf.analysis.verdict import judge
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.measurement import Interference, Round


@for_each(
    ("status", "ratios"),
    [
        ("passed", [13.0, 14.0]),  # 4.2 times the limit, and more
        ("inconclusive", [12.0, 13.0]),
        ("failed", [0.7, 0.6]),
        ("passed", [8.2, 8.2, 8.2]),  # 2.7 times
        ("inconclusive", [8.2, 8.0, 8.2]),
        ("inconclusive", [100.0]),
    ],
)
def test_few_rounds_are_a_verdict_if_they_lie_far_from_the_limit(status, ratios):
    found = estimation_of(ratios, Demand(min=3)).speedup("interleaved")
    assert found.rule == ("few_rounds" if len(ratios) > 1 else "sign_test")
    assert judge(found, Demand(min=3), RunOptions()).status == status


BUSY = Interference(kind="cpu_contention", own_share=0.1, waited=1.9, threads=2)
LOST = replace(BUSY, own_share=0.0)
ALWAYS = Demand(transfer="always")
TIMES = [(40.0, 1.0), (20.0, 2.0), (400.0, 2.0), (100.0, 0.5), (100.0, 4.0), (300.0, 4.0)]
DISTURBED = [Round(cpu=cpu, gpu=gpu, copies=1.0) for cpu, gpu in TIMES]


@for_each(
    ("low", "high", "cpu", "gpu", "demand"),
    [
        (10 / 5, 400 / 3, BUSY, None, ALWAYS),
        (10 / 4.2, 400 / 2.2, BUSY, None, Demand(transfer="once", calls=5)),
        (20 / 3, 400 / 1.2, None, BUSY, ALWAYS),
        (10 / 5, 400 / 1.2, BUSY, BUSY, ALWAYS),
        (None, 400 / 3, LOST, None, ALWAYS),
        (20 / 3, None, None, LOST, ALWAYS),
    ],
)
def test_what_is_certain_of_a_disturbed_speedup_is_that_of_the_workloads_own_times(
    low, high, cpu, gpu, demand
):
    """A tenth of the medians, 100 and 2, is the devices' own; six rounds reach from the least to the most."""
    found = estimate_for_demand(DISTURBED, demand, RunOptions(), "interleaved")
    certain = undisturbed(found, DISTURBED, demand, RunOptions(), cpu=cpu, gpu=gpu).estimate
    assert certain.value == found.value
    assert certain.low == (low and pytest.approx(low / 1.01))
    assert certain.high == (high and pytest.approx(high * 1.01))


@pytest.mark.parametrize(("share", "is_bounded"), [(1.0, True), (0.2, False)])
def test_what_is_certain_of_rounds_after_a_restart_spends_the_alpha_that_is_left(share, is_bounded):
    """The six rounds suffice for an alpha of 0.025, and for a fifth of it nine."""
    found = estimate_for_demand(DISTURBED, ALWAYS, RunOptions(), "interleaved")
    known = {"cpu": BUSY, "gpu": None, "alpha_share": share}
    certain = undisturbed(found, DISTURBED, ALWAYS, RunOptions(), **known).estimate
    assert is_bounded is (certain.low == pytest.approx(10 / 5 / 1.01))


def test_samples_that_nothing_disturbed_are_certain():
    found = estimate_for_demand(DISTURBED, ALWAYS, RunOptions(), "interleaved")
    assert undisturbed(found, DISTURBED, ALWAYS, RunOptions(), cpu=None, gpu=None) is None


def test_a_loop_with_copies_that_was_quicker_than_its_calls_alone_is_no_negative_time():
    rounds = [replace(each, copies=-0.9 * each.gpu) for each in DISTURBED]
    found = estimate_for_demand(rounds, ALWAYS, RunOptions(), "interleaved")
    certain = undisturbed(found, rounds, ALWAYS, RunOptions(), cpu=None, gpu=BUSY).estimate
    assert certain.high == pytest.approx(400 / 0.2 * 1.01)


def test_few_rounds_do_not_end_sampling():
    assert not estimation_of([100.0] * 5, Demand(min=3)).is_decided
    assert estimation_of([100.0] * 6, Demand(min=3)).is_decided


def test_the_speedup_is_the_median_ratio_with_its_interval():
    found = estimation_of([2.0] * 10, Demand(min=1)).speedup("variants")
    assert found.value == pytest.approx(2.0)
    assert found.low == pytest.approx(2.0 / 1.01)
    assert found.high == pytest.approx(2.0 * 1.01)
    assert found.confidence == pytest.approx(0.95)
    assert (found.resolution, found.rounds, found.sampling) == (0.01, 10, "variants")


def test_before_the_first_round_there_is_no_speedup_and_after_it_both_ends_are_unbounded():
    assert SequentialEstimator(Demand(), RunOptions()).speedup("interleaved") is None
    found = estimation_of([2.0], Demand(min=1)).speedup("interleaved")
    assert (None, None) == (found.low, found.high)


@for_each(
    ("expected", "ratio", "demand"),
    [
        (0.7 * 8 + 0.3 * 3.75, 3.0, Demand(min=1)),
        (0.7 * 8 + 0.3 * 3.75, 1.0, Demand(min=3)),  # the other side is the stronger one
        (None, 3.0, Demand()),
    ],
)
def test_the_evidence_is_the_e_value_at_the_limit(expected, ratio, demand):
    found = estimation_of([ratio] * 3, demand).speedup("interleaved")
    assert found.evidence == (expected and pytest.approx(expected))


def test_the_evidence_stands_at_the_nearest_limit():
    far, near = Demand(min=1), Demand(min=1, max=3)
    at_far = estimation_of([2.9, 2.9, 3.1], far).speedup("interleaved").evidence
    at_near = estimation_of([2.9, 2.9, 3.1], near).speedup("interleaved").evidence
    assert at_near < at_far


@for_each("ratio", [1.1, 1.005])
def test_evidence_at_the_limit_reaches_its_threshold_with_the_verdict(ratio):
    demand, plan = Demand(min=1), RunOptions()
    for rounds in range(6, 12):
        found = estimation_of([ratio] * rounds, demand).speedup("interleaved")
        assert (judge(found, demand, plan).status == "passed") == (found.evidence >= 1 / ALPHA)


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


@for_each("resolution", [0.01, 0.0])
def test_an_estimate_never_lies_outside_of_its_interval(resolution):
    plan = RunOptions(sampling=SamplingPlan(resolution=resolution))
    found = {seed: estimate(in_two_heaps(seed), plan, "variants") for seed in range(100)}
    assert {} == {
        seed: (each.low, each.value, each.high)
        for seed, each in found.items()
        if not each.low <= each.value <= each.high
    }


def test_two_halves_that_contradict_each_other_are_a_doubt():
    demand = Demand(min=1.9)
    found = estimation_of([2.0] * 12 + [1.5] * 60, demand).speedup("interleaved")
    assert found.high >= 2.0 / 1.01 - 1e-9, "earlier rounds rejected every median below it"
    assert judge(found, demand, RunOptions(sampling=SamplingPlan(max_rounds=100))).status == "inconclusive"


def test_samples_in_two_heaps_are_a_doubt_and_not_a_precise_value():
    heaps = [0.1, 10.0] * 30
    found = estimation_of(heaps, Demand()).speedup("interleaved")
    assert found.low < 0.25
    assert found.high > 4
    assert judge(found, Demand(min=2), RunOptions()).status == "inconclusive"
