"""From a path to the reports there; whatever is wrong with a file becomes an error that names it."""

from collections.abc import Callable
from datetime import datetime
from os import PathLike
from pathlib import Path

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Report, Run
from pytest_gpuperf.report import files
from pytest_gpuperf.report.json import document, schema
from pytest_gpuperf.timing.gc_pause import gc_paused


def load_report(path: str | PathLike[str]) -> Run:
    """Return the run in a report; raise GpuPerfError, with the file, what is wrong and where, without one."""
    return _loaded(Path(path), document.parse)


def proved_report(path: Path) -> Run:
    """Return the run in a report that the published schema has proved; raise as `load_report` does."""
    return _loaded(path, schema.parse)


@gc_paused()
def _loaded(path: Path, parse: Callable[[bytes], Run]) -> Run:
    try:
        return _run(files.content(path), parse)
    except OSError as error:
        raise _refusal(f"{path} cannot be read: {error.strerror}; name a report") from error
    except GpuPerfError as error:
        raise _refusal(f"{path}: {error}") from error
    except ValueError as error:  # a name that no file can have
        raise _refusal(f"{path} cannot be read: {error}; name a report") from error
    except MemoryError:
        raise _refusal(f"{path} needs more memory than is available; split the run") from None


def _run(content: bytes, parse: Callable[[bytes], Run]) -> Run:
    if files.JOURNAL(content):
        remedy = "gpuperf recover JOURNAL REPORT turns it into a report"
        raise GpuPerfError(f"this is the journal of an unfinished run; {remedy}")
    return parse(content)


def named_report(path: Path) -> Report:
    """Return the report in a file; raises GpuPerfError as `load_report` does.

    Its name is its path as it can be pasted into a command: from the current folder, where it is in there.
    """
    absolute, here = path.absolute(), Path.cwd()
    name = absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else str(path)
    return Report(name=name, run=load_report(path))


def load_reports(path: Path) -> tuple[Report, ...]:
    """Return the report in a file, or those in a folder's `*.json` files, newest first.

    Hidden files, folders and links are left out. Raises GpuPerfError as `load_report` does, and for a report
    in a folder without a valid start.
    """
    if not path.is_dir():
        return (named_report(path),)
    try:
        found = [
            file
            for file in path.iterdir()
            if file.suffix == ".json" and file.name[0] != "." and not (file.is_dir() or file.is_symlink())
        ]
    except OSError as error:
        raise _refusal(f"{path} cannot be read: {error.strerror}") from error
    try:
        return tuple(sorted(map(named_report, sorted(found)), key=started_at, reverse=True))
    except GpuPerfError as error:
        raise GpuPerfError(f"{error}; or move the file out of the folder") from error


def started_at(report: Report) -> datetime:
    """Return when a report's run began, in UTC; raise GpuPerfError where that is no time."""
    try:
        return report.run.start
    except GpuPerfError as error:
        raise _refusal(f"{report.name}: {error}; reports are sorted by it") from None


def baseline_file(base: Path, run: Run) -> Path:
    """Return the file in which a run becomes a baseline: of a folder a new one, named by the run's start.

    A path that does not exist is that of a folder where it has no suffix.
    """
    if base.is_dir() or not (base.suffix or base.exists()):
        return base / f"{run.start:%Y-%m-%dT%H%M%S}.{run.start.microsecond // 1000:03}Z.json"
    return base


def _refusal(text: str) -> GpuPerfError:
    """Return the error with its text escaped, so that it cannot control a terminal."""
    return GpuPerfError(printable(text))
