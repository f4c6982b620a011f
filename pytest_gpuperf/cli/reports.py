"""The commands on one report: `gpuperf show`, `validate`, `export`, `recover` and `html`."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from pytest_gpuperf.cli import compare
from pytest_gpuperf.cli.command import (
    CommandResult,
    add_command,
    check_replaceable,
    lines_result,
    output_file,
    width,
)
from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.model.units import count
from pytest_gpuperf.report import exports, files, history, paths, reader
from pytest_gpuperf.report import journal as journals
from pytest_gpuperf.report.json import document
from pytest_gpuperf.report.text import section


def add(commands: Any) -> None:
    """Add the commands."""
    purpose = "print a report's table, and the reasons of its tests"
    command = add_command(commands, "show", purpose, lambda chosen: show(chosen.report))
    command.add_argument("report", type=Path, metavar="REPORT")
    purpose = "check a report against its schema"
    command = add_command(commands, "validate", purpose, lambda chosen: validate(chosen.report))
    command.add_argument("report", type=Path, metavar="REPORT")
    purpose = "convert a report to another tool's format, to Markdown, or to a picture"
    epilog = "example: gpuperf export report.json --as csv -o speedups.csv"
    command = add_command(commands, "export", purpose, export, epilog)
    command.add_argument("report", type=Path, metavar="REPORT")
    command.add_argument(
        "--as",
        dest="format",
        choices=exports.formats(),
        required=True,
        help="the format: that of a tool, csv for spreadsheets, markdown for pull requests, svg is a picture "
        "(pytest writes those of a suite)",
    )
    command.add_argument(
        "-o",
        "--output",
        type=output_file,
        metavar="PATH",
        help="write to this file instead of standard output",
    )
    purpose = "make a report of what had finished when a run was killed, from its journal"
    command = add_command(commands, "recover", purpose, lambda chosen: recover(chosen.journal, chosen.report))
    command.add_argument(
        "journal", type=Path, metavar="JOURNAL", help="REPORT.ID.journal, next to the unwritten report"
    )
    command.add_argument(
        "report", type=output_file, metavar="REPORT", help="the report to write; it must not exist"
    )
    purpose = "write a report as one HTML page, which needs no network and no scripts"
    epilog = "example: gpuperf html report.json --baseline baseline.json --history speedups/ -o report.html"
    command = add_command(commands, "html", purpose, html, epilog)
    command.add_argument("report", type=Path, metavar="REPORT")
    command.add_argument(
        "--baseline", type=Path, metavar="BASE", help="compare with an earlier report, or a folder of them"
    )
    command.add_argument(
        "--history", type=Path, metavar="DIR", help="show the speedups of earlier runs from this folder"
    )
    command.add_argument(
        "-o", "--output", type=output_file, metavar="PATH", required=True, help="the file to write"
    )


def show(report: Path) -> CommandResult:
    """Print a report's table and notes, without colours: they may go to a file or another program."""
    run = reader.load_report(report)
    lines = [str(line) for line in section.lines(run, width(), all_notes=True)]
    not_run = gate_text.not_run(run)
    failures = [f"FAILED: {failure.text}" for failure in (run.gate.failures if run.gate else ())]
    below = [*([not_run] if not_run else []), *failures]
    rest = ["", *below] if below else []
    return lines_result([*(lines or ["no test with a speedup marker ran"]), *rest])


def validate(report: Path) -> CommandResult:
    """Check a report against its schema, which reading it does."""
    run = reader.load_report(report)
    return lines_result([f"{report}: valid, {_records(run)}"])


def export(chosen: Namespace) -> CommandResult:
    """Write a report in another format, to a file or to standard output."""
    written_as = exports.formats()[chosen.format]
    if chosen.output is not None:
        check_replaceable(chosen.output, *exports.known_by(written_as), [chosen.report])
    run = reader.load_report(chosen.report)
    text = written_as.write(run)
    if not text:
        raise GpuPerfError(f"{chosen.report}: no file, because {exports.NOTHING}")
    if chosen.output is None:
        return CommandResult(text=text.removesuffix("\n").removesuffix("\r"))
    files.replace(chosen.output, text)
    return lines_result([f"{chosen.output}: {_records(run)} as {chosen.format}"])


def recover(journal: Path, report: Path) -> CommandResult:
    """Make a report of what had finished when a run was killed."""
    if paths.begins_as(journal, paths.REPORT):
        raise GpuPerfError(f"{journal} is a report, not a journal, and needs no recovery")
    run = journals.run_in(journal)
    try:
        files.create(report, document.text(run))
    except FileExistsError:
        raise GpuPerfError(f"{report} exists; name a new file, so that nothing is lost") from None
    return lines_result([f"{report}: {_records(run)} recovered; {journal} can be removed"])


def html(chosen: Namespace) -> CommandResult:
    """Write a report as an HTML page."""
    inputs = [path for path in (chosen.report, chosen.baseline) if path is not None]
    if chosen.history is not None:
        history.check_folder(chosen.history)
    page = exports.formats(history=chosen.history)["html"]
    check_replaceable(chosen.output, *exports.known_by(page), inputs)
    run = reader.load_report(chosen.report)
    if chosen.baseline is not None:
        run = compare.compared_with(run, chosen.baseline)
    files.replace(chosen.output, page.write(run))
    return lines_result([str(chosen.output)])


def _records(run: Run) -> str:
    return count(len(run.records), "record")
