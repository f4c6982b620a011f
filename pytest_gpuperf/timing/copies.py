"""From a device to the seconds of plain copies within its memory, for any number of bytes that they move."""

from dataclasses import dataclass
from math import ceil, floor, log2
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from pytest_gpuperf.devices.clock import seconds_between
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import is_outcome
from pytest_gpuperf.timing import warm_up
from pytest_gpuperf.timing.gpu_clocks import has_own_clocks

_LEAST_MOVED = 1 << 12  # bytes: smaller copies take as long
_MOST_ON_CPU, _MOST_ON_GPU = 1 << 29, 1 << 30  # bytes: larger copies take longer in proportion
_ROOM = 4  # times what a copy needs must be free on the device
_LEAST_OF_MOST = 1 << 27  # bytes: the proportion of a copy in a cache is another one
_BLOCK_TIME = 2e-3  # seconds, in which the wait for a GPU is a small part
_BLOCKS, _LONGEST = 7, 0.03  # of which the fastest counts; seconds for them, if three have been timed
_FEWEST = 3
_BEYOND_LAUNCH = 3  # times as long as the smallest copy, which is launched and moves next to nothing
_IN_CACHE, _MUCH_LARGER = 1.5, 8  # times the bandwidth of a copy that is so many times as large


@dataclass(frozen=True, slots=True)
class Copy:
    """The seconds of a plain copy, and whether they are those of its bytes rather than of its launch."""

    seconds: float
    bandwidth_limited: bool


class Copies:
    """The seconds of plain copies within one device's memory, by the bytes that they read and write.

    A size is timed when it is first asked for: powers of two, between which times follow a power law, as in
    lmbench (McVoy and Staelin, 1996). The fastest block counts, since a roof is what the device can do.
    """

    def __init__(self, device: TimedDevice) -> None:
        self._known: dict[int, float | None] = {}
        self._most = _MOST_ON_GPU if has_own_clocks(device) else _MOST_ON_CPU
        free = device.free_memory()
        while free is not None and _ROOM * self._most > free and self._most > _LEAST_OF_MOST:
            self._most //= 2

    def find(
        self, moved: int, device: TimedDevice, options: RunOptions, *, again: bool = False
    ) -> Copy | None:
        """Return what a copy takes that moves so many bytes; None where the device offers none.

        It is timed `again` where much hangs on it: a moment in which the machine was busy makes it slow.
        """
        launch = self._timed(_LEAST_MOVED, device, options)
        power = log2(min(max(moved, _LEAST_MOVED), self._most))
        below = self._timed(1 << floor(power), device, options, again=again)
        is_between = power > floor(power)
        above = self._timed(2 << floor(power), device, options, again=again) if is_between else below
        if launch is None or below is None or above is None:
            return None
        found = below * (above / below) ** (power - floor(power)) * max(1.0, moved / self._most)
        return Copy(found, bandwidth_limited=found >= _BEYOND_LAUNCH * launch)

    def are_in_cache(self, moved: int, copy: float, device: TimedDevice, options: RunOptions) -> bool:
        """Return whether a copy of so many seconds has clearly more bandwidth than a much larger one."""
        larger = min(self._most, _MUCH_LARGER << ceil(log2(moved)))
        found = self._timed(larger, device, options)
        return found is not None and moved / copy > _IN_CACHE * larger / found

    def _timed(
        self, moved: int, device: TimedDevice, options: RunOptions, *, again: bool = False
    ) -> float | None:
        """Return how long a copy of such a size takes at least."""
        if again or moved not in self._known:
            found = _time_copies(moved // 2, device, options)
            times = filter(None, [found, self._known.get(moved)])
            self._known[moved] = min(times, default=None)
            device.release()  # the memory of the copies
        return self._known[moved]


def device_of_copies(device: TimedDevice) -> TimedDevice:
    """Return the device whose copies are timed: all that share the host's memory have one roof."""
    return _HOST if device.shares_host_memory else device


def copies_of(device: TimedDevice) -> Copies:
    """Return the copies of a device that this process has timed so far."""
    try:
        if (found := _known.get(device)) is None:  # else a new one would ask the device for its free memory
            found = _known[device] = Copies(device)
    except TypeError:  # of another plugin, without weak references: it copies anew in each test
        found = Copies(device)
    return found


_HOST = HostDevice("CPU")
_known: "WeakKeyDictionary[Any, Copies]" = WeakKeyDictionary()


def _time_copies(size: int, device: TimedDevice, options: RunOptions) -> float | None:
    """Return the time of the fastest copy of `size` bytes, in seconds; None if the device cannot make one."""
    sampling = replace(options.sampling, block_time=_BLOCK_TIME)
    found: list[float] = []
    try:
        with device.context():
            copiers = device.copiers(size)
        for copier in copiers:
            timer = warm_up.warmed_up(copier, device, replace(options, sampling=sampling), calls_wait=False)
            started = device.clock()
            while len(timer.samples) < _BLOCKS:
                timer.take_sample()
                if len(timer.samples) >= _FEWEST and seconds_between(started, device.clock()) > _LONGEST:
                    break
            timer.drop_result()
            found.append(min(timer.samples))
    except Exception as error:
        fault = device.fault(error)
        if is_outcome(error) or (fault is not None and fault.kind == "lost"):
            raise
        return None
    return min(found, default=None)
