"""`gpuperf html` and `gpuperf badge`: a report as a page that people open, and as a badge for a README."""

import argparse
from pathlib import Path
from typing import Any

from pytest_gpuperf.cli import compare
from pytest_gpuperf.cli.command import CommandResult, add_command, check_replaceable, lines_result
from pytest_gpuperf.report import files, paths, reader

_EPILOG = """\
example: gpuperf html report.json --baseline baseline.json --history speedups/ -o report.html"""


def add(commands: Any) -> None:
    """Add the commands."""
    purpose = "write a report as one HTML page, which needs no network and no scripts"
    command = add_command(commands, "html", purpose, _html, _EPILOG)
    command.add_argument("report", type=Path, metavar="REPORT")
    command.add_argument(
        "--baseline", type=Path, metavar="BASE", help="compare with an earlier report, or a folder of them"
    )
    command.add_argument(
        "--history", type=Path, metavar="DIR", help="show the speedups of earlier runs from this folder"
    )
    command.add_argument("-o", "--output", type=Path, metavar="PATH", required=True, help="the file to write")
    purpose = "make a badge for a README: the verdicts of a report, or the speedup of one test"
    epilog = "example: gpuperf badge report.json --only test_matmul -o speedup.svg"
    command = add_command(commands, "badge", purpose, _badge, epilog)
    command.add_argument("report", type=Path, metavar="REPORT")
    command.add_argument(
        "--only", metavar="TEXT", help="the test with this name, or with this in its node id"
    )
    command.add_argument(
        "-o", "--output", type=Path, metavar="PATH", help="write to this file instead of standard output"
    )


def _html(chosen: argparse.Namespace) -> CommandResult:
    from pytest_gpuperf.report.history import folder
    from pytest_gpuperf.report.html import page

    inputs = [path for path in (chosen.report, chosen.baseline) if path is not None]
    check_replaceable(chosen.output, paths.PAGE, "page of pytest-gpuperf", inputs)
    run = reader.load_report(chosen.report)
    if chosen.baseline is not None:
        run = compare.compared_with(run, chosen.baseline)
    earlier = folder.read(chosen.history) if chosen.history else None
    files.replace(chosen.output, page.text(run, earlier))
    return lines_result([str(chosen.output)])


def _badge(chosen: argparse.Namespace) -> CommandResult:
    from pytest_gpuperf.report.html import badge

    if chosen.output is not None:
        check_replaceable(chosen.output, paths.SVG, "picture of pytest-gpuperf", [chosen.report])
    text = badge.svg(reader.load_report(chosen.report), chosen.only)
    if chosen.output is None:
        return CommandResult(text=text.removesuffix("\n"))
    files.replace(chosen.output, text)
    return lines_result([str(chosen.output)])
