"""A CPU and a GPU with a simulated clock: exact kernel, launch and copy times, and injected faults.

The arrays are real (NumPy computes them) and the times are not: the device's Timing sets the cost of every
operation, on a clock that only the simulated devices advance. The GPU is asynchronous: a launch returns at
once and its kernel ends later, on its stream.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, cast

import numpy as np

from pytest_gpuperf.devices.library import Namespace
from pytest_gpuperf.devices.protocol import Activity, Backend, Observation, TimedDevice
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import Fault, GpuPerfError, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo


class Clock:
    """A clock that advances only when a simulated device works or is waited for."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The cost of operations in seconds; bandwidth in bytes per second, memory in bytes.

    `upload` is the bandwidth to the device where that differs. Without a `pool` the device allocates every
    array. Each kernel of a CPU keeps `threads` busy. A copy from another GPU takes `peer_latency`, and its
    bytes over `peer_bandwidth`, of both. A copy within the device takes what it reads and writes over the
    `memory_bandwidth`; None where it offers no such copy.
    """

    kernel: float = 1e-3
    per_element: float = 0.0
    launch: float = 0.0
    synchronize: float = 0.0
    bandwidth: float = 1e10
    upload: float | None = None
    memory: int = 1 << 34
    pool: bool = True
    memory_bandwidth: float | None = None
    threads: float = 1.0
    peer_latency: float = 0.0
    peer_bandwidth: float = 1e11


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """A fault at the `call`-th launch, counted from 1."""

    kind: Literal["out_of_memory", "lost"]
    call: int
    requested: int | None = None


class SimulatedOutOfMemory(MemoryError):
    """The simulated device has not enough memory left."""

    def __init__(self, requested: int | None) -> None:
        super().__init__(f"simulated device out of memory, {requested} bytes requested")
        self.requested = requested


class SimulatedDeviceLost(RuntimeError):
    """The simulated device is lost; every later use of it raises this again."""


class SimulatedArray(np.ndarray[Any, Any]):
    """A NumPy array on a simulated device: its operations are launches on that device."""

    home: "SimulatedDevice"
    reserved = 0  # bytes on the device; none of a view

    def __del__(self) -> None:
        if self.reserved:
            self.home.live_bytes -= self.reserved

    def __array_finalize__(self, source: Any) -> None:
        if isinstance(source, SimulatedArray):
            self.home = source.home

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        outputs = options.get("out", ())
        if outputs:
            options["out"] = tuple(_to_numpy(output) for output in outputs)
        result = getattr(ufunc, method)(*map(_to_numpy, inputs), **options)
        self.home.launch_for(result)
        return outputs[0] if outputs else self.home.place(result, is_new=True)

    def __array_function__(self, function: Any, _: Any, inputs: Any, options: Any) -> Any:
        return self.home.run(function, inputs, options)

    def copy(self, *inputs: Any, **options: Any) -> Any:
        """Copy on the device, as one launch."""
        return self.home.run(np.ndarray.copy, (self, *inputs), options)

    def astype(self, *inputs: Any, **options: Any) -> Any:
        """Convert on the device, as one launch."""
        return self.home.run(np.ndarray.astype, (self, *inputs), options)

    def sort(self, *inputs: Any, **options: Any) -> None:
        """Sort in place, as one launch."""
        _to_numpy(self).sort(*inputs, **options)
        self.home.launch_for(self)

    def item(self, *index: Any) -> Any:
        """Copy a value to the host, after waiting for the device."""
        self.home.synchronize()
        return _to_numpy(self).item(*index)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())


# More than 20 methods and 15 fields: it answers all that a TimedDevice may be asked, as tests tell it to.
class SimulatedDevice(TimedDevice):
    """A device with exact times; `noise` returns the factor by which a kernel's time is off."""

    backend = "simulated"

    def __init__(
        self,
        kind: Kind,
        *,
        clock: Clock,
        timing: Timing | None = None,
        faults: Sequence[Injected] = (),
        noise: Callable[[], float] = lambda: 1.0,
        throttle: Callable[[], tuple[str, ...]] = tuple,
        reduced_precision: str | None = None,
        reduced_eps: float | None = None,
        index: int = 0,
    ) -> None:
        self.kind = kind
        self.name = f"simulated {kind.upper()}{f' {index}' if index else ''}"
        self.clock: Clock = clock
        self.xp = Namespace(np, self._placed)
        self._throttle = throttle
        self._timing = timing or Timing()
        self.info: DeviceInfo = DeviceInfo(
            kind=kind,
            backend=self.backend,
            name=self.name,
            library=f"numpy {np.__version__}",
            emulated=True,
            memory=self._timing.memory,
            reduced_precision=reduced_precision,
            reduced_eps=reduced_eps,
        )
        self.launches = 0
        self.copies = 0
        self.live_bytes = 0
        self.peak_bytes = 0
        self.released = 0
        self.allocations = 0
        self._reserved = 0
        self._worked = 0.0
        self._faults = tuple(faults)
        self._noise = noise
        self._streams: defaultdict[int, float] = defaultdict(float)  # the time at which each one is done
        self._lost = False

    def launch(self, seconds: float | None = None, *, stream: int = 0) -> None:
        """Submit one kernel of `seconds`: a CPU has run it on return, a GPU's stream runs it later."""
        self.launches += 1
        self._inject_faults()
        cost = (self._timing.kernel if seconds is None else seconds) * self._noise()
        self.clock.advance(self._timing.launch)
        if self.kind == "cpu":
            self.clock.advance(cost)
            self._worked += cost * self._timing.threads
        else:
            self._streams[stream] = max(self._streams[stream], self.clock()) + cost

    def launch_for(self, result: Any) -> None:
        """Submit the kernel that makes `result`, at its fixed cost and that of its elements."""
        self.launch(self._timing.kernel + self._timing.per_element * _size(result))

    def run(self, function: Callable[..., Any], inputs: Any, options: Any) -> Any:
        """Run a NumPy function as one kernel and place its arrays on this device."""
        result = function(*_all_to_numpy(inputs), **_all_to_numpy(options))
        self.launch_for(result)
        return self.place(result)

    def place(self, value: Any, *, is_new: bool = False) -> Any:
        """Return `value` with its arrays, in tuples and lists too, on this device; new ones need no copy."""
        if isinstance(value, tuple | list):
            return _like(value, (self.place(part, is_new=is_new) for part in value))
        if not isinstance(value, np.ndarray | np.generic):
            return value
        return self._allocate(np.asarray(value) if is_new else np.array(value))

    def asarray(self, host: Any) -> SimulatedArray:
        """Copy to this device at its bandwidth; from another GPU once the work of both before it is done."""
        self._raise_if_lost()
        array = np.array(_to_numpy(host))
        if (
            isinstance(host, SimulatedArray)
            and host.home is not self
            and host.home.kind == self.kind == "gpu"
        ):
            self._receive(host.home, array.nbytes)
            return self._allocate(array)
        self.copies += 1
        self.clock.advance(array.nbytes / (self._timing.upload or self._timing.bandwidth))
        return self._allocate(array)

    def asnumpy(self, array: Any) -> Any:
        """Wait for the device, then copy to the host at its bandwidth."""
        self.synchronize()
        self.copies += 1
        self.clock.advance(array.nbytes / self._timing.bandwidth)
        return np.array(_to_numpy(array))

    def synchronize(self) -> None:
        """Wait for every stream."""
        self._raise_if_lost()
        self.clock.now = max([self.clock.now, *self._streams.values()]) + self._timing.synchronize

    def holds(self, value: Any) -> bool:
        """Return whether `value` was made on this device."""
        return isinstance(value, SimulatedArray) and value.home is self

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Count what is submitted and allocated; time the first stream by two events, and what ends after."""
        observation = Observation()
        submitted, allocations = self.launches + self.copies, self.allocations
        start = max(self._streams[0], self.clock())
        before, peak = self.live_bytes, self.peak_bytes
        self.peak_bytes = before
        yield observation
        observation.worked = self.launches + self.copies > submitted
        observation.allocations = self.allocations - allocations
        observation.live = before
        observation.memory = self.peak_bytes - before
        observation.held = self.live_bytes - before
        self.peak_bytes = max(peak, self.peak_bytes)
        if self.kind == "gpu":
            end = max(start, self._streams[0])
            observation.device_time = end - start
            last = max(self._streams.values(), default=0.0)
            observation.outside_time = max(0.0, last - max(end, self.clock()))

    def activity(self, call: Callable[[], Any], smallest: int) -> Activity:  # noqa: ARG002 - no size escapes it
        """Count a call's launches and its copies from and to the host."""
        launches, copies = self.launches, self.copies
        call()
        return Activity(computed=self.launches - launches, copied=self.copies - copies, is_complete=True)

    def copiers(self, size: int) -> tuple[Callable[[], Any], ...]:
        """Return a kernel that lasts as long as such a copy."""
        bandwidth = self._timing.memory_bandwidth
        return () if bandwidth is None else (lambda: self.launch(2 * size / bandwidth),)

    def occupy(self, seconds: float) -> bool:
        """Keep the first stream busy, without counting a launch."""
        self._streams[0] = max(self._streams[0], self.clock()) + seconds
        return True

    def throttle(self) -> tuple[str, ...]:
        """Return the reasons that were given to it."""
        return self._throttle()

    def pause(self, seconds: float) -> None:
        """Let time pass in which nothing is submitted."""
        self.clock.advance(seconds)

    def processor_time(self) -> float | None:
        """Return the seconds that a CPU's threads have worked, summed over the threads."""
        return self._worked if self.kind == "cpu" else None

    def host_memory(self, host: Any) -> Literal["pinned", "pageable"]:  # noqa: ARG002 - a capability's signature
        """Return "pageable": simulated copies know no pinned memory."""
        return "pageable"

    def fault(self, error: BaseException) -> Fault | None:
        """Recognize the faults that this device raises."""
        if isinstance(error, MemoryError):
            return Fault(kind="out_of_memory", requested=getattr(error, "requested", None))
        return Fault(kind="lost") if isinstance(error, SimulatedDeviceLost) else None

    def release(self) -> None:
        """Count the calls: there is no memory to return."""
        self.released += 1

    def _receive(self, source: "SimulatedDevice", size: int) -> None:
        """Copy so many bytes from another GPU: both are busy with it, after what they have to do."""
        others = source._streams  # noqa: SLF001 - another device of this class
        ends = max(self.clock(), self._streams[0], others[0])
        ends += self._timing.peer_latency + size / self._timing.peer_bandwidth
        self._streams[0] = others[0] = ends

    def _placed(self, _: str, value: Any) -> Any:
        """Return a part of NumPy whose functions run on this device."""
        if isinstance(value, ModuleType):
            return Namespace(value, self._placed)
        if not callable(value) or isinstance(value, type):
            return value
        return lambda *inputs, **options: self.run(value, inputs, options)

    def _inject_faults(self) -> None:
        """Raise the fault that was injected for this launch, if any."""
        for fault in self._faults:
            if self.launches == fault.call:
                if fault.kind == "out_of_memory":
                    raise SimulatedOutOfMemory(fault.requested)
                self._lost = True
        self._raise_if_lost()

    def _raise_if_lost(self) -> None:
        if self._lost:
            raise SimulatedDeviceLost("simulated device lost")

    def _allocate(self, values: Any) -> SimulatedArray:
        if self.live_bytes + values.nbytes > self._timing.memory:
            raise SimulatedOutOfMemory(values.nbytes)
        array = cast("SimulatedArray", values.view(SimulatedArray))
        array.home = self
        self.live_bytes += values.nbytes
        if self.live_bytes > self._reserved or not self._timing.pool:
            self.allocations += 1
            self._reserved = max(self._reserved, self.live_bytes)
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        array.reserved = values.nbytes
        return array


class SimulatedBackend(Backend):
    """`simulated`: both devices on one clock; register a backend with other timings through the hook."""

    def __init__(
        self,
        *,
        name: str = "simulated",
        cpu: Timing | None = None,
        gpu: Timing | None = None,
        faults: Sequence[Injected] = (),
        unavailable: str | None = None,
        throttle: Callable[[], tuple[str, ...]] = tuple,
        count: int = 1,
    ) -> None:
        self.name = name
        self.opened = 0
        self._unavailable = unavailable
        clock = Clock()
        self._cpu = SimulatedDevice("cpu", clock=clock, timing=cpu or Timing(kernel=10e-3))
        timing = gpu or Timing(launch=5e-6)
        self._gpus = [
            SimulatedDevice("gpu", clock=clock, timing=timing, faults=faults, throttle=throttle, index=index)
            for index in range(count)
        ]

    def check(self, selector: str) -> None:
        """Accept nothing, or a device number."""
        if selector and not (selector.isdecimal() and int(selector) < len(self._gpus)):
            raise GpuPerfError(
                f"the device of {self.name} is a number below {len(self._gpus)}, not {selector!r}"
            )

    def is_emulation(self, selector: str) -> bool:
        """Return whether that device is no GPU, as its `info` says; one that cannot be used emulates none."""
        return self._unavailable is None and self._gpus[int(selector or 0)].info.emulated

    def count(self) -> int:
        """Return how many GPUs are simulated."""
        return len(self._gpus)

    def gpu(self, selector: str) -> SimulatedDevice:
        """Return the simulated GPU; raise Unavailable if a cause was set."""
        self.opened += 1
        if self._unavailable is not None:
            raise Unavailable(self._unavailable)
        return self._gpus[int(selector or 0)]

    def cpu(self) -> SimulatedDevice:
        """Return the simulated CPU."""
        return self._cpu


def _to_numpy(value: Any) -> Any:
    """Return the values of a simulated array as a plain NumPy array; other values as they are."""
    return value.view(np.ndarray) if isinstance(value, SimulatedArray) else value


def _all_to_numpy(values: Any) -> Any:
    """Return arguments with plain NumPy arrays, also inside tuples, lists and dicts."""
    if isinstance(values, dict):
        return {name: _all_to_numpy(value) for name, value in values.items()}
    if isinstance(values, tuple | list):
        return _like(values, map(_all_to_numpy, values))
    return _to_numpy(values)


def _like(value: Any, parts: Iterator[Any]) -> Any:
    """Return a tuple or list of the type of another one, which may have names for its parts."""
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def _size(result: Any) -> int:
    """Return the number of elements of an array, or of those in tuples and lists."""
    return sum(map(_size, result)) if isinstance(result, tuple | list) else np.size(_to_numpy(result))
