"""The command `gpuperf`: what can be done with a report outside pytest."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_gpuperf import schema, store
from pytest_gpuperf.model import GpuPerfError, Run

__all__ = ["main"]

_FINE, _WRONG = 0, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 2 when it could not be done."""
    parser = argparse.ArgumentParser(prog="gpuperf", description="Work with reports of pytest-gpuperf.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("recover", help="make a report from the journal of a run that was killed")
    command.add_argument("journal", type=Path, help="REPORT.PID.journal, beside where the report would be")
    command.add_argument("report", type=Path, help="the report to write; it must not exist")
    command.set_defaults(run=lambda chosen: _recover(chosen.journal, chosen.report))
    command = commands.add_parser("validate", help="check a report against its schema")
    command.add_argument("report", type=Path)
    command.set_defaults(run=lambda chosen: _validate(chosen.report))
    chosen = parser.parse_args(arguments)
    try:
        print(chosen.run(chosen))
    except (GpuPerfError, OSError, ValueError) as error:
        print(f"gpuperf: {error}", file=sys.stderr)
        return _WRONG
    return _FINE


def _recover(journal: Path, report: Path) -> str:
    if report.exists():
        raise GpuPerfError(f"{report} exists; name a new file, so that nothing is lost")
    run = _run_in(store.read_journal(journal))
    store.replace(report, schema.text(run))
    return f"{report}: {len(run.records)} records recovered; {journal} can be removed"


def _validate(report: Path) -> str:
    try:
        run = schema.load(json.loads(report.read_text(encoding="utf-8")))
    except ValueError as error:
        raise GpuPerfError(f"{report} is not JSON: {error}") from error
    return f"{report}: valid, {len(run.records)} records"


def _run_in(lines: Iterable[str]) -> Run:
    """Return the run that a journal's lines hold; raise GpuPerfError for a line that is none of its own."""
    try:
        heading, *contents = map(json.loads, lines)
        records = {content["nodeid"]: schema.load_record(content) for content in contents}
        surveyed = schema.load_environment(heading["environment"])
        started = heading["started"]
    except (ValueError, KeyError, TypeError) as error:
        raise GpuPerfError(f"this is no whole journal of a run: {error}") from error
    return Run(environment=surveyed, started=started, records=tuple(records.values()), complete=False)
