"""`gpuperf merge`: the reports of a suite that was split over several jobs in, one report out."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from pytest_gpuperf.cli.command import (
    FAILED,
    FINE,
    CommandResult,
    add_command,
    check_replaceable,
    lines_result,
    output_file,
    refuse,
    width,
)
from pytest_gpuperf.gate import policy
from pytest_gpuperf.gate.policy import Rules
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.model.units import count
from pytest_gpuperf.report import files, reader
from pytest_gpuperf.report.json import document
from pytest_gpuperf.report.merge import merge
from pytest_gpuperf.report.text import section

_FAIL = "what fails: missed limits (sure, default), or inconclusive tests, too (doubt)"


def add(commands: Any) -> None:
    """Add the command."""
    purpose = "merge the reports of a suite that was split over several jobs on like machines"
    epilog = "example: gpuperf merge one.json two.json -o merged.json"
    command = add_command(commands, "merge", purpose, _merge, epilog)
    command.add_argument("reports", type=Path, nargs="+", metavar="REPORT", help="two or more reports")
    output = "the report to write"
    command.add_argument("-o", "--output", type=output_file, required=True, metavar="PATH", help=output)
    command.add_argument("--fail", choices=("sure", "doubt"), default="sure", help=_FAIL)
    refuse(command, "--inconclusive")


def _merge(chosen: Namespace) -> CommandResult:
    if len(chosen.reports) < 2:
        raise GpuPerfError("merging needs two reports or more")
    reports = [reader.named_report(path) for path in chosen.reports]
    check_replaceable(chosen.output, files.REPORT, "a report", chosen.reports)
    run = merge(reports)
    files.replace(chosen.output, document.text(run))
    lines = [*map(str, section.lines(run, width(), all_notes=True)), ""]
    lines += [f"{each.name} is incomplete: its run ended early" for each in reports if not each.run.complete]
    lines.append(f"{chosen.output}: {count(len(run.records), 'record')} of {len(reports)} reports")
    return lines_result(lines, FAILED if _fails(run, RunOptions(fail=chosen.fail)) else FINE)


def _fails(run: Run, options: RunOptions) -> bool:
    """Return whether a test fails, or a threshold."""
    rules = Rules(run=options)
    tests = (policy.decide(record, None, rules).failure is not None for record in run.records)
    return any(tests) or any(policy.threshold_fails(each, options) for each in run.thresholds)
