"""`gpuperf baseline update`: reports in, the baseline that later runs are compared with out."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_gpuperf.analysis import scaling, threshold
from pytest_gpuperf.cli.command import FAILED, INCOMPARABLE, CommandResult, add_command, lines_result
from pytest_gpuperf.gate import fingerprint, metrics, regression, text
from pytest_gpuperf.gate.baseline import Comparer, closest
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Comparison, GateOptions, Metric, Tolerance
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Record, Report, Run
from pytest_gpuperf.report import files, paths, reader
from pytest_gpuperf.report.json import document

_EPILOG = """\
example: gpuperf baseline update baseline.json report.json

A test that a report measured replaces the baseline's; one that it skipped or could not measure does not.
Tests that are in no report stay, unless --prune removes them. In a folder, a new file is written.
A report of a run that began before the baseline's only adds tests that the baseline has not measured.
A regression beyond the tolerance of the report's check (without one: speedup:10% and efficiency:10%) is
refused, unless you accept it; so is one that was measured on another machine.
A BASE that does not exist is created, as a folder if its name has no suffix."""

_RATIOS: tuple[Metric, ...] = ("speedup", "efficiency")
_SHOWN: tuple[Metric, ...] = (*_RATIOS, "gpu_time", "cpu_time")
_SHARE = GateOptions().compared[0].share  # of a ratio that no gate is about
_MOST_TESTS = 50


def add(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser("baseline", help="maintain what later runs are compared with")
    actions = command.add_subparsers(required=True, metavar="ACTION")
    purpose = "update a baseline with the measurements of reports"
    action = add_command(actions, "update", purpose, _update, _EPILOG)
    action.add_argument("base", type=Path, metavar="BASE", help="the baseline; created if missing")
    action.add_argument("reports", type=Path, nargs="+", metavar="REPORT", help="reports of later runs")
    action.add_argument(
        "--accept-regressions", action="store_true", help="replace better values by worse ones, too"
    )
    action.add_argument("--prune", action="store_true", help="remove the tests that no report measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Update:
    """A new baseline by node id: `before` it, its `fresh` records, and those `kept` as they were."""

    before: dict[str, Record]
    fresh: dict[str, Record]
    kept: dict[str, Record]

    @property
    def records(self) -> tuple[Record, ...]:
        """All records in the order of the baseline, new ones at its end: a small change is a small diff."""
        order = {**self.before, **self.fresh}
        records = (self.fresh.get(nodeid) or self.kept.get(nodeid) for nodeid in order)
        return tuple(replace(record, comparisons=()) for record in records if record is not None)


def _update(chosen: argparse.Namespace) -> CommandResult:
    base, prune = chosen.base, chosen.prune
    reports = sorted(map(reader.named_report, chosen.reports), key=reader.started_at)
    runs = [report.run for report in reports]
    existing = _existing(base, runs[-1])
    before = existing.run if existing else None
    early = [report.name for report in reports if not report.run.complete]
    if early and (before is None or prune):
        cause = "its run ended early, and the baseline would look complete"
        remedy = "leave out --prune" if before else "update an existing baseline"
        raise GpuPerfError(f"{early[0]} is incomplete: {cause}; run it again to its end, or {remedy}")
    older = _older(reports, existing) if existing else ()
    if existing and len(older) == len(reports):
        _check_order(base, older[-1], existing, prune=prune)
    update = _planned(runs[: len(older)], runs[len(older) :], before, prune=prune)
    if not update.fresh:
        raise GpuPerfError(_why_nothing_new(older, update))
    if (refusal := _refusal(runs, before, update, older)) is not None:
        return lines_result([f"{base} was not changed, because the {refusal}"], INCOMPARABLE)
    regressions = _regressions(runs[len(older) :], existing, update) if existing else []
    if regressions and not chosen.accept_regressions:
        remedy = "--accept-regressions makes them what later runs are compared with"
        refusal = f"{base} was not changed: {units.count(len(regressions), 'regression')}; {remedy}"
        return lines_result([*regressions, refusal], FAILED)
    last = before if before and len(older) == len(runs) else runs[-1]
    path = _write(base, last, update.records)
    lines = [*_counts(path, update), *_replaced(update), *_older_tests(older, update)]
    return lines_result([*lines, *(f"{name} is incomplete: its run ended early" for name in early)])


def _older(reports: Iterable[Report], existing: Report) -> tuple[Report, ...]:
    """Return the reports of runs that began before the baseline's, unless that has measured nothing."""
    if not any(map(_is_measured, existing.run.records)):
        return ()
    start = reader.started_at(existing)
    return tuple(report for report in reports if reader.started_at(report) < start)


def _check_order(base: Path, last: Report, existing: Report, *, prune: bool) -> None:
    """Raise GpuPerfError where older measurements would replace newer ones, or would never be used."""
    if base.is_dir():
        cause = f"{last.name} was measured before {existing.name}, and no run would choose the older of them"
        raise GpuPerfError(f"{cause}; update that file, or move it out of the folder first")
    if prune:
        cause = f"{last.name} was measured before the baseline {existing.name}"
        raise GpuPerfError(f"{cause}; leave out --prune, or remove the baseline to recreate it")


def _planned(older: Sequence[Run], newer: Sequence[Run], before: Run | None, *, prune: bool) -> _Update:
    known = {record.nodeid: record for record in before.records} if before else {}
    measured = {nodeid for nodeid, record in known.items() if _is_measured(record)}
    added = {nodeid: record for nodeid, record in _fresh(older, {}).items() if nodeid not in measured}
    fresh = {**added, **_fresh(newer, {} if prune else {**known, **added})}
    in_older = {record.nodeid for run in older for record in run.records if _is_measured(record)}
    others = (nodeid for nodeid in known if nodeid not in fresh)
    kept = {nodeid: known[nodeid] for nodeid in others if nodeid in in_older or not prune}
    return _Update(before=known, fresh=fresh, kept=kept)


def _existing(base: Path, run: Run) -> Report | None:
    """Return the existing baseline; of a folder the newest that was made in the same conditions."""
    if not base.exists():
        return None
    candidates = reader.load_reports(base)
    if not base.is_dir():
        return candidates[0]
    nearest = closest(candidates, run.environment)
    if nearest is None or fingerprint.run_differences(nearest.run.environment, run.environment):
        return None
    return nearest


def _fresh(runs: Iterable[Run], known: dict[str, Record]) -> dict[str, Record]:
    """Return the measured records, the latest of each test; one device's times replace no speedup."""
    # A run with -k, or without a GPU, must not replace what a whole run has measured.
    fresh: dict[str, Record] = {}
    for record in (record for run in runs for record in run.records):
        before = fresh.get(record.nodeid) or known.get(record.nodeid)
        of_cpu = before is not None and metrics.has(before, "cpu_time") and metrics.has(record, "cpu_time")
        if not (_is_measured(record) or of_cpu):
            continue
        if before is None or _has_ratio(record) or not _has_ratio(before):
            fresh[record.nodeid] = record
    return fresh


def _is_measured(record: Record) -> bool:
    """Return whether a record has a valid speedup or efficiency, or the times of what it ran on alone."""
    if record.status == "skipped":
        return False
    if _has_ratio(record):
        return True
    alone = record.pairing is not None and record.pairing.partner is None
    alone = alone or (record.scaling is not None and record.scaling.is_base)
    return alone and any(metrics.has(record, metric) for metric in metrics.TIME_OF.values())


def _has_ratio(record: Record) -> bool:
    """Return whether a record has a valid speedup or parallel efficiency."""
    return any(metrics.has(record, metric) for metric in _RATIOS)


def _why_nothing_new(older: Iterable[Report], update: _Update) -> str:
    """Return why reports change no baseline, and what to do."""
    name = next((report.name for report in older if _kept_tests(report, update)), None)
    if name is None:
        return "the reports measured nothing that a later run could be compared with"
    remedy = "run it again, or remove the baseline to create it from this report"
    return f"{name} is older than the baseline, which has all that it measured; {remedy}"


def _refusal(runs: Sequence[Run], before: Run | None, update: _Update, older: Sequence[Report]) -> str | None:
    """Return why the records of these runs cannot be in one baseline, and what to do."""
    environments = [run.environment for run in runs]
    if unlike := fingerprint.run_differences(*environments):
        return f"reports differ: {'; '.join(unlike)}; make a baseline of each"
    if before is None or not any(map(_is_measured, update.kept.values())):
        return None
    if unlike := fingerprint.run_differences(before.environment, *environments):
        remedy = "a folder holds a baseline of each machine"
        if not older:
            remedy = f"--prune removes what was measured elsewhere, {remedy}"
        return f"runs differ: {'; '.join(unlike)}; {remedy}"
    return None


def _write(base: Path, last: Run, records: tuple[Record, ...]) -> Path:
    """Write a baseline, in a folder to a file of its own, and return its path."""
    run = replace(
        last,
        records=records,
        thresholds=threshold.find(records),
        scalings=scaling.curves(records),
        gate=None,
        complete=True,
    )
    content = document.text(run)
    if not paths.is_folder(base):
        files.replace(base, content)
        return base
    path = base / reader.file_name(last)
    try:
        files.create(path, content)
    except FileExistsError as error:
        cause = "of a run that began at the same time"
        raise GpuPerfError(f"{path} already exists, {cause}; remove it first") from error
    return path


def _counts(path: Path, update: _Update) -> Iterator[str]:
    new = len(update.fresh.keys() - update.before.keys())
    updated, kept = len(update.fresh) - new, len(update.kept)
    yield f"{path}: {units.count(updated, 'test')} updated, {new} new, {kept} kept as before"
    if gone := [each for each in update.before if each not in update.fresh and each not in update.kept]:
        yield f"{units.count(len(gone), 'test')} removed: {units.first_few(gone)}"


def _replaced(update: _Update) -> Iterator[str]:
    """Yield the old and the new value of each test whose value changed."""
    changed = []
    for nodeid, now in update.fresh.items():
        before = update.before.get(nodeid)
        for metric in _SHOWN if before else ():
            old, new = (metrics.estimate_of(record, metric) for record in (before, now) if record)
            if old is not None and new is not None:
                was, became = (text.format_metric(metric, each) for each in (old, new))
                if was != became:
                    changed.append(f"{nodeid}: {text.METRIC_NAMES[metric]} {was} replaced by {became}")
                break
    yield from changed[:_MOST_TESTS]
    if rest := len(changed) - len(changed[:_MOST_TESTS]):
        yield f"and {units.count(rest, 'more test')}"


def _regressions(runs: Sequence[Run], existing: Report, update: _Update) -> list[str]:
    """Return what would replace better values of the baseline, by the tolerances of the runs' own gates.

    Speedups and efficiencies are always compared: whatever a gate is about, they must not get lost unseen.

    A gate does not fail for a loss that no later rounds confirm. To be accepted unseen is another matter.
    """
    reasons = []
    for run in runs:
        tolerances = run.gate.tolerances if run.gate else ()
        gated = bool(tolerances)
        named = {tolerance.metric for tolerance in tolerances}
        tolerances += tuple(Tolerance(metric=each, share=_SHARE) for each in _RATIOS if each not in named)
        comparer = Comparer(baseline=existing, environment=run.environment, gated=gated)
        fresh = [record for record in run.records if update.fresh.get(record.nodeid) is record]
        compared = [
            (record.nodeid, comparison)
            for record in fresh
            for comparison in comparer.compare(record, tolerances)
        ]
        reasons += [f"{name}: {why}" for name, each in compared if (why := _why_worse(each)) is not None]
    return reasons


def _why_worse(comparison: Comparison) -> str | None:
    """Return what got worse, even if no gate can be sure of it: the cause may be another machine.

    The value alone counts: one in doubt must not take the place of one that was certain.
    """
    before, now = comparison.baseline, comparison.found
    if comparison.outcome == "regressed":
        return comparison.reason
    unsure = comparison.outcome in ("inconclusive", "not_comparable")
    if not unsure or before is None or now is None:
        return None
    tolerance = Tolerance(metric=comparison.metric, share=comparison.tolerance)
    exactly = Estimate(value=now.value, low=now.value, high=now.value)
    if not regression.is_worse(before, exactly, tolerance):
        return None
    if comparison.outcome == "inconclusive":
        return comparison.reason
    return f"{text.describe(before, now, tolerance, 'regressed')}; {comparison.reason}"


def _older_tests(older: Iterable[Report], update: _Update) -> Iterator[str]:
    """Yield how many tests of older reports were left out because the baseline has newer ones."""
    for report in older:
        tests = units.count(_kept_tests(report, update), "test kept as it was", "tests kept as they were")
        yield f"{report.name} was measured before the baseline: {tests}"


def _kept_tests(report: Report, update: _Update) -> int:
    measured = {record.nodeid for record in report.run.records if _is_measured(record)}
    return len(measured & update.kept.keys())
