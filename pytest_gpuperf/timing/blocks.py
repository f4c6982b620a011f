"""From a workload and a device to samples: warm-up, blocks, rounds.

A sample is the time per call of one block: synchronize, host clock, k calls, synchronize, host clock. Only
the workload runs between the two readings.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from math import ceil, inf
from random import Random
from time import get_clock_info, perf_counter
from typing import Any, Literal, NamedTuple

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.environment import waited
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import Plan
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Inspection, Interference, Measurement
from pytest_gpuperf.timing.gc_pause import uncollected
from pytest_gpuperf.timing.inputs import Input, Upload

__all__ = [
    "Workload",
    "block",
    "rounds",
    "sample",
    "single",
    "take_back",
    "timed",
    "warm_up",
]

_LONGEST_WARMUP = 10  # of a workload too slow to become steady within the plan's warm-up time
_FEWEST_CALLS = 3
_BLOCKS_THAT_AGREE = 3
_MOST_CALLS = 10**7
_STILL_CALLS = 1000  # that show no time at all: more of them would not either


class _Beside(NamedTuple):
    """What the last block adds to the sums beside the samples."""

    waited: float | None
    processor_time: float | None


@dataclass(slots=True, kw_only=True)
class Workload:
    """One workload on one device, and what has been measured of it so far."""

    device: TimedDevice
    call: Callable[[], Any]
    scope: Literal["body", "call"]
    setup: float | None = None
    inputs: tuple[Input, ...] = ()
    uploads: tuple[Upload, ...] = ()
    made: int = 0
    result_bytes: int = 0
    result_arrays: int = 0
    dtypes: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    inspection: Inspection | None = None
    memory: int | None = None
    held: int | None = None
    single: "Workload | None" = None
    first_call: float = 0.0
    seen: bool = False
    worked: bool = False
    block_calls: int = 1
    warmup: float = 0.0
    warmup_calls: int = 1
    steady: bool = False
    running: bool = False
    synchronize_cost: float = 0.0
    block_time: float | None = None
    fastest: float = inf
    fastest_single: float = inf
    waited: float | None = None
    processor_time: float | None = None
    beside: "_Beside | None" = None
    samples: "array[float]" = field(default_factory=lambda: array("d"))

    def start_afresh(self) -> None:
        """Give up the samples and the block length; what was fastest is remembered."""
        del self.samples[:]
        self.block_calls, self.steady, self.waited, self.processor_time = 1, False, None, None
        if self.single is not None:
            self.fastest_single, self.single = min(self.fastest_single, self.single.fastest), None

    @property
    def latest(self) -> float | None:
        """The time of a call in the last sample, in seconds."""
        return self.samples[-1] if self.samples else None

    @property
    def is_running(self) -> bool:
        """Whether a block of it, or of its single calls, began and has not ended."""
        return self.running or (self.single is not None and self.single.running)

    @property
    def interference(self) -> Interference | None:
        """What the samples hold beside the workload, if anything."""
        waited, calls = self.waited or 0.0, self.block_calls
        return noise.find(self.samples, block_calls=calls, waited=waited, fastest=self.fastest)

    @property
    def measurement(self) -> Measurement:
        """What is known by now, as a value."""
        return Measurement(
            device=self.device.info,
            samples=array("d", self.samples),
            block_calls=self.block_calls,
            setup=self.setup,
            first_call=self.first_call,
            warmup=self.warmup,
            warmup_calls=self.warmup_calls,
            steady=self.steady,
            synchronize_cost=self.synchronize_cost,
            block_time=self.block_time,
            waited=self.waited,
            processors=self._processors,
            latencies=array("d", self.single.samples if self.single else ()),
            dtypes=self.dtypes,
            shapes=self.shapes,
            inspection=self.inspection,
        )

    @property
    def _processors(self) -> float | None:
        """How many processors the timed blocks kept busy, on average."""
        timed = sum(self.samples) * self.block_calls
        return self.processor_time / timed if self.processor_time is not None and timed else None


def warm_up(workload: Workload, plan: Plan, most_calls: int = _MOST_CALLS) -> None:
    """Find how many calls a block needs, and repeat blocks until three of them agree.

    A block lasts at least the plan's block time, 20 times an empty synchronize and 1000 times the clock's
    resolution; it is shorter when that takes more than `most_calls`.
    """
    device = workload.device
    with uncollected():
        workload.synchronize_cost = min(block(lambda: None, 1, device) for _ in range(5))
    shortest = max(plan.block_time, 20 * workload.synchronize_cost, 1000 * _resolution())
    workload.block_time = shortest
    started = device.clock()
    recent: list[float] = []
    while not workload.steady and not _warm(workload, device.clock() - started, plan):
        with uncollected():
            sample = block(workload.call, workload.block_calls, device)
        workload.warmup_calls += workload.block_calls
        workload.fastest = min(workload.fastest, sample)
        recent = [*recent[-2:], sample]
        most = _MOST_CALLS if sample > 0 else min(most_calls, _STILL_CALLS)
        if workload.block_calls >= most and sample * workload.block_calls < shortest:
            raise GpuPerfError(f"{workload.block_calls} calls take no time that the clock can show")
        if workload.block_calls < most_calls and sample * workload.block_calls < shortest:
            workload.block_calls = min(most_calls, _more_calls(workload.block_calls, sample, shortest))
            recent.clear()
        workload.steady = len(recent) == _BLOCKS_THAT_AGREE and max(recent) <= (1 + plan.steady) * min(recent)
    workload.warmup += device.clock() - started


def timed(call: Callable[[], Any], device: TimedDevice, plan: Plan) -> Workload:
    """Return a call that is waited for as a workload of its own, warmed up as briefly as what is aside.

    Waiting takes a microsecond or more on any device, so that a thousand calls fill a block.
    """
    workload = Workload(device=device, call=call, scope="call")
    warm_up(workload, replace(plan, warmup_time=plan.aside_time / 4), most_calls=1000)
    return workload


def single(workload: Workload, plan: Plan) -> Workload:
    """Return the workload as it is when each call is waited for: its samples are latencies.

    Where a block is one call, every call is waited for anyway: then it is the same workload.
    """
    if workload.block_calls == 1:
        return workload
    if workload.single is None:
        call, wait = workload.call, workload.device.synchronize

        def call_and_wait() -> None:
            call()
            wait()

        workload.running = True
        workload.single = timed(call_and_wait, workload.device, plan)
        workload.running = False
        workload.single.fastest = min(workload.single.fastest, workload.fastest_single)
    return workload.single


def rounds(workloads: Sequence[Workload], order: Random) -> Iterator[None]:
    """Sample each workload once, in an order drawn afresh, at each step."""
    drawn = list(workloads)
    while True:
        order.shuffle(drawn)
        for workload in drawn:
            sample(workload)
        yield


def sample(workload: Workload) -> None:
    """Time one block and keep its sample; a workload that raised is left running."""
    workload.running = True
    before, worked = _waited(workload.device), capabilities.processor_time(workload.device)
    with uncollected():
        taken = block(workload.call, workload.block_calls, workload.device)
    after, worked_after = _waited(workload.device), capabilities.processor_time(workload.device)
    workload.running = False
    workload.beside = last = _Beside(_gained(before, after), _gained(worked, worked_after))
    workload.waited = _sum(workload.waited, last.waited)
    workload.processor_time = _sum(workload.processor_time, last.processor_time)
    if taken <= 0:
        raise GpuPerfError(f"{workload.block_calls} calls took no time that the clock can show")
    workload.fastest = min(workload.fastest, taken)
    workload.samples.append(taken)


def take_back(workloads: Sequence[Workload]) -> None:
    """Drop the last sample of each, with what its block took."""
    for workload in workloads:
        del workload.samples[-1]
        if (last := workload.beside) is not None:
            workload.waited = _sum(workload.waited, last.waited and -last.waited)
            workload.processor_time = _sum(
                workload.processor_time, last.processor_time and -last.processor_time
            )


def block(call: Callable[[], Any], calls: int, device: TimedDevice) -> float:
    """Return the seconds per call of one block; the result of each call is dropped as it comes."""
    clock = device.clock
    device.synchronize()
    started = clock()
    for _ in repeat(None, calls):
        call()
    device.synchronize()
    return (clock() - started) / calls


def _gained(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else max(0.0, after - before)


def _sum(total: float | None, part: float | None) -> float | None:
    return total if part is None else (total or 0.0) + part


def _waited(device: TimedDevice) -> float | None:
    """Return the process's wait for a processor so far; simulated time has none in it."""
    return waited() if device.clock is perf_counter else None


def _warm(workload: Workload, elapsed: float, plan: Plan) -> bool:
    """Say whether warm-up has taken its time: the plan's, and longer only to reach three calls."""
    if workload.warmup_calls == 1:
        return False
    if workload.warmup_calls >= _FEWEST_CALLS:
        return elapsed >= plan.warmup_time
    return elapsed >= min(_LONGEST_WARMUP * plan.warmup_time, plan.max_time / 4)


def _more_calls(calls: int, sample: float, shortest: float) -> int:
    """Return how many calls fill a block with a tenth to spare, at most 100 times as many as before."""
    needed = ceil(1.1 * shortest / sample) if sample > 0 else 100 * calls
    return min(max(needed, calls + 1), 100 * calls, _MOST_CALLS)


def _resolution() -> float:
    return get_clock_info("perf_counter").resolution
