"""One file of a history, as JSON has it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Status

_Bounded = Annotated[float, Meta(ge=0, le=1e300)]
_Ratio = Annotated[float, Meta(ge=1e-12, le=1e12)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval(Estimate):
    """The speedup that a test is about, with its interval."""

    value: _Ratio
    """Median of cpu time / gpu time."""
    low: _Bounded | None
    """Lower end of the interval; null when unbounded."""
    high: _Bounded | None
    """Upper end of the interval; null when unbounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The tests whose results can be compared with all others of the same fingerprint."""

    fingerprint: str
    """Devices, drivers, libraries, precision, and what the speedup includes."""
    tests: tuple[Tested, ...]
    """One result for each test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
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
