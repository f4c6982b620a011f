"""From an earlier run and what may not get worse to comparisons, and to why a run as a whole fails."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gpuperf.gate import baseline, metrics, policy, regression
from pytest_gpuperf.gate.baseline import Baseline
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import (
    Comparison,
    GateFailure,
    GateNote,
    GateOptions,
    GateResult,
    Metric,
    Tolerance,
)
from pytest_gpuperf.model.demand import Plan
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.record import Environment, Record

__all__ = ["Gate", "RunCoverage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCoverage:
    """What a run looked at: `expects` says of a baseline's test whether this run should have had it.

    `crashed` are tests, with the reason, that a process took down with it. `has_gpu` says that one was used,
    and `flags` how the options that remedies name begin.
    """

    expects: Callable[[str], bool]
    crashed: Mapping[str, str]
    has_gpu: bool
    flags: str = "--gpuperf-"


class Gate:
    """Holds a run against the one of `bases` (newest first) that was made in surroundings like its own.

    `gated` says that the run was measured for a gate, and not only until its own verdict.
    """

    def __init__(
        self,
        asked: GateOptions,
        bases: Sequence[Baseline],
        survey: Callable[[], Environment],
        *,
        gated: bool,
    ) -> None:
        self.asked = asked
        self._gated = gated
        self._bases = bases
        self._survey = survey
        self._surveyed: Environment | None = None
        self._base: Baseline | None = None

    @property
    def base(self) -> Baseline | None:
        """The baseline; chosen when it is first asked for, which should be when the devices are open."""
        if self._base is None and self._bases:
            if len(self._bases) == 1:
                self._base = self._bases[0]
            else:
                self._base = baseline.closest(self._bases, self._here, self._here.gpu)
        return self._base

    def limits(self, nodeid: str) -> tuple[tuple[float, float], ...]:
        """Return from what, beside its demand, a test's speedup must be told: the limit of a regression."""
        if not self.asked.is_gate or self.base is None or nodeid not in self.base.records:
            return ()
        before = metrics.value(self.base.records[nodeid], "speedup")
        tolerances = [each for each in self.asked.compared if each.metric == "speedup"]
        limits = [regression.apart(before, each) for each in tolerances if before]
        # Of a baseline too wide for its own value to be told from its limit, no sampling will tell.
        return tuple((low, high) for low, high in limits if before and low > 0 and high < before.value)

    def compared(self, record: Record) -> Record:
        """Return a record with how it stands beside the baseline."""
        if self.base is None:
            return record
        found = baseline.compare(record, self._here, self.base, self.asked.compared, gated=self._gated)
        return replace(record, comparisons=found)

    def lost(self, record: Record) -> str | None:
        """Return that a test has no value of what the gate is about, where its baseline has one."""
        before = self.base.records.get(record.nodeid) if self.asked.is_gate and self.base else None
        if before is None or not self._has_value(before) or self._has_value(record):
            return None
        return f"the gate has no valid measurement: {record.reason or record.status}"

    def watched(self, record: Record, plan: Plan) -> list[str]:
        """Return why the gate fails a test that nobody marked: for what it lost, and for nothing else."""
        failures = policy.gated(record.comparisons, self.asked, plan)
        unmeasured = None if plan.report_only else self.lost(record)
        return failures or ([unmeasured] if unmeasured else [])

    def threshold(self, found: Threshold, records: Sequence[Record]) -> tuple[Comparison, ...]:
        """Return how a family's threshold stands beside the baseline, where that is asked for."""
        if self.base is None or found.status == "skipped":
            return ()
        members = [record for record in records if record.family and record.family.name == found.name]
        return tuple(
            baseline.compare_thresholds(found, members, self._here, self.base, each, gated=self._gated)
            for each in self.asked.compared
            if each.metric == "threshold"
        )

    def to_create(self, records: Sequence[Record]) -> Path | None:
        """Return where a run makes the baseline that was missing.

        In a folder it is missing, too, where all that are there were made in other surroundings than a run's
        that has something to compare with.
        """
        path = self.asked.baseline if self.asked.create else None
        if path is None or not self._bases:
            return path
        has_none = not any(baseline.is_alike(base, self._here, self._here.gpu) for base in self._bases)
        return path if path.is_dir() and has_none and any(map(self._has_value, records)) else None

    def excuses(self, records: Sequence[Record], *, has_gpu: bool) -> bool:
        """Say whether a run may have measured nothing, for want of a GPU, and did."""
        return self.asked.allow_no_gpu and not has_gpu and not any(map(self._has_value, records))

    def ended(self, records: Sequence[Record], seen: RunCoverage, plan: Plan) -> GateResult | None:
        """Return what the gate found in a run as a whole; None where there is neither gate nor baseline."""
        if not self.asked.is_gate and self.asked.baseline is None:
            return None
        is_open = self.asked.is_gate and not plan.report_only
        return GateResult(
            baseline=self.base.name if self.base else None,
            started=self.base.run.started if self.base else None,
            tolerances=self.asked.tolerances,
            failures=tuple(self._failures(records, seen)) if is_open else (),
            notes=tuple(self._notes(records)),
        )

    @property
    def _here(self) -> Environment:
        if self._surveyed is None:
            self._surveyed = self._survey()
        return self._surveyed

    def _failures(self, records: Sequence[Record], seen: RunCoverage) -> Iterator[GateFailure]:
        """Yield in which ways the gate measured, matched or compared nothing."""
        cut_off = [record.nodeid for record in records if record.is_cut_off]
        selected = [record for record in records if not (record.is_deselected or record.is_cut_off)]
        excused = self.asked.allow_no_gpu and not seen.has_gpu
        measured = [record for record in selected if self._has_value(record)]
        if not measured and not excused:
            yield _nothing(selected, seen)
        elif measured and self.base is not None and all(_is_new(record) for record in measured):
            yield self._nothing_known(measured, self.base)
        elif measured and self.base is not None and not excused:
            yield from self._unmeasured(selected, self.base)
        if cut_off:
            text = f"the session ended before {units.count(len(cut_off), 'test')} of the gate could run: {cut_off[0]}"
            yield GateFailure(code="session_ended", text=text)
        if self.base is not None and not self.asked.allow_missing:
            yield from self._missing({record.nodeid for record in selected} | {*cut_off}, self.base, seen)
        gated = {record.nodeid for record in selected} | {*(self.base.records if self.base else ())}
        for nodeid, reason in seen.crashed.items():
            if nodeid in gated:
                text = f"{nodeid} was lost with the process that ran it: {reason}"
                yield GateFailure(code="test_lost", text=text)

    def _has_value(self, record: Record) -> bool:
        return any(metrics.has(record, _measure(each)) for each in self.asked.compared)

    def _nothing_known(self, measured: Sequence[Record], base: Baseline) -> GateFailure:
        """Return why the baseline has nothing to compare the measured tests with."""
        count = f"({len(measured)})"
        if not any(record.nodeid in base.records for record in measured):
            text = (
                f"the baseline {base.name} knows none of the tests that were measured {count}; node ids are "
                "relative to the rootdir: was it made with another?"
            )
            return GateFailure(code="tests_unknown", text=text)
        names = ", ".join(regression.NAMES[each.metric] for each in self.asked.compared)
        text = (
            f"nothing was compared: no {names} in both the baseline {base.name} and what was measured {count}"
        )
        return GateFailure(code="nothing_compared", text=text)

    def _unmeasured(self, selected: Sequence[Record], base: Baseline) -> Iterator[GateFailure]:
        """Yield of which metrics no test has a value although the baseline's have."""
        for asked in self.asked.compared:
            known = {*base.tests([asked])}
            held = [record for record in selected if record.nodeid in known]
            if held and not any(metrics.has(record, _measure(asked)) for record in held):
                why = f"{held[0].nodeid}: {held[0].reason or held[0].status}"
                text = f"no {regression.NAMES[asked.metric]} was measured ({units.count(len(held), 'test')}): {why}"
                yield GateFailure(code="metric_not_measured", text=text)

    def _missing(self, there: Set[str], base: Baseline, seen: RunCoverage) -> Iterator[GateFailure]:
        """Yield which of the baseline's tests this run should have had and did not have."""
        missing = [
            nodeid
            for nodeid in base.tests(self.asked.compared)
            if nodeid not in there and nodeid not in seen.crashed and seen.expects(nodeid)
        ]
        if missing:
            text = (
                f"{len(missing)} of the baseline's tests did not run: {units.first_few(missing)}; renamed, unmarked or "
                f"deselected? Run them, say {seen.flags}allow-missing, or take them out with a report of the "
                f"whole suite: gpuperf baseline update --prune {base.name} REPORT"
            )
            yield GateFailure(code="tests_missing", text=text)

    def _notes(self, records: Sequence[Record]) -> Iterator[GateNote]:
        """Yield what to know of the comparison: what could not be compared, and what got better."""
        if self.base is None:
            return
        if not self.base.run.complete:
            text = (
                f"the run of the baseline {self.base.name} ended early: tests that it did not reach are new"
            )
            yield GateNote(code="baseline_incomplete", text=text)
        known = {*self.base.tests(self.asked.compared)}
        skipped = [each for each in records if each.status == "skipped" and not self._has_value(each)]
        skipped = [each for each in skipped if not (each.is_deselected or each.is_cut_off)]
        skipped = [each for each in skipped if each.nodeid in known]
        if skipped:
            count = f"{len(skipped)} of the baseline's tests {'was' if len(skipped) == 1 else 'were'}"
            text = f"{count} skipped: {skipped[0].nodeid}: {skipped[0].reason}"
            yield GateNote(code="tests_skipped", text=text)
        if any(each.metric == "threshold" for each in self.asked.compared):
            yield from self._untold(records, self.base)
        unlike = [each for record in records for each in record.comparisons if each.differences]
        if unlike:
            differences = "; ".join(dict.fromkeys(name for each in unlike for name in each.differences))
            text = f"not comparable, for the runs differ ({units.count(len(unlike), 'comparison')}): {differences}"
            yield GateNote(code="not_comparable", text=text)
        worse = sum(each.outcome == "regressed" for record in records for each in record.comparisons)
        if worse and not self.asked.is_gate:
            text = f"nothing fails for what regressed ({units.count(worse, 'comparison')}) without --gpuperf-fail-on"
            yield GateNote(code="regressions_not_enforced", text=text)
        better = sum(each.outcome == "improved" for record in records for each in record.comparisons)
        if better:
            text = (
                f"better beyond the tolerance ({units.count(better, 'comparison')}): the baseline is stale; "
                "gpuperf baseline update makes it hold what was gained"
            )
            yield GateNote(code="baseline_stale", text=text)

    def _untold(self, records: Sequence[Record], base: Baseline) -> Iterator[GateNote]:
        """Yield of which families no test could tell the threshold."""
        measured = [record for record in records if record.family and self._has_value(record)]
        names = dict.fromkeys(record.family.name for record in measured if record.family)
        compared = [each for each in measured if any(one.metric == "threshold" for one in each.comparisons)]
        told = {record.family.name for record in compared if record.family}
        for name in names:
            if name in base.thresholds and name not in told:
                text = f"the threshold of {name} was not compared: the last of its tests was not measured"
                yield GateNote(code="threshold_not_compared", text=text)


def _is_new(record: Record) -> bool:
    return all(each.outcome == "new" for each in record.comparisons)


def _nothing(selected: Sequence[Record], seen: RunCoverage) -> GateFailure:
    """Return why a run has no value of what the gate is about."""
    if not selected:
        text = "nothing was measured: no test with a speedup marker ran"
        return GateFailure(code="nothing_measured", text=text)
    judged = [record for record in selected if not _is_cpu_sibling(record)] or selected
    first = next((record for record in judged if record.status != "skipped"), None)
    if first is not None:
        text = f"nothing was measured that the gate is about; {first.nodeid}: {first.reason or first.status}"
        return GateFailure(code="nothing_measured", text=text)
    remedy = "" if seen.has_gpu else f"; on a runner that has no GPU say {seen.flags}allow-no-gpu"
    text = f"every test of the gate was skipped ({len(judged)}): {judged[0].reason}{remedy}"
    return GateFailure(code="all_skipped", text=text)


def _is_cpu_sibling(record: Record) -> bool:
    return record.pairing is not None and record.pairing.side == "cpu"


def _measure(asked: Tolerance) -> Metric:
    """Return what a test must have for a metric to be compared: a threshold is made of speedups."""
    return "speedup" if asked.metric == "threshold" else asked.metric
