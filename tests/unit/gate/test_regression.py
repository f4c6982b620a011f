"""Regression: what two ranges say about a metric, in which words, and what may never turn a run red."""

from itertools import pairwise

from cases import for_each
from factories import estimate, within
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.looks import Look
from pytest_gpuperf.gate.regression import LESS_IS_BETTER, compare_ranges, limits, ratio
from pytest_gpuperf.gate.text import describe, format_change, format_metric
from pytest_gpuperf.model.comparison import METRICS
from pytest_gpuperf.model.measurement import Estimate

MORE_IS_BETTER = sorted(set(METRICS) - LESS_IS_BETTER)


def exactly(value) -> Estimate:
    return estimate(value, value, value)


def outcome_of(before, now, tolerance, look=looks.EXACT):
    return compare_ranges(before, now, look, tolerance)


# A quarter less is allowed: the limit lies from 7.125 to 7.875; a quarter more is from 11.875 to 13.125.
TEN = estimate(10.0, 9.5, 10.5)


@for_each("metric", MORE_IS_BETTER)
@for_each(
    ("expected", "low", "high"),
    [
        ("regressed", 6.0, 7.1),
        ("inconclusive", 6.0, 7.125),
        ("inconclusive", 7.125, 7.875),
        ("inconclusive", 6.0, 9.0),
        ("inconclusive", 7.8, 9.0),
        ("not_regressed", 7.875, 9.0),
        ("not_regressed", 9.5, 10.5),
        ("not_regressed", 13.125, 14.0),
        ("improved", 13.2, 14.0),
        ("regressed", None, 7.1),
        ("inconclusive", None, 7.125),
        ("inconclusive", None, 20.0),
        ("inconclusive", 7.8, None),
        ("not_regressed", 7.875, None),
        ("improved", 13.2, None),
        ("inconclusive", None, None),
    ],
)
def test_where_more_is_better_the_whole_range_decides(expected, metric, low, high):
    assert expected == outcome_of(TEN, estimate(8.0, low, high), within(0.25, metric))


@for_each("metric", sorted(LESS_IS_BETTER))
@for_each(
    ("expected", "low", "high"),
    [
        ("regressed", 13.2, 14.0),
        ("inconclusive", 13.125, 14.0),
        ("inconclusive", 11.875, 13.125),
        ("inconclusive", 9.0, 11.9),
        ("not_regressed", 9.0, 11.875),
        ("not_regressed", 9.5, 10.5),
        ("not_regressed", 6.0, 7.125),
        ("improved", 6.0, 7.1),
        ("regressed", 13.2, None),
        ("inconclusive", 9.0, None),
        ("not_regressed", None, 11.875),
        ("improved", None, 7.1),
        ("inconclusive", None, None),
    ],
)
def test_where_less_is_better_the_whole_range_decides(expected, metric, low, high):
    assert expected == outcome_of(TEN, estimate(10.0, low, high), within(0.25, metric))


SHORT = Look(1.2, 2.0)


@for_each(
    ("expected", "metric", "low", "high"),
    [
        ("regressed", "speedup", 3.0, 3.56),
        ("inconclusive", "speedup", 3.0, 3.57),
        ("inconclusive", "speedup", 9.44, 10.0),
        ("not_regressed", "speedup", 9.46, 10.0),
        ("not_regressed", "speedup", 15.74, 16.0),
        ("improved", "speedup", 15.76, 16.0),
        ("regressed", "gpu_time", 26.26, 30.0),
        ("inconclusive", "gpu_time", 26.24, 30.0),
        ("inconclusive", "gpu_time", 9.0, 9.9),
        ("not_regressed", "gpu_time", 9.0, 9.89),
        ("not_regressed", "gpu_time", 5.0, 5.94),
        ("improved", "gpu_time", 5.0, 5.93),
    ],
)
def test_a_short_run_must_lie_beyond_the_limit_by_the_factors_of_its_look(expected, metric, low, high):
    assert expected == outcome_of(TEN, estimate(low, low, high), within(0.25, metric), SHORT)


@for_each(
    ("expected", "metric", "low", "high"),
    [
        ("regressed", "speedup", 9.5, None),
        ("inconclusive", "speedup", None, 10.5),
        ("inconclusive", "speedup", None, None),
        ("regressed", "gpu_time", None, 10.5),
        ("inconclusive", "gpu_time", 9.5, None),
        ("inconclusive", "gpu_time", None, None),
    ],
)
def test_a_baseline_fails_nothing_with_the_end_that_it_lacks(expected, metric, low, high):
    worse = estimate(100.0, 99.0, 101.0) if metric == "gpu_time" else estimate(0.1, 0.09, 0.11)
    assert expected == outcome_of(estimate(10.0, low, high), worse, within(0.1, metric))


def test_no_tolerance_at_all_fails_only_what_is_apart():
    assert outcome_of(TEN, estimate(9.5, 9.0, 9.5), within(0.0)) == "inconclusive"
    assert outcome_of(TEN, estimate(9.4, 9.0, 9.4), within(0.0)) == "regressed"
    assert outcome_of(TEN, estimate(11.0, 10.5, 11.0), within(0.0)) == "not_regressed"


def test_a_tolerance_of_everything_never_fails():
    for high in (10.5, None):
        assert outcome_of(estimate(10.0, 9.5, high), estimate(0.1, 0.05, 0.2), within(1.0)) == "not_regressed"
        assert outcome_of(estimate(10.0, 9.5, high), estimate(0.1, None, 0.2), within(1.0)) == "not_regressed"


@for_each("metric", sorted(LESS_IS_BETTER))
def test_more_than_twice_as_much_may_be_tolerated_where_less_is_better(metric):
    assert outcome_of(TEN, estimate(30.0, 29.0, 31.0), within(2.0, metric)) == "inconclusive"
    assert outcome_of(TEN, estimate(28.0, 27.0, 28.5), within(2.0, metric)) == "not_regressed"
    assert outcome_of(TEN, estimate(32.0, 31.6, 33.0), within(2.0, metric)) == "regressed"
    assert outcome_of(TEN, estimate(0.1, 0.1, 0.1), within(2.0, metric)) == "not_regressed"


@for_each(
    ("expected", "before", "now", "share"),
    [
        ("not_regressed", 0, 0, 0.5),
        ("regressed", 0, 1, 0.5),
        ("not_regressed", 8, 12, 0.5),
        ("regressed", 8, 13, 0.5),
        ("not_regressed", 8, 8, 0.0),
        ("improved", 8, 7, 0.0),
    ],
)
def test_memory_may_be_exactly_what_is_allowed(expected, before, now, share):
    assert expected == outcome_of(exactly(before), exactly(now), within(share, "memory"))


def test_the_limit_is_as_wide_as_the_baseline_makes_it():
    assert (7.125, 7.875) == limits(TEN, within(0.25))[0]
    assert (11.875, 13.125) == limits(TEN, within(0.25, "gpu_time"))[0]
    assert (0.0, float("inf")) == limits(estimate(10.0, None, None), within(0.25))[0]


# In words


@for_each(
    ("expected", "before", "now"),
    [
        (estimate(0.8, 7.0 / 12.5, 9.0 / 8.0), estimate(10.0, 8.0, 12.5), estimate(8.0, 7.0, 9.0)),
        (estimate(0.8, None, 9.0 / 8.0), estimate(10.0, 8.0, None), estimate(8.0, 7.0, 9.0)),
        (estimate(0.8, 7.0 / 12.5, None), estimate(10.0, None, 12.5), estimate(8.0, 7.0, 9.0)),
        (estimate(0.8, None, 9.0 / 8.0), estimate(10.0, 8.0, 12.5), estimate(8.0, None, 9.0)),
        (estimate(0.8, 7.0 / 12.5, None), estimate(10.0, 8.0, 12.5), estimate(8.0, 7.0, None)),
        (exactly(0.0), exactly(10.0), exactly(0.0)),
        (None, exactly(0.0), exactly(5.0)),
        (None, exactly(0.0), exactly(0.0)),
    ],
)
def test_a_ratio_is_as_wide_as_both_ranges_leave_it(expected, before, now):
    assert expected == ratio(before, now)


@for_each(
    ("expected", "found"),
    [
        ("-20.0 % [-24.1, -16.3]", estimate(0.8, 0.759, 0.837)),
        ("+30.0 % [+25.0, +35.0]", estimate(1.3, 1.25, 1.35)),
        ("0 % [-3.9, +4.2]", estimate(1.0, 0.961, 1.042)),
        ("0 % [0, 0]", estimate(1.0, 0.9999, 1.0001)),
        ("-0.4 % [-75.0, +308]", estimate(0.996, 0.25, 4.08)),
        ("-20.0 % [?, ?]", estimate(0.8, None, None)),
        ("+100 % [+99.9, +100]", estimate(2.0, 1.9994, 2.0)),
        ("-50.0 %", exactly(0.5)),
        ("-100 %", exactly(0.0)),
        ("+899 % [?, ?]", estimate(9.99, None, None)),
        ("1132x as much [0.500, 2000]", estimate(1132.37, 0.5, 2000.0)),
        ("10.0x as much", exactly(10.0)),
    ],
)
def test_a_change_is_said_in_percent_with_its_sign(expected, found):
    assert expected == format_change(found)


@for_each(
    ("expected", "metric", "found"),
    [
        ("8.00x [7.80, 8.20]", "speedup", estimate(8.0, 7.8, 8.2)),
        ("8.00x [7.80, ?]", "latency", estimate(8.0, 7.8, None)),
        ("8.00x [?, 8.20]", "with_copies", estimate(8.0, None, 8.2)),
        ("1.20 ms [1.10 ms, 1.30 ms]", "gpu_time", estimate(1.2e-3, 1.1e-3, 1.3e-3)),
        ("1.20 ms [?, 1.30 ms]", "cpu_time", estimate(1.2e-3, None, 1.3e-3)),
        ("4.19 MB", "memory", exactly(4_190_000)),
    ],
)
def test_an_estimate_is_said_in_the_unit_of_its_metric(expected, metric, found):
    assert expected == format_metric(metric, found)


@for_each(
    ("expected", "metric", "outcome"),
    [
        ("speedup got worse: 8.00x [7.50, 8.40], baseline 10.0x [9.50, 10.5]: ", "speedup", "regressed"),
        ("speedup by latency is inconclusive: 8.00x", "latency", "inconclusive"),
        ("speedup with copies got worse: 8.00x", "with_copies", "regressed"),
        (
            "GPU time got worse: 8.00 s [7.50 s, 8.40 s], baseline 10.0 s [9.50 s, 10.5 s]: ",
            "gpu_time",
            "regressed",
        ),
        ("CPU time got better: 8.00 s", "cpu_time", "improved"),
        ("memory got better: 8 B, baseline 10 B: ", "memory", "improved"),
    ],
)
def test_an_outcome_is_said_with_both_numbers(expected, metric, outcome):
    told = describe(TEN, estimate(8.0, 7.5, 8.4), within(0.1, metric), outcome)
    assert told.startswith(expected)
    assert "-20.0 % [-28.6, -11.6]" in told
    assert "\n" not in told


@for_each(
    ("expected", "metric", "outcome"),
    [
        ("12.5 % less is allowed", "speedup", "regressed"),
        ("12.5 % less is allowed", "with_copies", "inconclusive"),
        ("12.5 % more is allowed", "gpu_time", "regressed"),
        ("12.5 % more is allowed", "memory", "inconclusive"),
        ("the baseline is out of date", "speedup", "improved"),
        ("the baseline is out of date", "cpu_time", "improved"),
    ],
)
def test_an_outcome_ends_with_what_is_allowed_or_with_what_it_means(expected, metric, outcome):
    assert describe(TEN, TEN, within(0.125, metric), outcome).endswith(f", {expected}")


def test_where_there_is_no_ratio_none_is_said():
    told = describe(exactly(0), exactly(5), within(0.1, "memory"), "regressed")
    assert told == "memory got worse: 5 B, baseline 0 B; 10 % more is allowed"


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
def test_a_wider_range_never_turns_a_run_red(before, now, metric, share, look, by):
    assume(outcome_of(before, now, within(share, metric), look) != "regressed")
    assert outcome_of(wider(before, by), now, within(share, metric), look) != "regressed"
    assert outcome_of(before, wider(now, by), within(share, metric), look) != "regressed"


@given(estimates(), estimates(), METRIC, SHARES, LOOKS, st.floats(1.0, 100.0))
def test_a_wider_range_never_makes_a_doubt_a_pass(before, now, metric, share, look, by):
    assume(outcome_of(before, now, within(share, metric), look) == "inconclusive")
    assert outcome_of(wider(before, by), now, within(share, metric), look) == "inconclusive"
    assert outcome_of(before, wider(now, by), within(share, metric), look) == "inconclusive"


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
