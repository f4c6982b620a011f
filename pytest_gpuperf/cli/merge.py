"""`gpuperf merge`: the reports of a suite that ran once on each device in, one report out."""

from argparse import Namespace
from collections.abc import Sequence
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
from pytest_gpuperf.gate import fingerprint, policy
from pytest_gpuperf.gate.table import Rules
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Report, Run
from pytest_gpuperf.model.units import count
from pytest_gpuperf.report import files, paths, reader
from pytest_gpuperf.report.json import document
from pytest_gpuperf.report.merge import merge
from pytest_gpuperf.report.text import section

_FAIL = "what fails: missed limits (sure, default), or inconclusive tests, too (doubt)"


def add(commands: Any) -> None:
    """Add the command."""
    purpose = "merge the reports of a suite that ran once on each device, test by test"
    epilog = "example: gpuperf merge cpu.json gpu.json -o merged.json"
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
    check_replaceable(chosen.output, paths.REPORT, "a report", chosen.reports)
    run = merge(reports)
    files.replace(chosen.output, document.text(run))
    failures, doubts = _failures_and_doubts(run, RunOptions(fail=chosen.fail))
    table = map(str, section.lines(run, width(), all_notes=True))
    early = [
        f"{report.name} is incomplete, and so is the merged report: its run ended early"
        for report in reports
        if not report.run.complete
    ]
    last = f"{_counts(run, reports, len(failures))}; {_hosts(run, reports)}"
    said = [*failures, *doubts, "", *table, "", *early, last]
    return lines_result(said, FAILED if failures else FINE)


def _failures_and_doubts(run: Run, options: RunOptions) -> tuple[list[str], list[str]]:
    """Return what fails, test by test and then threshold by threshold, and what is inconclusive."""
    rules, failures, doubts = Rules(run=options), [], []
    for record in run.records:
        end, said = policy.decide(record, None, rules), f"{record.nodeid}: {record.status}: {record.reason}"
        failures += [said] if end.failure else []
        doubts += [said] if end.warnings else []
    for threshold in run.thresholds:
        if policy.threshold_fails(threshold, options):
            failures.append(f"threshold of {threshold.name}: {threshold.status}: {threshold.reason}")
    return failures, doubts


def _counts(run: Run, reports: Sequence[Report], failed: int) -> str:
    """Return how many tests were joined, and how many each report had alone."""
    compared = {record.nodeid for report in reports for record in report.run.records if record.speedup}
    alone = sum(record.nodeid in compared for record in run.records)
    joined = sum(record.speedup is not None for record in run.records) - alone
    counts = [f"{count(joined, 'test')} joined", f"{failed} failed"]
    counts += [f"{count(alone, 'test')} from one report each"] if alone else []
    skipped = run.summary.skipped
    return ", ".join([*counts, *([f"{skipped} skipped"] if skipped else [])])


def _hosts(run: Run, reports: Sequence[Report]) -> str:
    names = ", ".join(fingerprint.machine_names([report.run.environment for report in reports]))
    differ = run.merged.hosts_differ if run.merged else None
    if differ is None:
        return "it is not known whether the hosts differ"
    return f"hosts differ: {names}" if differ else f"all on one host: {names}"
