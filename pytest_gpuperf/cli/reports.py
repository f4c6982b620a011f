"""The commands that read reports: `gpuperf show`, `validate`, `recover`, `merge` and `history`."""

from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from pytest_gpuperf.cli import compare, outputs
from pytest_gpuperf.cli.command import (
    FAILED,
    FINE,
    WRONG,
    CommandResult,
    add_command,
    check_replaceable,
    lines_result,
    output_file,
    width,
)
from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.gate import what_fails
from pytest_gpuperf.gate.what_fails import Rules
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.model.units import count
from pytest_gpuperf.report import files, history_folder, reader
from pytest_gpuperf.report import journal as journals
from pytest_gpuperf.report.json import codec, document
from pytest_gpuperf.report.merge import merge
from pytest_gpuperf.report.terminal import history as history_text
from pytest_gpuperf.report.terminal import section

_FAIL = "what fails: missed limits (sure, default), or inconclusive tests, too (doubt)"
_HISTORY = """\
example: gpuperf history speedups/ --only test_fft

A change of 10 % shows four runs after it, where eight came before it, and three where twelve did; with noise
of 3 % from run to run or a smaller change it takes more. About one in a hundred series without a change
shows one. Runs on other devices, drivers or libraries are listed apart."""


def add(commands: Any) -> None:
    """Add the commands."""
    purpose = "print a report's table, and the reasons of its tests; or write it in other formats"
    epilog = "example: gpuperf show report.json --baseline base.json --html report.html --export csv:r.csv"
    command = add_command(commands, "show", purpose, _show, epilog)
    command.add_argument("report", type=Path, metavar="REPORT")
    command.add_argument(
        "--baseline", type=Path, metavar="BASE", help="compare with an earlier report, or a folder of them"
    )
    command.add_argument(
        "--history",
        type=Path,
        metavar="DIR",
        help="show the earlier runs of this folder on the page of --html",
    )
    outputs.add(command)
    purpose = "check a report against its published JSON Schema, and name the path of what breaks it"
    command = add_command(commands, "validate", purpose, _validate)
    command.add_argument("report", type=Path, metavar="REPORT")
    purpose = "make a report of what had finished when a run was killed, from its journal"
    command = add_command(commands, "recover", purpose, _recover)
    command.add_argument(
        "journal", type=Path, metavar="JOURNAL", help="REPORT.ID.journal, next to the unwritten report"
    )
    command.add_argument(
        "report", type=output_file, metavar="REPORT", help="the report to write; it must not exist"
    )
    purpose = "merge the reports of a suite that was split over several jobs on like machines"
    epilog = "example: gpuperf merge one.json two.json -o merged.json"
    command = add_command(commands, "merge", purpose, _merge, epilog)
    command.add_argument("reports", type=Path, nargs="+", metavar="REPORT", help="two or more reports")
    output = "the report to write"
    command.add_argument("-o", "--output", type=output_file, required=True, metavar="PATH", help=output)
    command.add_argument("--fail", choices=("sure", "doubt"), default="sure", help=_FAIL)
    purpose = "show each test's speedup over commits, and where it changed"
    command = add_command(commands, "history", purpose, _show_history, _HISTORY)
    command.add_argument("folder", type=Path, metavar="DIR", help="where --gpuperf-history keeps its files")
    command.add_argument("--only", metavar="TEXT", help="tests with this in their node ids")
    command.add_argument(
        "--last", type=_number, default=10, metavar="N", help="runs to list for each test (10)"
    )
    command.add_argument("--json", action="store_true", help="as an object of JSON, for programs")


def _show(chosen: Namespace) -> CommandResult:
    """Print a report's table and notes, without colours: they may go to a file or another program."""
    inputs = [path for path in (chosen.report, chosen.baseline) if path is not None]
    outputs.check(chosen.outputs, inputs, chosen.history)
    if chosen.history is not None:
        history_folder.check_folder(chosen.history)
        if "html" not in dict(chosen.outputs):
            raise GpuPerfError("--history is for the page: name it with --html PATH")
    run = reader.load_report(chosen.report)
    if chosen.baseline is not None:
        run = compare.compared_with(run, chosen.baseline)
    written = outputs.write(run, chosen.outputs, chosen.history)
    lines = written.lines if written.lines or written.printed else _table(run)
    return lines_result(lines, WRONG if written.lacks_one else FINE, written.printed)


def _table(run: Run) -> list[str]:
    lines = [str(line) for line in section.lines(run, width(), all_notes=True)]
    not_run = gate_text.not_run(run)
    failures = [f"FAILED: {failure.text}" for failure in (run.gate.failures if run.gate else ())]
    below = [*([not_run] if not_run else []), *failures]
    rest = ["", *below] if below else []
    return [*(lines or ["no test with a speedup marker ran"]), *rest]


def _validate(chosen: Namespace) -> CommandResult:
    run = reader.proved_report(chosen.report)
    return lines_result([f"{chosen.report}: valid, {_records(run)}"])


def _recover(chosen: Namespace) -> CommandResult:
    journal, report = chosen.journal, chosen.report
    if files.begins_as(journal, files.REPORT):
        raise GpuPerfError(f"{journal} is a report, not a journal, and needs no recovery")
    run = journals.run_in(journal)
    try:
        files.create(report, document.text(run))
    except FileExistsError:
        raise GpuPerfError(f"{report} exists; name a new file, so that nothing is lost") from None
    return lines_result([f"{report}: {_records(run)} recovered; {journal} can be removed"])


def _records(run: Run) -> str:
    return count(len(run.records), "record")


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
    tests = (what_fails.decide(record, None, rules).failure is not None for record in run.records)
    return any(tests) or any(what_fails.threshold_fails(each, options) for each in run.thresholds)


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise ArgumentTypeError(f"{text[:20]!r} is not a number of runs of at least 1")
    return int(text)


def _show_history(chosen: Namespace) -> CommandResult:
    found = history_folder.read(chosen.folder)
    if chosen.json:
        content = {"series": history_folder.series(found, only=chosen.only), "rejected": found.rejected}
        return CommandResult(text=codec.indented(codec.dump(content)))
    return lines_result(history_text.lines(found, only=chosen.only, last=chosen.last, width=width()))
