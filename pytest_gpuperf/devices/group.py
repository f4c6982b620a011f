"""Several devices of one library as one: what a scaling test works on, and what measuring it needs."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from msgspec.structs import replace

from pytest_gpuperf.devices.protocol import Observation, TimedDevice
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import Fault, GpuPerfError
from pytest_gpuperf.model.scaling import RankBlocks


class DeviceGroup(TimedDevice):
    """Devices that work on one test together: `all` of them, `count` in number, driven by this process.

    An array on a group is a list with a part for each device, in their order: `asarray` makes it. The test
    submits the work to each of them. A library whose arrays live on several devices has a group of its own.
    """

    kind: Kind = "gpu"
    shares_processors = True
    bytes_elsewhere = 0
    """Those of inputs on devices that other processes drive."""
    blocks: RankBlocks | None = None
    """What timed blocks of several processes showed of these."""

    def __init__(self, devices: Sequence[TimedDevice]) -> None:
        self.all = tuple(devices)
        self.count = len(devices)
        first = devices[0]
        self.backend, self.xp, self.clock = first.backend, first.xp, first.clock
        # Its library is that of all, work runs on it unless a test says otherwise, and all have one clock.
        self.context, self.watch, self.pause = first.context, first.watch, first.pause  # type: ignore[method-assign]
        self.runs_products, self.is_constant = first.runs_products, first.is_constant  # type: ignore[method-assign]
        self.compilations = first.compilations  # type: ignore[method-assign]  # each has its own
        self.worked = [True] * self.count
        self._observed = 0  # how often
        self.name = first.name if self.count == 1 else f"{self.count} x {first.name}"

    @property
    def info(self) -> Any:
        """The description of the first device, under the name of all."""
        return replace(self.all[0].info, name=self.name)

    def asarray(self, host: Any, *, shard: int | None = None) -> Any:
        """Return a part of `host` on each device: equal ones along the axis `shard`, or copies without it.

        GpuPerfError where the axis does not exist, or the devices cannot share it equally.
        """
        if shard is None:
            return [device.asarray(host) for device in self.all]
        parts = np.split(np.asarray(host), self.count, axis=self.divisible_axis(host, shard))
        return [device.asarray(part) for device, part in zip(self.all, parts, strict=True)]

    def asnumpy(self, array: Any) -> Any:
        """Return an array of one of the devices on the host; of a `Parts` all, along a new first axis."""
        if isinstance(array, Parts):
            return np.stack([self.asnumpy(part) for part in array.arrays]).view(StackedParts)
        home = next((device for device in self.all if device.holds(array)), self.all[0])
        return home.asnumpy(array)

    def synchronize(self) -> None:
        """Wait for every device."""
        for device in self.all:
            device.synchronize()

    def holds(self, value: Any) -> bool:
        """Return whether `value` is an array on one of the devices, or on all of them."""
        return isinstance(value, Parts) or any(device.holds(value) for device in self.all)

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Observe each device; the group worked where one of them did, and no time is that of all.

        `worked` has, in their order, whether each of them did in the last call that was observed. One that
        is asked after the call whether it still works is then waited for, and the others may be done by
        the time that they are asked: each time another device is the first to be asked.
        """
        observation, each = Observation(), dict[int, Observation]()
        with ExitStack() as stack:
            for place in range(self.count):
                number = (place + self._observed) % self.count
                each[number] = stack.enter_context(self.all[number].observe())
            self._observed += 1
            make_current = getattr(self.all[0], "make_current", None)
            if make_current is not None:  # each device that is observed becomes the current one
                make_current()
            yield observation
        self.worked = [each[number].worked for number in range(self.count)]
        observation.worked = any(self.worked)

    def fault(self, error: BaseException) -> Fault | None:
        """Return the first device's fault that the error means."""
        return next(filter(None, (device.fault(error) for device in self.all)), None)

    def release(self) -> None:
        """Return memory that no array uses to every device."""
        for device in self.all:
            device.release()

    def throttle(self) -> tuple[str, ...]:
        """Return why any of the devices runs slower than it should."""
        return tuple({reason: None for device in self.all for reason in device.throttle()})

    def throttle_counters(self) -> dict[str, int]:
        """Return how much each reason has slowed each device down so far."""
        return {
            f"{reason} (device {index})" if self.count > 1 else reason: amount
            for index, device in enumerate(self.all)
            for reason, amount in (device.throttle_counters() or {}).items()
        }

    def other_processes(self) -> int | None:
        """Return how many other processes use that of the devices which most of them use."""
        counts = (device.other_processes() for device in self.all)
        return max((count for count in counts if count is not None), default=None)

    def sm_mhz(self) -> int | None:
        """Return the clock of the slowest device, for which the others wait."""
        return min(filter(None, (device.sm_mhz() for device in self.all)), default=None)

    def idle(self, arrays: Iterable[Any]) -> list[int]:
        """Return the numbers of the devices that hold none of these arrays."""
        arrays = list(arrays)
        return [
            number for number, device in enumerate(self.all) if not any(device.holds(each) for each in arrays)
        ]

    def at_work(self, results: Iterable[Any]) -> set[int]:
        """Return the numbers of the devices that worked in the last call, or have a part of its results."""
        idle = self.idle(results)
        return {number for number, worked in enumerate(self.worked) if worked or number not in idle}

    def on_first(self, arrays: Iterable[Any]) -> list[Any]:
        """Return what the first device holds of these arrays: its parts of them, or its copies."""
        return [array for array in arrays if self.all[0].holds(array)]

    def unpack(self, value: Any) -> "Parts | None":
        """Return a list or tuple as the parts of one array, if it has one on each device, in their order."""
        if not isinstance(value, list | tuple) or len(value) != self.count:
            return None
        are_parts = all(device.holds(part) for device, part in zip(self.all, value, strict=True))
        return Parts(value) if are_parts and len({tuple(part.shape) for part in value}) == 1 else None

    def gathered(self, values: list[Any]) -> list[Any]:
        """Return the values of the last result with those that other processes have of it."""
        return values

    def divisible_axis(self, host: Any, axis: int) -> int:
        """Return an axis of an array that the devices can share equally; else raise GpuPerfError."""
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise GpuPerfError(f"shard={axis!r}: pass the number of an axis, or leave it out for copies")
        shape = np.shape(host)
        if not -len(shape) <= axis < len(shape):
            raise GpuPerfError(f"shard={axis}: an array of shape {shape} has no such axis")
        if shape[axis] % self.count:
            raise GpuPerfError(
                f"shard={axis}: {self.count} devices cannot share {shape[axis]} elements equally; use a size "
                f"that is a multiple of {self.count}"
            )
        return axis


class Parts:
    """Arrays of one shape, one on each device of a group, in their order: the parts or copies of a result."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.arrays = arrays


class StackedParts(np.ndarray[Any, Any]):
    """The parts of a result on the host, along the first axis."""
