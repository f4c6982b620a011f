"""The options with which a command writes a run, as pytest does: `--html`, `--markdown` and `--export`."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable, Sequence
from functools import partial
from os.path import realpath
from pathlib import Path

from pytest_gpuperf.cli.command import check_replaceable, output_file
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.model.units import count
from pytest_gpuperf.report import exports, files

Output = tuple[str, Path | None]
"""The name of a format, and the file to write; None for standard output."""


def add(command: ArgumentParser) -> None:
    """Add the options; what they name becomes `outputs`, a list of `Output`."""
    command.set_defaults(outputs=[])
    for name, what in (("html", "one HTML page"), ("markdown", "a summary for pull requests")):
        command.add_argument(
            f"--{name}",
            dest="outputs",
            action="append",
            type=partial(_file, name),
            metavar="PATH",
            help=f"write {what}",
        )
    command.add_argument(
        "--export",
        dest="outputs",
        action="append",
        type=_export,
        metavar="FORMAT[:PATH]",
        help=f"write {', '.join(exports.formats())}; without PATH to standard output",
    )


def check(outputs: Sequence[Output], inputs: Iterable[Path]) -> None:
    """Raise GpuPerfError for an output that would replace anything but its like, or another output."""
    written: dict[str, str] = {}
    for name, path in outputs:
        place = "standard output" if path is None else realpath(path)
        if (other := written.setdefault(place, name)) is not name:
            raise GpuPerfError(f"{path or place} is named for {other} and for {name}; choose another file")
        if path is not None:
            check_replaceable(path, *exports.known_by(exports.formats()[name]), inputs)


def write(run: Run, outputs: Sequence[Output], history: Path | None = None) -> tuple[list[str], str | None]:
    """Write a run's files; return a line for each, and what is for standard output, if anything is.

    Raises GpuPerfError, before it writes a file, where the run has nothing for a format.
    """
    formats = exports.formats(history=history)
    texts = [(name, path, formats[name].write(run)) for name, path in outputs]
    for name, path, text in texts:
        if not text:
            raise GpuPerfError(f"{path or name}: no file, because {exports.NOTHING}")
    lines, printed = [], None
    for name, path, text in texts:
        if path is None:
            printed = text.removesuffix("\n").removesuffix("\r")  # printing ends the last line
        else:
            files.replace(path, text)
            lines.append(f"{path}: {count(len(run.records), 'record')} as {name}")
    return lines, printed


def _file(name: str, path: str) -> Output:
    return name, output_file(path)


def _export(text: str) -> Output:
    name, colon, path = text.partition(":")
    if name not in (known := exports.formats()):
        by_pytest = "pytest writes a suite's own, with --gpuperf-export"
        raise ArgumentTypeError(f"{name!r} is not a format; use one of {', '.join(known)}; {by_pytest}")
    if colon and not path:
        raise ArgumentTypeError(f"{text} names no file; write {name}:PATH, or {name} for standard output")
    return name, output_file(path) if path else None
