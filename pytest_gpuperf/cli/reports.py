"""The commands on one report: `gpuperf show`, `validate` and `recover`."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from pytest_gpuperf.cli import compare, outputs
from pytest_gpuperf.cli.command import (
    WRONG,
    CommandResult,
    add_command,
    export_result,
    lines_result,
    output_file,
    width,
)
from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.model.units import count
from pytest_gpuperf.report import files, history, reader
from pytest_gpuperf.report import journal as journals
from pytest_gpuperf.report.json import document
from pytest_gpuperf.report.text import section


def add(commands: Any) -> None:
    """Add the commands."""
    purpose = "print a report's table, and the reasons of its tests; or write it in other formats"
    epilog = "example: gpuperf show report.json --baseline base.json --html report.html --export csv:r.csv"
    command = add_command(commands, "show", purpose, show, epilog)
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
    purpose = "check a report against its schema"
    command = add_command(commands, "validate", purpose, lambda chosen: validate(chosen.report))
    command.add_argument("report", type=Path, metavar="REPORT")
    purpose = "make a report of what had finished when a run was killed, from its journal"
    command = add_command(commands, "recover", purpose, lambda chosen: recover(chosen.journal, chosen.report))
    command.add_argument(
        "journal", type=Path, metavar="JOURNAL", help="REPORT.ID.journal, next to the unwritten report"
    )
    command.add_argument(
        "report", type=output_file, metavar="REPORT", help="the report to write; it must not exist"
    )


def show(chosen: Namespace) -> CommandResult:
    """Print a report's table and notes, without colours: they may go to a file or another program."""
    inputs = [path for path in (chosen.report, chosen.baseline) if path is not None]
    outputs.check(chosen.outputs, inputs, chosen.history)
    if chosen.history is not None:
        history.check_folder(chosen.history)
        if "html" not in dict(chosen.outputs):
            raise GpuPerfError("--history is for the page: name it with --html PATH")
    run = reader.load_report(chosen.report)
    if chosen.baseline is not None:
        run = compare.compared_with(run, chosen.baseline)
    written = outputs.write(run, chosen.outputs, chosen.history)
    if written.lacks_one:
        return lines_result(written.lines, WRONG)
    if written.printed:
        return export_result(written.printed, written.lines)
    return lines_result(written.lines or _table(run))


def _table(run: Run) -> list[str]:
    lines = [str(line) for line in section.lines(run, width(), all_notes=True)]
    not_run = gate_text.not_run(run)
    failures = [f"FAILED: {failure.text}" for failure in (run.gate.failures if run.gate else ())]
    below = [*([not_run] if not_run else []), *failures]
    rest = ["", *below] if below else []
    return [*(lines or ["no test with a speedup marker ran"]), *rest]


def validate(report: Path) -> CommandResult:
    """Check a report against its schema, which reading it does."""
    run = reader.load_report(report)
    return lines_result([f"{report}: valid, {_records(run)}"])


def recover(journal: Path, report: Path) -> CommandResult:
    """Make a report of what had finished when a run was killed."""
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
