"""The formats in which a run is written: ours, and those of plugins. From a run to text."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import first_line, quote
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report import files, paths
from pytest_gpuperf.report.exports.bencher import Bencher
from pytest_gpuperf.report.exports.csv import Csv
from pytest_gpuperf.report.exports.for_people import Markdown, Page, Picture
from pytest_gpuperf.report.exports.github_action_benchmark import GithubAction
from pytest_gpuperf.report.protocol import ReportFormat

NOTHING = "no test has a result for it"


def formats(others: Iterable[ReportFormat] = (), history: Path | None = None) -> dict[str, ReportFormat]:
    """Return our formats and those of plugins by their names; raise GpuPerfError for a name that is taken.

    The page has the speedups of the runs in the folder of `history`.
    """
    ours = (Csv(), Bencher(), GithubAction(), Markdown(), Page(history), Picture())
    found: dict[str, ReportFormat] = {each.name: each for each in ours}
    for each in others:
        if isinstance(each, type) or not isinstance(each, ReportFormat) or not _is_name(each.name):
            what = "an object with a name (a str without a colon), a suffix and a method write"
            raise GpuPerfError(f"{quote(each)} is no report format: it must be {what}")
        if (other := found.setdefault(each.name, each)) is not each:
            both = f"{_author(other)} and {_author(each)}"
            raise GpuPerfError(f"two report formats are called {each.name!r}, {both}: rename one of them")
    return found


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name) and ":" not in name


def known_by(format: ReportFormat) -> tuple[Callable[[bytes], bool], str]:
    """Return what knows the files of a format by their first bytes, and as what such a file is written."""
    begins_as = getattr(format, "begins_as", None)
    if begins_as is None:
        return (lambda _: False), f"{format.name}, as far as is known: the format has no `begins_as`"

    def is_ours(head: bytes) -> bool:
        with errors_named(f"begins_as of {_author(format)}"):
            return bool(begins_as(head))

    return is_ours, format.name


@contextmanager
def errors_named(whose: str) -> Iterator[None]:
    """Raise GpuPerfError, which says whose code raised what and where, for any exception of a suite's code.

    Only what ends the whole run goes on as it is: Ctrl-C and `pytest.exit`.
    """
    try:
        yield
    except (KeyboardInterrupt, GpuPerfError):
        raise
    except BaseException as error:  # that of pytest.fail or of sys.exit, too
        import pytest  # which the commands do without

        if isinstance(error, pytest.exit.Exception):
            raise
        frames = extract_tb(error.__traceback__)
        place = [frame for frame in frames if "_pytest" not in Path(frame.filename).parts][-1]
        where = f"{place.filename}, line {place.lineno}"
        raise GpuPerfError(f"{whose} raised {first_line(error)}, in {where}") from error


def text(format: ReportFormat, run: Run) -> str:
    """Return a run in a format; raise GpuPerfError, which says whose it is and where, if that fails."""
    with errors_named(_author(format)):
        found = format.write(run)
    if not isinstance(found, str):
        raise GpuPerfError(f"{_author(format)} returned {type(found).__name__}, and no str")
    return found


def write(content: str, format: ReportFormat, path: Path) -> str | None:
    """Write a run's file in a format; return None, or what was done instead if the content is empty.

    An empty export removes the file of an earlier run, which readers would take for this run's. It empties
    the target of a link instead, as the next run would refuse a link to nothing.
    """
    is_ours, _ = known_by(format)
    if content or (path.is_symlink() and paths.begins_as(path, is_ours)):
        files.replace(path, content)
        return None if content else f"emptied {paths.target(path)}, because {NOTHING}"
    if not paths.begins_as(path, is_ours):
        return f"no file, because {NOTHING}"
    path.unlink()
    return f"removed {path}, because {NOTHING}"


def _author(format: object) -> str:
    """Return the module and the class of a format, such as `conftest.Tsv`."""
    return f"{type(format).__module__}.{type(format).__qualname__}"
