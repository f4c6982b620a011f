"""From an earlier run and the options of a gate to comparisons, and to why a run as a whole fails."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

from pytest_gpuperf.analysis import scaling
from pytest_gpuperf.analysis.estimation import Exclusion
from pytest_gpuperf.gate import baseline, metrics, policy, regression, text
from pytest_gpuperf.gate.baseline import Comparer, comparable_tests
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import (
    Absence,
    AbsentTests,
    GateFailure,
    GateNote,
    GateOptions,
    GateResult,
    Metric,
)
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.nodeid import without_number
from pytest_gpuperf.model.record import Environment, Record, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCoverage:
    """What a run covered: `absence` returns why a test of the baseline did not run, None where it need not.

    `crashed` are tests, with the reason, that were lost with their process. `has_gpu` says that one was used,
    `gate_requested` that the command itself asks for the gate, not the ini file alone, and `flag_prefix` is
    how the options that remedies name begin.
    """

    absence: Callable[[Record], Absence | None]
    crashed: Mapping[str, str]
    has_gpu: bool
    gate_requested: bool = True
    flag_prefix: str = "--gpuperf-"


@dataclass(frozen=True)
class Gate:
    """Compares a run with the one of `candidates` (newest first) that was made in conditions like its own.

    `environment` returns that of the run; it is called when the devices are open. `gated` says that the run
    was measured for a gate, and not only until its own verdict.
    """

    options: GateOptions
    candidates: Sequence[Report]
    environment: Callable[[], Environment]
    gated: bool

    @cached_property
    def base(self) -> Report | None:
        """The baseline; of several it is chosen at first use, which should be when the devices are open."""
        if len(self.candidates) < 2:
            return next(iter(self.candidates), None)
        return baseline.closest(self.candidates, self._environment)

    def limits(self, nodeid: str) -> tuple[Exclusion, ...]:
        """Return the limits of a change, from which a test's speedup must be distinguished, too."""
        if not self.options.is_gate or self.base is None or nodeid not in self.base.records:
            return ()
        record = self.base.records[nodeid]
        metric: Metric = "efficiency" if record.scaling else "speedup"
        before = metrics.estimate_of(record, metric)
        if before is None:
            return ()
        if record.scaling:  # what is sampled is the speedup over fewer devices
            before = scaling.speedup_of(record.scaling, before)
        limits = []
        for tolerance in self.options.compared:
            if tolerance.metric == metric:
                lost, gained = regression.limits(before, tolerance)
                limits.append(Exclusion(*lost, "below"))
                if self.options.improvements:
                    limits.append(Exclusion(*gained, "above"))
        # No sampling decides against a baseline too wide for its own value to lie outside of the limit.
        return tuple(
            limit
            for limit in limits
            if limit.low > 0 and limit.high < inf and not limit.low <= before.value <= limit.high
        )

    def with_comparisons(self, record: Record) -> Record:
        """Return a record with its comparisons with the baseline."""
        if self._comparer is None:
            return record
        return replace(record, comparisons=self._comparer.compare(record, self.options.compared))

    def unmarked_failures(self, record: Record, options: RunOptions) -> list[str]:
        """Return why the gate fails a test without a marker: for what it lost, and for nothing else."""
        failures = policy.comparison_failures(record.comparisons, self.options, options)
        before = self.base.record_of(record) if self.options.is_gate and self.base else None
        if failures or options.fail == "nothing" or before is None:
            return failures
        if not _has_value(before, self.options) or _has_value(record, self.options):
            return []
        return [text.no_valid_measurement(record.reason or record.status)]

    def path_to_create(self, records: Sequence[Record]) -> Path | None:
        """Return where a run makes the baseline that was missing.

        In a folder it is missing, too, where all that exist were made in other conditions than those of a run
        that has something to compare with.
        """
        path = self.options.baseline if self.options.create else None
        if path is None or not self.candidates:
            return path
        if not path.is_dir() or not any(_has_value(record, self.options) for record in records):
            return None
        # The base is a candidate that was made in the same conditions, if there is one.
        has_match = self.base and baseline.has_same_conditions(self.base, self._environment)
        return None if has_match else path

    def allows_missing_gpu(self, records: Sequence[Record], *, has_gpu: bool) -> bool:
        """Return whether a run measured nothing for want of a GPU, and may do so."""
        has_value = any(_has_value(record, self.options) for record in records)
        return "no-gpu" in self.options.allow and not has_gpu and not has_value

    def finish(
        self, records: Sequence[Record], coverage: RunCoverage, options: RunOptions
    ) -> GateResult | None:
        """Return the gate's result for a run as a whole; None where there is neither gate nor baseline."""
        if not self.options.is_gate and self.options.baseline is None:
            return None
        case = _Case(options=self.options, baseline=self.base, records=records, coverage=coverage)
        enforced = self.options.is_gate and options.fail != "nothing"
        return GateResult(
            baseline=self.base.name if self.base else None,
            started=self.base.run.started if self.base else None,
            tolerances=self.options.tolerances,
            failures=tuple(_failures(case)) if enforced else (),
            notes=tuple(_notes(case, self.base, enforced=enforced)) if self.base else (),
            baseline_tests=len(case.baseline_tests),
            absent=case.absent,
        )

    @cached_property
    def _environment(self) -> Environment:
        return self.environment()

    @cached_property
    def _comparer(self) -> Comparer | None:
        if self.base is None:
            return None
        return Comparer(baseline=self.base, environment=self._environment, gated=self.gated)


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A run as the rules below look at it."""

    options: GateOptions
    baseline: Report | None
    records: Sequence[Record]
    coverage: RunCoverage

    @cached_property
    def selected(self) -> list[Record]:
        """The tests that were to run, and did."""
        return [record for record in self.records if not (record.is_deselected or record.is_cut_off)]

    @cached_property
    def cut_off(self) -> list[str]:
        """The tests that did not run because the session ended."""
        return [record.nodeid for record in self.records if record.is_cut_off]

    @cached_property
    def measured(self) -> list[Record]:
        """The selected tests that have a metric of the gate."""
        return [record for record in self.selected if _has_value(record, self.options)]

    @property
    def may_lack_gpu(self) -> bool:
        """Whether this run has no GPU, and needs none."""
        return "no-gpu" in self.options.allow and not self.coverage.has_gpu

    @cached_property
    def baseline_tests(self) -> list[str]:
        """The tests of the baseline that have something to compare."""
        return comparable_tests(self.baseline.run, self.options.compared) if self.baseline else []

    @cached_property
    def absent(self) -> tuple[AbsentTests, ...]:
        """The tests of the baseline that did not run, by cause."""
        ran = (record.nodeid for record in self.selected)
        present = {*map(without_number, ran), *self.cut_off, *self.coverage.crashed}
        records = self.baseline.records if self.baseline else {}
        groups: dict[Absence, list[str]] = {}
        expected = {without_number(nodeid): records[nodeid] for nodeid in self.baseline_tests}
        for nodeid, record in expected.items():
            absence = None
            if nodeid not in present:
                absence = self.coverage.absence(replace(record, nodeid=nodeid))
            if absence is not None:
                groups.setdefault(absence, []).append(nodeid)
        return tuple(
            AbsentTests(cause=absence.cause, options=absence.options, tests=tuple(tests))
            for absence, tests in groups.items()
        )

    @property
    def is_left_out(self) -> bool:
        """Whether the command line left out all that a gate of the ini file is about, as `-k one_test` does.

        A command that asks for the gate itself contradicts itself by that, and fails.
        """
        if self.options.strict or self.coverage.gate_requested or self.baseline is None:
            return False
        in_baseline = any(map(self.baseline.record_of, self.selected))
        return not in_baseline and {absent.cause for absent in self.absent} == {"command_line"}

    @cached_property
    def all_inconclusive(self) -> int:
        """How many comparisons are inconclusive, if that is every one that has a baseline; else 0."""
        comparisons = (comparison for record in self.records for comparison in record.comparisons)
        outcomes = [comparison.outcome for comparison in comparisons if comparison.outcome != "new"]
        return len(outcomes) if set(outcomes) == {"inconclusive"} else 0

    @cached_property
    def all_new(self) -> bool:
        """Whether the baseline has nothing to compare with any test."""
        comparisons = (comparison for record in self.measured for comparison in record.comparisons)
        return all(comparison.outcome == "new" for comparison in comparisons)


def _failures(case: _Case) -> Iterator[GateFailure]:
    """Yield why a run as a whole fails: what the gate did not measure, match or compare."""
    if not case.is_left_out:
        yield from _nothing_measured(case)
        yield from _nothing_compared(case)
    if case.options.strict and (inconclusive := case.all_inconclusive):
        yield text.failure("nothing_decided", count=units.count(inconclusive, "comparison"))
    yield from _metric_not_measured(case)
    if case.cut_off:
        tests = units.count(len(case.cut_off), "test")
        yield text.failure("session_ended", tests=tests, first=case.cut_off[0])
    yield from _tests_missing(case)
    gated = {record.nodeid for record in case.selected} | {*(case.baseline.records if case.baseline else ())}
    for nodeid, reason in case.coverage.crashed.items():
        if nodeid in gated:
            yield text.failure("test_lost", nodeid=nodeid, reason=reason)


def _nothing_measured(case: _Case) -> Iterator[GateFailure]:
    if case.measured or case.may_lack_gpu:
        return
    if not case.selected:
        yield text.failure("nothing_measured", cause="no test with a speedup marker ran")
        return
    # The verdict falls on the GPU variant, and so does the reason that explains the most.
    verdicts = [
        record for record in case.selected if not (record.pairing and record.pairing.kind == "cpu")
    ] or case.selected
    ran = next((record for record in verdicts if record.status != "skipped"), None)
    if ran is not None:
        yield text.failure(
            "nothing_measured", cause=f"no test has a metric of the regression check; {_outcome(ran)}"
        )
        return
    option = f"{case.coverage.flag_prefix}allow=no-gpu"
    remedy = "" if case.coverage.has_gpu else f"; on a runner without a GPU pass {option}"
    yield text.failure("all_skipped", tests=len(verdicts), reason=verdicts[0].reason, remedy=remedy)


def _nothing_compared(case: _Case) -> Iterator[GateFailure]:
    baseline, measured = case.baseline, case.measured
    if baseline is None or not measured or not case.all_new:
        return
    if any(record.nodeid in baseline.records for record in measured):
        names = ", ".join(text.METRIC_NAMES[tolerance.metric] for tolerance in case.options.compared)
        yield text.failure("nothing_compared", baseline=baseline.name, tests=len(measured), metrics=names)
    else:
        yield text.failure("tests_unknown", baseline=baseline.name, tests=len(measured))


def _metric_not_measured(case: _Case) -> Iterator[GateFailure]:
    """A driver that fails only for memory, for example, must not make the gate on memory green."""
    baseline = case.baseline
    if baseline is None or not case.measured or case.all_new or case.may_lack_gpu:
        return
    for tolerance in case.options.compared:
        with_metric = {*comparable_tests(baseline.run, [tolerance])}
        expected = [record for record in case.selected if record.nodeid in with_metric]
        if expected and not any(metrics.has(record, tolerance.metric) for record in expected):
            yield text.failure(
                "metric_not_measured",
                metric=text.METRIC_NAMES[tolerance.metric],
                tests=units.count(len(expected), "test"),
                cause=_outcome(expected[0]),
            )


def _tests_missing(case: _Case) -> Iterator[GateFailure]:
    """A test that was renamed or lost its marker is compared with nothing, and would never fail."""
    if case.baseline is None or "missing" in case.options.allow:
        return
    for absent in case.absent:
        if absent.cause == "command_line" and not case.options.strict:
            continue  # on purpose; the run says so in its last line
        is_one = len(absent.tests) == 1
        yield text.failure(
            text.NOT_RUN[absent.cause],
            count=len(absent.tests),
            were="was" if is_one else "were",
            their="its" if is_one else "their",
            tests=units.first_few(absent.tests),
            by=text.left_out_by(absent),
            prefix=case.coverage.flag_prefix,
            baseline=shlex.quote(case.baseline.name),
        )
    if case.options.strict and not case.may_lack_gpu and (skipped := _skipped(case)):
        yield text.failure("tests_skipped", **skipped, prefix=case.coverage.flag_prefix)


def _skipped(case: _Case) -> dict[str, Any] | None:
    """Return what is to be said of tests that the baseline measured and this run skipped."""
    compared = {*case.baseline_tests} - {record.nodeid for record in case.measured}
    skipped = [record for record in case.selected if record.status == "skipped" and record.nodeid in compared]
    if not skipped:
        return None
    were = "was" if len(skipped) == 1 else "were"
    return {"count": len(skipped), "were": were, "first": _outcome(skipped[0])}


def _notes(case: _Case, baseline: Report, *, enforced: bool) -> Iterator[GateNote]:
    """Yield what could not be compared, and what got better."""
    if not baseline.run.complete:
        yield text.note("baseline_incomplete", baseline=baseline.name)
    if skipped := _skipped(case):
        yield text.note("tests_skipped", **skipped)
    comparisons = [comparison for record in case.records for comparison in record.comparisons]
    if unlike := [comparison.differences for comparison in comparisons if comparison.differences]:
        differences = "; ".join(dict.fromkeys(chain.from_iterable(unlike)))
        count = units.count(len(unlike), "comparison")
        yield text.note("not_comparable", count=count, differences=differences)
    outcomes = Counter(comparison.outcome for comparison in comparisons)
    if outcomes["regressed"] and not case.options.is_gate:
        yield text.note(
            "regressions_not_enforced",
            count=units.count(outcomes["regressed"], "regression"),
            prefix=case.coverage.flag_prefix,
        )
    if outcomes["improved"]:
        yield text.note("baseline_stale", count=units.count(outcomes["improved"], "comparison"))
    is_failure = enforced and case.options.strict
    if case.options.is_gate and not is_failure and (inconclusive := case.all_inconclusive):
        yield text.note("nothing_decided", count=units.count(inconclusive, "comparison"))


def _outcome(record: Record) -> str:
    return f"{record.nodeid}: {record.reason or record.status}"


def _has_value(record: Record, options: GateOptions) -> bool:
    return any(metrics.has(record, tolerance.metric) for tolerance in options.compared)
