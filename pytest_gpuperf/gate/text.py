"""From a comparison's or a gate's facts to its sentences: every message of the gate is worded here."""

from pytest_gpuperf.analysis import scaling, verdict
from pytest_gpuperf.gate import regression
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import (
    AbsenceCause,
    AbsentTests,
    GateFailure,
    GateFailureCode,
    GateNote,
    GateNoteCode,
    GateResult,
    Metric,
    Outcome,
    Remedy,
    Tolerance,
)
from pytest_gpuperf.model.measurement import Estimate

MOST_IN_PERCENT = 10.0
"""The factor from which on a change is written as one."""
METRIC_NAMES: dict[Metric, str] = {
    "speedup": "speedup",
    "gpu_time": "GPU time",
    "cpu_time": "CPU time",
    "latency": "speedup by latency",
    "with_copies": "speedup with copies",
    "memory": "memory",
    "efficiency": "parallel efficiency",
}
REMEDIES: dict[Remedy, str] = {  # what slowed a GPU down comes with its own remedy
    "more_time": "more time (max_time) or a quieter machine would decide it",
    "run_with_gate": "measure it with --gpuperf-baseline and --gpuperf-fail-on: other runs stop at "
    "their verdict",
    "new_baseline": "the baseline's interval is too wide: remove it and recreate it with --gpuperf-fail-on, "
    "or run gpuperf baseline update with the report of a run with that option",
}
_ALLOW_OR_REMOVE = (
    "pass {prefix}allow=missing, or remove them with a report of the whole suite: run it with "
    "{prefix}json=report.json, then gpuperf baseline update --prune {baseline} report.json"
)
_FAILURES: dict[GateFailureCode, str] = {
    "nothing_measured": "nothing was measured: {cause}",
    "all_skipped": "every test of the regression check was skipped ({tests}): {reason}{remedy}",
    "tests_unknown": "the baseline {baseline} has none of the tests that were measured ({tests}); node ids "
    "are relative to the rootdir: was the baseline made with another one?",
    "nothing_compared": "nothing was compared: the baseline {baseline} and the measured tests ({tests}) "
    "share no {metrics}",
    "nothing_decided": "the regression check decided nothing: every comparison is inconclusive ({count})",
    "metric_not_measured": "no {metric} was measured ({tests}): {cause}",
    "session_ended": "the session ended before {tests} of the regression check could run: {first}",
    "tests_missing": "{count} of the baseline's tests did not run: {tests}; renamed, unmarked or deselected? "
    f"Run them, {_ALLOW_OR_REMOVE}",
    "files_skipped": "{count} of the baseline's tests did not run: {tests}; {their} file or folder skipped "
    f"itself, as pytest.importorskip does. Install what it needs, {_ALLOW_OR_REMOVE}",
    "tests_hidden": "{count} of the baseline's tests {were} {by}: {tests}; look for collect_ignore, "
    "pytest_ignore_collect, python_files, norecursedirs, --ignore, -k and the like in conftest.py, the ini "
    "file and PYTEST_ADDOPTS, or for an option of another plugin, as one that splits the suite. "
    f"Run them, {_ALLOW_OR_REMOVE}",
    "tests_left_out": "{count} of the baseline's tests {were} {by}, which {prefix}strict forbids: {tests}; "
    "run them, or pass {prefix}allow=missing",
    "tests_skipped": "{count} of the baseline's tests {were} skipped, which {prefix}strict forbids: {first}; "
    "run them, or pass {prefix}allow=missing",
    "test_lost": "{nodeid} was lost when its process crashed: {reason}",
}
_NOTES: dict[GateNoteCode, str] = {
    "baseline_incomplete": "the run of the baseline {baseline} ended early: tests that it did not reach "
    "count as new",
    "tests_skipped": "{count} of the baseline's tests {were} skipped: {first}",
    "not_comparable": "not comparable ({count}): {differences}",
    "regressions_not_enforced": "{count} found but not enforced; pass {prefix}fail-on to fail on them",
    "baseline_stale": "{count} improved beyond the tolerance: the baseline is out of date; run gpuperf "
    "baseline update to lock in the gain",
    "nothing_decided": "the regression check decided nothing: every comparison is inconclusive ({count}); a "
    "regression may have passed; --gpuperf-strict fails such a run",
}
NOT_RUN: dict[AbsenceCause, GateFailureCode] = {
    "command_line": "tests_left_out",
    "configuration": "tests_hidden",
    "skipped": "files_skipped",
    "gone": "tests_missing",
}
_NOT_RUN_BY: dict[AbsenceCause, str] = {
    "command_line": "left out by the command line",
    "configuration": "left out by configuration",
    "skipped": "in a file or folder that skipped itself",
    "gone": "missing",
}
_CHANGES: dict[Outcome, str] = {
    "regressed": "got worse",
    "improved": "got better",
    "inconclusive": "is inconclusive",
}


# One metric of one test.


def describe(
    before: Estimate,
    now: Estimate,
    tolerance: Tolerance,
    outcome: Outcome,
    *,
    widened: str | None = None,
) -> str:
    """Return the numbers of an outcome: `speedup got worse: 8.00x [7.80, 8.20], baseline 10.0x ...`.

    `widened` is why the new interval is wider than its samples alone make it.
    """
    metric = tolerance.metric
    numbers = f"{format_metric(metric, now)}, baseline {format_metric(metric, before)}"
    limit = _consequence(tolerance, outcome)
    ratio = regression.ratio(before, now)
    change = f": {format_change(ratio)}, {limit}" if ratio else f"; {limit}"
    cause = f"; the interval reaches so low because {widened}" if widened else ""
    return f"{METRIC_NAMES[metric]} {_CHANGES[outcome]}: {numbers}{change}{cause}"


def no_valid_measurement(reason: str) -> str:
    """Return that a gate fails a test because nothing valid was measured."""
    return f"the regression check has no valid measurement: {reason}"


# A run as a whole.


def failure(code: GateFailureCode, **values: object) -> GateFailure:
    """Return why the gate fails a run, with the values of the sentence."""
    return GateFailure(code=code, text=_FAILURES[code].format(**values))


def note(code: GateNoteCode, **values: object) -> GateNote:
    """Return a remark on a comparison, which fails nothing, with the values of the sentence."""
    return GateNote(code=code, text=_NOTES[code].format(**values))


def left_out_by(absent: AbsentTests) -> str:
    """Return why tests did not run: `left out by the command line (-k, -m)`, `missing`."""
    options = ", ".join("the current folder" if option == "folder" else option for option in absent.options)
    return f"{_NOT_RUN_BY[absent.cause]}{f' ({options})' if options else ''}"


def not_run(gate: GateResult) -> str | None:
    """Return how many tests of the baseline did not run, and why; None where all of them ran."""
    if not gate.absent:
        return None
    total = sum(len(absent.tests) for absent in gate.absent)
    causes = ", ".join(f"{len(absent.tests)} {left_out_by(absent)}" for absent in gate.absent)
    failed = " failed" if gate.failures else ""
    tests = units.count(gate.baseline_tests, "baseline test")
    return f"regression check{failed}: {total} of {tests} did not run: {causes}"


# Values.


def format_change(ratio: Estimate) -> str:
    """Return a ratio as a change: `-20.0 % [-24.1, -16.3]`, without its interval where it is exact.

    From a factor of ten on it is one: `12.0x as much [11.0, 13.0]`.
    """
    is_factor = ratio.value >= MOST_IN_PERCENT
    change = f"{units.digits(ratio.value)}x as much" if is_factor else f"{_percent(ratio.value)} %"
    exact = ratio.low == ratio.value == ratio.high
    shown = units.digits if is_factor else _percent
    return change if exact else f"{change} {units.interval(ratio.low, ratio.high, shown)}"


def format_metric(metric: Metric, estimate: Estimate) -> str:
    """Return an estimate in its metric's unit: `8.00x [7.80, 8.20]`, `1.20 ms [1.10 ms, 1.30 ms]`."""
    if metric == "memory":
        return format_value(metric, estimate.value)
    if metric in ("cpu_time", "gpu_time"):
        return f"{units.seconds(estimate.value)} {units.interval(estimate.low, estimate.high, units.seconds)}"
    return scaling.efficiency_text(estimate) if metric == "efficiency" else verdict.ratio(estimate)


def format_value(metric: Metric, value: float) -> str:
    """Return a value in its metric's unit: `8.00x`, `1.20 ms`."""
    if metric == "memory":
        return units.size(value)
    if metric == "efficiency":
        return units.digits(value)
    return units.seconds(value) if metric in ("cpu_time", "gpu_time") else f"{units.digits(value)}x"


def _consequence(tolerance: Tolerance, outcome: Outcome) -> str:
    if outcome == "improved":
        return "the baseline is out of date"
    direction = "more" if tolerance.metric in regression.LESS_IS_BETTER else "less"
    return f"{units.percent(tolerance.share)} {direction} is allowed"


def _percent(ratio: float) -> str:
    """Return a ratio as a change in percent, with its sign; 0 where it shows none."""
    percent = 100 * (ratio - 1)
    shown = f"{percent:+.0f}" if abs(percent) >= 99.95 else f"{percent:+.1f}"
    return shown if float(shown) else "0"
