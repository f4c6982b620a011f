"""`gpuperf history`: each test's speedup over commits, and where it changed."""

import argparse
from pathlib import Path
from typing import Any

from pytest_gpuperf.cli.command import CommandResult, add_command, width

_EPILOG = """\
example: gpuperf history speedups/ --only test_fft

A change of 10 % shows four runs after it, where eight came before it, and three where twelve did; with noise
of 3 % from run to run or a smaller change it takes more. About one in a hundred series without a change
shows one. Runs on other devices, drivers or libraries are listed apart."""


def add(commands: Any) -> None:
    """Add the command."""
    purpose = "show each test's speedup over commits, and where it changed"
    command = add_command(commands, "history", purpose, _history, _EPILOG)
    command.add_argument("folder", type=Path, metavar="DIR", help="where --gpuperf-history keeps its files")
    command.add_argument("--only", metavar="TEXT", help="tests with this in their node ids")
    command.add_argument(
        "--last", type=_number, default=10, metavar="N", help="runs to list for each test (10)"
    )
    command.add_argument("--json", action="store_true", help="as an object of JSON, for programs")


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number of runs of at least 1")
    return int(text)


def _history(chosen: argparse.Namespace) -> CommandResult:
    from pytest_gpuperf.report.history import read, series
    from pytest_gpuperf.report.json import codec
    from pytest_gpuperf.report.text import history

    found = read(chosen.folder)
    if chosen.json:
        content = {"series": series(found, only=chosen.only), "rejected": found.rejected}
        return CommandResult(text=codec.indented(codec.dump(content)))
    return CommandResult(
        text="\n".join(history.lines(found, only=chosen.only, last=chosen.last, width=width()))
    )
