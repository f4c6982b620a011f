"""From a workload and a device to samples: first call, warm-up, blocks, rounds.

A sample is the time per call of one block: synchronize, host clock, k calls, synchronize, host clock. Only
the workload runs between the two readings.
"""

import gc
import inspect
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from math import ceil, inf
from random import Random
from statistics import median
from time import get_clock_info, perf_counter
from typing import Any, Literal, NamedTuple

from pytest_gpuperf.devices.protocol import Device, Observation, TimedDevice
from pytest_gpuperf.environment import waited
from pytest_gpuperf.inputs import Input, Uploads, found
from pytest_gpuperf.model import GpuPerfError, Measurement, Plan, Round
from pytest_gpuperf.parity import leaves

__all__ = [
    "Disturbance",
    "Workload",
    "block",
    "finish",
    "prepare",
    "rounds",
    "rounds_against",
    "sample",
    "warm_up",
]

_LONGEST_WARMUP = 10  # of a workload too slow to become steady within the plan's warm-up time
_FEWEST_CALLS = 3
_BLOCKS_THAT_AGREE = 3
_DISTURBED = 0.25  # of the blocks' time spent waiting for a processor
_WANDERING = 3  # a median so many times the fastest block is not of one and the same work
_MOST_CALLS = 10**7


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """The share of the measured time that was the workload's own, and what took the rest."""

    own: float
    reason: str


class _WatchedCall(NamedTuple):
    elapsed: float
    result: Any
    seen: Observation


@dataclass(slots=True, kw_only=True)
class Workload:
    """One workload on one device, and what has been measured of it so far."""

    device: TimedDevice
    call: Callable[[], Any]
    scope: Literal["body", "call"]
    setup: float | None
    inputs: tuple[Input, ...] = ()
    first_call: float = 0.0
    seen: bool = False
    worked: bool = False
    block_calls: int = 1
    warmup: float = 0.0
    warmup_calls: int = 1
    steady: bool = False
    running: bool = False
    synchronize_cost: float = 0.0
    device_time: float | None = None
    fastest: float = inf
    waited: float | None = None
    samples: "array[float]" = field(default_factory=lambda: array("d"))

    def start_afresh(self) -> None:
        """Give up the samples and the block length; what was fastest is remembered."""
        del self.samples[:]
        self.block_calls, self.steady, self.waited = 1, False, None

    @property
    def disturbance(self) -> "Disturbance | None":
        """What the samples hold beside the workload: threads that waited, or a slow spell."""
        if not self.samples:
            return None
        middle = median(self.samples)
        waiting = (self.waited or 0.0) / (sum(self.samples) * self.block_calls)
        if waiting > _DISTURBED:
            reason = f"threads waited for a processor for {waiting:.0%} of the time of the CPU's blocks"
            return Disturbance(own=max(0.0, 1 - waiting), reason=reason)
        if middle > _WANDERING * self.fastest:
            reason = (
                f"the CPU's times wander: their median is {middle:.2g} s, a block took {self.fastest:.2g} s"
            )
            return Disturbance(own=self.fastest / middle, reason=reason)
        return None

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
            device_time=self.device_time,
            waited=self.waited,
        )


def prepare(bind: Callable[[Device], Callable[[], Any]], device: TimedDevice) -> tuple[Workload, Any]:
    """Run the body once and return the workload with its first result.

    A body that returns a callable was the setup and the callable is the workload; any other body is the
    workload itself.
    """
    uploads = Uploads(device)
    body = bind(uploads)
    elapsed, result, seen = _watched_call(body, device)
    uploads.stop()
    if callable(result):
        _check_callable(result)
        workload = Workload(device=device, call=result, scope="call", setup=elapsed)
        workload.inputs = found(result, uploads.inputs, device)
        elapsed, result, seen = _watched_call(workload.call, device)
    else:
        workload = Workload(device=device, call=body, scope="body", setup=None)
    uploads.inputs.clear()
    if inspect.isawaitable(result):
        getattr(result, "close", lambda: None)()
        raise GpuPerfError("the workload is async and would never run; time a function that runs the loop")
    workload.first_call = elapsed
    workload.seen = seen.worked
    workload.worked = seen.worked or any(device.holds(leaf.value) for leaf in leaves(result))
    return workload, result


def warm_up(workload: Workload, plan: Plan) -> None:
    """Find how many calls a block needs, and repeat blocks until three of them agree.

    A block lasts at least the plan's block time, 20 times an empty synchronize and 1000 times the clock's
    resolution.
    """
    device = workload.device
    with _collection_off():
        workload.synchronize_cost = min(block(lambda: None, 1, device) for _ in range(5))
    shortest = max(plan.block_time, 20 * workload.synchronize_cost, 1000 * _resolution())
    started = device.clock()
    recent: list[float] = []
    while not workload.steady and not _warm(workload, device.clock() - started, plan):
        with _collection_off():
            sample = block(workload.call, workload.block_calls, device)
        workload.warmup_calls += workload.block_calls
        workload.fastest = min(workload.fastest, sample)
        recent = [*recent[-2:], sample]
        if sample * workload.block_calls < shortest:
            if workload.block_calls >= _MOST_CALLS:
                raise GpuPerfError(f"{workload.block_calls} calls take no time that the clock can show")
            workload.block_calls = _more_calls(workload.block_calls, sample, shortest)
            recent.clear()
        workload.steady = len(recent) == _BLOCKS_THAT_AGREE and max(recent) <= (1 + plan.steady) * min(recent)
    workload.warmup = device.clock() - started


def rounds(cpu: Workload, gpu: Workload, order: Random) -> Iterator[Round]:
    """Yield round after round, one block on each device, which of them first drawn afresh each time."""
    while True:
        first, second = (cpu, gpu) if order.random() < 0.5 else (gpu, cpu)
        sample(first)
        sample(second)
        yield Round(cpu=cpu.samples[-1], gpu=gpu.samples[-1])


def rounds_against(cpu_samples: Iterable[float], gpu: Workload) -> Iterator[Round]:
    """Yield a round for each sample that was taken of the CPU before, with a block on the GPU now."""
    for cpu_sample in cpu_samples:
        sample(gpu)
        yield Round(cpu=cpu_sample, gpu=gpu.samples[-1])


def sample(workload: Workload) -> None:
    """Time one block and keep its sample; a workload that raised is left running."""
    workload.running = True
    before = _waited(workload.device)
    with _collection_off():
        taken = block(workload.call, workload.block_calls, workload.device)
    after = _waited(workload.device)
    workload.running = False
    if before is not None and after is not None:
        workload.waited = (workload.waited or 0.0) + max(0.0, after - before)
    if taken <= 0:
        raise GpuPerfError(f"{workload.block_calls} calls took no time that the clock can show")
    workload.fastest = min(workload.fastest, taken)
    workload.samples.append(taken)


def block(call: Callable[[], Any], calls: int, device: TimedDevice) -> float:
    """Return the seconds per call of one block; the result of each call is dropped as it comes."""
    clock = device.clock
    device.synchronize()
    started = clock()
    for _ in repeat(None, calls):
        call()
    device.synchronize()
    return (clock() - started) / calls


def finish(workload: Workload) -> Any:
    """Return the result of one more call, which the device times by its own events."""
    elapsed, result, seen = _watched_call(workload.call, workload.device)
    workload.fastest = min(workload.fastest, elapsed)
    workload.device_time = seen.device_time
    if workload.seen and not seen.worked:
        raise GpuPerfError(
            f"the last call did no work on {workload.device.name}, as the first did: does it return a result "
            "that was kept? Time the work itself"
        )
    return result


def _waited(device: TimedDevice) -> float | None:
    """Return the process's wait for a processor so far; simulated time has none in it."""
    return waited() if device.clock is perf_counter else None


def _watched_call(call: Callable[[], Any], device: TimedDevice) -> _WatchedCall:
    """Call once; the device is watched during the call, and waited for after it."""
    device.synchronize()
    started = device.clock()
    with device.observe() as seen:
        result = call()
    device.synchronize()
    return _WatchedCall(device.clock() - started, result, seen)


def _check_callable(workload: Callable[..., Any]) -> None:
    """Refuse a callable that cannot be called as it is."""
    try:
        inspect.signature(workload).bind()
    except TypeError as error:
        raise GpuPerfError(f"the callable that the test returned takes arguments: {error}") from error
    except ValueError:
        return  # a builtin that does not tell its signature


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


@contextmanager
def _collection_off() -> Iterator[None]:
    """Keep the garbage collector out of a block."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _resolution() -> float:
    return get_clock_info("perf_counter").resolution
