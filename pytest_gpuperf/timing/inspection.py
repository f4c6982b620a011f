"""Calls beside the timed blocks: the first, that finds out what the workload is, and the last, inspected."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import Device, Observation, TimedDevice
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Inspection
from pytest_gpuperf.timing.blocks import Workload
from pytest_gpuperf.timing.inputs import UploadTracker, bytes_of, carried, dtype_of, found, viewed
from pytest_gpuperf.timing.parity import leaves

__all__ = ["Bind", "finish", "look_behind", "prepare"]

Bind = Callable[[Device], Callable[[], Any]]
"""Gives the test's body its device; what it returns is called without arguments."""

_OCCUPIED = 5e-3  # seconds that a device is kept busy beyond twice the time that submitting a call takes
_LONGEST_OCCUPIED = 0.1
_WAITED_OUT = 0.9  # of that time: a call that takes so long has waited for it


class _WatchedCall(NamedTuple):
    elapsed: float
    host_time: float
    result: Any
    seen: Observation


def prepare(bind: Bind, device: TimedDevice) -> tuple[Workload, Any]:
    """Run the body once and return the workload with its first result.

    A body that returns a callable was the setup and the callable is the workload; any other body is the
    workload itself.
    """
    uploads = UploadTracker(device)
    body = bind(uploads)
    call = _watched_call(body, device)
    uploads.stop()
    if callable(call.result):
        _check_callable(call.result)
        workload = Workload(device=device, call=call.result, scope="call", setup=call.elapsed)
        workload.held = call.seen.held
        _take_stock(workload, uploads, body)
        call = _watched_call(workload.call, device)
    else:
        workload = Workload(device=device, call=body, scope="body")
    uploads.placed.clear()
    if inspect.isawaitable(call.result):
        getattr(call.result, "close", lambda: None)()
        raise GpuPerfError("the workload is async and would never run; time a function that runs the loop")
    returned = [leaf.value for leaf in leaves(call.result) if device.holds(leaf.value)]
    workload.result_bytes, workload.result_arrays = sum(map(bytes_of, returned)), len(returned)
    dtypes = (dtype_of(leaf.value) for leaf in leaves(call.result) if hasattr(leaf.value, "dtype"))
    workload.dtypes = tuple(sorted({*workload.dtypes, *dtypes}))
    workload.shapes = workload.shapes or _shapes(leaf.value for leaf in leaves(call.result))
    workload.first_call, workload.memory = call.elapsed, call.seen.memory
    workload.seen = call.seen.worked
    workload.worked = call.seen.worked or bool(returned)
    return workload, call.result


def finish(workload: Workload) -> Any:
    """Return the result of one more call, which the device times by its own events."""
    call = _watched_call(workload.call, workload.device)
    workload.fastest = min(workload.fastest, call.elapsed)
    if workload.seen and not call.seen.worked:
        raise GpuPerfError(
            f"the last call did no work on {workload.device.name}, as the first did: does it return a result "
            "that was kept? Time the work itself"
        )
    workload.inspection = Inspection(
        host_time=call.host_time,
        device_time=call.seen.device_time,
        outside_time=call.seen.outside_time,
        allocations=call.seen.allocations,
        memory=call.seen.memory,
    )
    return call.result


def look_behind(workload: Workload) -> None:
    """Call once more while the GPU is still busy with other work.

    Then the device's events see the work without waiting for its submission, and a call that waits for its
    device shows: it returns only after that other work. A call that takes long to submit is left alone.
    """
    seen, device = workload.inspection, workload.device
    if seen is None or seen.host_time is None or device.kind != "gpu":
        return
    busy = 2 * seen.host_time + _OCCUPIED
    if busy > _LONGEST_OCCUPIED:
        return
    device.synchronize()
    if not capabilities.occupy(device, busy):
        return
    call = _timed_call(workload.call, device)
    waited_out = call.host_time >= _WAITED_OUT * busy
    device_time = seen.device_time if waited_out else call.seen.device_time
    workload.inspection = replace(seen, device_time=device_time, synchronizes=waited_out)


def _take_stock(workload: Workload, uploads: UploadTracker, body: Callable[[], Any]) -> None:
    """Note what the workload reads and what of it went up: in the body, or in fixtures that it passes on."""
    call, device = workload.call, workload.device
    reads = {id(each) for value in carried(call, device) for each in (value, viewed(value))}
    brought = {id(value): value for value in carried(body, device) if id(value) in reads}
    uploads.add(value for value in brought.values() if id(viewed(value)) not in brought)
    workload.inputs = found(call, uploads, device)
    workload.uploads = tuple(uploads.uploads)
    workload.made = sum(entry.bytes for entry in workload.inputs if not entry.went_up)
    workload.dtypes = tuple({entry.dtype for entry in workload.inputs})
    workload.shapes = _shapes(entry.array() for entry in workload.inputs)


def _shapes(values: Iterable[Any]) -> tuple[str, ...]:
    """Return each shape of arrays once: `512x512`; a scalar array's is `1`."""
    shapes = (tuple(value.shape) for value in values if hasattr(value, "shape"))
    return tuple(dict.fromkeys("x".join(map(str, shape)) or "1" for shape in sorted(shapes)))


def _watched_call(call: Callable[[], Any], device: TimedDevice) -> _WatchedCall:
    """Call once; the device is watched during the call, and waited for before and after it."""
    device.synchronize()
    return _timed_call(call, device)


def _timed_call(call: Callable[[], Any], device: TimedDevice) -> _WatchedCall:
    started = device.clock()
    with device.observe() as seen:
        result = call()
        returned = device.clock()
    device.synchronize()
    return _WatchedCall(device.clock() - started, returned - started, result, seen)


def _check_callable(workload: Callable[..., Any]) -> None:
    """Refuse a callable that cannot be called as it is."""
    try:
        inspect.signature(workload).bind()
    except TypeError as error:
        raise GpuPerfError(f"the callable that the test returned takes arguments: {error}") from error
    except ValueError:
        return  # a builtin that does not tell its signature
