"""The results of many runs: a folder with a small file for each, and each test's series over them."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from pytest_gpuperf.analysis.changepoint import FEWEST, Change, changes
from pytest_gpuperf.gate import fingerprint
from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Run, Status
from pytest_gpuperf.model.value import Value
from pytest_gpuperf.report import files
from pytest_gpuperf.report.json import codec, document
from pytest_gpuperf.report.verdicts import shown_records

_Bounded = Annotated[float, Meta(ge=0, le=1e300)]
_Ratio = Annotated[float, Meta(ge=1e-12, le=1e12)]
_MOST_BYTES = 8_000_000  # of a file that is read: forty thousand tests
_LONGEST_REASON = 200


class Interval(Estimate, frozen=True, kw_only=True):
    """The speedup that a test is about, with its range."""

    value: _Ratio
    """Median of cpu time / gpu time."""
    low: _Bounded | None
    """Lower end of the range; null when unbounded."""
    high: _Bounded | None
    """Upper end of the range; null when unbounded."""


class Tested(Value, frozen=True, kw_only=True):
    """What the run found of one test."""

    nodeid: str
    """Node id of the test."""
    status: Status
    """How the test ended."""
    speedup: Interval | None = None
    """Speedup that the test is about; null when it was not measured."""
    cpu: _Bounded | None = None
    """Median seconds of a call on the CPU; null when none was timed."""
    gpu: _Bounded | None = None
    """Median seconds of a call on the GPU; null when none was timed."""


class Group(Value, frozen=True, kw_only=True):
    """The tests whose results can be compared with all others of the same fingerprint."""

    fingerprint: str
    """Devices, drivers, libraries, precision, and what the speedup includes."""
    tests: tuple[Tested, ...]
    """One result for each test."""


class Entry(Value, frozen=True, kw_only=True):
    """What one pytest run found, as a file of a history.

    Times are in seconds; null means that a value could not be had.
    """

    history_version: Literal["1.0"]
    """Version of the schema."""
    started: str
    """Time at which the run began, ISO 8601."""
    commit: Commit | None = None
    """The commit that was measured; null where it is not known."""
    measured: tuple[Group, ...] = ()
    """One item for each fingerprint."""

    @property
    def time(self) -> datetime:
        """When the run began, in UTC; raises GpuPerfError where `started` is no time."""
        try:
            started = datetime.fromisoformat(self.started)
            return (started if started.tzinfo else started.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise GpuPerfError(f"$.started is {self.started[:80]!r}, which is no time: {error}") from error

    @property
    def day(self) -> str:
        """The day on which the run began, in UTC: `2026-01-31`."""
        return f"{self.time:%Y-%m-%d}"


class History(Value, frozen=True, kw_only=True):
    """The entries of a folder, earliest first, and by name why its other files are none."""

    entries: tuple[Entry, ...] = ()
    rejected: dict[str, str] = field(default_factory=dict)


def entry(run: Run) -> Entry:
    """Return what a history keeps of a run: six digits of each number.

    Left out are deselected tests, and CPU variants, whose times stand with the GPU variants.
    """
    partners = {record.pairing.partner for record in run.records if record.pairing}
    kept = [record for record in shown_records(run) if record.nodeid not in partners]
    devices = ((record.cpu.device, record.gpu.device) for record in kept if record.cpu and record.gpu)
    cpu, gpu = next(devices, (None, None))
    gpu = run.environment.gpu or gpu
    groups: dict[str, list[Tested]] = {}
    for record in kept:
        # A device that was not measured counts as the run's.
        both = (record.cpu.device if record.cpu else cpu, record.gpu.device if record.gpu else gpu)
        test = Tested(
            nodeid=record.nodeid,
            status=record.status,
            speedup=_interval(record.speedup.estimate) if record.speedup else None,
            cpu=_six_digits(record.cpu.median) if record.cpu else None,
            gpu=_six_digits(record.gpu.median) if record.gpu else None,
        )
        groups.setdefault(fingerprint.key(run.environment, *both, record.demand), []).append(test)
    measured = tuple(Group(fingerprint=shared, tests=tuple(tests)) for shared, tests in groups.items())
    return Entry(history_version="1.0", started=run.started, commit=run.commit, measured=measured)


def write(folder: Path, entry: Entry) -> Path:
    """Write an entry as a new file of a folder, which is made if need be, and return its path.

    The name begins with the time, so that names sort by it, and ends with a random number, so that no two
    runs of any machines meet. Raises GpuPerfError for an entry that breaks the schema, and OSError.
    """
    text = codec.written(entry) + "\n"
    time = entry.time.strftime("%Y%m%dT%H%M%SZ")
    if len(text) > _MOST_BYTES:
        raise GpuPerfError(f"the run is too large for a history: {len(text)} bytes, at most {_MOST_BYTES}")
    short = re.sub(r"[^0-9A-Za-z]", "", entry.commit.id)[:12] if entry.commit else ""
    while (path := folder / f"{time}-{short or 'unknown'}-{token_hex(6)}.json").exists():
        pass
    files.replace(path, text)
    return path


def read(folder: Path) -> History:
    """Return the runs of a folder, earliest first, and the files in it that are none, with the reason.

    A file that vanishes meanwhile is no error; hidden files are those of writers, or none of ours. Raises
    GpuPerfError when there is no such folder, and OSError when it cannot be listed.
    """
    if not folder.is_dir():
        raise GpuPerfError(f"{folder} is no folder; runs with --gpuperf-history={folder} make one")
    found: list[Entry] = []
    rejected: dict[str, str] = {}
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith(".")):
        try:
            entry = _load(files.content(path, _MOST_BYTES, follow_link=False))
            entry.time  # noqa: B018 - the property raises
            found.append(entry)
        except FileNotFoundError:
            continue
        except OSError as error:
            rejected[path.name] = f"it cannot be read: {error.strerror}"
        except GpuPerfError as error:
            rejected[path.name] = str(error)[:_LONGEST_REASON]
    found.sort(key=lambda entry: entry.time)  # stable: those of one time stay in the order of their names
    return History(entries=tuple(found), rejected=rejected)


class Point(Value, frozen=True, kw_only=True):
    """One test in one run."""

    entry: Entry
    result: Tested


class Series(Value, frozen=True, kw_only=True):
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


def dump(history: History, *, only: str | None = None) -> dict[str, Any]:
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


def _interval(speedup: Estimate) -> Interval:
    value = float(f"{speedup.value:.6g}")
    return Interval(value=value, low=_six_digits(speedup.low), high=_six_digits(speedup.high))


def _six_digits(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.6g}")


def _load(text: bytes) -> Entry:
    """Return the entry in a file's text; raise GpuPerfError, with the cause, if it holds none."""
    found = codec.quick(text.removesuffix(b"\n"), Entry)
    if found is None:
        try:
            content = codec.parse(text.decode("utf-8"))
        except ValueError as error:
            raise GpuPerfError(f"it is not JSON: {error}") from error
        document.check_version(content, "history_version", "entry of a history")
        found = codec.load(content, Entry)
    counts = Counter(test.nodeid for group in found.measured for test in group.tests)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise GpuPerfError(f"it has {twice[0]} more than once")
    return found
