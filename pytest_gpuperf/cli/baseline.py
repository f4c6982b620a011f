"""`gpuperf baseline update`: reports to the baseline that later runs are compared with."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_gpuperf import schema
from pytest_gpuperf.analysis import threshold
from pytest_gpuperf.cli.output import INCOMPARABLE, CommandResult, told
from pytest_gpuperf.gate import baseline, fingerprint, metrics
from pytest_gpuperf.gate.baseline import Baseline
from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import files, paths, reader
from pytest_gpuperf.report.reader import Report

__all__ = ["add"]

_EPILOG = """\
example: gpuperf baseline update baseline.json report.json

A test that a report measured takes the place of the baseline's; one that it skipped, or could not measure,
does not. Tests that no report has stay, unless --prune takes them out. A folder gets a file of its own.
A report of a run that began before the baseline's adds what is not measured there, and replaces nothing.
A BASE that is not there is made, and is a folder where its name has no suffix."""


def add(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser("baseline", help="keep what later runs are compared with")
    actions = command.add_subparsers(required=True, metavar="ACTION")
    action = actions.add_parser(
        "update",
        help="take what reports have measured into a baseline",
        description="Take what reports have measured into a baseline.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    action.add_argument("base", type=Path, metavar="BASE", help="the baseline; made where it is not there")
    action.add_argument("reports", type=Path, nargs="+", metavar="REPORT", help="of later runs")
    action.add_argument("--prune", action="store_true", help="leave out the tests that no report measured")
    action.set_defaults(run=lambda chosen: _update(chosen.base, chosen.reports, prune=chosen.prune))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Update:
    """What a baseline holds, by node id: records that are `fresh`, and those that are `kept` as they were."""

    known: dict[str, Record]
    fresh: dict[str, Record]
    kept: dict[str, Record]

    @property
    def records(self) -> tuple[Record, ...]:
        """All records in the order of the baseline, new ones at its end: a small change is a small diff."""
        placed = {**self.known, **self.fresh}
        found = (self.fresh.get(nodeid) or self.kept.get(nodeid) for nodeid in placed)
        return tuple(replace(record, comparisons=()) for record in found if record is not None)


def _update(base: Path, inputs: Sequence[Path], *, prune: bool) -> CommandResult:
    reports = sorted((Report(name=str(path), run=reader.read(path)) for path in inputs), key=reader.began)
    runs = [report.run for report in reports]
    found = _before(base, runs[-1])
    before = found.run if found else None
    early = [report.name for report in reports if not report.run.complete]
    if early and (before is None or prune):
        remedy = "leave out --prune" if before else "update a baseline that is there"
        raise GpuPerfError(
            f"{early[0]} is incomplete, and would be taken for whole: its run ended early; run it again to "
            f"its end, or {remedy}"
        )
    older = _older(reports, found) if found else ()
    if found and len(older) == len(reports):
        _check_order(base, older[-1], found, prune=prune)
    update = _planned(runs[: len(older)], runs[len(older) :], before, prune=prune)
    if not update.fresh:
        raise GpuPerfError(_nothing(older, update))
    if (refusal := _refusal(base, runs, before, update, older)) is not None:
        return told([refusal], INCOMPARABLE)
    last = before if before and len(older) == len(runs) else runs[-1]
    path = _write(base, last, update.records)
    lines = [*_counted(path, update), *_kept(older, update)]
    return told([*lines, *(f"{name} is incomplete: its run ended early" for name in early)])


def _older(reports: Iterable[Report], found: Baseline) -> tuple[Report, ...]:
    """Return the reports of runs that began before the baseline's, unless that has measured nothing."""
    if not any(map(_is_measured, found.run.records)):
        return ()
    start = reader.began(Report(name=found.name, run=found.run))
    return tuple(report for report in reports if reader.began(report) < start)


def _check_order(base: Path, last: Report, found: Baseline, *, prune: bool) -> None:
    """Raise GpuPerfError where older measurements would replace newer ones, or stand where no run looks."""
    if base.is_dir():
        raise GpuPerfError(
            f"{last.name} was measured before {found.name}, and no run would choose the older of them; "
            "update that file, or take it out of the folder first"
        )
    if prune:
        raise GpuPerfError(
            f"{last.name} was measured before the baseline {found.name}; leave out --prune, or remove "
            "the baseline to make it anew"
        )


def _planned(older: Sequence[Run], newer: Sequence[Run], before: Run | None, *, prune: bool) -> _Update:
    known = {record.nodeid: record for record in before.records} if before else {}
    measured = {nodeid for nodeid, record in known.items() if _is_measured(record)}
    added = {nodeid: record for nodeid, record in _fresh(older, {}).items() if nodeid not in measured}
    fresh = {**added, **_fresh(newer, {} if prune else {**known, **added})}
    seen = {record.nodeid for run in older for record in run.records if _is_measured(record)}
    left = (nodeid for nodeid in known if nodeid not in fresh)
    kept = {nodeid: known[nodeid] for nodeid in left if nodeid in seen or not prune}
    return _Update(known=known, fresh=fresh, kept=kept)


def _before(base: Path, run: Run) -> Baseline | None:
    """Return the baseline that is there; of a folder the newest that was made in such surroundings."""
    if not base.exists():
        return None
    found = [Baseline(report.name, report.run) for report in reader.read_all(base)]
    if not base.is_dir():
        return found[0]
    nearest = baseline.closest(found, run.environment, run.environment.gpu)
    return nearest if nearest and not _differences([nearest.run, run]) else None


def _fresh(runs: Iterable[Run], known: dict[str, Record]) -> dict[str, Record]:
    """Return the measured records, the latest of each test; one side alone replaces no speedup."""
    fresh: dict[str, Record] = {}
    for record in (record for run in runs for record in run.records):
        before = fresh.get(record.nodeid) or known.get(record.nodeid)
        of_cpu = before is not None and metrics.has(before, "cpu") and metrics.has(record, "cpu")
        if not (_is_measured(record) or of_cpu):
            continue
        if before is None or metrics.has(record, "speedup") or not metrics.has(before, "speedup"):
            fresh[record.nodeid] = record
    return fresh


def _is_measured(record: Record) -> bool:
    """Say whether a record has a speedup that is valid, or the times of its one side."""
    if record.status == "skipped":
        return False
    if metrics.has(record, "speedup"):
        return True
    alone = record.pairing is not None and record.pairing.partner is None
    return alone and any(metrics.has(record, side) for side in ("cpu", "gpu"))


def _nothing(older: Iterable[Report], update: _Update) -> str:
    """Return why reports change no baseline, and what to do."""
    name = next((report.name for report in older if _held_back(report, update)), None)
    if name is None:
        return "the reports measured nothing that a later run could be compared with"
    return (
        f"{name} is older than the baseline, which has all that it measured; measure anew, or remove the "
        "baseline to make it of this report"
    )


def _refusal(
    base: Path, runs: Sequence[Run], before: Run | None, update: _Update, older: Sequence[Report]
) -> str | None:
    """Return why records of these runs would not stand side by side, and what to do."""
    if apart := _differences(runs):
        return (
            f"{base} was left as it is, for the reports differ: {'; '.join(apart)}; make a baseline of each"
        )
    if before is None or not any(map(_is_measured, update.kept.values())):
        return None
    if apart := _differences([before, *runs]):
        remedy = "a folder holds a baseline of each machine"
        if not older:
            remedy = f"--prune leaves out what was measured elsewhere, {remedy}"
        return f"{base} was left as it is, for the runs differ: {'; '.join(apart)}; {remedy}"
    return None


def _differences(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return what differs between runs whose records would stand side by side."""
    first, *others = (fingerprint.run_conditions(run.environment, run.environment.gpu) for run in runs)
    return tuple(dict.fromkeys(each for other in others for each in fingerprint.differences(first, other)))


def _write(base: Path, last: Run, records: tuple[Record, ...]) -> Path:
    """Write a baseline, in a folder to a file of its own, and return its path."""
    run = replace(last, records=records, thresholds=threshold.find(records), gate=None, complete=True)
    text = schema.text(run)
    if not paths.is_folder(base):
        files.replace(base, text)
        return base
    path = base / reader.file_name(Report(name="the report", run=last))
    base.mkdir(exist_ok=True)
    try:
        files.create(path, text)
    except FileExistsError as error:
        raise GpuPerfError(
            f"{path} is there already, of a run that began then; take it away first"
        ) from error
    return path


def _counted(path: Path, update: _Update) -> Iterator[str]:
    new = len(update.fresh.keys() - update.known.keys())
    updated, kept = len(update.fresh) - new, len(update.kept)
    yield f"{path}: {units.count(updated, 'test')} updated, {new} new, {kept} kept as before"
    if gone := len(update.known.keys() - update.fresh.keys() - update.kept.keys()):
        yield f"{units.count(gone, 'test')} taken out"


def _kept(older: Iterable[Report], update: _Update) -> Iterator[str]:
    """Yield how much of older reports was left out, for the baseline has it newer."""
    for report in older:
        count = _held_back(report, update)
        were = "it was" if count == 1 else "they were"
        yield f"{report.name} was measured before the baseline: {units.count(count, 'test')} kept as {were}"


def _held_back(report: Report, update: _Update) -> int:
    measured = {record.nodeid for record in report.run.records if _is_measured(record)}
    return len(measured & update.kept.keys())
