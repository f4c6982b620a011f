"""The results of many runs: a folder with a report of each, and each test's series over them.

A report there is one without samples: of each list the median is left, on which all else of it agrees.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from secrets import token_hex
from statistics import median
from typing import Any

from msgspec import field
from msgspec.structs import replace

from pytest_gpuperf.analysis.changepoint import FEWEST, Change, changes
from pytest_gpuperf.gate import fingerprint
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Copies, Estimate, Measurement, Samples
from pytest_gpuperf.model.record import Record, Run, Status
from pytest_gpuperf.model.value import Value
from pytest_gpuperf.report import files, reader
from pytest_gpuperf.report.json import codec, document
from pytest_gpuperf.report.verdicts import shown_records
from pytest_gpuperf.timing.gc_pause import gc_paused

_LONGEST_REASON = 200


class Point(Value, frozen=True, kw_only=True):
    """What a run found of a test: its status, its speedup, and the seconds of a call on each device."""

    started: str
    commit: Commit | None
    status: Status
    speedup: Estimate | None
    cpu: float | None
    gpu: float | None

    @property
    def time(self) -> datetime:
        """When the run began, in UTC."""
        return reader.instant(self.started)

    @property
    def day(self) -> str:
        """The day on which the run began, in UTC: `2026-01-31`."""
        return f"{self.time:%Y-%m-%d}"

    @property
    def origin(self) -> str:
        """The commit, with a plus where files differed from it; where it is not known the time of the day."""
        return self.commit.short + "+" * bool(self.commit.changed) if self.commit else f"{self.time:%H:%M}"


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
    text = document.text(replace(run, records=tuple(map(_without_samples, run.records))))
    commit = re.sub(r"[^0-9A-Za-z]", "", run.commit.id)[:12] if run.commit else ""
    path = folder / f"{reader.instant(run.started):%Y%m%dT%H%M%SZ}-{commit or 'unknown'}-{token_hex(6)}.json"
    files.replace(path, text)
    return path


def _without_samples(record: Record) -> Record:
    transfer, scaling = record.transfer, record.scaling
    if transfer is not None:
        h2d, d2h = _of_copies(transfer.h2d), _of_copies(transfer.d2h)
        transfer = replace(transfer, h2d=h2d, d2h=d2h, loop=_middle(transfer.loop))
    if scaling is not None:
        scaling = replace(scaling, base=_of_calls(scaling.base))
    cpu, gpu = _of_calls(record.cpu), _of_calls(record.gpu)
    return replace(record, cpu=cpu, gpu=gpu, transfer=transfer, scaling=scaling)


def _of_calls(found: Measurement | None) -> Measurement | None:
    return found and replace(found, samples=_middle(found.samples), latencies=_middle(found.latencies))


def _of_copies(copies: Copies | None) -> Copies | None:
    return copies and replace(copies, samples=_middle(copies.samples))


def _middle(samples: Samples) -> Samples:
    return array("d", [median(samples)] if samples else [])


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
    found: list[tuple[datetime, list[tuple[str, str, Point]]]] = []
    rejected: dict[str, str] = {}
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith(".")):
        try:
            with gc_paused():
                run = document.parse(files.content(path, reader.LIMIT, follow_link=False))
            found.append((reader.instant(run.started), list(_found(run))))
        except FileNotFoundError:
            continue
        except OSError as error:
            rejected[path.name] = f"it cannot be read: {error.strerror}"
        except GpuPerfError as error:
            rejected[path.name] = str(error)[:_LONGEST_REASON]
    found.sort(key=lambda each: each[0])  # stable: those of one time stay in the order of their names
    points: dict[str, dict[str, list[Point]]] = {}
    for _, of_run in found:
        for conditions, nodeid, point in of_run:
            points.setdefault(conditions, {}).setdefault(nodeid, []).append(point)
    return History(started=tuple(time for time, _ in found), points=points, rejected=rejected)


def _found(run: Run) -> Iterator[tuple[str, str, Point]]:
    """Yield the fingerprint, the node id and the point of each test.

    Left out are deselected tests, and CPU variants, whose times stand with the GPU variants.
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
            started=run.started,
            commit=run.commit,
            status=record.status,
            speedup=record.speedup.estimate if record.speedup else None,
            cpu=record.cpu.median if record.cpu else None,
            gpu=record.gpu.median if record.gpu else None,
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


def dump(history: History, *, only: str | None = None) -> dict[str, Any]:
    """Return a history as an object of JSON: runs, series with their changes, and files that are no reports.

    An index of a change counts the points that have a speedup.
    """
    content: dict[str, Any] = codec.dump(
        {
            "runs": len(history.started),
            "fewest": FEWEST,
            "series": [
                {
                    "fingerprint": one.fingerprint,
                    "nodeid": one.nodeid,
                    "findings": list(one.points),
                    "changes": [_content(change, one.timed[change.index]) for change in one.changes],
                }
                for one in series(history, only=only)
            ],
            "rejected": [{"name": name, "reason": reason} for name, reason in history.rejected.items()],
        }
    )
    return content


def _content(change: Change, at: Point) -> dict[str, Any]:
    return {**asdict(change), "percent": change.percent, "started": at.started, "commit": at.commit}
