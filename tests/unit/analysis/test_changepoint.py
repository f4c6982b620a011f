"""Changes: a step and a slow drift are found, and noise is none."""

import random
from itertools import pairwise
from math import exp, inf, log, nan

import numpy as np
import pytest
from cases import for_each
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuperf.analysis import changepoint as room
from pytest_gpuperf.analysis.changepoint import FEWEST, LEVEL, changes

TOLERANCE = 0.1  # what a gate on the speedup would let pass from one run to the next


def noisy(means, *, spread: float = 0.01, seed: int = 0) -> list[float]:
    draws = random.Random(seed)  # noqa: S311 - noise, not secrets
    return [mean * exp(draws.gauss(0, spread)) for mean in means]


def test_the_worked_number_of_the_statistic():
    # Between: 7, 8, 9, 6, 7, 8, 5, 6 and 7, 63 in all; 2/9 of that is 14. Within: 1 + 2 + 1 = 4
    # on either side, over 3 pairs. 14 - 4/3 - 4/3 = 34/3, and nm / (n + m) = 3/2.
    assert pytest.approx(17) == room._energies(np.array([[1.0, 2, 3, 8, 9, 10]]))[0, 0]


def test_a_step_is_found_where_it_is_with_the_means_beside_it():
    found = changes(noisy([9.9] * 15 + [8.1] * 15))
    assert [15] == [change.index for change in found]
    assert pytest.approx((9.9, 8.1), rel=0.01) == (found[0].before, found[0].after)
    assert pytest.approx(-18, abs=1) == found[0].percent
    assert pytest.approx(1 / 1000) == found[0].p


@for_each(("before", "after", "expected"), [(8, 4, [8]), (12, 3, [12]), (9, 3, []), (8, 3, [])])
def test_three_runs_show_a_step_after_twelve_and_four_after_eight(before, after, expected):
    """Without any noise, too: fewer values have too many orders that are split as well."""
    found = changes([10.0] * before + [8.3] * after)
    assert expected == [change.index for change in found]


def test_a_regression_and_its_repair_are_two_changes():
    found = changes(noisy([10.0] * 12 + [8.0] * 12 + [10.0] * 12))
    assert [12, 24] == [change.index for change in found]
    assert pytest.approx((10, 8, 8, 10), rel=0.01) == tuple(
        mean for change in found for mean in (change.before, change.after)
    )


@for_each("flat", [0, 20])
@for_each("percent", [1, -1])
def test_a_drift_below_every_tolerance_is_found(flat, percent):
    means = [10.0] * flat + [10 * (1 + percent / 100) ** commit for commit in range(1, 21)]
    assert all(abs(log(after / before)) < TOLERANCE / 5 for before, after in pairwise(means))
    found = changes(noisy(means))
    assert found
    assert all((change.after > change.before) == (percent > 0) for change in found)
    assert abs(log(found[-1].after / found[0].before)) > 0.08


@for_each(("expected", "after"), [(0, 5.025), (1, 5.1)])
def test_a_change_below_the_smallest_is_none(expected, after):
    assert expected == len(changes(noisy([5.0] * 40 + [after] * 40, spread=0.0005)))


def test_a_change_left_out_does_not_hide_its_neighbours():
    values = noisy([5.0] * 40 + [5.025] * 40 + [4.0] * 40, spread=0.0005)
    found = changes(values)
    assert [80] == [change.index for change in found]
    assert pytest.approx(5.0125, rel=1e-3) == found[0].before


def test_the_series_upside_down_has_the_same_changes():
    values = noisy([9.9] * 15 + [8.1] * 15)
    upright, inverse = changes(values), changes([1 / value for value in values])
    assert [change.index for change in upright] == [change.index for change in inverse]
    assert pytest.approx(upright[0].after / upright[0].before) == inverse[0].before / inverse[0].after


@for_each(
    "values",
    [
        [],
        [2.0],
        [2.0] * 50,
        [1.0, 9.0] * 25,
        noisy([10.0] * 20 + [5.0] * 2 + [10.0] * 20),  # two runs of a bad hour
        # One run in ten is an outlier.
        [value * (0.3 if index % 10 == 7 else 1) for index, value in enumerate(noisy([5.0] * 100))],
        # A change of the spread alone.
        noisy([5.0] * 40, spread=0.001) + [5 * 1.1 ** (-1) ** run for run in range(40)],
    ],
)
def test_a_series_without_a_change_has_none(values):
    assert () == changes(values)


def test_the_same_two_sides_in_another_order_count_as_well_split_whatever_the_rounding():
    """Eight of 999 random orders have the same two sides; their statistic is a sum in another order."""
    found = [changes(noisy([10.0] * 8 + [1.0] * 4, seed=seed)) for seed in range(5)]
    assert [[9 / 1000]] * 5 == [[change.p for change in each] for each in found]


def test_fewer_than_the_fewest_have_no_change_and_as_many_can_have_one():
    values = noisy([10.0] * (FEWEST // 2) + [1.0] * (FEWEST // 2))
    assert () == changes(values[1:])
    assert 1 == len(changes(values))


@for_each("value", [0, -1.0, inf, nan])
def test_what_is_no_speedup_is_refused(value):
    with pytest.raises(ValueError, match="finite and above zero"):
        changes([1.0, value])


@given(st.lists(st.floats(1e-12, 1e12), max_size=60))
@settings(deadline=None)
def test_changes_of_any_series_are_in_order_and_not_small(values):
    found = changes(values)
    places = [change.index for change in found]
    assert sorted(set(places)) == places
    assert all(0 < place < len(values) for place in places)
    assert all(abs(log(change.after / change.before)) >= log(1.01) - 1e-9 for change in found)
    assert all(0 < change.p <= LEVEL for change in found)
