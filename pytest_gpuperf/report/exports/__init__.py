"""The formats in which a run is written: ours, and those of plugins. From a run to text."""

from collections.abc import Callable, Iterable
from pathlib import Path
from traceback import extract_tb

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import first_line
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report.exports.bencher import Bencher
from pytest_gpuperf.report.exports.csv import Csv
from pytest_gpuperf.report.exports.for_people import Markdown, Page, Picture
from pytest_gpuperf.report.exports.github_action_benchmark import GithubAction
from pytest_gpuperf.report.exports.pytest_benchmark import PytestBenchmark
from pytest_gpuperf.report.protocol import ReportFormat

NOTHING = "no test has a result for it"


def formats(others: Iterable[ReportFormat] = (), history: Path | None = None) -> dict[str, ReportFormat]:
    """Return our formats and those of plugins by their names; raise GpuPerfError for a name that is taken.

    The page has the speedups of the runs in the folder of `history`.
    """
    ours = (Csv(), Bencher(), GithubAction(), PytestBenchmark(), Markdown(), Page(history), Picture())
    found: dict[str, ReportFormat] = {each.name: each for each in ours}
    for each in others:
        if isinstance(each, type) or not isinstance(each, ReportFormat) or ":" in each.name:
            needs = "an object with a name (without a colon), a suffix and write(run)"
            raise GpuPerfError(f"{each!r} is no report format, which is {needs}")
        if (other := found.setdefault(each.name, each)) is not each:
            both = f"{_author(other)} and {_author(each)}"
            raise GpuPerfError(f"two report formats are called {each.name!r}, {both}: rename one of them")
    return found


def known_by(format: ReportFormat) -> tuple[Callable[[bytes], bool], str]:
    """Return what knows the files of a format by their first bytes, and what such a file is called."""
    begins_as = getattr(format, "begins_as", None)
    if begins_as is None:
        return (lambda _: False), f"file known to be of {format.name}, which has no `begins_as`"
    return begins_as, f"file of {format.name}"


def text(format: ReportFormat, run: Run) -> str:
    """Return a run in a format; raise GpuPerfError, which says whose it is and where, if that fails."""
    try:
        found = format.write(run)
    except GpuPerfError:
        raise
    except Exception as error:
        place = extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}, line {place.lineno}"
        raise GpuPerfError(f"{_author(format)} raised {first_line(error)}, in {where}") from error
    if not isinstance(found, str):
        raise GpuPerfError(f"{_author(format)} returned {type(found).__name__}, and no str")
    return found


def _author(format: ReportFormat) -> str:
    """Return the module and the class of a format, such as `conftest.Tsv`."""
    return f"{type(format).__module__}.{type(format).__qualname__}"
