"""Whether a GPU's call works: by what it left, what one more call is seen to do, and what the CPU's did."""

import os
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time, thread_time
from types import FunctionType, MethodType
from typing import Any, Literal

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import Activity, TimedDevice
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.work import any_array, inputs, observed_call
from pytest_gpuperf.work.workload import Workload

Sight = Literal["seen", "alike", "differs", "unseen", "stopped"]
"""What is known of a GPU's call: it works; it was not seen to, but its results were compared or it ran the
very instructions of the CPU's call; it ran others; nothing; it worked first, and was not seen to later."""

_DOUBTS: dict[Sight, str] = {
    "differs": (
        "the call on the {} was not seen to work, and runs other lines of the test than on the CPU; return "
        "the result"
    ),
    "unseen": "the call was not seen to work, and returned nothing that can be compared; return the result",
    "stopped": (
        "the last call on the {} was not seen to work, although the first one was, and it returned nothing "
        "that can be compared; return the result"
    ),
}
_REMEDY = "if it returns early there, skip the test on that device, or let what is missing raise"
_LOOKS = 3  # at a call of which nothing was seen while other threads of the process worked
_OTHER_THREADS = 20e-6  # seconds of processor time: threads that only wait take none
_SHORT = 2e-3  # seconds: a call that may be made once more, only to see what it does
# The folders of our code and of Python's, and those in which packages are installed.
_PYTHONS = (
    "<frozen",
    *(
        f"{path}{os.sep}"
        for path in (Path(__file__).parents[1], *map(sysconfig.get_path, ("stdlib", "platstdlib")))
    ),
)
_PACKAGES = {"site-packages", "dist-packages"}
_MOST_STEPS = 200_000  # instructions of a call that is followed one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuWork:
    """What a call on the CPU did: `changed` an array, `returned_new` ones, what its library was seen to do.

    `steps` are the instructions of the test's own code that it ran; None where that is not known.
    """

    changed: bool
    returned_new: bool
    activity: Activity | None
    steps: frozenset[Any] | None

    @property
    def computed(self) -> bool:
        """Whether it made an array, or was seen to compute: operators on small arrays show nothing."""
        return self.returned_new or (self.activity is not None and self.activity.computed > 0)


_UNKNOWN = CpuWork(changed=False, returned_new=False, activity=None, steps=None)


def of_cpu(workload: Workload) -> CpuWork:
    """Return what calls on the CPU do; up to five more calls show it."""
    with workload.device.context():
        return CpuWork(
            changed=not workload.returned_new and _leaves_traces(workload),
            returned_new=workload.returned_new,
            activity=_activity(workload),
            steps=None if workload.returned_new else _steps(workload),
        )


def require_work(gpu: Workload, cpu: Callable[[], CpuWork | None], *, are_compared: bool) -> Sight:
    """Return what is known of a GPU's call; refuse one that does nothing where the CPU's call works.

    What a call refers to is no work. One that showed none in its first call is looked at again.
    """
    if _shows_work(gpu):
        return "seen"
    with gpu.device.context():
        if _leaves_traces(gpu):
            return "seen"
        found = _activity_of_gpu(gpu)
    if found is not None and found.anything:
        _require_computation(gpu, found, cpu)
        if found.computed or found.is_complete:
            return "seen"
    theirs, name, noun = cpu() or _UNKNOWN, gpu.device.name, gpu.device.info.noun
    with gpu.device.context():
        is_alike = None if theirs.steps is None else theirs.steps == _steps(gpu)
    if is_alike and (found is None or not found.is_complete):  # what it does may escape, as on the CPU
        return "alike"
    is_idle = found is not None and not found.anything
    if theirs.changed and (is_idle or found is None):
        raise GpuPerfError(
            f"no work reached {name}: the call changed an array on the CPU and none on the {noun}; {_REMEDY}"
        )
    if theirs.computed and is_idle:
        raise GpuPerfError(
            f"no work reached {name}: the call was seen to work on the CPU, and did nothing on the {noun}; "
            f"{_REMEDY}"
        )
    if is_alike or are_compared:
        return "alike"
    return "unseen" if is_alike is None else "differs"


def doubt(sight: Sight, noun: str) -> str | None:
    """Return what is said of calls of which nobody knows that they work; `noun` is what their device is."""
    return _DOUBTS[sight].format(noun) if sight in _DOUBTS else None


def require_last_work(
    workload: Workload, cpu: Callable[[], CpuWork | None], *, seconds: float, shows: bool
) -> Sight:
    """Return what is known of a GPU's last call, whose first one worked; refuse one that works no more.

    It took so many `seconds`, and `shows` is whether it was seen to work. Of a library that shows all that it
    does, a short call that only copies is refused, too.
    """
    if _is_looked_at_elsewhere(workload.device):
        return "seen"
    found = None
    with workload.device.context():
        if not shows:
            found = _activity_of_gpu(workload)
        elif seconds <= _SHORT:
            found = _activity(workload)
    is_seen = shows or (found is not None and found.anything)
    if not is_seen and found is not None and found.is_complete:
        raise GpuPerfError(observed_call.LAST_IS_IDLE.format(workload.device.name))
    if found is not None:
        _require_computation(workload, found, cpu)
    return "seen" if is_seen else "stopped"


def _require_computation(gpu: Workload, found: Activity, cpu: Callable[[], CpuWork | None]) -> None:
    """Refuse a GPU's call that only copies, where both libraries show all, and the CPU's call computes."""
    if found.computed or not found.is_complete:
        return
    theirs = (cpu() or _UNKNOWN).activity
    if theirs is not None and theirs.is_complete and theirs.computed:
        raise GpuPerfError(
            f"no work reached {gpu.device.name}: the call computes on the CPU, and only copies on the "
            f"{gpu.device.info.noun}; compute there what the test is to measure"
        )


def _shows_work(gpu: Workload) -> bool:
    """Return whether a first call returned a new array, or was seen by a device that sees work."""
    device = gpu.device
    if gpu.returned_new or _is_looked_at_elsewhere(device):
        return True
    return is_seen_at_first(gpu)


def is_seen_at_first(gpu: Workload) -> bool:
    """Return whether the first call worked on a device that sees whether one does."""
    return gpu.used_device_at_first and not observed_call.is_blind(gpu.device)


def _is_looked_at_elsewhere(device: TimedDevice) -> bool:
    """Return whether a device is a lazy library's, which computes what is returned, or a group of devices."""
    return device.submit is not None or device.shares_processors


def _leaves_traces(workload: Workload) -> bool:
    """Return whether calls so far have changed an array that they can reach, or left a new one there."""
    device, entries = workload.device, (*workload.inputs, *workload.state)
    if inputs.changed(entries, device):
        return True
    known = set(map(id, workload.reached))
    reached = (
        *inputs.carried_arrays(workload.call, device),
        *inputs.reached(workload.call, capabilities.holds(device)),
    )
    return any(id(array) not in known for array in reached)


def _activity_of_gpu(workload: Workload) -> Activity | None:
    """Return what a GPU is seen to do in more calls: by itself, by its library, or behind other work."""
    device = workload.device
    sees_work = not observed_call.is_blind(device)
    if sees_work and (observed_call.is_seen_to_work(workload) or _holds_recorded_work(workload)):
        return Activity(computed=1)
    found = _activity(workload)
    if not sees_work or (found is not None and found.computed):
        return found
    is_seen = False if device.sees_all_work else observed_call.is_seen_behind_work(workload)
    if is_seen is None:
        return found
    return Activity(computed=int(is_seen), copied=found.copied if found else 0, is_complete=True)


def _holds_recorded_work(workload: Workload) -> bool:
    """Return whether a call refers to a graph or a stream of its own, which no look at the device shows."""
    is_work = workload.device.holds_work
    return next(inputs.reached(workload.call, is_work, through_functions=True), None) is not None


def _activity(workload: Workload) -> Activity | None:
    """Return what the device's library is seen to do in one more call; None where it may do what is not seen.

    Other threads that worked meanwhile may have done that for the call.
    """
    smallest = min(map(any_array.bytes_of, workload.reached), default=0)
    for _ in range(_LOOKS):
        before = process_time() - thread_time()
        found = capabilities.seen_of(workload.device.activity, workload.call, workload.prepare, smallest)
        elsewhere = process_time() - thread_time() - before
        workload.device.synchronize()
        if found is None or found.anything or elsewhere < _OTHER_THREADS:
            return found
    return None


def _steps(workload: Workload) -> frozenset[Any] | None:
    """Return the instructions of the test's own code that one more call runs; None where they are not known.

    A call that returns early, or has no batches, runs others than one that works. Of a function in C, which
    has none, it is the name. A debugger or a coverage tool does not see this call.
    """
    call = inputs.innermost(workload.call)
    steps: set[Any] = set()
    if not ask.is_really(call, FunctionType | MethodType):
        name = ask.attribute(call, "__qualname__")
        steps.add(name if type(name) is str else type(call).__qualname__)
    followed = 0

    def follow(frame: Any, event: str, argument: Any) -> Any:  # noqa: ARG001 - as sys.settrace calls it
        nonlocal followed
        if followed > _MOST_STEPS or not _is_of_test(frame.f_code.co_filename):
            return None
        followed += 1
        frame.f_trace_opcodes = True
        steps.add((frame.f_code, frame.f_lasti))
        return follow

    workload.prepare()
    outer = sys.gettrace()
    sys.settrace(follow)
    try:
        workload.call()
    finally:
        sys.settrace(outer)
    workload.device.synchronize()
    return frozenset(steps) if steps and followed <= _MOST_STEPS else None


def _is_of_test(file: str) -> bool:
    """Return whether code is of the test or of what it tests: of no installed package, nor Python's own."""
    return not (file.startswith(_PYTHONS) or _PACKAGES & {*Path(file).parts})
