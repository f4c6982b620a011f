"""The formats in which a run is written: ours, and those of plugins. From a run to text, and to its file."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Protocol, runtime_checkable

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import first_line, quote
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report import files, markdown
from pytest_gpuperf.report.exports.csv import Csv
from pytest_gpuperf.report.exports.trackers import Bencher, GithubAction
from pytest_gpuperf.report.words import view

NOTHING = "no test has a result for it"


@runtime_checkable
class ReportFormat(Protocol):
    """A format in which a run is written, as `--gpuperf-export=NAME:PATH` and the hook name it.

    Optional method: `begins_as(head)` returns whether the format wrote a file that begins with these bytes
    (at most 65,536). Only such a file, or an empty one, is replaced; without the method a file that is there
    is refused before the first test.
    """

    @property
    def name(self) -> str:
        """Its name in `--gpuperf-export`, without a colon."""

    @property
    def suffix(self) -> str:
        """How the names of its files end, such as `.csv`: lists of formats show it."""

    def write(self, run: Run) -> str:
        """Return the whole text of the file; an empty one where the run has nothing for it.

        The text is written as UTF-8 and with its own line ends; for an empty one no file is made. A run has
        the fields of the report: times in seconds, sizes in bytes, a speedup as CPU time / GPU time, and None
        for what could not be had. An exception fails the run, which names the format and the exception; all
        other files are written nevertheless.
        """


class Markdown:
    """The summary for pull requests."""

    name, suffix = "markdown", ".md"
    begins_as = staticmethod(files.MARKDOWN)

    def write(self, run: Run) -> str:
        """Return what failed and regressed first, a table, and commands that repeat a test."""
        return markdown.text(run)


@dataclass(frozen=True)
class Page:
    """The page, with the speedups of earlier runs in a folder, if there is one."""

    history: Path | None = None
    name = "html"
    suffix = ".html"
    begins_as = staticmethod(files.PAGE)

    def write(self, run: Run) -> str:
        """Return the page of a run."""
        from pytest_gpuperf.report.history_folder import read
        from pytest_gpuperf.report.html import page

        if self.history is None or not self.history.is_dir():  # a first run that ended early makes none
            return page.text(run)
        return page.text(run, read(self.history))


class Picture:
    """The forest plot."""

    name, suffix = "svg", ".svg"
    begins_as = staticmethod(files.SVG)

    def write(self, run: Run) -> str:
        """Return the speedups of the tests on one axis, the worst verdicts first."""
        from pytest_gpuperf.report.html import figure, forest

        return figure.svg_document(forest.plot(view.of(run, worst_first=True).rows))


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

    An empty export empties the file of an earlier run, which readers would take for this run's.
    """
    is_ours, _ = known_by(format)
    if not content and not files.begins_as(path, is_ours):
        return f"no file, because {NOTHING}"
    files.replace(path, content)
    return None if content else f"emptied, because {NOTHING}"


def _author(format: object) -> str:
    """Return the module and the class of a format, such as `conftest.Tsv`."""
    return f"{type(format).__module__}.{type(format).__qualname__}"
