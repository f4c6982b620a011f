"""What the commands share: the parser of each, its result and exit code, and the files it may replace."""

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report import files
from pytest_gpuperf.report.terminal import layout

FINE, FAILED, WRONG, INCOMPARABLE = 0, 1, 2, 3
"""Exit codes: 1 a merged test failed or a metric regressed, 2 an error, 3 nothing to compare."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The text goes to standard output; `beside`, if there is any, to standard error."""

    text: str
    code: int = FINE
    beside: str = ""


def add_command(
    commands: Any, name: str, help: str, run: Callable[[Namespace], CommandResult], epilog: str | None = None
) -> ArgumentParser:
    """Add a command and return its parser; the help in the list of commands describes its own page, too."""
    description = f"{help[0].upper()}{help[1:]}."
    command: ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,  # --all would be --allow
    )
    command.set_defaults(run=run)
    return command


def output_file(text: str) -> Path:
    """Return the path of a file to write; refuse one with the end of a folder's, which a `Path` loses."""
    if text.endswith(("/", os.sep)):
        raise ArgumentTypeError(f"{text} is a folder; choose a file in it")
    return Path(text)


def width() -> int:
    """Return the columns of the terminal, or the fewest that a table needs."""
    return max(layout.NARROWEST, get_terminal_size().columns)


def encoding() -> str:
    """Return the encoding of standard output; Python has no such stream where it was closed (`>&-`)."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def lines_result(lines: Iterable[str], code: int = FINE, export: str | None = None) -> CommandResult:
    """Return lines for people, which an export, if there is any, moves to standard error.

    They are escaped: a report may be anyone's, and must not control a terminal.
    """
    text = "\n".join(map(printable, lines))
    return CommandResult(text=export or text, code=code, beside=text if export else "")


def check_replaceable(
    output: Path, is_ours: Callable[[bytes], bool], what: str, inputs: Iterable[Path]
) -> None:
    """Raise GpuPerfError for an output in the place of an input, or of a file of another kind."""
    if output.exists() and any(path.exists() and output.samefile(path) for path in inputs):
        raise GpuPerfError(f"{output} is an input of this command; choose another file to write")
    if (objection := files.why_not_writable(output, is_ours, what)) is not None:
        raise GpuPerfError(objection)
