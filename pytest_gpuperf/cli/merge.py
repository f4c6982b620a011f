"""`gpuperf merge`: the reports of a suite that ran once on each device in, one report out."""

from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_gpuperf.cli.command import (
    FAILED,
    FINE,
    CommandResult,
    add_command,
    check_replaceable,
    lines_result,
    refuse,
    width,
)
from pytest_gpuperf.gate import fingerprint
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Report, Run
from pytest_gpuperf.model.units import count
from pytest_gpuperf.report import files, paths, reader
from pytest_gpuperf.report.json import document
from pytest_gpuperf.report.merge import MergedRun, merge
from pytest_gpuperf.report.text import section

_FAIL = "what fails: missed limits (sure, default), or inconclusive tests, too (doubt)"


def add(commands: Any) -> None:
    """Add the command."""
    purpose = "merge the reports of a suite that ran once on each device, test by test"
    epilog = "example: gpuperf merge cpu.json gpu.json -o merged.json"
    command = add_command(commands, "merge", purpose, _merge, epilog)
    command.add_argument("reports", type=Path, nargs="+", metavar="REPORT", help="two or more reports")
    output = "the report to write"
    command.add_argument("-o", "--output", type=Path, required=True, metavar="PATH", help=output)
    command.add_argument("--fail", choices=("sure", "doubt"), default="sure", help=_FAIL)
    refuse(command, "--inconclusive")


def _merge(chosen: Namespace) -> CommandResult:
    if len(chosen.reports) < 2:
        raise GpuPerfError("merging needs two reports or more")
    reports = [reader.named_report(path) for path in chosen.reports]
    check_replaceable(chosen.output, paths.REPORT, "report", chosen.reports)
    merged = merge(reports)
    files.replace(chosen.output, document.text(merged.run))
    options = RunOptions(fail=chosen.fail)
    failures = merged.failures(options)
    return lines_result(_lines(merged, reports, failures, options), FAILED if failures else FINE)


def _lines(
    merged: MergedRun, reports: Sequence[Report], failures: Sequence[str], options: RunOptions
) -> Iterator[str]:
    """Yield what failed or is inconclusive, the table, and what was merged."""
    yield from (*failures, *merged.doubts(options), "")
    yield from (*map(str, section.lines(merged.run, width(), all_notes=True)), "")
    if merged.run.merged and merged.run.merged.differences:
        yield f"the runs differ: {'; '.join(merged.run.merged.differences)}"
    for report in (report for report in reports if not report.run.complete):
        yield f"{report.name} is incomplete, and so is the merged report: its run ended early"
    yield f"{_counts(merged, failures)}; {_hosts(merged.run, reports)}"


def _counts(merged: MergedRun, failures: Sequence[str]) -> str:
    joined, skipped = len(merged.joined), merged.run.summary.skipped
    counts = [f"{count(joined, 'test')} joined", f"{len(failures)} failed"]
    whole = sum(record.speedup is not None for record in merged.run.records) - joined
    counts += [f"{count(whole, 'test')} from one report each"] if whole else []
    return ", ".join([*counts, *([f"{skipped} skipped"] if skipped else [])])


def _hosts(run: Run, reports: Iterable[Report]) -> str:
    names = ", ".join(fingerprint.machine_names([report.run.environment for report in reports]))
    differ = run.merged.hosts_differ if run.merged else None
    if differ is None:
        return "it is not known whether the hosts differ"
    return f"hosts differ: {names}" if differ else f"all on one host: {names}"
