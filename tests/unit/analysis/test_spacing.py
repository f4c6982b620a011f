"""Spacing: which rounds sit apart in time, how far, and which failures are confirmed."""

import pytest
from cases import for_each
from factories import estimation_of, taken

from pytest_gpuperf.analysis.estimation import Exclusion, SequentialEstimator
from pytest_gpuperf.analysis.spacing import (
    are_sustained,
    confirmation,
    is_confirmed_already,
    middle,
    pause_alone,
    pause_before_next,
    rounds_together,
    second_measurement,
    unconfirmed,
)
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan

ROUND = 2e-3  # seconds


def estimator_of(*ratios, demand=None, exclusions=(), options=None):
    estimator = SequentialEstimator(demand or Demand(), options or RunOptions(), exclusions)
    for ratio in ratios:
        estimator.add(taken(ratio))
    return estimator


@for_each(
    ("rounds", "ratio", "demand"),
    [
        (12, 3.0, Demand(min=3)),
        (12, 4.4, Demand(min=3)),
        (12, 2.1, Demand(min=3)),
        (0, 4.6, Demand(min=3)),
        (0, 1.9, Demand(min=3)),
        (12, 4.6, Demand(min=3, max=5)),
        (0, 3.0, Demand()),
    ],
)
def test_rounds_within_a_factor_of_a_limit_are_twelve_rounds_apart(rounds, ratio, demand):
    assert rounds * ROUND == pytest.approx(pause_before_next(estimator_of(ratio, demand=demand), ROUND))


@for_each(("rounds", "ratio"), [(12, 9.0), (12, 8.5), (12, 11.0), (0, 15.0), (0, 5.0)])
def test_the_limit_of_a_baseline_counts_like_that_of_a_marker(rounds, ratio):
    estimator = estimator_of(ratio, exclusions=[Exclusion(8.8, 9.2)])
    assert rounds * ROUND == pytest.approx(pause_before_next(estimator, ROUND))


def test_before_the_first_round_there_is_nothing_to_be_apart_from():
    assert pause_before_next(estimator_of(demand=Demand(min=3)), ROUND) == 0


def test_all_rounds_of_a_plan_may_be_apart():
    apart = RunOptions(sampling=SamplingPlan(apart=True))
    assert pause_before_next(estimator_of(100.0, options=apart), ROUND) == pytest.approx(12 * ROUND)


@for_each(
    ("expected", "seconds", "rounds"),
    [
        (0.12, 0.01, 30),
        (0.25 - 0.06, 0.03, 0),
        (0.25 - 0.16, 0.08, 30),
        (0.0, 0.09, 30),
        (0.125 - 0.06, 0.03, 60),
    ],
)
def test_pauses_leave_time_for_the_rounds_that_a_verdict_needs_and_slow_rounds_have_none(
    expected, seconds, rounds
):
    options = RunOptions(max_time=10, sampling=SamplingPlan(precision_rounds=rounds))
    estimator = estimator_of(3.0, demand=Demand(min=3), options=options)
    assert expected == pytest.approx(pause_before_next(estimator, seconds))


@for_each(
    ("expected", "round_time", "left"),
    [
        ((12 * ROUND, 11), ROUND, 9.0),
        ((0.48, 11), 0.04, 8.0),  # eight times 24 rounds fit
        ((0.0, 11), 0.05, 8.0),
        ((0.0, 11), 0.1, 8.0),  # 6.8 s of 8
        ((0.0, 8), 0.16, 8.0),
        (None, 0.17, 8.0),
        (None, ROUND, 0.0),
        (None, ROUND, -1.0),
    ],
)
def test_a_second_measurement_has_rounds_further_apart_or_the_middle_ones_of_many(expected, round_time, left):
    assert expected == second_measurement(round_time, left)


def test_the_middle_one_is_that_of_an_odd_number_of_rounds():
    estimator = estimator_of()
    rounds = [taken(ratio) for ratio in (5.0, 1.0, 4.0, 2.0)]
    assert middle(rounds[:3], estimator) == taken(4.0)
    assert middle(rounds, estimator) == taken(4.0)
    assert middle(rounds[:1], estimator) == middle(rounds[:2], estimator) == taken(5.0)


NOISY = [10.0 * (0.8, 1.2, 1.0, 1.1, 0.9, 1.05)[place % 6] for place in range(24)]


@for_each(
    ("expected", "ratios", "spent", "apart"),
    [
        (11, NOISY, 1.0, True),
        (1, NOISY, 1.0, False),
        (1, [10.0, 10.1] * 12, 1.0, True),  # precise enough
        (1, NOISY[:5], 1.0, True),  # too few to tell
        (1, NOISY, 7.5 - 23 * ROUND, True),  # no time for eleven more
    ],
)
def test_where_noise_is_wide_the_middle_one_of_eleven_rounds_counts(expected, ratios, spent, apart):
    options = RunOptions(max_time=10, sampling=SamplingPlan(precision=0.02, apart=apart))
    assert expected == rounds_together(estimator_of(*ratios, options=options), ROUND * 10, spent)


def test_slow_rounds_without_pauses_count_one_by_one():
    options = RunOptions(max_time=10, sampling=SamplingPlan(precision=0.02, apart=True))
    estimator = estimator_of(*NOISY, options=options)
    assert [11, 1] == [rounds_together(estimator, seconds, 0.0) for seconds in (0.05, 0.1)]


@for_each(
    ("expected", "rounds", "apart", "ratios"),
    [
        (True, 300, True, [2.5] * 12),
        (False, 299, True, [2.5] * 12),
        (False, 300, False, [2.5] * 12),
        (False, 300, True, [*[2.5] * 40, *[3.1] * 6]),
    ],
)
def test_rounds_that_sat_apart_for_long_need_no_second_measurement(expected, rounds, apart, ratios):
    options = RunOptions(sampling=SamplingPlan(apart=apart))
    estimator = estimator_of(*ratios, demand=Demand(min=3), options=options)
    assert expected == is_confirmed_already(estimator, rounds)


@for_each(
    ("expected", "ratios", "demand"),
    [
        ({"min"}, [2.5] * 6, Demand(min=3)),
        (set(), [1.9] * 6, Demand(min=3)),  # no spell explains it
        ({"min"}, [*[1.9] * 5, 2.1], Demand(min=3)),  # one round is not so far off
        (set(), [3.5] * 6, Demand(min=3)),
        (set(), [2.5] * 5, Demand(min=3)),  # too few to miss anything
        ({"max"}, [3.5] * 6, Demand(max=3)),
        (set(), [4.6] * 6, Demand(max=3)),
        (set(), [2.5] * 6, Demand()),
    ],
)
def test_what_misses_a_limit_by_no_more_than_a_spell_explains_needs_confirmation(expected, ratios, demand):
    assert expected == unconfirmed(estimation_of(ratios, demand))


@for_each(("expected", "ratio"), [({"exclusion 0"}, 8.0), (set(), 5.0), (set(), 9.0), (set(), 11.0)])
def test_a_regression_needs_confirmation_like_a_failure(expected, ratio):
    assert expected == unconfirmed(estimator_of(*[ratio] * 6, exclusions=[Exclusion(8.8, 9.2)]))


def test_a_limit_that_is_missed_by_far_does_not_hide_one_that_is_missed_narrowly():
    both = estimator_of(*[2.9] * 6, demand=Demand(min=3), exclusions=[Exclusion(9.0, 9.0)])
    assert unconfirmed(both) == {"min"}


@for_each(
    ("expected", "fails", "ratio"),
    [
        ({"exclusion 0"}, "below", 8.0),
        (set(), "below", 10.0),
        (set(), "above", 8.0),
        ({"exclusion 0, above"}, "above", 10.0),
        (set(), "above", 14.0),
        ({"exclusion 0"}, "either", 8.0),
        ({"exclusion 0, above"}, "either", 10.0),
        (set(), "neither", 8.0),
        (set(), "neither", 10.0),
    ],
)
def test_an_exclusion_is_confirmed_on_the_side_that_fails(expected, fails, ratio):
    assert expected == unconfirmed(estimator_of(*[ratio] * 6, exclusions=[Exclusion(8.8, 9.2, fails)]))


@for_each(
    ("expected", "distances", "rounds"),
    [
        (True, [0.1] * 6, 66),
        (False, [0.1] * 6, 65),  # they follow each other too closely
        (False, [0.1] * 5, 1000),
        (False, [*[0.1] * 5, -0.1], 1000),
        (True, [-0.1, *[0.1] * 11] * 6, 72),  # one of twelve is off
        (False, [*[0.1] * 60, *[-0.1] * 7, *[0.1] * 5], 72),  # the last of six stretches is another level
        (False, [*[-0.1] * 12, *[0.1] * 60], 72),  # the first is
    ],
)
def test_rounds_last_longer_than_a_spell_if_each_of_six_stretches_agrees(expected, distances, rounds):
    assert expected == are_sustained(distances, rounds)


@for_each(
    ("expected", "ratio", "rounds"),
    [("confirmed", 2.5, 66), ("not_apart", 2.5, 6), (None, 1.9, 6), (None, 3.5, 6)],
)
def test_rounds_that_cannot_be_taken_again_confirm_by_how_long_they_lasted(expected, ratio, rounds):
    assert expected == confirmation(estimation_of([ratio] * 6, Demand(min=3)), rounds)


@for_each(("rounds", "seconds"), [(12, 2.5), (8, 0.6), (1, 0.18), (0, 0.17)])
def test_blocks_of_a_device_alone_sit_apart_as_far_as_the_time_of_thirty_allows(rounds, seconds):
    assert rounds * ROUND == pytest.approx(pause_alone(ROUND, seconds))
