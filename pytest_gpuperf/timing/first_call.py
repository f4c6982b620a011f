"""Single calls outside the timed blocks: the first makes a workload, others inspect it."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from traceback import walk_tb
from typing import Any

from msgspec import structs

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.protocol import Device, Observation, TimedDevice
from pytest_gpuperf.devices.torch_and_jax import other_library
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Inspection
from pytest_gpuperf.model.plain_text import first_line, text_of
from pytest_gpuperf.model.units import count, first_few
from pytest_gpuperf.timing import any_array, inputs
from pytest_gpuperf.timing.any_array import is_array
from pytest_gpuperf.timing.attributes import CALLABLES
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.gc_pause import gc_paused
from pytest_gpuperf.timing.kept_results import remember, returns_new
from pytest_gpuperf.timing.lazy import LAZY, computes_from_inputs
from pytest_gpuperf.timing.leaves import (
    Leaf,
    Result,
    leaves,
    require_waited_for,
    stored_values,
    values_of,
    walked,
)
from pytest_gpuperf.timing.time_budget import require_seconds, seconds_between
from pytest_gpuperf.timing.workload import ResettableCall, Workload

Bind = Callable[[Device], Callable[[], Any]]
"""Binds the test's body to a device; what it returns is called without arguments.

A session passes `session.timed_call.bind_of`, which fills in the fixtures of the test.
"""

LAST_IS_IDLE = (
    "the last call submitted no work to {}, although the first one did; if the result is cached, time the "
    "computation itself"
)
"""What an error says of a call, with the name of its device."""

_TAKES_ARGUMENTS = (
    "the callable that the test returned takes arguments: {}; a workload is called without any, as in return "
    "lambda: model(x)"
)
_MIN_OCCUPIED = 5e-3  # seconds that the device is occupied beyond twice the time of submitting a call
_MAX_OCCUPIED = 0.1
_PROBES = 3  # clocks that rise need about two
_LOOKS, _LOOKING = 30, 10e-3  # calls, and seconds, until a call is taken for one that does no work
_SHORTEST_LAUNCH = 1.5e-6  # seconds: CUDA's, of all libraries' the shortest, takes longer from Python
_BEHIND_WORK = 32  # calls behind other work: the shortest kernels of so many take longer than two events
_SHORTEST_KERNEL = 1e-6  # seconds
_SUBMITTING_SHARE = 0.5  # of the time between a device's events: where it is more, they timed the submission
_BLOCKING_SHARE = 0.9  # of the occupied time: a call that takes so long has waited for the device
# Of CUDA, whose queue of launches holds about so many: the next one waits until the device has begun some.
_LAUNCH_QUEUE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _ObservedCall:
    """One call: until it returned (`host_time`), until the device was done (`elapsed`), and what that saw.

    It `returned` at that time of the device's clock.
    """

    returned: float
    host_time: float
    elapsed: float
    result: Any
    observation: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    """A call that was submitted while the device was occupied, for so many seconds.

    It returned so many seconds `after` that work was submitted, and `blocks` if only once that had ended.
    """

    occupied: float
    after: float
    device_time: float | None
    blocks: bool


def first_call(
    bind: Bind,
    device: TimedDevice,
    without_limit: Callable[[], AbstractContextManager[None]] = nullcontext,
    on_end: Callable[[], None] = lambda: None,
) -> tuple[Workload, Result]:
    """Run the body once and return the workload with its first result.

    A body that returns a callable was the setup and the callable is the workload; any other body is the
    workload itself. What is the user's runs `without_limit`: it may compile; to look at it does not. After
    `on_end` only that is left.
    """
    uploads = inputs.UploadTracker(device)
    body = bind(uploads)
    given = [*inputs.carried_arrays(body, device, of_numpy=True)]
    brought = inputs.fingerprints(given, device)
    state = inputs.state_of(body, device, brought)
    with without_limit():
        call = _observed_call(body, device)
    uploads.stop()
    if callable(call.result):
        function, restore = call.result, None
        if ask.is_really(call.result, ResettableCall):
            function, restore = call.result.call, call.result.restore
            with without_limit():
                restore()
        _require_no_arguments(function)
        workload = Workload(
            device=device,
            call=function,
            scope="call",
            restore=restore,
            set_up_again=partial(_set_up, bind, device),
            setup=call.elapsed,
            live_before=call.observation.live,
            held_after_setup=call.observation.held,
        )
        workload = _with_inputs(workload, uploads, body)
        with without_limit(), device.watch() as watched, _naming_arguments():
            call = _observed_call(workload.call, device)
        workload = replace(workload, watched=watched)
    else:
        given += uploads.arrays
        workload = Workload(
            device=device,
            call=body,
            scope="body",
            inputs=tuple(replace(entry, bytes=0) for entry in brought),
            state=state,
            brought_dtypes=tuple({any_array.dtype_of(array) for array in given}),
            did_device_work=any(map(device.holds, given)),
            live_before=call.observation.live,
        )
    on_end()
    uploads.arrays.clear()
    require_waited_for(call.result)
    _require_no_fallback(call, device)
    _require_computation(workload)
    result = walked(call.result, capabilities.holds(device))
    _require_no_functions(call.result, result, "the test" if workload.scope == "body" else "the call")
    workload = _with_first_call(workload, call, result)
    if device.kind == "gpu" and not workload.did_device_work:
        with without_limit():
            workload = replace(workload, did_device_work=is_seen_to_work(workload))
    return workload, result


def inspected_call(timer: BlockTimer) -> Result:
    """Return the result of one more call, which the device times by its own events.

    A device may miss short work that allocates nothing, so only a call that is too short to submit any is
    refused. One that returns an array it kept is found by `kept_results`.
    """
    workload = timer.workload
    workload.prepare()
    with gc_paused():  # as timed calls run
        call = _observed_call(workload.call, workload.device)
    timer.note_time(call.elapsed)
    timer.held_at_last = timer.held_in(call.observation)
    _require_no_fallback(call, workload.device)
    seems_idle = workload.used_device_at_first and not call.observation.worked
    if seems_idle and (timer.fastest_sample < _SHORTEST_LAUNCH or workload.device.sees_all_work):
        raise GpuPerfError(LAST_IS_IDLE.format(workload.device.name))
    result = walked(call.result, capabilities.holds(workload.device))
    timer.shows_at_last = returns_new(workload, result.values) or (
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
    occupied = 2 * inspection.host_time + _MIN_OCCUPIED
    last_block = timer.samples[-1] if timer.samples else 0.0
    if occupied > _MAX_OCCUPIED or remaining <= 2 * last_block:
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
        call = _observed_call(workload.call, device, when_idle=False)
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
    on_idle_device = min(host_time, timer.fastest_sample)
    submitted_before = on_idle_device - (probe.after - probe.occupied)
    return submitted_before < _LAUNCH_QUEUE * _SHORTEST_LAUNCH


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
        call = _observed_call(workload.call, workload.device)
        spent += call.elapsed
        if call.observation.worked or spent > _LOOKING:
            return call.observation.worked
    return False


def is_seen_behind_work(workload: Workload) -> bool | None:
    """Return whether calls behind other work take the device longer than no call: short work shows there.

    None where the device cannot be occupied for so long, does not time what is submitted to it, or where the
    host was interrupted until that other work was done.
    """
    host_time = _observed_call(workload.call, workload.device).host_time
    calls = _BEHIND_WORK if 2 * _BEHIND_WORK * host_time < _MAX_OCCUPIED else 1
    occupied = 2 * calls * host_time + _MIN_OCCUPIED
    if occupied > _MAX_OCCUPIED:
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
        call = _observed_call(partial(_repeat, workload.call, count), workload.device, when_idle=False)
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
        call = _observed_call(workload.call, group)
        idle = group.idle(leaf.value for leaf in values_of(call.result, holds) if holds(leaf.value))
        seen |= {number for number, worked in enumerate(group.worked) if worked or number not in idle}
        spent += call.elapsed
        if len(seen) == group.count or (spent > _LOOKING and look >= group.count):
            break  # in so many looks each device is once the first to be asked
    return seen


def _without_submission(inspection: Inspection) -> Inspection:
    """Return an inspection without the device's time, where its events saw more submission than work."""
    submitted, timed = inspection.host_time, inspection.device_time
    if submitted is None or timed is None or submitted < _SUBMITTING_SHARE * timed:
        return inspection
    return structs.replace(inspection, device_time=None)


def _set_up(bind: Bind, device: TimedDevice) -> Any:
    """Run the body once more and return its callable, without its reset."""
    call = bind(device)()
    return call.call if ask.is_really(call, ResettableCall) else call


def _with_inputs(workload: Workload, uploads: inputs.UploadTracker, body: Callable[[], Any]) -> Workload:
    """Return the workload with what it reads, and what of it was uploaded: by the body or by fixtures."""
    call, device = workload.call, workload.device
    carried = list(inputs.carried_arrays(call, device))
    read = {id(array) for value in carried for array in (value, any_array.view_base(value))}
    from_fixtures = {id(value): value for value in inputs.carried_arrays(body, device) if id(value) in read}
    # Of an array and a view of it only the array counts: one upload made both.
    uploads.add(
        value for value in from_fixtures.values() if id(any_array.view_base(value)) not in from_fixtures
    )
    used = [array for array in (*uploads.arrays, *carried) if device.holds(array)]
    arrays = inputs.fingerprints(used, device)
    made = (entry for entry in arrays if id(any_array.root(entry.array())) not in uploads.uploaded_ids)
    of_fixtures = {id(any_array.root(value)) for value in from_fixtures.values()}
    brought = (entry for entry in arrays if id(any_array.root(entry.array())) in of_fixtures)
    return replace(
        workload,
        inputs=arrays,
        state=inputs.state_of(call, device, arrays),
        uploads=tuple(uploads.uploads),
        host_arrays=inputs.host_arrays_of(call, device),
        created=tuple(made),
        brought_bytes=sum(entry.bytes for entry in brought),
        dtypes=tuple({entry.dtype for entry in arrays}),
        shapes=_shapes(entry.array() for entry in arrays),
    )


def _with_first_call(workload: Workload, call: _ObservedCall, result: Result) -> Workload:
    """Return the workload with what its first call returned and did.

    A device may miss short work that allocates nothing: what the call can reach there counts as well. A lazy
    library computes nothing of that: of it only new arrays count, which were computed to be waited for.
    """
    if workload.restore is None:  # else it may return what it changes
        _require_computed(result, workload)
    holds = capabilities.holds(workload.device)
    values = [leaf.value for leaf in result.values]
    on_device = [value for value in values if holds(value)]
    if workload.device.submit is not None:
        known = {id(array) for array in workload.arrays}
        may_have_worked = any(id(value) not in known for value in on_device)
    else:
        may_have_worked = (
            bool(on_device)
            or workload.did_device_work
            or inputs.reaches_device(workload.call, workload.device)
        )
    dtypes = (any_array.dtype_of(value) for value in values if is_array(value))
    made_by = (other_library(value, workload.device) for value in values)
    return replace(
        workload,
        first_call=call.elapsed,
        result_bytes=sum(map(any_array.bytes_of, on_device)),
        result_arrays=len(on_device),
        returned=remember(result.values, workload.device),
        returned_types=array_types(result.values),
        other_library=next(filter(None, made_by), None),
        dtypes=tuple(sorted({*workload.dtypes, *dtypes})),
        shapes=workload.shapes or _shapes(values),
        first_call_memory=call.observation.memory,
        first_device_time=_surely_worked(call),
        returned_new=returns_new(workload, result.values),
        used_device_at_first=call.observation.worked,
        did_device_work=call.observation.worked or may_have_worked,
    )


def _surely_worked(call: _ObservedCall) -> float | None:
    """Return how long the device worked on after a call had returned, at least; None without its events.

    Until then the host may have imported, compiled or waited for what was tried: the events of a device that
    was idle meanwhile enclose that, too, and an interruption of the host before the last one.
    """
    timed = call.observation.device_time
    if timed is not None and call.observation.unfinished is False:
        return 0.0
    return None if timed is None else max(0.0, timed - call.host_time)


def array_types(values: Iterable[Leaf]) -> tuple[str, ...]:
    """Return the library and the dtype of each array among a result's values, in order: `numpy float64`."""
    arrays = (leaf.value for leaf in values if is_array(leaf.value))
    return tuple(f"{ask.package(type(array))} {any_array.dtype_of(array)}" for array in arrays)


def _shapes(values: Iterable[Any]) -> tuple[str, ...]:
    """Return each shape of arrays once: `512x512`; a scalar array's is `1`."""
    shapes = (any_array.shape_of(value) for value in values if is_array(value))
    return tuple(dict.fromkeys("x".join(map(str, shape)) or "1" for shape in sorted(shapes)))


def _observed_call(call: Callable[[], Any], device: TimedDevice, *, when_idle: bool = True) -> _ObservedCall:
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
    return _ObservedCall(
        returned=returned, host_time=host_time, elapsed=elapsed, result=result, observation=observation
    )


def _require_computed(result: Result, workload: Workload) -> None:
    """Refuse an object where no array of the result is new, or the library is lazy: its work may be left."""
    known = {id(any_array.root(array)) for array in workload.arrays}
    holds = capabilities.holds(workload.device)
    arrays = [leaf for leaf in result.values if is_array(leaf.value)]
    for leaf in arrays:
        if computes_from_inputs(leaf.value, holds, known):
            raise GpuPerfError(f"{leaf.path} is of type {type(leaf.value).__name__}, which {LAZY}")
    is_new = any(id(any_array.root(leaf.value)) not in known for leaf in arrays)
    if is_new and workload.device.submit is None:
        return
    for leaf in leaves(result.whole):
        if not is_array(leaf.value) and any(is_array(part.value) for part in stored_values(leaf, set())):
            raise GpuPerfError(f"{leaf.path} is of type {type(leaf.value).__name__}, which {LAZY}")


def _require_computation(workload: Workload) -> None:
    """Refuse a call that computes from constants alone: its work was done when it was compiled."""
    is_constant = workload.device.is_constant
    functions = [
        *inputs.reached(workload.call, lambda value: is_constant(value) is not None, through_functions=True)
    ]
    # What was compiled before is not seen: then other functions of the call may read arguments.
    names = {re.sub(r"\W+", "_", getattr(function, "__name__", "")).strip("_") for function in functions}
    seen = {name.strip("_") for name in workload.watched.constant}
    if (seen and names <= seen) or (functions and all(map(is_constant, functions))):
        raise GpuPerfError(
            "the call computes from arrays that its compiled function closes over, and from no argument: the "
            "compiler does that work; pass them as arguments, as in f = jax.jit(...); return lambda: f(a)"
        )


def _require_no_fallback(call: _ObservedCall, device: TimedDevice) -> None:
    """Refuse a call of which the device is known to have left a part to the library without it."""
    if left := call.observation.fallbacks:
        raise GpuPerfError(
            f"{device.name} did not run {first_few(left)}, which fell back to the library without it; leave "
            "these out of the workload, call them in its setup, or call what the accelerator supports"
        )


def _require_no_functions(returned: Any, result: Result, what: str) -> None:
    """Refuse a body, or the callable that it returned, that returns functions alone: nobody calls them."""
    values = [leaf.value for leaf in result.values]
    if values and all(type(value) in CALLABLES for value in values):
        single = type(returned) in CALLABLES
        made = "a function" if single else f"{count(len(values), 'function')} in a {type(returned).__name__}"
        remedy = "as in return lambda: f(x)" if single else "as in return lambda: (a(x), b(x))"
        raise GpuPerfError(
            f"{what} returned {made}, which nobody calls: return one callable that calls them, {remedy}"
        )


def _require_no_arguments(workload: Callable[..., Any]) -> None:
    """Refuse a callable that takes arguments."""
    signature: inspect.Signature | None = ask.answer(inspect.signature, workload)
    if signature is None:  # of a builtin, or an object that cannot be asked
        return
    try:
        signature.bind()
    except TypeError as error:
        raise GpuPerfError(_TAKES_ARGUMENTS.format(error)) from error


@contextmanager
def _naming_arguments() -> Iterator[None]:
    """Refuse a callable that hands on any arguments, as a module of torch does, to what lacks one.

    What is called with them may make the same mistake itself: it has a frame then, and its error stays.
    """
    try:
        yield
    except TypeError as error:
        hands_on = False
        for frame, _ in walk_tb(error.__traceback__):
            is_ours = frame.f_globals.get("__name__") == __name__
            hands_on = is_ours or (hands_on and bool(frame.f_code.co_flags & inspect.CO_VARARGS))
        if hands_on and "required positional argument" in text_of(str, error):
            raise GpuPerfError(_TAKES_ARGUMENTS.format(first_line(error))) from error
        raise
