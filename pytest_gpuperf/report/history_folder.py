"""The results of many runs: a folder with a report of each, and each test's series over them.

A report there is one without samples: of each list the median is left, on which all else of it agrees.
"""

import re
from array import array
from collections.abc import Iterator
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from secrets import token_hex
from statistics import median
from typing import Any

from msgspec import field
from msgspec.structs import asdict, replace

from pytest_gpuperf.analysis.changepoint import Change, changes
from pytest_gpuperf.gate import fingerprint
from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Run, Status
from pytest_gpuperf.model.value import Value
from pytest_gpuperf.report import files
from pytest_gpuperf.report.json import document
from pytest_gpuperf.report.words.verdicts import shown_records
from pytest_gpuperf.timing.gc_pause import gc_paused

_LONGEST_REASON = 200


class Point(Value, frozen=True, kw_only=True):
    """What a run, which began at a time in UTC, found of a test: its status and its speedup."""

    started: datetime
    commit: Commit | None
    status: Status
    speedup: Estimate | None

    @property
    def day(self) -> str:
        """The day on which the run began, in UTC: `2026-01-31`."""
        return f"{self.started:%Y-%m-%d}"

    @property
    def origin(self) -> str:
        """The commit, with a plus where files differed from it; where it is not known the time of the day."""
        return self.commit.short + "+" * bool(self.commit.changed) if self.commit else f"{self.started:%H:%M}"


class History(Value, frozen=True, kw_only=True):
    """When the runs of a folder began, the points of each test by fingerprint, and what was left out.

    Runs and points are in the order of time. `rejected` has by name why a file is no report.
    """

    started: tuple[datetime, ...] = ()
    points: dict[str, dict[str, list[Point]]] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)


class Series(Value, frozen=True, kw_only=True):
    """One test in all runs that can be compared, earliest first; changes are counted in `timed`."""

    fingerprint: str
    nodeid: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...]

    @property
    def timed(self) -> tuple[Point, ...]:
        """The points that have a speedup."""
        return tuple(point for point in self.points if point.speedup)


def add(folder: Path, run: Run) -> Path:
    """Write a run's report without samples as a new file of a folder, which is made if need be.

    The name begins with the time, so that names sort by it, and ends with a random number, so that no two
    runs of any machines meet. Raises GpuPerfError for a run that breaks the schema, and OSError.
    """
    text = document.text(_without_samples(run))
    commit = re.sub(r"[^0-9A-Za-z]", "", run.commit.id)[:12] if run.commit else ""
    path = folder / f"{run.start:%Y%m%dT%H%M%SZ}-{commit or 'unknown'}-{token_hex(6)}.json"
    files.replace(path, text)
    return path


def _without_samples(part: Any) -> Any:
    """Return a part of a run in which each array has its median alone."""
    if isinstance(part, array):
        return array("d", [median(part)] if part else [])
    if isinstance(part, tuple):
        return tuple(map(_without_samples, part))
    if isinstance(part, Value):
        return replace(part, **{name: _without_samples(value) for name, value in asdict(part).items()})
    return part


def check_folder(folder: Path) -> None:
    """Raise GpuPerfError when there is no such folder."""
    if not folder.is_dir():
        raise GpuPerfError(f"{folder} is no folder; runs with --gpuperf-history={folder} make one")


def read(folder: Path) -> History:
    """Return the runs of a folder, earliest first, and the files in it that are no reports, with the reason.

    A file that vanishes meanwhile is no error; hidden files are those of writers, or none of ours. Raises
    GpuPerfError when there is no such folder, and OSError when it cannot be listed.
    """
    check_folder(folder)
    started: list[datetime] = []
    found: list[tuple[str, str, Point]] = []
    rejected: dict[str, str] = {}
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith(".")):
        try:
            with gc_paused():
                run = document.parse(files.content(path))
            time = run.start
        except FileNotFoundError:
            continue
        except OSError as error:
            rejected[path.name] = f"it cannot be read: {error.strerror}"
        except GpuPerfError as error:
            rejected[path.name] = str(error)[:_LONGEST_REASON]
        else:
            started.append(time)
            found += _found(run, time)
    points: dict[str, dict[str, list[Point]]] = {}
    for conditions, nodeid, point in sorted(found, key=lambda each: each[2].started):
        points.setdefault(conditions, {}).setdefault(nodeid, []).append(point)
    return History(started=tuple(sorted(started)), points=points, rejected=rejected)


def _found(run: Run, started: datetime) -> Iterator[tuple[str, str, Point]]:
    """Yield the fingerprint, the node id and the point of each test.

    Left out are deselected tests, and CPU variants that a GPU variant was compared with.
    """
    partners = {record.pairing.partner for record in run.records if record.pairing}
    kept = [record for record in shown_records(run) if record.nodeid not in partners]
    both = ((record.cpu.device, record.gpu.device) for record in kept if record.cpu and record.gpu)
    cpu, gpu = next(both, (None, None))
    gpu = run.environment.gpu or gpu
    key = cache(partial(fingerprint.key, run.environment))
    for record in kept:
        # A device that was not measured counts as the run's.
        devices = (record.cpu.device if record.cpu else cpu, record.gpu.device if record.gpu else gpu)
        point = Point(
            started=started,
            commit=run.commit,
            status=record.status,
            speedup=record.speedup.estimate if record.speedup else None,
        )
        yield key(*devices, record.demand), record.nodeid, point


def series(history: History, *, only: str | None = None) -> tuple[Series, ...]:
    """Return a series for each test and fingerprint; `only` is what a node id has to contain."""
    return tuple(
        Series(
            fingerprint=conditions,
            nodeid=nodeid,
            points=tuple(points),
            changes=changes([point.speedup.value for point in points if point.speedup]),
        )
        for conditions, tests in history.points.items()
        for nodeid, points in tests.items()
        if only is None or only in nodeid
    )
