"""The options with which a command writes a run, as pytest does: `--html`, `--markdown` and `--export`."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from os.path import realpath
from pathlib import Path

from pytest_gpuperf.cli.command import check_replaceable, output_file
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.model.units import count
from pytest_gpuperf.report import exports

Export = tuple[str, Path | None]
"""The name of a format, and the file to write; None for standard output."""


def add(command: ArgumentParser) -> None:
    """Add the options; what they name becomes `outputs`, a list of `Export`."""
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


def check(outputs: Sequence[Export], inputs: Sequence[Path], history: Path | None = None) -> None:
    """Raise GpuPerfError for an output in the place of anything but its like, or among reports.

    Of a folder of reports `*.json` is read, and of a history every file.
    """
    taken: dict[str, str] = {}
    for name, path in outputs:
        place = "standard output" if path is None else realpath(path)
        if place in taken:
            raise GpuPerfError(f"{path or place} is named for {taken[place]} and for {name}; choose another")
        taken[place] = name
        if path is None:
            continue
        read = [each for each in inputs if path.suffix == ".json" and each.is_dir()] + (
            [history] if history else []
        )
        if folder := next((each for each in read if each.absolute() in path.absolute().parents), None):
            raise GpuPerfError(f"{path} would be read as a report of {folder}; choose another place")
        check_replaceable(path, *exports.known_by(exports.formats()[name]), inputs)


@dataclass(frozen=True, slots=True)
class Written:
    """A line for each file, the text for standard output if any, and whether the run had nothing for one."""

    lines: list[str]
    printed: str | None
    lacks_one: bool


def write(run: Run, outputs: Sequence[Export], history: Path | None = None) -> Written:
    """Write a run's files as a run of pytest does: one without content removes that of an earlier run."""
    formats = exports.formats(history=history)
    lines, printed, lacks_one, records = [], None, False, count(len(run.records), "record")
    for name, path in outputs:
        content = formats[name].write(run)
        if path is None:
            printed = content
            lacks_one |= not printed
            lines += [] if printed else [f"{name}: nothing, because {exports.NOTHING}"]
            continue
        missing = exports.write(content, formats[name], path)
        lacks_one |= missing is not None
        lines.append(f"{path}: {missing or f'{records} as {name}'}")
    return Written(lines, printed and printed.removesuffix("\n").removesuffix("\r"), lacks_one)


def _file(name: str, path: str) -> Export:
    return name, output_file(path)


def _export(text: str) -> Export:
    name, colon, path = text.partition(":")
    if name not in (known := exports.formats()):
        by_pytest = "pytest writes a suite's own, with --gpuperf-export"
        raise ArgumentTypeError(f"{name!r} is not a format; use one of {', '.join(known)}; {by_pytest}")
    if colon and not path:
        raise ArgumentTypeError(f"{text} names no file; write {name}:PATH, or {name} for standard output")
    return name, output_file(path) if path else None
