"""Regression: what two ranges say about a metric, and what may never turn a run red."""

from itertools import pairwise

import pytest
from cases import for_each
from factories import GPU, HERE, LASTED, base_of, estimate, measured, recorded, speedup, within
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_gpuperf.gate import text
from pytest_gpuperf.gate.gate import Gate
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.measurement import Estimate, Memory
from pytest_gpuperf.model.record import Record


def seen(found: Estimate, metric, seconds=LASTED) -> Record:
    """Return the record of a metric in this range, of 28 rounds in so many seconds."""
    if metric == "gpu_time":
        samples = [found.low] * 4 + [found.value] * 20 + [found.high] * 4
        changes = {"gpu": measured(GPU, *samples)}
    elif metric == "memory":
        changes = {"memory": Memory(peak=found.value)}
    else:
        changes = {"speedup": speedup(found.value, found.low, found.high)}
    return recorded(rounds_elapsed=seconds, **changes)


def comparison_of(before, now, tolerance, seconds=LASTED):
    base = base_of(seen(before, tolerance.metric))
    held = Gate(GateOptions(tolerances=(tolerance,)), [base], lambda: HERE)
    (found,) = held.with_comparisons(seen(now, tolerance.metric, seconds)).comparisons
    return found


def outcome_of(*compared):
    return comparison_of(*compared).outcome


MORE, LESS = "speedup", "gpu_time"  # of which more, and less, is better
TEN = estimate(10.0, 9.5, 10.5)


@for_each(
    ("expected", "metric", "low", "high", "seconds"),
    [
        # The limit, a quarter less, lies from 7.125 to 7.875, and a quarter more is from 11.875 to 13.125.
        # Two of the longest runs: the later one must lie beyond it by 1 %.
        ("regressed", MORE, 6.0, 7.05, LASTED),
        ("inconclusive", MORE, 6.0, 7.06, LASTED),
        ("inconclusive", MORE, 7.95, 9.0, LASTED),
        ("not_regressed", MORE, 7.96, 9.0, LASTED),
        ("not_regressed", MORE, 13.25, 14.0, LASTED),
        ("improved", MORE, 13.26, 14.0, LASTED),
        ("regressed", MORE, None, 7.05, LASTED),
        ("inconclusive", MORE, None, 20.0, LASTED),
        ("inconclusive", MORE, 7.95, None, LASTED),
        ("not_regressed", MORE, 7.96, None, LASTED),
        ("improved", MORE, 13.26, None, LASTED),
        ("inconclusive", MORE, None, None, LASTED),
        ("regressed", LESS, 13.26, 14.0, LASTED),
        ("inconclusive", LESS, 13.25, 14.0, LASTED),
        ("inconclusive", LESS, 9.0, 11.76, LASTED),
        ("not_regressed", LESS, 9.0, 11.75, LASTED),
        ("not_regressed", LESS, 6.0, 7.06, LASTED),
        ("improved", LESS, 6.0, 7.05, LASTED),
        # A short run must lie beyond the limit by 1.2, and by 1.3 to fail, as gains may, beside a long one.
        ("regressed", MORE, 3.0, 5.48, 1.0),
        ("inconclusive", MORE, 3.0, 5.49, 1.0),
        ("inconclusive", MORE, 9.44, 10.0, 1.0),
        ("not_regressed", MORE, 9.46, 10.0, 1.0),
        ("not_regressed", MORE, 17.06, 17.5, 1.0),
        ("improved", MORE, 17.07, 17.5, 1.0),
        ("regressed", LESS, 17.07, 30.0, 1.0),
        ("inconclusive", LESS, 17.06, 30.0, 1.0),
        ("inconclusive", LESS, 9.0, 9.9, 1.0),
        ("not_regressed", LESS, 9.0, 9.89, 1.0),
        ("not_regressed", LESS, 5.0, 5.49, 1.0),
        ("improved", LESS, 5.0, 5.48, 1.0),
    ],
)
def test_the_whole_range_decides(expected, metric, low, high, seconds):
    now = estimate(low or high or 8.0, low, high)
    assert expected == outcome_of(TEN, now, within(0.25, metric), seconds)


WORSE = estimate(0.1, 0.05, 0.2)


@for_each(
    ("expected", "before", "now", "tolerance"),
    [
        # A baseline fails nothing with the end that it lacks.
        ("regressed", estimate(10.0, 9.5, None), WORSE, within()),
        ("inconclusive", estimate(10.0, None, 10.5), WORSE, within()),
        # A baseline that was edited may have a range that ends at zero.
        ("improved", estimate(10.0, 9.5, 0.0), TEN, within()),
        # No tolerance at all fails only what is apart.
        ("inconclusive", TEN, estimate(9.3, 9.0, 9.41), within(0.0)),
        ("regressed", TEN, estimate(9.3, 9.0, 9.4), within(0.0)),
        ("improved", TEN, estimate(10.8, 10.61, 11.0), within(0.0)),
        # Where less is better more than twice as much may be tolerated.
        ("inconclusive", TEN, estimate(30.0, 29.0, 31.0), within(2.0, LESS)),
        ("not_regressed", TEN, estimate(28.0, 27.0, 28.2), within(2.0, LESS)),
        ("regressed", TEN, estimate(32.5, 32.2, 33.0), within(2.0, LESS)),
        # Memory may be exactly what is allowed.
        ("not_regressed", estimate(0), estimate(0), within(0.5, "memory")),
        ("regressed", estimate(0), estimate(1), within(0.5, "memory")),
        ("not_regressed", estimate(8), estimate(12), within(0.5, "memory")),
        ("regressed", estimate(8), estimate(13), within(0.5, "memory")),
        ("improved", estimate(8), estimate(7), within(0.0, "memory")),
    ],
)
def test_the_corners_of_ranges_and_tolerances(expected, before, now, tolerance):
    assert expected == outcome_of(before, now, tolerance)


# What a check can find


@for_each(
    ("expected", "before", "now", "metric", "seconds"),
    [
        # 0.75 x the low end, less the wider of the two ranges (10.5 / 9.5) and the factor of two long runs.
        (1 - 0.75 * 0.95 / (1.01 * 10.5 / 9.5), TEN, estimate(8.0, 7.9, 8.1), MORE, LASTED),
        (1 - 0.75 * 0.95 / (1.01 * 2.0), TEN, estimate(8.0, 4.0, 8.0), MORE, LASTED),
        (1 - 0.75 * 0.95 / (1.3 * 10.5 / 9.5), TEN, estimate(8.0, 7.9, 8.1), MORE, 1.0),
        (1.25 * 1.05 * 1.01 * 10.5 / 9.5 - 1, TEN, estimate(10.0, 9.9, 10.1), LESS, LASTED),
        (0.25, estimate(8), estimate(8), "memory", LASTED),
        (0.25, estimate(0), estimate(0), "memory", LASTED),
        (None, TEN, estimate(8.0, None, 8.1), MORE, LASTED),
    ],
)
def test_the_smallest_loss_that_is_found_follows_from_both_ranges_and_the_look(
    expected, before, now, metric, seconds
):
    found = comparison_of(before, now, within(0.25, metric), seconds).visible
    assert expected == (found if found is None else pytest.approx(found))


def test_no_loss_that_is_found_is_a_gain_although_the_value_lies_outside_of_its_range():
    outside = estimate(5.0, 12.0, 13.0)
    assert 0.0 == comparison_of(outside, TEN, within(0.0)).visible


@for_each(("expected", "share"), [("15 %", 0.141), ("899 %", 8.99), ("10.0x", 9.0), ("1.00e+12x", 1e12)])
def test_losses_of_many_times_as_much_are_told_as_a_factor(expected, share):
    assert expected == text.whole_percent(share)


def test_a_doubled_size_is_a_loss_that_can_be_found():
    assert 1.0 == comparison_of(estimate(8), estimate(8), within(1.0, "memory")).visible


def test_a_loss_of_more_than_what_is_visible_is_found_where_the_range_is_as_wide_as_before():
    for metric in (MORE, LESS):
        seen = comparison_of(TEN, TEN, within(0.1, metric)).visible
        lost = (1 - seen - 0.001) if metric == MORE else (1 + seen + 0.001)
        ends = (lost, lost * 10.5 / 9.5) if metric == MORE else (lost * 9.5 / 10.5, lost)
        unlucky = estimate(10 * lost, *(10 * end for end in ends))  # all of the range is on the better side
        assert "regressed" == comparison_of(TEN, unlucky, within(0.1, metric)).outcome


# What holds for all numbers

ENDS = st.floats(min_value=1e-6, max_value=1e6)
FACTORS = st.floats(1.0, 100.0)
SECONDS = [0.0, 1.0, 2.0, 7.5]
LENGTHS = st.sampled_from(SECONDS)
TOLERANCES = st.builds(within, st.floats(0.0, 0.9), st.sampled_from([MORE, LESS]))


@st.composite
def estimates(draw):
    low, value, high = sorted(draw(st.tuples(ENDS, ENDS, ENDS)))
    return estimate(value, low, high)


def better(found, metric, by):
    by = 1 / by if metric == LESS else by
    return estimate(found.value * by, found.low * by, found.high * by)


@given(estimates(), TOLERANCES, LENGTHS)
def test_a_run_compared_with_itself_never_regresses_nor_improves(found, tolerance, seconds):
    assert outcome_of(found, found, tolerance, seconds) in ("not_regressed", "inconclusive")


@given(estimates(), estimates(), TOLERANCES, LENGTHS, FACTORS)
def test_a_wider_range_turns_no_run_red_and_no_doubt_into_a_pass(before, now, tolerance, seconds, by):
    first = outcome_of(before, now, tolerance, seconds)
    assume(first != "regressed")
    wide = [replace(each, low=each.low / by, high=each.high * by) for each in (before, now)]
    then = {outcome_of(*each, tolerance, seconds) for each in ((wide[0], now), (before, wide[1]))}
    assert "regressed" not in then
    assert first != "inconclusive" or then == {"inconclusive"}


ORDER = ["regressed", "inconclusive", "not_regressed", "improved"]


@given(estimates(), estimates(), TOLERANCES, LENGTHS, FACTORS)
def test_neither_better_numbers_nor_a_larger_tolerance_turn_a_run_red(before, now, tolerance, seconds, by):
    first = ORDER.index(outcome_of(before, now, tolerance, seconds))
    assert first <= ORDER.index(outcome_of(before, better(now, tolerance.metric, by), tolerance, seconds))
    larger = outcome_of(before, now, replace(tolerance, share=min(0.9, tolerance.share * by)), seconds)
    assert first == 0 or larger != "regressed"


@given(estimates(), estimates(), TOLERANCES)
def test_the_longer_a_run_was_sampled_the_more_it_decides_and_nothing_else(before, now, tolerance):
    outcomes = [outcome_of(before, now, tolerance, seconds) for seconds in SECONDS]
    for earlier, later in pairwise(outcomes):
        assert earlier in ("inconclusive", later) or (earlier, later) == ("not_regressed", "improved")
