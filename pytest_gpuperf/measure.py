"""From a workload and a device to samples: first call, warm-up, blocks, rounds.

A sample is the time per call of one block: synchronize, host clock, k calls, synchronize, host clock. Only
the workload runs between the two readings.
"""

import gc
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, repeat
from math import ceil
from random import Random
from time import get_clock_info
from typing import Any, Literal
from zlib import crc32

import numpy as np

from pytest_gpuperf.devices.protocol import Device, TimedDevice
from pytest_gpuperf.model import GpuPerfError, Measurement, Plan, Round
from pytest_gpuperf.parity import leaves

__all__ = [
    "Workload",
    "block",
    "changed_input",
    "finish",
    "prepare",
    "rounds",
    "rounds_against",
    "sample",
    "warm_up",
]

_LONGEST_WARMUP = 10  # of a workload too slow to become steady within the plan's warm-up time
_FEWEST_CALLS = 3
_MOST_CALLS = 10**7
_MOST_LEAVES = 1000  # of one container that a workload carries: a long list of numbers holds no arrays


class _Uploads:
    """A device as a body sees it while it sets up: what it puts up is remembered as input."""

    def __init__(self, device: TimedDevice) -> None:
        self.kind, self.backend, self.name, self.xp = device.kind, device.backend, device.name, device.xp
        self.asnumpy = device.asnumpy
        self.synchronize = device.synchronize
        self.asarray = self._remember
        self._device = device
        self.inputs: list[Any] = []

    def settle(self) -> None:
        """Stop remembering: from here on the device's own method is called."""
        self.asarray = self._device.asarray

    def _remember(self, host: Any) -> Any:
        placed = self._device.asarray(host)
        self.inputs.append(placed)
        return placed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


@dataclass(frozen=True, slots=True)
class _Input:
    """An array that the workload uses, and the checksum it had before the first call."""

    array: Callable[[], Any]
    checksum: int


@dataclass(slots=True, kw_only=True)
class Workload:
    """One workload on one device, and what has been measured of it so far."""

    device: TimedDevice
    call: Callable[[], Any]
    scope: Literal["body", "call"]
    setup: float | None
    inputs: tuple[_Input, ...] = ()
    first_call: float = 0.0
    worked: bool = False
    block_calls: int = 1
    warmup: float = 0.0
    warmup_calls: int = 1
    steady: bool = False
    running: bool = False
    synchronize_cost: float = 0.0
    device_time: float | None = None
    samples: "array[float]" = field(default_factory=lambda: array("d"))

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
        )


def prepare(bind: Callable[[Device], Callable[[], Any]], device: TimedDevice) -> tuple[Workload, Any]:
    """Run the body once and return the workload with its first result.

    A body that returns a callable was the setup and the callable is the workload; any other body is the
    workload itself.
    """
    uploads = _Uploads(device)
    body = bind(uploads)
    with device.observe() as seen:
        elapsed, result = _timed(body, device)
    uploads.settle()
    if callable(result):
        workload = Workload(device=device, call=result, scope="call", setup=elapsed)
        workload.inputs = _inputs(result, uploads.inputs, device)
        with device.observe() as seen:
            elapsed, result = _timed(workload.call, device)
    else:
        workload = Workload(device=device, call=body, scope="body", setup=None)
    uploads.inputs.clear()
    workload.first_call = elapsed
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
        recent = [*recent[-2:], sample]
        if sample * workload.block_calls < shortest:
            if workload.block_calls >= _MOST_CALLS:
                raise GpuPerfError(f"{workload.block_calls} calls take no time that the clock can show")
            workload.block_calls = _more_calls(workload.block_calls, sample, shortest)
            recent.clear()
        workload.steady = len(recent) == _FEWEST_CALLS and max(recent) <= (1 + plan.steady) * min(recent)
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
    with _collection_off():
        taken = block(workload.call, workload.block_calls, workload.device)
    workload.running = False
    if taken <= 0:
        raise GpuPerfError(f"{workload.block_calls} calls took no time that the clock can show")
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
    """Return the result of one more call, untimed by the host and timed by the device's own events."""
    workload.device.synchronize()
    with workload.device.observe() as seen:
        result = workload.call()
        workload.device.synchronize()
    workload.device_time = seen.device_time
    return result


def changed_input(workload: Workload) -> str | None:
    """Return a description of an input whose values the workload has changed, if there is one."""
    for entry in workload.inputs:
        values = entry.array()
        if values is not None and _checksum(workload.device.asnumpy(values)) != entry.checksum:
            return f"{values.dtype} array of shape {tuple(values.shape)}"
    return None


def _timed(call: Callable[[], Any], device: TimedDevice) -> tuple[float, Any]:
    device.synchronize()
    started = device.clock()
    result = call()
    device.synchronize()
    return device.clock() - started, result


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


def _inputs(call: Callable[[], Any], uploaded: list[Any], device: TimedDevice) -> tuple[_Input, ...]:
    """Return the workload's inputs: what the body put on the device, and what the callable closes over."""
    carried = (leaf.value for value in _closed_over(call) for leaf in islice(leaves(value), _MOST_LEAVES))
    found = {id(value): value for value in (*uploaded, *carried) if device.holds(value)}
    return tuple(
        _Input(_weakly(value), _checksum(device.asnumpy(value)))
        for value in found.values()
        if value.dtype.kind in "biufc"
    )


def _closed_over(call: Any) -> Iterator[Any]:
    """Yield the values that a function, a partial or a bound method, with its object, carries along."""
    if isinstance(call, partial):
        yield from (*call.args, *call.keywords.values(), *_closed_over(call.func))
    owner = getattr(call, "__self__", None)
    yield from (owner, *getattr(owner, "__dict__", {}).values())
    yield from getattr(call, "__defaults__", None) or ()
    yield from (getattr(call, "__kwdefaults__", None) or {}).values()
    for cell in getattr(call, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a cell that is still empty
            continue


def _weakly(value: Any) -> Callable[[], Any]:
    """Return a way to the value that does not keep it alive, where its type allows that."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _checksum(values: Any) -> int:
    return crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
