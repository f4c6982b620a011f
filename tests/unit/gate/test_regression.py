"""Regression: what two ranges say about a metric, in which words, and what may never turn a run red."""

from itertools import pairwise

from cases import for_each
from factories import estimate, within
from golden import assert_golden
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.looks import Look
from pytest_gpuperf.gate.regression import LESS_IS_BETTER, compare_ranges, ratio
from pytest_gpuperf.gate.text import describe, format_change, format_metric
from pytest_gpuperf.model.comparison import METRICS
from pytest_gpuperf.model.measurement import Estimate

LESS = sorted(LESS_IS_BETTER)
MORE = sorted(set(METRICS) - LESS_IS_BETTER)


def exactly(value) -> Estimate:
    return estimate(value, value, value)


def outcome_of(before, now, tolerance, look=looks.EXACT):
    return compare_ranges(before, now, look, tolerance)


# A quarter less is allowed: the limit lies from 7.125 to 7.875; a quarter more is from 11.875 to 13.125.
TEN = estimate(10.0, 9.5, 10.5)
SHORT = Look(1.2, 2.0)


@for_each(
    ("expected", "metrics", "low", "high", "look"),
    [
        ("regressed", MORE, 6.0, 7.1, looks.EXACT),
        ("inconclusive", MORE, 6.0, 7.125, looks.EXACT),
        ("inconclusive", MORE, 7.8, 9.0, looks.EXACT),
        ("not_regressed", MORE, 7.875, 9.0, looks.EXACT),
        ("not_regressed", MORE, 13.125, 14.0, looks.EXACT),
        ("improved", MORE, 13.2, 14.0, looks.EXACT),
        ("regressed", MORE, None, 7.1, looks.EXACT),
        ("inconclusive", MORE, None, 20.0, looks.EXACT),
        ("inconclusive", MORE, 7.8, None, looks.EXACT),
        ("not_regressed", MORE, 7.875, None, looks.EXACT),
        ("improved", MORE, 13.2, None, looks.EXACT),
        ("inconclusive", MORE + LESS, None, None, looks.EXACT),
        ("regressed", LESS, 13.2, 14.0, looks.EXACT),
        ("inconclusive", LESS, 13.125, 14.0, looks.EXACT),
        ("inconclusive", LESS, 9.0, 11.9, looks.EXACT),
        ("not_regressed", LESS, 9.0, 11.875, looks.EXACT),
        ("not_regressed", LESS, 6.0, 7.125, looks.EXACT),
        ("improved", LESS, 6.0, 7.1, looks.EXACT),
        ("regressed", LESS, 13.2, None, looks.EXACT),
        ("inconclusive", LESS, 9.0, None, looks.EXACT),
        ("not_regressed", LESS, None, 11.875, looks.EXACT),
        ("improved", LESS, None, 7.1, looks.EXACT),
        # A short run must lie beyond the limit by the factors of its look.
        ("regressed", MORE, 3.0, 3.56, SHORT),
        ("inconclusive", MORE, 3.0, 3.57, SHORT),
        ("inconclusive", MORE, 9.44, 10.0, SHORT),
        ("not_regressed", MORE, 9.46, 10.0, SHORT),
        ("improved", MORE, 15.76, 16.0, SHORT),
        ("regressed", LESS, 26.26, 30.0, SHORT),
        ("inconclusive", LESS, 26.24, 30.0, SHORT),
        ("inconclusive", LESS, 9.0, 9.9, SHORT),
        ("not_regressed", LESS, 9.0, 9.89, SHORT),
        ("improved", LESS, 5.0, 5.93, SHORT),
    ],
)
def test_the_whole_range_decides(expected, metrics, low, high, look):
    now = estimate(low or high or 8.0, low, high)
    assert {expected} == {outcome_of(TEN, now, within(0.25, metric), look) for metric in metrics}


WORSE, MUCH_MORE = estimate(0.1, 0.05, 0.2), estimate(100.0, 99.0, 101.0)


@for_each(
    ("expected", "before", "now", "tolerance"),
    [
        # A baseline fails nothing with the end that it lacks.
        ("regressed", estimate(10.0, 9.5, None), WORSE, within()),
        ("inconclusive", estimate(10.0, None, 10.5), WORSE, within()),
        ("regressed", estimate(10.0, None, 10.5), MUCH_MORE, within(metric="gpu_time")),
        ("inconclusive", estimate(10.0, 9.5, None), MUCH_MORE, within(metric="gpu_time")),
        # No tolerance at all fails only what is apart, and one of everything nothing.
        ("inconclusive", TEN, estimate(9.5, 9.0, 9.5), within(0.0)),
        ("regressed", TEN, estimate(9.4, 9.0, 9.4), within(0.0)),
        ("not_regressed", TEN, estimate(11.0, 10.5, 11.0), within(0.0)),
        ("not_regressed", TEN, WORSE, within(1.0)),
        ("not_regressed", estimate(10.0, 9.5, None), estimate(0.1, None, 0.2), within(1.0)),
        # Where less is better more than twice as much may be tolerated.
        ("inconclusive", TEN, estimate(30.0, 29.0, 31.0), within(2.0, "gpu_time")),
        ("not_regressed", TEN, estimate(28.0, 27.0, 28.5), within(2.0, "gpu_time")),
        ("regressed", TEN, estimate(32.0, 31.6, 33.0), within(2.0, "gpu_time")),
        # Memory may be exactly what is allowed.
        ("not_regressed", exactly(0), exactly(0), within(0.5, "memory")),
        ("regressed", exactly(0), exactly(1), within(0.5, "memory")),
        ("not_regressed", exactly(8), exactly(12), within(0.5, "memory")),
        ("regressed", exactly(8), exactly(13), within(0.5, "memory")),
        ("improved", exactly(8), exactly(7), within(0.0, "memory")),
    ],
)
def test_the_corners_of_ranges_and_tolerances(expected, before, now, tolerance):
    assert expected == outcome_of(before, now, tolerance)


# In words


@for_each(
    ("expected", "before", "now"),
    [
        (estimate(0.8, 7.0 / 12.5, 9.0 / 8.0), estimate(10.0, 8.0, 12.5), estimate(8.0, 7.0, 9.0)),
        (estimate(0.8, None, 9.0 / 8.0), estimate(10.0, 8.0, None), estimate(8.0, 7.0, 9.0)),
        (estimate(0.8, 7.0 / 12.5, None), estimate(10.0, 8.0, 12.5), estimate(8.0, 7.0, None)),
        (exactly(0.0), exactly(10.0), exactly(0.0)),
        (None, exactly(0.0), exactly(5.0)),
    ],
)
def test_a_ratio_is_as_wide_as_both_ranges_leave_it(expected, before, now):
    assert expected == ratio(before, now)


def test_a_change_is_said_in_percent_or_as_a_factor_and_a_value_in_the_unit_of_its_metric():
    percent, factor = estimate(0.8, 0.759, 0.837), estimate(1132.37, 0.5, 2000.0)
    exact = estimate(1.0, 0.9999, 1.0001)
    found = [percent, factor, exact, estimate(0.8), estimate(2.0, 1.9994, 2.0), exactly(0.5), exactly(10.0)]
    said = [format_change(each) for each in found]
    said += [
        format_metric("latency", estimate(8.0, 7.8, None)),
        format_metric("cpu_time", estimate(1.2e-3, None, 1.3e-3)),
        format_metric("efficiency", estimate(0.8, 0.75, 0.85)),
        format_metric("memory", exactly(4_190_000)),
        describe(exactly(0), exactly(5), within(0.1, "memory"), "regressed"),
    ]
    assert_golden("words/changes.txt", "".join(f"{each}\n" for each in said))


# What holds for all numbers

ENDS = st.floats(min_value=1e-6, max_value=1e6)
METRIC = st.sampled_from(METRICS)
SHARES = st.floats(min_value=0.0, max_value=0.99)
OF_ALL_LENGTHS = [looks.at_end(28, seconds) for seconds in (0.0, 1.0, 2.0, 7.5)]
LOOKS = st.sampled_from([looks.EXACT, *OF_ALL_LENGTHS])


@st.composite
def estimates(draw):
    """Return an estimate, one in four without one of its ends."""
    low, value, high = sorted(draw(st.tuples(ENDS, ENDS, ENDS)))
    missing = draw(st.sampled_from([None, None, None, "low", "high"]))
    found = estimate(value, low, high)
    return replace(found, **{missing: None}) if missing else found


def wider(found, by):
    low = None if found.low is None else found.low / by
    return replace(found, low=low, high=None if found.high is None else found.high * by)


def scaled(found, by):
    low = None if found.low is None else found.low * by
    return estimate(found.value * by, low, None if found.high is None else found.high * by)


def better(found, metric, by):
    return scaled(found, 1 / by if metric in LESS_IS_BETTER else by)


@given(estimates(), METRIC, SHARES, LOOKS)
def test_a_run_beside_itself_never_regresses_nor_improves(found, metric, share, look):
    assert outcome_of(found, found, within(share, metric), look) in ("not_regressed", "inconclusive")


@given(estimates(), estimates(), METRIC, SHARES, LOOKS, st.floats(1.0, 100.0))
def test_a_wider_range_turns_no_run_red_and_no_doubt_into_a_pass(before, now, metric, share, look, by):
    tolerance = within(share, metric)
    first = outcome_of(before, now, tolerance, look)
    assume(first != "regressed")
    wide = [(wider(before, by), now), (before, wider(now, by))]
    then = {outcome_of(*each, tolerance, look) for each in wide}
    assert "regressed" not in then
    assert first != "inconclusive" or then == {"inconclusive"}


ORDER = ["regressed", "inconclusive", "not_regressed", "improved"]


@given(estimates(), estimates(), METRIC, SHARES, LOOKS, st.floats(1.0, 100.0))
def test_better_numbers_never_have_a_worse_outcome(before, now, metric, share, look, by):
    tolerance = within(share, metric)
    first = outcome_of(before, now, tolerance, look)
    then = outcome_of(before, better(now, metric, by), tolerance, look)
    assert ORDER.index(first) <= ORDER.index(then)


@given(estimates(), estimates(), METRIC, SHARES, LOOKS, st.floats(0.0, 0.9))
def test_a_larger_tolerance_never_turns_a_run_red(before, now, metric, share, look, more):
    assume(outcome_of(before, now, within(share, metric), look) != "regressed")
    assert outcome_of(before, now, within(share + more, metric), look) != "regressed"


@given(estimates(), estimates(), METRIC, SHARES, LOOKS, st.sampled_from([2.0**-20, 0.5, 4.0, 2.0**20]))
def test_the_unit_does_not_matter(before, now, metric, share, look, unit):
    tolerance = within(share, metric)
    outcomes = [outcome_of(scaled(before, by), scaled(now, by), tolerance, look) for by in (1.0, unit)]
    assert outcomes[0] == outcomes[1]


@given(estimates(), estimates())
def test_a_ratio_lies_in_its_range(before, now):
    found = ratio(before, now)
    assert (found.low or 0.0) <= found.value * (1 + 1e-9)
    assert found.high is None or found.value <= found.high * (1 + 1e-9)


@given(estimates(), estimates(), METRIC, SHARES)
def test_the_longer_a_run_was_sampled_the_more_it_decides_and_nothing_else(before, now, metric, share):
    tolerance = within(share, metric)
    outcomes = [outcome_of(before, now, tolerance, look) for look in OF_ALL_LENGTHS]
    for earlier, later in pairwise(outcomes):
        assert earlier in ("inconclusive", later) or (earlier, later) == ("not_regressed", "improved")
