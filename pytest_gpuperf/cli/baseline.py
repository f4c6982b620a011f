"""`gpuperf baseline update`: reports in, the baseline that later runs are compared with out."""

import argparse
from pathlib import Path
from typing import Any

from pytest_gpuperf.cli.command import FAILED, INCOMPARABLE, CommandResult, add_command, lines_result
from pytest_gpuperf.gate.baseline import has_same_conditions
from pytest_gpuperf.gate.update import plan
from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Report, Run
from pytest_gpuperf.report import files, reader
from pytest_gpuperf.report.json import document

_EPILOG = """\
example: gpuperf baseline update baseline.json report.json

A test that a report measured replaces the baseline's, unless a value of it is worse or less certain. A
regression beyond the tolerance of the report's check (without one: speedup:10% and efficiency:10%) is
refused, and so is what may be one and was measured in other conditions.
Tests that no report measured stay, unless --prune removes them. In a folder, a new file is written.
A BASE that does not exist is created, as a folder if its name has no suffix."""


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


def _update(chosen: argparse.Namespace) -> CommandResult:
    base, accept, prune = chosen.base, chosen.accept_regressions, chosen.prune
    reports = sorted(map(reader.named_report, chosen.reports), key=reader.started_at)
    existing = _existing(base, reports[-1].run)
    if existing and reader.started_at(reports[0]) < reader.started_at(existing):
        cause = f"{reports[0].name} is of a run that began before that of the baseline {existing.name}"
        raise GpuPerfError(f"{cause}; measure it again, or remove the baseline to recreate it")
    update = plan(existing, reports, accept=accept, prune=prune)
    if update.refusal is not None:
        return lines_result([f"{base} was not changed, because the {update.refusal}"], INCOMPARABLE)
    if update.regressions:
        remedy = "--accept-regressions makes them what later runs are compared with"
        refusal = f"{base} was not changed: {units.count(len(update.regressions), 'regression')}; {remedy}"
        return lines_result([*update.regressions, refusal], FAILED)
    path = _write(base, update.run) if update.run else base
    early = (f"{each.name} is incomplete: its run ended early" for each in reports if not each.run.complete)
    return lines_result([*update.values, *early, f"{path}: {update.counts}"])


def _existing(base: Path, run: Run) -> Report | None:
    """Return the existing baseline; of a folder the newest that was made in the same conditions."""
    baselines = reader.load_reports(base) if base.exists() else ()
    if base.is_dir():
        baselines = tuple(each for each in baselines if has_same_conditions(each, run.environment))
    return next(iter(baselines), None)


def _write(base: Path, run: Run) -> Path:
    """Write a baseline, in a folder to a file of its own, and return its path."""
    path = reader.baseline_file(base, run)
    try:
        if path == base:
            files.replace(base, document.text(run))
        else:
            files.create(path, document.text(run))
    except FileExistsError as error:
        cause = "of a run that began at the same time"
        raise GpuPerfError(f"{path} already exists, {cause}; remove it first") from error
    return path
