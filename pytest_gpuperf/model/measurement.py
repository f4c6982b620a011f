"""What was measured of one test: times in seconds, sizes in bytes, estimates with their intervals."""

from array import array
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Literal

from pytest_gpuperf.model.demand import Kind

__all__ = [
    "Copies",
    "DeviceInfo",
    "Estimate",
    "Inspection",
    "Interference",
    "Measurement",
    "Memory",
    "Neighbours",
    "Parity",
    "Round",
    "Speedup",
    "Transfer",
]

if TYPE_CHECKING:
    Samples = array[float]
else:
    Samples = array  # which can only be told of what from Python 3.12 on

Neighbours = Literal["interleaved", "siblings"]  # whether the samples of a round were taken side by side


def _no_samples() -> Samples:
    return array("d")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """What a measurement ran on. An emulated device is never called a GPU in a verdict.

    `memory` in bytes; `reduced_precision` names a mode in which the device rounds more than its dtypes say.
    """

    kind: Kind
    backend: str
    name: str
    library: str
    emulated: bool = False
    memory: int | None = None
    driver: str | None = None
    runtime: str | None = None
    reduced_precision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One sample of each device, in seconds per call, and of the copies where the demand includes them."""

    cpu: float
    gpu: float
    copies: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What calls beside the timed ones showed; None where the device does not tell. Seconds and bytes.

    `host_time`: until the call returned, its work perhaps not done. `device_time`: of the call's work by the
    device's own events. `outside_time`: the device worked on so long after those events. `synchronizes`:
    the call waited for its device. `allocations`: made by the device itself, not from a pool. `memory`: the
    most that the call held at a time, above what was held before it.
    """

    host_time: float | None
    device_time: float | None = None
    outside_time: float | None = None
    synchronizes: bool | None = None
    allocations: int | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The times of one workload on one device, in seconds; samples are seconds per call, in order.

    `latencies` are samples of calls that were waited for one by one; where a block is one call `samples` are,
    and there are no others. `processors` is how many of them the timed blocks kept busy, `dtypes` are those
    of inputs and results, `shapes` those of the inputs, or of the results where no input is known: `512x512`.
    """

    device: DeviceInfo
    samples: Samples
    block_calls: int
    setup: float | None
    first_call: float
    warmup: float
    warmup_calls: int
    steady: bool
    synchronize_cost: float
    block_time: float | None = None
    waited: float | None = None
    processors: float | None = None
    latencies: Samples = field(default_factory=_no_samples)
    dtypes: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    inspection: Inspection | None = None

    @property
    def median(self) -> float | None:
        """The median sample, or None when no block was timed."""
        return median(self.samples) if self.samples else None

    @property
    def latency(self) -> float | None:
        """The median time of a call that is waited for, or None when none was timed."""
        return median(self.waited_for) if self.waited_for else None

    @property
    def waited_for(self) -> Samples:
        """The samples of calls that were waited for one by one."""
        return self.samples if self.block_calls == 1 else self.latencies

    @property
    def device_time(self) -> float | None:
        """The time of one call by the device's own events, or None where it does not tell."""
        return self.inspection.device_time if self.inspection else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """What took a part of the CPU's measured time from the workload, which keeps `own_share` of it.

    `cpu_contention`: threads waited for a processor, `waited` seconds in each second of the blocks.
    `unstable_cpu_times`: the `median` sample is far above the `fastest` block, in seconds per call.
    """

    kind: Literal["cpu_contention", "unstable_cpu_times"]
    own_share: float
    waited: float | None = None
    median: float | None = None
    fastest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The copies of one direction that a call needs: bytes, and seconds for all of them, waited for.

    `memory` says what the host's side of them is.
    """

    bytes: int
    arrays: int
    samples: Samples = field(default_factory=_no_samples)
    memory: Literal["pinned", "pageable"] | None = None

    @property
    def median(self) -> float | None:
        """The median time in seconds: 0 when nothing is copied, None when it was not timed."""
        if not self.bytes:
            return 0.0
        return median(self.samples) if self.samples else None

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second, or None when nothing was copied."""
        return self.bytes / self.median if self.bytes and self.median else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What goes up before a call and comes down after it.

    `made` are the bytes that the workload reads on the device and that did not go up there. `reason` says
    why a direction is None, was not timed, or that no bytes move.
    """

    h2d: Copies | None
    d2h: Copies | None
    made: int = 0
    reason: str | None = None

    @property
    def bytes(self) -> int | None:
        """The bytes of both directions, or None when they are not known."""
        return self.h2d.bytes + self.d2h.bytes if self.h2d and self.d2h else None

    @property
    def samples(self) -> list[float]:
        """The seconds for both directions, round by round; none when they were not timed or no bytes move."""
        timed = [copies.samples for copies in (self.h2d, self.d2h) if copies and copies.bytes]
        return [sum(pair) for pair in zip(*timed, strict=False)]

    @property
    def median(self) -> float | None:
        """The median seconds of both directions, or None when they were not timed."""
        if not self.h2d or not self.d2h or self.h2d.median is None or self.d2h.median is None:
            return None
        return self.h2d.median + self.d2h.median


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its interval; an unbounded end is None."""

    value: float
    low: float | None
    high: float | None


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
    sampling: Neighbours = "interleaved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Whether both devices gave the same answer; agreed is None, with the reason, when nobody could tell."""

    agreed: bool | None
    error: float | None
    tolerance: float | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The most bytes that the workload held on the device at a time: its inputs and what a call adds.

    None, with the reason, where the device does not tell.
    """

    peak: int | None
    inputs: int | None = None
    reason: str | None = None
