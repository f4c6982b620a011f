"""From a test's body and a device to a workload, by its first call."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from traceback import walk_tb
from typing import Any

import numpy as np

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import Device, TimedDevice
from pytest_gpuperf.devices.torch_and_jax import other_library
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import first_line, text_of
from pytest_gpuperf.model.units import count
from pytest_gpuperf.work import any_array, inputs
from pytest_gpuperf.work.any_array import is_array
from pytest_gpuperf.work.attributes import CALLABLES
from pytest_gpuperf.work.lazy import LAZY, computes_from_inputs
from pytest_gpuperf.work.moved_bytes import are_views, moved_bytes
from pytest_gpuperf.work.observed_call import (
    ObservedCall,
    is_seen_to_work,
    observed_call,
    require_no_fallback,
)
from pytest_gpuperf.work.returned import remember, returns_new
from pytest_gpuperf.work.values import (
    Leaf,
    Result,
    leaves,
    require_waited_for,
    stored_values,
    walked,
)
from pytest_gpuperf.work.workload import ResettableCall, Workload

Bind = Callable[[Device], Callable[[], Any]]
"""Binds the test's body to a device; what it returns is called without arguments.

A session passes `session.timed_call.bind_of`, which fills in the fixtures of the test.
"""

_OURS = (__name__, observed_call.__module__)
_TAKES_ARGUMENTS = (
    "the callable that the test returned takes arguments: {}; a workload is called without any, as in return "
    "lambda: model(x)"
)


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
        call = observed_call(body, device)
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
            call = observed_call(workload.call, device)
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
    require_no_fallback(call, device)
    _require_computation(workload)
    result = walked(call.result, capabilities.holds(device))
    _require_no_functions(call.result, result, "the test" if workload.scope == "body" else "the call")
    workload = _with_first_call(workload, call, result)
    if device.kind == "gpu" and not workload.did_device_work:
        with without_limit():
            workload = replace(workload, did_device_work=is_seen_to_work(workload))
    return workload, result


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


def _with_first_call(workload: Workload, call: ObservedCall, result: Result) -> Workload:
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
        moved_bytes=_moved_bytes(workload, values),
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


def _moved_bytes(workload: Workload, values: Sequence[Any]) -> int | None:
    """Return the bytes that a call moves; None where nothing is known, and of a body, with its own arrays.

    On the CPU NumPy's arrays count where it works with no others. What only returns views, as a transpose,
    need not read the arrays that it knows.
    """
    device = workload.device
    known, returned = workload.reached, list(filter(capabilities.holds(device), values))
    if device.kind == "cpu" and not (known or returned):
        known = [*inputs.carried_arrays(workload.call, device, of_numpy=True)]
        returned = [value for value in values if ask.is_really(value, np.ndarray)]
    if workload.scope == "body" or not (known or returned) or are_views(returned, known):
        return None
    return moved_bytes([*known, *returned])


def _surely_worked(call: ObservedCall) -> float | None:
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
            is_ours = frame.f_globals.get("__name__") in _OURS
            hands_on = is_ours or (hands_on and bool(frame.f_code.co_flags & inspect.CO_VARARGS))
        if hands_on and "required positional argument" in text_of(str, error):
            raise GpuPerfError(_TAKES_ARGUMENTS.format(first_line(error))) from error
        raise
