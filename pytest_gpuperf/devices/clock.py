"""A device's clock: the seconds between two readings, the least time that it can show, and a wait by it."""

from collections.abc import Callable
from itertools import count
from math import inf
from time import get_clock_info, perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.errors import GpuPerfError

FINE = 1e-5
"""Seconds: a clock of at most such steps shows a thousandth of a short block."""
# In a row: a clock that goes by itself, and is fine, shows a step between two of so many readings.
_READINGS, _CHANGES = 20, 5
_FIRST_PAUSE, _LONGEST_PAUSE = 1e-9, 0.1  # seconds; each is twice as long as the one before
_WATCHED = 0.1  # seconds by the host's clock, for the steps of one that goes by itself and has no pause


class ClockError(GpuPerfError):
    """A device's clock went back, or showed what is no time: nothing that it has timed can be trusted."""


def seconds_between(started: float, ended: float) -> float:
    """Return the seconds between two readings; raise ClockError where there cannot be so many."""
    return require_seconds(ended - started)


def require_seconds(seconds: float) -> float:
    """Return what a device says to have lasted; raise ClockError where nothing can."""
    if not 0 <= seconds < inf:  # NaN is neither
        raise ClockError(f"the device's clock cannot be right: it measured {seconds} s")
    return seconds


def step_of(device: TimedDevice) -> float:
    """Return the seconds of a step of the device's clock; 0 where a clock of its own shows none.

    Such a clock may go by itself, or only while the device works or pauses. It is asked once in a process.
    """
    if device.clock is perf_counter:
        return get_clock_info("perf_counter").resolution
    try:
        if device not in _known:
            _known[device] = _found(device)
        return _known[device]
    except TypeError:  # of another plugin, without weak references or a hash: it is asked each time
        return _found(device)


_known: "WeakKeyDictionary[Any, float]" = WeakKeyDictionary()


def let_pass(device: TimedDevice, seconds: float) -> None:
    """Let so many seconds pass: too few to sleep for, which would let the processor's clocks fall."""
    if device.clock is not perf_counter:
        capabilities.pause(device, seconds)
        return
    ends = perf_counter() + seconds
    while perf_counter() < ends:
        pass


def _found(device: TimedDevice) -> float:
    """Return the step that the clock shows: in a few readings, after pauses, or if it is watched."""
    clock = device.clock
    if step := _least_change(clock, 0.0):
        return step
    before, pause = clock(), _FIRST_PAUSE
    if device.pause is None:
        return _least_change(clock, _WATCHED)
    while pause <= _LONGEST_PAUSE:
        capabilities.pause(device, pause)
        if step := seconds_between(before, clock()):
            return step
        pause *= 2
    return 0.0


def _least_change(clock: Callable[[], float], seconds: float) -> float:
    """Return the least of some changes between two readings in so many seconds of the host; 0 for none.

    Of one change alone the host may have been away for longer.
    """
    watched, before, changes = perf_counter(), clock(), list[float]()
    for readings in count():
        if len(changes) == _CHANGES or (readings > _READINGS and perf_counter() - watched > seconds):
            break
        now = clock()
        if change := seconds_between(before, now):
            changes.append(change)
        before = now
    return min(changes, default=0.0)
