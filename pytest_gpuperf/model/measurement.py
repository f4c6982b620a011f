"""What was measured of one test: times in seconds, sizes in bytes, estimates with their ranges."""

from array import array
from collections.abc import Sequence
from functools import lru_cache
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Literal, TypeVar

from msgspec import field
from msgspec.structs import force_setattr

from pytest_gpuperf.model.demand import Demand, Kind
from pytest_gpuperf.model.plain_text import keep_plain
from pytest_gpuperf.model.value import (
    AtLeastOne,
    Bandwidth,
    Bytes,
    Count,
    NonNegative,
    Positive,
    Seconds,
    Share,
    Value,
)

if TYPE_CHECKING:
    Samples = array[float]
else:
    Samples = array  # which takes the type of its items from Python 3.12 on only

_Shared = TypeVar("_Shared")

Neighbours = Literal["interleaved", "variants"]  # whether the samples of a round were taken side by side


class DeviceInfo(Value, frozen=True, kw_only=True):
    """What a measurement ran on. An emulated device is never called a GPU in a verdict."""

    kind: Kind
    """Device that was timed."""
    backend: str
    """Backend: numpy, cupy, ..., or one of a plugin."""
    name: str
    """The device's own name."""
    library: str
    """Library, runtime and driver, with versions."""
    emulated: bool = False
    """Whether it only stands in for a GPU."""
    memory: Bytes | None = None
    """Bytes of memory; null where the device does not report it."""
    multiprocessors: AtLeastOne | None = None
    """Multiprocessors, as NVIDIA calls them; compute units or cores of other vendors' GPUs."""
    power_limit_watts: Positive | None = None
    """Power that the GPU may take, by NVML."""
    driver: str | None = None
    """Version of the driver."""
    runtime: str | None = None
    """Version of the vendor's runtime library."""
    reduced_precision: str | None = None
    """A mode that rounds more than the dtypes say, such as TF32."""
    reduced_convolutions: str | None = None
    """Such a mode of convolutions or recurrent layers alone."""
    reduced_eps: Positive | None = None
    """Relative spacing to which these modes round float32; null without one."""
    settings: tuple[str, ...] | None = None
    """Other settings of the library that change times, such as deterministic algorithms."""

    def __post_init__(self) -> None:
        """Keep what a driver or a plugin says from steering a terminal."""
        keep_plain(self, "backend", "name", "library", "driver", "runtime")
        keep_plain(self, "reduced_precision", "reduced_convolutions")

    @property
    def noun(self) -> str:
        """What a sentence calls the device: `CPU`, `GPU`, or `emulated device`."""
        if self.kind == "cpu":
            return "CPU"
        return "emulated device" if self.emulated else "GPU"


@lru_cache(maxsize=1024)
def _interned(value: _Shared) -> _Shared:
    """Return one object for all equal values, to save memory, as sys.intern does for strings."""
    return value


class Round(Value, frozen=True, kw_only=True):
    """One sample of each device, in seconds per call, and of the copies where the demand includes them."""

    cpu: float
    gpu: float
    copies: float = 0.0


class Inspection(Value, frozen=True, kw_only=True):
    """What untimed, inspected calls showed; null where the device does not report it."""

    host_time: Seconds | None
    """Seconds until the call returned."""
    device_time: Seconds | None = None
    """Seconds of one call's work, by the device's events; null where they saw its submission."""
    outside_time: Seconds | None = None
    """Seconds that the device worked on after those events."""
    synchronizes: bool | None = None
    """Whether the call waited for its device; null where a full queue of launches looks alike."""
    allocations: Count | None = None
    """Allocations by the device itself, not from a pool, in one call."""
    memory: Bytes | None = None
    """Most bytes that the call held, beyond those held before it."""


class Measurement(Value, frozen=True, kw_only=True):
    """The times of one workload on one device."""

    device: DeviceInfo
    """Device that was measured."""
    samples: Samples
    """Seconds per call of each timed block, in order."""
    block_calls: AtLeastOne
    """Calls in one block."""
    setup: Seconds | None
    """Seconds of the body as setup; null when the body is the workload."""
    first_call: Seconds
    """Seconds of the first call: imports, contexts, compilation."""
    warmup: Seconds
    """Seconds of warm-up after the first call."""
    warmup_calls: AtLeastOne
    """Calls before the first timed block."""
    steady: bool
    """Whether warm-up ended because three blocks agreed."""
    synchronize_cost: Seconds
    """Seconds of a synchronization without work."""
    block_time: Seconds | None = None
    """Seconds that a block had to last; null when none was timed."""
    waited: Seconds | None = None
    """Seconds of the timed blocks that this process waited for a processor, or that processors worked for
    others, whichever is less; null where the system does not report it, and for a GPU that is no
    emulation."""
    waiting_threads: Count | None = None
    """Most threads that waited for a processor in one block; null where the system does not report it."""
    least_time: Seconds | None = None
    """Seconds that a call takes at least: its processor time on one thread, over the threads that could share
    it; null where that was not measured."""
    processors: NonNegative | None = None
    """Processors that the timed blocks kept busy, on average; null where it is not known."""
    latencies: Samples = field(default_factory=lambda: array("d"))
    """Seconds of single calls, each waited for, in order; empty when `block_calls` is 1, where `samples` are
    such calls.
    """
    dtypes: tuple[str, ...] = ()
    """Of the inputs and the results."""
    shapes: tuple[str, ...] = ()
    """Of the inputs, or of the results where no input is known: 512x512."""
    inspection: Inspection | None = None
    """Untimed calls that were inspected; null when there were none."""
    alone: Seconds | None = None
    """Seconds per call after this device, or group, had worked alone for some tenths of a second, with which
    rounds were compared; null where they were not."""
    overlap_left: Share | None = None
    """Share of a timed block that calls in a loop would not take; null where that was not compared, as on
    CPUs and for slow calls."""
    ramp: Seconds | None = None
    """Seconds of work until a GPU that has idled is as fast as in steady work; null where that is not known,
    as for CPUs, emulated devices, and blocks of 0.13 s and more."""
    lowest_sm_mhz: Count | None = None
    """Lowest clock of the multiprocessors after a timed block; null where it is not known."""
    highest_sm_mhz: Count | None = None
    """Highest clock of the multiprocessors after a timed block; null where it is not known."""
    median: Seconds | None = None
    """Median of `samples`; null when no block was timed."""
    latency: Seconds | None = None
    """Median of `latencies`, or of `samples` when `block_calls` is 1; null when none was timed."""
    device_time: Seconds | None = None
    """Seconds of the work of one call, by the device's events; null where it does not report them."""

    def __post_init__(self) -> None:
        """Derive what is written to the report and not read from it, whatever a report says of it."""
        # Thousands of measurements in a report are on few devices: one object for each takes less memory.
        force_setattr(self, "device", _interned(self.device))
        force_setattr(self, "dtypes", _interned(self.dtypes))
        force_setattr(self, "shapes", _interned(self.shapes))
        force_setattr(self, "median", median(self.samples) if self.samples else None)
        single = self.median if self.block_calls == 1 else median(self.latencies) if self.latencies else None
        force_setattr(self, "latency", single)
        force_setattr(self, "device_time", self.inspection.device_time if self.inspection else None)

    @property
    def waited_for(self) -> Samples:
        """The samples of calls that were waited for one by one."""
        return self.samples if self.block_calls == 1 else self.latencies

    @property
    def startup(self) -> float | None:
        """Seconds that the first call took longer than a later one that is waited for; None without one."""
        later = self.median if self.latency is None else self.latency
        return None if later is None else max(0.0, self.first_call - later)

    def samples_for(self, demand: Demand) -> Samples:
        """Return the samples that count for the demand, in order."""
        return self.waited_for if demand.latency else self.samples


class Interference(Value, frozen=True, kw_only=True):
    """Other work that took a part of the measured time from a CPU."""

    kind: Literal["cpu_contention", "unstable_cpu_times"]
    """Threads waited for a processor, or the median sample is far above the fastest block."""
    own_share: Share
    """Share of the median sample that is certainly the workload's own."""
    waited: Seconds | None = None
    """Seconds that other work may have taken, for each second of the blocks; null for unstable times."""
    threads: Count | None = None
    """Threads that waited; null where it is not known, and for unstable times."""
    median: Seconds | None = None
    """Seconds per call of the median sample; null for contention."""
    fastest: Seconds | None = None
    """Seconds per call of the fastest block; null for contention."""


class Copies(Value, frozen=True, kw_only=True):
    """The copies of one direction that a call needs."""

    bytes: Bytes
    """Bytes copied."""
    arrays: Count
    """Arrays copied."""
    samples: Samples = field(default_factory=lambda: array("d"))
    """Seconds of all these copies together, into new memory, in order, without the waits for the device."""
    memory: Literal["pinned", "pageable"] | None = None
    """Kind of the host's memory; null where the device does not report it."""
    median: Seconds | None = None
    """Median of `samples`; 0 when there is nothing to copy, null when it was not timed."""
    bandwidth: Bandwidth | None = None
    """Bytes per second; null when nothing was copied, when the copies were not timed, and when they took no
    longer than the waits for them."""

    def __post_init__(self) -> None:
        """Derive what is written to the report and not read from it, whatever a report says of it."""
        force_setattr(self, "median", (median(self.samples) if self.samples else None) if self.bytes else 0.0)
        force_setattr(self, "bandwidth", self.bytes / self.median if self.bytes and self.median else None)


class Transfer(Value, frozen=True, kw_only=True):
    """The copies before and after a call, into new memory."""

    h2d: Copies | None
    """To the device, by `device.asarray`; null when the whole body is the workload."""
    d2h: Copies | None
    """Of the results, to the host; null when the whole body is the workload."""
    made: Bytes = 0
    """Bytes that the workload reads on the device and that were not copied there."""
    reason: str | None = None
    """Why a direction is null or was not timed, or that no bytes are copied."""
    loop: Samples = field(default_factory=lambda: array("d"))
    """Seconds of a call with all these copies, in order, on which the speedups with copies rest; where it is
    empty they rest on the sum."""

    @property
    def bytes(self) -> int | None:
        """The bytes of both directions, or None when they are not known."""
        return self.h2d.bytes + self.d2h.bytes if self.h2d and self.d2h else None

    @property
    def samples(self) -> list[float]:
        """The seconds for both directions, round by round; none when they were not timed or no bytes move."""
        timed = [copies.samples for copies in (self.h2d, self.d2h) if copies and copies.bytes]
        return [sum(pair) for pair in zip(*timed, strict=False)]

    def beside(self, calls: Sequence[float]) -> list[float]:
        """Return what the copies add to calls, in seconds: to the last ones where fewer copies were timed."""
        if not self.loop:
            return self.samples
        recent = calls[max(0, len(calls) - len(self.loop)) :]
        return [with_copies - alone for with_copies, alone in zip(self.loop, recent, strict=False)]

    @property
    def median(self) -> float | None:
        """The median seconds of both directions, or None when they were not timed."""
        if not self.h2d or not self.d2h or self.h2d.median is None or self.d2h.median is None:
            return None
        return self.h2d.median + self.d2h.median


class Estimate(Value, frozen=True, kw_only=True):
    """A value with the range in which it was seen; an unbounded end is null."""

    value: float
    """The estimate."""
    low: float | None
    """Lower end of the range; null when unbounded."""
    high: float | None
    """Upper end of the range; null when unbounded."""

    @property
    def lower(self) -> float:
        """The lower end of a ratio, a time or a size, none of which is negative: 0 where it is unbounded."""
        return 0.0 if self.low is None else self.low

    @property
    def upper(self) -> float:
        """The upper end: infinite where it is unbounded."""
        return inf if self.high is None else self.high

    def is_above(self, limit: float) -> bool | None:
        """Return whether the value is above a limit; None while the range includes the limit."""
        if self.lower > limit:
            return True
        return False if self.upper < limit else None


class Bounds(Value, frozen=True, kw_only=True):
    """The ends of a range; an unbounded one is null."""

    low: NonNegative | None
    """Lower end of the range; null when unbounded."""
    high: NonNegative | None
    """Upper end of the range; null when unbounded."""


class Speedup(Value, frozen=True, kw_only=True):
    """The median ratio cpu time / gpu time, its range, and what is certain of it."""

    value: Positive
    """Median of cpu time / gpu time over the rounds; of two variants or runs, the ratio of their medians."""
    low: NonNegative | None
    """Least median of seven stretches of the rounds; of fewer rounds, their least; null for one round, and
    where other work took an unknown part of the times."""
    high: NonNegative | None
    """Greatest median of the stretches, likewise."""
    certain: Bounds
    """`low` and `high` less and times the factor beyond which a limit is missed."""
    rounds: AtLeastOne
    """Number of rounds."""
    sampling: Neighbours = "interleaved"
    """Whether the samples of a round were taken next to each other, or by two tests."""

    @property
    def estimate(self) -> Estimate:
        """The value with the range in which it was seen."""
        return Estimate(value=self.value, low=self.low, high=self.high)


class ResultCheck(Value, frozen=True, kw_only=True):
    """The comparison of the two results."""

    agreed: bool | None
    """Whether both results are the same; null when that could not be decided."""
    error: NonNegative | None
    """Largest relative error in the norm, or elementwise with `rtol` or `atol`."""
    tolerance: NonNegative | None
    """Largest tolerance that was applied; null where values had to be equal or only `atol` was given."""
    reason: str | None
    """What differs, or why nothing was compared."""

    def __post_init__(self) -> None:
        """Keep what a result holds from being as long as the result."""
        keep_plain(self, "reason")


class Memory(Value, frozen=True, kw_only=True):
    """The most bytes that the workload held on the device at one time."""

    peak: Bytes | None
    """Most bytes that any call held, the first one included: the inputs, what the setup and earlier calls
    have left, and what the call added; without what was there before the setup. Null where the device does
    not report it."""
    inputs: Bytes | None = None
    """Bytes of the inputs, or of all that the setup has left there, if more."""
    reason: str | None = None
    """Why `peak` is null."""
