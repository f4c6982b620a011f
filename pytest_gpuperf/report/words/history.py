"""From a test's series over runs to sentences: each change of it, or why none was found."""

from collections import Counter
from collections.abc import Iterator

from pytest_gpuperf.analysis.changepoint import FEWEST
from pytest_gpuperf.model import units
from pytest_gpuperf.report.history_folder import Series


def sentences(one: Series) -> Iterator[str]:
    """Yield a sentence for each change of a series and one for all together, or why no change was found."""
    runs = units.count(len(one.timed), "run")
    if not one.timed:
        counts = Counter(point.status for point in one.points)
        ended = ", ".join(f"{count} {status}" for status, count in counts.items())
        yield f"no speedup in {units.count(len(one.points), 'run')}: {ended}"
    elif len(one.timed) < FEWEST:
        yield f"{runs} with a speedup: changes are looked for in {FEWEST} or more"
    elif not one.changes:
        yield f"no change in {runs}"
    for change in one.changes:
        at = one.timed[change.index]
        yield f"{_step(change.before, change.after)} at {at.origin} of {at.day}"
    if len(one.changes) > 1:
        yield f"in all {_step(one.changes[0].before, one.changes[-1].after)}"


def _step(before: float, after: float) -> str:
    return f"from {units.digits(before)}x to {units.digits(after)}x ({units.change(after / before)})"
