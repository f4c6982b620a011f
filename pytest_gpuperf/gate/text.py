"""From a comparison's or a gate's facts to its sentences: every message of the gate is worded here."""

from collections.abc import Sequence
from math import inf

from pytest_gpuperf.gate import regression
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Metric, Outcome, Remedy, Tolerance
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Record

__all__ = [
    "METRIC_NAMES",
    "REMEDIES",
    "all_skipped",
    "baseline_incomplete",
    "baseline_outdated",
    "describe",
    "describe_threshold",
    "format_change",
    "format_metric",
    "format_value",
    "lost_test",
    "metric_not_measured",
    "missing_tests",
    "no_baseline",
    "no_valid_measurement",
    "no_value",
    "not_comparable",
    "nothing_compared",
    "nothing_measured",
    "regressions_not_enforced",
    "runs_differ",
    "session_ended",
    "skipped_tests",
    "threshold_not_compared",
    "threshold_unknown",
    "unknown_tests",
]

METRIC_NAMES: dict[Metric, str] = {
    "speedup": "speedup",
    "gpu": "GPU time",
    "cpu": "CPU time",
    "latency": "speedup by latency",
    "always": "speedup with copies",
    "threshold": "threshold",
    "memory": "memory",
}
REMEDIES: dict[Remedy, str] = {  # what slowed a GPU down comes with its own remedy
    "more_time": "more time (max_time) or a quieter machine would decide it",
    "run_with_gate": "measure it with --gpuperf-baseline and --gpuperf-fail-on: without a gate a run stops "
    "at its verdict",
    "new_baseline": "the baseline's interval is too wide: remove it and recreate it with --gpuperf-fail-on, "
    "or run gpuperf baseline update with the report of a run that had a gate",
}
_CHANGES: dict[Outcome, str] = {
    "regressed": "got worse",
    "improved": "got better",
    "cannot_tell": "is inconclusive",
}
_OUTDATED = "the baseline is out of date"


# One metric of one test.


def describe(
    before: Estimate, now: Estimate, tolerance: Tolerance, outcome: Outcome, *, widened: str | None = None
) -> str:
    """Return the numbers of an outcome: `speedup got worse: 8.00x [7.80, 8.20], baseline 10.0x ...`.

    `widened` is why the new interval is wider than its samples alone make it.
    """
    metric = tolerance.metric
    numbers = f"{format_metric(metric, now)}, baseline {format_metric(metric, before)}"
    limit = _OUTDATED if outcome == "improved" else _allowance(tolerance)
    ratio = regression.ratio(before, now)
    change = f": {format_change(ratio)}, {limit}" if ratio else f"; {limit}"
    cause = f"; the interval reaches so low because {widened}" if widened else ""
    return f"{METRIC_NAMES[metric]} {_CHANGES[outcome]}: {numbers}{change}{cause}"


def describe_threshold(
    before: float, now: float, tolerance: Tolerance, outcome: Outcome, remedy: Remedy | None
) -> str:
    """Return the sizes from which on the GPU surely wins, and what follows; infinity for no size."""
    sizes = f"the GPU wins {_sizes_from(now)}, in the baseline {_sizes_from(before)}"
    if remedy is not None:
        rest = REMEDIES[remedy]
    elif outcome == "improved":
        rest = _OUTDATED
    else:
        rest = _allowance(tolerance)
    return f"threshold {_CHANGES[outcome]}: {sizes}; {rest}"


def no_baseline(baseline: str, cause: str) -> str:
    """Return that the baseline has no value for a metric, and the cause."""
    return f"nothing to compare with: the baseline {baseline} {cause}"


def no_value(metric: Metric, record: Record) -> str:
    """Return that this run has no value for a metric that the baseline has."""
    return f"this run has no {METRIC_NAMES[metric]}: {record.reason or record.status}"


def threshold_unknown(reason: str | None) -> str:
    """Return that this run has no threshold."""
    return f"the threshold is not known: {reason}"


def not_comparable(baseline: str, differences: Sequence[str]) -> str:
    """Return how the conditions of two measurements differ."""
    return f"not comparable with the baseline {baseline}: {'; '.join(differences)}"


def no_valid_measurement(reason: str) -> str:
    """Return that a gate fails a test because nothing valid was measured."""
    return f"the gate has no valid measurement: {reason}"


# Why the gate fails a run as a whole.


def nothing_measured(first: Record | None) -> str:
    """Return that no test has a metric of the gate; `first` is one that ran."""
    if first is None:
        return "nothing was measured: no test with a speedup marker ran"
    return f"no metric of the gate was measured; {first.nodeid}: {first.reason or first.status}"


def all_skipped(records: Sequence[Record], flag_prefix: str, *, has_gpu: bool) -> str:
    """Return that every test of the gate was skipped, with the reason of the first."""
    remedy = "" if has_gpu else f"; on a runner without a GPU pass {flag_prefix}allow-no-gpu"
    return f"every test of the gate was skipped ({len(records)}): {records[0].reason}{remedy}"


def unknown_tests(baseline: str, measured: int) -> str:
    """Return that the baseline has none of the measured tests."""
    return (
        f"the baseline {baseline} has none of the tests that were measured ({measured}); node ids are "
        "relative to the rootdir: was the baseline made with another one?"
    )


def nothing_compared(baseline: str, measured: int, metrics: Sequence[Metric]) -> str:
    """Return that no metric is in both runs."""
    names = ", ".join(METRIC_NAMES[metric] for metric in metrics)
    return (
        f"nothing was compared: the baseline {baseline} and the measured tests ({measured}) share no {names}"
    )


def metric_not_measured(metric: Metric, tests: int, first: Record) -> str:
    """Return that no test has a metric that the baseline has."""
    cause = f"{first.nodeid}: {first.reason or first.status}"
    return f"no {METRIC_NAMES[metric]} was measured ({units.count(tests, 'test')}): {cause}"


def session_ended(nodeids: Sequence[str]) -> str:
    """Return that tests of the gate did not run because the session ended."""
    count = units.count(len(nodeids), "test")
    return f"the session ended before {count} of the gate could run: {nodeids[0]}"


def missing_tests(nodeids: Sequence[str], baseline: str, flag_prefix: str) -> str:
    """Return that tests of the baseline did not run, and what to do about it."""
    return (
        f"{len(nodeids)} of the baseline's tests did not run: {units.first_few(nodeids)}; renamed, unmarked "
        f"or deselected? Run them, pass {flag_prefix}allow-missing, or remove them with a report of the "
        f"whole suite: gpuperf baseline update --prune {baseline} REPORT"
    )


def lost_test(nodeid: str, reason: str) -> str:
    """Return that a test was lost when its process crashed."""
    return f"{nodeid} was lost when its process crashed: {reason}"


# Notes on a comparison, which fail nothing.


def baseline_incomplete(baseline: str) -> str:
    """Return that the baseline is of a part of its run."""
    return f"the run of the baseline {baseline} ended early: tests that it did not reach count as new"


def skipped_tests(records: Sequence[Record]) -> str:
    """Return that tests of the baseline were skipped, with the reason of the first."""
    count = f"{len(records)} of the baseline's tests {'was' if len(records) == 1 else 'were'}"
    return f"{count} skipped: {records[0].nodeid}: {records[0].reason}"


def threshold_not_compared(name: str) -> str:
    """Return that no test could report a family's threshold."""
    return f"the threshold of {name} was not compared: the last of its tests was not measured"


def runs_differ(comparisons: int, differences: Sequence[str]) -> str:
    """Return how the runs differ, for all comparisons together."""
    count = units.count(comparisons, "comparison")
    return f"not comparable ({count}): {'; '.join(differences)}"


def regressions_not_enforced(comparisons: int) -> str:
    """Return that regressions fail nothing without a gate."""
    count = units.count(comparisons, "regression")
    return f"{count} found but not enforced; pass --gpuperf-fail-on to fail on them"


def baseline_outdated(comparisons: int) -> str:
    """Return that the baseline should be updated."""
    count = units.count(comparisons, "comparison")
    return (
        f"{count} improved beyond the tolerance: {_OUTDATED}; run gpuperf baseline update to lock in the gain"
    )


# Values.


def format_change(ratio: Estimate) -> str:
    """Return a ratio as a change: `-20.0 % [-24.1, -16.3]`, without its interval where it is exact."""
    ends = ", ".join("?" if end is None else _percent(end) for end in (ratio.low, ratio.high))
    exact = ratio.low == ratio.value == ratio.high
    return f"{_percent(ratio.value)} %" if exact else f"{_percent(ratio.value)} % [{ends}]"


def format_metric(metric: Metric, estimate: Estimate) -> str:
    """Return an estimate in its metric's unit: `8.00x [7.80, 8.20]`, `1.20 ms [1.10 ms, 1.30 ms]`."""
    value = format_value(metric, estimate.value)
    if metric in ("memory", "threshold"):
        return value
    bounds = ("?" if end is None else format_value(metric, end) for end in (estimate.low, estimate.high))
    return f"{value} [{', '.join(bound.removesuffix('x') for bound in bounds)}]"


def format_value(metric: Metric, value: float) -> str:
    """Return a value in its metric's unit: `8.00x`, `1.20 ms`."""
    if metric == "memory":
        return units.size(value)
    if metric == "threshold":
        return f"{value:.16g}"
    return units.seconds(value) if metric in ("cpu", "gpu") else f"{units.digits(value)}x"


def _allowance(tolerance: Tolerance) -> str:
    direction = "more" if tolerance.metric in regression.LESS_IS_BETTER else "less"
    return f"{100 * tolerance.share:g} % {direction} is allowed"


def _sizes_from(size: float) -> str:
    return f"from {size:.16g} on" if size < inf else "for sure at no size"


def _percent(ratio: float) -> str:
    """Return a ratio as a change in percent, with its sign; 0 where it shows none."""
    percent = 100 * (ratio - 1)
    shown = f"{percent:+.0f}" if abs(percent) >= 99.95 else f"{percent:+.1f}"
    return shown if float(shown) else "0"
