"""Single calls, observed: how long they took, and whether the device was seen to work."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.clock import require_seconds, seconds_between
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.protocol import Observation, TimedDevice
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.units import first_few
from pytest_gpuperf.work.values import values_of
from pytest_gpuperf.work.workload import Workload

LAST_IS_IDLE = (
    "the last call submitted no work to {}, although the first one did; if the result is cached, time the "
    "computation itself"
)
"""What an error says of a call, with the name of its device."""

MIN_OCCUPIED = 5e-3
"""Seconds that a device is occupied beyond twice the time of submitting a call."""
MAX_OCCUPIED = 0.1
_LOOKS, _LOOKING = 30, 10e-3  # calls and seconds after which a call without any seen work counts as idle
_BEHIND_WORK = 32  # calls behind other work: the shortest kernels of so many take longer than two events
_SHORTEST_KERNEL = 1e-6  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCall:
    """One call: until it returned (`host_time`), until the device was done (`elapsed`), and what that saw.

    It `returned` at that time of the device's clock.
    """

    returned: float
    host_time: float
    elapsed: float
    result: Any
    observation: Observation


def observed_call(call: Callable[[], Any], device: TimedDevice, *, when_idle: bool = True) -> ObservedCall:
    """Call once, observed and then waited for; the device is idle before, unless it shall be occupied."""
    if when_idle:
        device.synchronize()
    wait, finished = device.wait, None
    call = capabilities.submitted(call, device)
    with device.observe() as observation:
        started = device.clock()
        result = call()
        returned = device.clock()
        if wait is not None:  # as blocks are waited for: the device as a whole may take longer to ask
            wait(result)
            waited = device.clock()
            finished = None if device.unfinished() else waited
    device.synchronize()
    if finished is None:
        finished = device.clock() if observation.finished is None else observation.finished
    elapsed = seconds_between(started, finished)
    host_time = seconds_between(started, returned)
    if observation.outside_time is not None:
        require_seconds(observation.outside_time)  # backends read their clock for it
    return ObservedCall(
        returned=returned, host_time=host_time, elapsed=elapsed, result=result, observation=observation
    )


def is_blind(device: TimedDevice) -> bool:
    """Return whether a device takes every call for work: it takes none at all for work, too."""
    with device.observe() as observation:
        pass
    return observation.worked


def is_seen_to_work(workload: Workload) -> bool:
    """Call again, a few times at most, until work is seen: a short kernel shows once its caches are warm."""
    spent = 0.0
    for _ in range(_LOOKS):
        workload.prepare()
        call = observed_call(workload.call, workload.device)
        spent += call.elapsed
        if call.observation.worked or spent > _LOOKING:
            return call.observation.worked
    return False


def is_seen_behind_work(workload: Workload) -> bool | None:
    """Return whether calls behind other work take the device longer than no call: short work shows there.

    None where the device cannot be occupied for so long, does not time what is submitted to it, or where the
    host was interrupted until that other work was done.
    """
    host_time = observed_call(workload.call, workload.device).host_time
    calls = _BEHIND_WORK if 2 * _BEHIND_WORK * host_time < MAX_OCCUPIED else 1
    occupied = 2 * calls * host_time + MIN_OCCUPIED
    if occupied > MAX_OCCUPIED:
        return None
    alone = _time_behind_work(workload, 0, occupied)
    behind = None if alone is None else _time_behind_work(workload, calls, occupied)
    return None if alone is None or behind is None else behind > 2 * alone + _SHORTEST_KERNEL


def _time_behind_work(workload: Workload, count: int, occupied: float) -> float | None:
    """Return how long so many calls take the device behind other work, None where that cannot be known."""
    for _ in range(_LOOKS):
        workload.prepare()
        workload.device.synchronize()
        if not workload.device.occupy(occupied):
            return None
        call = observed_call(partial(_repeat, workload.call, count), workload.device, when_idle=False)
        if call.host_time < (workload.device.occupied() or occupied):
            return call.observation.device_time  # what ends after it is timed by the host, less exactly
    return None


def _repeat(call: Callable[[], Any], count: int) -> None:
    for _ in range(count):
        call()


def devices_at_work(workload: Workload, group: DeviceGroup) -> set[int]:
    """Call a few times at most, until each device of a group was seen to work; return the numbers of those.

    One that has a part of the result worked, too.
    """
    seen: set[int] = set()
    spent, holds = 0.0, capabilities.holds(group)
    for look in range(1, _LOOKS + 1):
        workload.prepare()
        call = observed_call(workload.call, group)
        seen |= group.at_work(leaf.value for leaf in values_of(call.result, holds) if holds(leaf.value))
        spent += call.elapsed
        if len(seen) == group.count or (spent > _LOOKING and look >= group.count):
            break  # in so many looks each device is once the first to be asked
    return seen


def require_no_fallback(call: ObservedCall, device: TimedDevice) -> None:
    """Refuse a call of which the device is known to have left a part to the library without it."""
    if left := call.observation.fallbacks:
        raise GpuPerfError(
            f"{device.name} did not run {first_few(left)}, which fell back to the library without it; leave "
            "these out of the workload, call them in its setup, or call what the accelerator supports"
        )
