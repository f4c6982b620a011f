"""The values that pass from room to room: frozen, in seconds and bytes."""

from array import array
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

__all__ = [
    "Demand",
    "DeviceInfo",
    "Environment",
    "Fault",
    "GpuPerfError",
    "InconclusiveWarning",
    "Measurement",
    "Parity",
    "Plan",
    "Record",
    "Round",
    "Run",
    "Speedup",
    "Unavailable",
    "Verdict",
]

Kind = Literal["cpu", "gpu"]
Status = Literal["passed", "failed", "inconclusive", "recorded", "skipped", "error"]
Settlement = Literal["warn", "fail", "pass"]
STATUSES: tuple[Status, ...] = ("passed", "failed", "inconclusive", "recorded", "skipped", "error")


class GpuPerfError(Exception):
    """What was asked cannot be done; the message says what, where, and what to do next."""


class Unavailable(GpuPerfError):
    """A backend has no usable GPU; the message names the cause and the remedy in one sentence.

    `missing` says that the backend's library is not even installed.
    """

    def __init__(self, message: str | None, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class InconclusiveWarning(UserWarning):
    """A speedup test ended in doubt close to its limit, and passed with this warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """What a measurement ran on. An emulated device is never called a GPU in a verdict."""

    kind: Kind
    backend: str
    name: str
    library: str
    emulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What an exception says about its device: memory ran out, or the device is gone for good."""

    kind: Literal["out_of_memory", "lost"]
    requested: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a marker asks of one test; limits are ratios cpu time / gpu time."""

    min: float | None = None
    max: float | None = None
    transfer: Literal["never", "always", "once"] = "never"
    calls: int | None = None
    rtol: float | None = None
    atol: float | None = None
    parity: bool = True
    max_time: float | None = None

    @property
    def bare(self) -> bool:
        """Whether nothing was asked: such a test records and never fails."""
        return self == Demand()

    @property
    def limits(self) -> tuple[float, ...]:
        """The limits that were asked for, lowest first; none for a bare marker."""
        return tuple(limit for limit in (self.min, self.max) if limit is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a run measures: options read once. Times in seconds.

    A block lasts at least `block_time`; warm-up ends when three blocks agree within `steady`, at the latest
    after `warmup_time`. Sampling goes on after the verdict until the interval is within `precision` of its
    value, for at most `precision_time`; without a demand for at most `record_time`. A doubt within `doubt`
    of the limit only warns. No interval claims more than the `resolution`.
    """

    alpha: float = 0.025
    max_time: float = 10.0
    inconclusive: Settlement = "warn"
    report_only: bool = False
    off: bool = False
    require_gpu: bool = False
    gpu: str = "auto"
    min_rounds: int = 3
    max_rounds: int = 60
    block_time: float = 1e-3
    steady: float = 0.05
    warmup_time: float = 0.1
    precision: float = 0.05
    precision_time: float = 0.05
    record_time: float = 1.0
    doubt: float = 0.05
    resolution: float = 0.01
    record_rounds: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One sample of each device, in seconds per call."""

    cpu: float
    gpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The times of one workload on one device, in seconds; samples are seconds per call, in order."""

    device: DeviceInfo
    samples: "array[float]"
    block_calls: int
    setup: float | None
    first_call: float
    warmup: float
    warmup_calls: int
    steady: bool
    synchronize_cost: float
    device_time: float | None = None
    waited: float | None = None

    @property
    def median(self) -> float | None:
        """The median sample, or None when no block was timed."""
        return median(self.samples) if self.samples else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """The median ratio cpu time / gpu time with its anytime-valid interval; an unbounded end is None."""

    value: float
    low: float | None
    high: float | None
    confidence: float
    resolution: float
    rounds: int
    evidence: float | None
    autocorrelation: float | None
    sampling: Literal["interleaved", "siblings"] = "interleaved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Whether both devices gave the same answer; agreed is None, with the reason, when nobody could tell."""

    agreed: bool | None
    error: float | None
    tolerance: float | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the evidence says about the demand, and why."""

    status: Status
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Everything known about one marked test; the reason is None only when passed or recorded."""

    nodeid: str
    status: Status
    reason: str | None
    demand: Demand
    alpha: float
    scope: Literal["body", "call"] | None = None
    cpu: Measurement | None = None
    gpu: Measurement | None = None
    speedup: Speedup | None = None
    parity: Parity | None = None
    parity_elapsed: float | None = None
    rounds_elapsed: float | None = None
    elapsed: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the numbers depend on."""

    host: dict[str, str | int | None]
    cpu: dict[str, str | int | None]
    gpu: DeviceInfo | None
    gpu_reason: str | None
    python: str
    packages: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run's records, in the order in which the tests finished."""

    environment: Environment
    started: str
    records: tuple[Record, ...] = field(default=())
    complete: bool = True

    @property
    def summary(self) -> dict[Status, int]:
        """How many records have each status, every status named."""
        counts = dict.fromkeys(STATUSES, 0)
        for record in self.records:
            counts[record.status] += 1
        return counts
