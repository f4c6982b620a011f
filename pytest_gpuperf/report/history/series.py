"""From a history to each test's results over its runs, and where its speedup changed."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pytest_gpuperf.analysis.changepoint import FEWEST, Change, changes
from pytest_gpuperf.report.history.folder import History
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.report.json.history import Entry, Tested


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One test in one run."""

    entry: Entry
    result: Tested


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One test in all runs that can be compared, earliest first; changes are counted in `timed`."""

    fingerprint: str
    nodeid: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...]

    @property
    def timed(self) -> tuple[Point, ...]:
        """The points that have a speedup."""
        return tuple(point for point in self.points if point.result.speedup)


def series(entries: Iterable[Entry], *, only: str | None = None) -> tuple[Series, ...]:
    """Return a series for each test and fingerprint; `only` is what a node id has to contain."""
    points: dict[tuple[str, str], list[Point]] = {}
    for entry in entries:
        for group in entry.measured:
            for result in group.tests:
                if only is None or only in result.nodeid:
                    point = Point(entry=entry, result=result)
                    points.setdefault((group.fingerprint, result.nodeid), []).append(point)
    ranks = {shared: rank for rank, shared in enumerate(dict.fromkeys(shared for shared, _ in points))}
    keys = sorted(points, key=lambda key: ranks[key[0]])  # stable: tests stay in the order of the runs
    return tuple(_series(*key, points[key]) for key in keys)


def document(history: History, *, only: str | None = None) -> dict[str, Any]:
    """Return a history as an object of JSON: runs, series with their changes, and files that are no entries.

    An index of a change counts the points that have a speedup.
    """
    content: dict[str, Any] = codec.dump(
        {
            "runs": len(history.entries),
            "fewest": FEWEST,
            "series": [_content(one) for one in series(history.entries, only=only)],
            "rejected": [{"name": name, "reason": reason} for name, reason in history.rejected.items()],
        }
    )
    return content


def _series(fingerprint: str, nodeid: str, points: Sequence[Point]) -> Series:
    values = [point.result.speedup.value for point in points if point.result.speedup]
    return Series(fingerprint=fingerprint, nodeid=nodeid, points=tuple(points), changes=changes(values))


def _content(one: Series) -> dict[str, Any]:
    measured = ("status", "speedup", "cpu", "gpu")
    return {
        "fingerprint": one.fingerprint,
        "nodeid": one.nodeid,
        "findings": [
            {**_origin_content(point), **{name: getattr(point.result, name) for name in measured}}
            for point in one.points
        ],
        "changes": [
            {**asdict(change), "percent": change.percent, **_origin_content(one.timed[change.index])}
            for change in one.changes
        ],
    }


def _origin_content(point: Point) -> dict[str, Any]:
    return {"started": point.entry.started, "commit": point.entry.commit}
