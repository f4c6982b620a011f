"""`gpuperf baseline update`: reports to the baseline that later runs are compared with."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gpuperf import fingerprint, reading, schema, store, thresholds
from pytest_gpuperf.command.done import INCOMPARABLE, Done
from pytest_gpuperf.model import GpuPerfError, Record, Run

__all__ = ["add"]

_EPILOG = """\
example: gpuperf baseline update baseline.json report.json

A test that a report measured takes the place of the baseline's; one that it skipped, or could not measure,
does not. Tests that no report has stay, unless --prune takes them out. A folder gets a file of its own."""


def add(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser("baseline", help="keep what later runs are compared with")
    actions = command.add_subparsers(required=True, metavar="ACTION")
    action = actions.add_parser(
        "update",
        help="take what reports have measured into a baseline",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    action.add_argument("base", type=Path, metavar="BASE", help="the baseline; made where it is not there")
    action.add_argument("reports", type=Path, nargs="+", metavar="REPORT")
    action.add_argument("--prune", action="store_true", help="leave out the tests that no report measured")
    action.set_defaults(run=lambda chosen: _update(chosen.base, chosen.reports, prune=chosen.prune))


def _update(base: Path, paths: Sequence[Path], *, prune: bool) -> Done:
    runs = sorted((reading.read(path) for path in paths), key=lambda run: run.started)
    before = _before(base)
    fresh = {record.nodeid: record for run in runs for record in run.records if _is_measured(record)}
    if not fresh:
        raise GpuPerfError("the reports measured nothing that a later run could be compared with")
    kept = [] if before is None or prune else [each for each in before.records if each.nodeid not in fresh]
    apart = _differences([*runs, *([before] if before and any(map(_is_measured, kept)) else [])])
    if apart:
        text = f"{base} was left as it is, for the runs differ: {'; '.join(apart)}"
        remedy = "--prune leaves out what was measured elsewhere" if before else "make a baseline of each"
        return Done(text=f"{text}; {remedy}", code=INCOMPARABLE)
    records = tuple(_in_order(before, fresh, kept))
    last = runs[-1]
    run = replace(last, records=records, thresholds=thresholds.find(records), gate=None, complete=True)
    path = base / f"{last.started.replace(':', '')}.json" if base.is_dir() else base
    store.replace(path, schema.text(run))
    return Done(text="\n".join(_told(path, before, fresh, kept)))


def _before(base: Path) -> Run | None:
    """Return the run that the baseline holds; of a folder the newest."""
    if not base.exists():
        return None
    found = reading.read_all(base)
    return found[0].run if found else None


def _is_measured(record: Record) -> bool:
    """Say whether a record has a speedup that is valid, or the times of its one side."""
    if record.status in ("error", "skipped"):
        return False
    alone = record.pairing is not None and record.pairing.partner is None
    return record.speedup is not None or (alone and bool(record.cpu or record.gpu))


def _differences(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return what differs between runs whose records would stand side by side."""
    first, *others = (fingerprint.surroundings(run.environment, run.environment.gpu) for run in runs)
    return tuple(dict.fromkeys(each for other in others for each in fingerprint.unlike(first, other)))


def _in_order(before: Run | None, fresh: dict[str, Record], kept: Sequence[Record]) -> Iterator[Record]:
    """Yield the records in the order of the baseline, new ones at its end: a small change is a small diff."""
    stay = {record.nodeid: record for record in kept}
    known = [record.nodeid for record in before.records] if before else []
    for nodeid in known:
        record = fresh.get(nodeid) or stay.get(nodeid)
        if record is not None:
            yield replace(record, comparisons=())
    for nodeid, record in fresh.items():
        if nodeid not in known:
            yield replace(record, comparisons=())


def _told(path: Path, before: Run | None, fresh: dict[str, Record], kept: Sequence[Record]) -> Iterator[str]:
    known = {record.nodeid for record in before.records} if before else set()
    new = [nodeid for nodeid in fresh if nodeid not in known]
    yield f"{path}: {len(fresh) - len(new)} tests updated, {len(new)} new, {len(kept)} kept as they were"
    gone = len(known - fresh.keys() - {record.nodeid for record in kept})
    if gone:
        yield f"{gone} taken out"
