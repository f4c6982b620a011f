"""Untimed calls that are inspected: their time and memory on the device, and whether the host waits."""

from dataclasses import dataclass

from msgspec import structs

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.clock import seconds_between
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Inspection
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.gc_pause import gc_paused
from pytest_gpuperf.work.observed_call import (
    LAST_IS_IDLE,
    MAX_OCCUPIED,
    MIN_OCCUPIED,
    is_blind,
    observed_call,
    require_no_fallback,
)
from pytest_gpuperf.work.returned import returns_new
from pytest_gpuperf.work.values import Result, walked
from pytest_gpuperf.work.workload import Workload

_PROBES = 3  # clocks that rise need about two
_SHORTEST_LAUNCH = 1.5e-6  # seconds: CUDA's, of all libraries' the shortest, takes longer from Python
_SUBMITTING_SHARE = 0.5  # of the time between a device's events: where it is more, they timed the submission
_BLOCKING_SHARE = 0.9  # of the occupied time: a call that takes so long has waited for the device
# Of CUDA, whose queue of launches holds about so many: the next one waits until the device has begun some.
_LAUNCH_QUEUE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    """A call that was submitted while the device was occupied, for so many seconds.

    It returned so many seconds `after` that work was submitted, and `blocks` if only once that had ended.
    """

    occupied: float
    after: float
    device_time: float | None
    blocks: bool


def inspected_call(timer: BlockTimer) -> Result:
    """Return the result of one more call, which the device times by its own events.

    A device may miss short work that allocates nothing, so only a call that is too short to submit any is
    refused. One that returns an array it kept is found by `kept_results`.
    """
    workload = timer.workload
    workload.prepare()
    with gc_paused():  # as timed calls run
        call = observed_call(workload.call, workload.device)
    timer.calls.note_time(call.elapsed)
    require_no_fallback(call, workload.device)
    seems_idle = workload.used_device_at_first and not call.observation.worked
    if seems_idle and (timer.calls.fastest < _SHORTEST_LAUNCH or workload.device.sees_all_work):
        raise GpuPerfError(LAST_IS_IDLE.format(workload.device.name))
    result = walked(call.result, capabilities.holds(workload.device))
    timer.calls.shows_at_last = returns_new(workload, result.values) or (
        call.observation.worked and not is_blind(workload.device)
    )
    inspection = Inspection(
        host_time=call.host_time,
        device_time=call.observation.device_time,
        outside_time=call.observation.outside_time,
        allocations=call.observation.allocations,
        memory=call.observation.memory,
    )
    timer.inspection = inspection
    timer.memory.note_inspected(call.observation)
    return result


def probe_blocking(timer: BlockTimer, remaining: float) -> None:
    """Call while the GPU is occupied, to see whether the call blocks and how long it runs on the device.

    Behind other work the device's events measure the work without waiting for its submission. A call that
    blocks returns only after that other work; of what it then does, its events measure the submission.
    A call that takes long to submit, or for which too little time is `remaining` (seconds), is not probed.
    """
    inspection, device = timer.inspection, timer.device
    if inspection is None or inspection.host_time is None or device.kind != "gpu":
        return
    timer.inspection = _without_submission(inspection)  # unless the device can be kept busy
    occupied = 2 * inspection.host_time + MIN_OCCUPIED
    last_block = timer.samples[-1] if timer.samples else 0.0
    if occupied > MAX_OCCUPIED or remaining <= 2 * last_block:
        return
    with device.context():
        probe = _probed(timer.workload, occupied)
        if probe is not None and probe.blocks:  # or the host was interrupted, which is not so again
            probe = _probed(timer.workload, occupied) or probe
    if probe is None:
        return
    if probe.blocks:
        synchronizes = True if _surely_synchronizes(probe, inspection.host_time, timer) else None
        timer.inspection = structs.replace(inspection, device_time=None, synchronizes=synchronizes)
    else:
        timer.inspection = structs.replace(inspection, device_time=probe.device_time, synchronizes=False)


def _probed(workload: Workload, occupied: float) -> _Probe | None:
    """Return what a call does while the GPU is occupied for so many seconds; None where it cannot be.

    Where clocks rise the GPU may be done before the call is submitted: then it is occupied once more.
    """
    device = workload.device
    for _ in range(_PROBES):
        workload.prepare()
        device.synchronize()
        if not device.occupy(occupied):
            return None
        begun = device.clock()  # a trial of how fast the clock is may have gone before
        call = observed_call(workload.call, device, when_idle=False)
        lasted = device.occupied() or occupied
        blocks = call.host_time >= _BLOCKING_SHARE * lasted
        if not blocks or lasted > _BLOCKING_SHARE * occupied:
            after = seconds_between(begun, call.returned)
            device_time = call.observation.device_time
            return _Probe(occupied=lasted, after=after, device_time=device_time, blocks=blocks)
    return None


def _surely_synchronizes(probe: _Probe, host_time: float, timer: BlockTimer) -> bool:
    """Return whether a call that blocks waits for the device, and not for room in the queue of launches.

    That holds so many that what is submitted while the GPU is occupied takes its time: less of the call is
    left then.
    """
    on_idle_device = min(host_time, timer.calls.fastest)
    submitted_before = on_idle_device - (probe.after - probe.occupied)
    return submitted_before < _LAUNCH_QUEUE * _SHORTEST_LAUNCH


def _without_submission(inspection: Inspection) -> Inspection:
    """Return an inspection without the device's time, where its events saw more submission than work."""
    submitted, timed = inspection.host_time, inspection.device_time
    if submitted is None or timed is None or submitted < _SUBMITTING_SHARE * timed:
        return inspection
    return structs.replace(inspection, device_time=None)
