"""Looks: how rounds are split into stretches, and how far beyond a limit they must lie, and when."""

from itertools import product

import pytest
from cases import for_each

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.looks import Limit, Look, Range
from pytest_gpuperf.model.demand import Demand

FIRST, EIGHTH, QUARTER = looks.planned("quick")
ENOUGH = 28  # rounds, four in each stretch


@for_each(("expected", "alpha"), [(7, 0.025), (7, 1 / 64), (3, 0.25), (3, 0.4), (11, 0.001), (15, 1e-4)])
def test_alpha_says_how_many_stretches_must_agree(expected, alpha):
    assert expected == looks.count_of_stretches(alpha)


@for_each("alpha", [0.2, 0.025, 0.001])
def test_independent_stretches_lie_on_one_side_by_chance_more_rarely_than_alpha(alpha):
    assert 2.0 ** -looks.count_of_stretches(alpha) <= alpha / 1.6


def test_a_stretch_has_its_median_of_an_odd_number_of_rounds():
    assert looks.medians([1, 9, 2, 5, 5, 5], 2) == [2, 5]
    assert looks.medians([1, 9, 2, 4, 5, 5, 5, 5], 2) == [2, 5]


def test_rounds_that_no_stretch_has_room_for_are_left_out():
    assert looks.medians([1.0] * 14 + [9.0] * 6, 7) == [1.0] * 7


def test_only_full_stretches_count_where_their_size_is_known():
    assert looks.medians([1, 1, 1, 2, 2, 2, 3], 7, 3) == [1, 2]
    assert looks.medians([1, 1], 7, 3) == []
    assert looks.medians([1.0] * 30, 7, 3) == [1.0] * 7


@for_each("size", [2, 4, 6])
def test_stretches_of_values_that_alternate_do_not_all_begin_alike(size):
    assert {1.0, 2.0} == set(looks.medians([1.0, 2.0] * (7 * size // 2), 7))


def test_what_is_seen_is_the_range_of_the_medians_and_of_few_rounds_that_of_the_rounds():
    assert Range(2, 5) == looks.seen([9, 2, 1, 5, 5, 9], 2)
    assert Range(1, 9) == looks.seen([1, 9, 2], 7)


@for_each(
    ("expected", "met", "missed"),
    [(EIGHTH, 1.2, None), (QUARTER, 1.1, 1.5), (FIRST, 2.0, None), (looks.recorded(1.3), 1.3, 1.3)],
)
def test_a_look_has_a_factor_for_what_is_met_and_one_for_what_is_missed(expected, met, missed):
    assert (met, missed) == (expected.meets, expected.misses)
    assert expected.sure == (missed or 2.0)


def test_passes_may_be_asked_to_be_as_sure_as_failures():
    first, quarter = looks.planned("sure")
    assert (first.meets, first.misses) == (2.0, None)
    assert (quarter.meets, quarter.misses) == (1.5, 1.5)


@for_each(
    ("name", "meets", "misses", "rounds", "seconds"),
    [
        ("end", 1.01, 1.01, ENOUGH, 7.5),
        ("end", 1.1, 1.1, ENOUGH - 1, 7.5),
        ("end", 1.01, 1.35, ENOUGH, 3.9),
        ("end", 1.1, 1.35, 7, 0.75),
        ("few_rounds", pytest.approx(2.7, rel=0.01), pytest.approx(2.7, rel=0.01), 3, 7.5),
        ("few_rounds", pytest.approx(2.7, rel=0.01), pytest.approx(2.7, rel=0.01), 6, 0.5),
        ("few_rounds", pytest.approx(4.86, rel=0.01), pytest.approx(4.86, rel=0.01), 2, 7.5),
    ],
)
def test_the_last_look_is_as_sure_as_its_rounds_and_its_time_allow(name, meets, misses, rounds, seconds):
    found = looks.last(rounds, 7, seconds, 0.025)
    assert (name, meets, misses) == (found.name, found.meets, found.misses)


@for_each(
    ("expected", "rounds", "spent"),
    [
        (FIRST, 7, 0.1),
        (FIRST, ENOUGH, 0.9),
        (EIGHTH, ENOUGH, 1.0),
        (FIRST, ENOUGH - 1, 7.0),
        (QUARTER, ENOUGH, 2.0),
        (QUARTER, 999, 7.9),
    ],
)
def test_a_look_is_reached_by_its_time_and_its_rounds(expected, rounds, spent):
    assert expected is looks.reached("quick", rounds, 7, spent, 8.0)


@for_each(
    ("expected", "fails", "seen", "look"),
    [
        (True, "below", Range(6.1, 9.0), FIRST),
        (False, "below", Range(5.9, 9.0), FIRST),
        (False, "below", Range(0.1, 0.2), FIRST),  # a first look decides no failure
        (True, "above", Range(0.1, 1.4), FIRST),
        (False, "above", Range(30.0, 90.0), FIRST),
        (False, "either", Range(30.0, 90.0), FIRST),
        (True, "neither", Range(0.1, 0.2), FIRST),
        (True, "below", Range(3.7, 9.0), EIGHTH),
        (True, "below", Range(3.4, 9.0), QUARTER),
        (True, "below", Range(0.5, 1.9), QUARTER),
        (False, "below", Range(0.5, 2.1), QUARTER),
        (True, "either", Range(4.6, 5.0), QUARTER),
        (False, "either", Range(3.5, 5.0), QUARTER),
    ],
)
def test_a_limit_is_decided_where_all_stretches_lie_far_enough_beyond_it(expected, fails, seen, look):
    assert expected is looks.is_decided(Limit(3.0, 3.0, fails), seen, look)


def test_a_limit_that_is_a_range_is_exceeded_as_a_whole():
    wide, look = Limit(2.0, 3.0), looks.recorded(1.01)
    decided = [looks.is_decided(wide, seen, look) for seen in (Range(3.1, 4), Range(2.1, 2.9), Range(1, 1.9))]
    assert [True, False, True] == decided


@for_each(("expected", "seen"), [(True, Range(2.9, 3.1)), (False, Range(3.1, 4)), (True, Range(3.01, 4))])
def test_what_lies_on_both_sides_of_a_limit_is_never_decided(expected, seen):
    assert expected is looks.is_hopeless(Limit(3.0, 3.0), seen)


def test_a_marker_has_a_limit_for_each_end_and_the_side_that_fails_by_it():
    assert [Limit(2, 2, "below"), Limit(4, 4, "above")] == [*looks.limits_of(Demand(min=2, max=4))]
    assert [] == [*looks.limits_of(Demand())]


def test_no_look_is_surer_than_a_later_one():
    for passes in ("quick", "sure"):
        plan = [*looks.planned(passes), looks.last(ENOUGH, 7, 7.5, 0.025)]
        for earlier, later in product(plan, plan):
            if earlier.share < later.share:
                assert earlier.meets >= later.meets
                assert earlier.sure >= later.sure


def test_what_is_recorded_is_as_sure_as_the_less_sure_side():
    assert looks.recorded(1.01, 1.5) == Look(name="end", share=1.0, meets=1.5, misses=1.5)
    assert looks.recorded(None, 1.5).sure == 2.0
