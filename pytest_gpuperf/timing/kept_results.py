"""From the results of two calls to whether the second was made anew, or kept from the first."""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from statistics import median
from typing import Any

import numpy as np

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.timing import any_array
from pytest_gpuperf.timing.clock import ClockError, seconds_between
from pytest_gpuperf.timing.leaves import is_masked, values_of
from pytest_gpuperf.timing.workload import Workload

_FASTEST = 40e12  # bytes per second, five times those of a B200 (HBM3e, 8 TB/s): no device writes as fast
_WRITES = 3
_MARGIN = 4  # a call that takes a fourth of the time of a write is no write, however noisy both are
_AMPLE = 100  # a call that takes so many times a write works, whatever it returns

Returned = tuple[Callable[[], Any], ...]
"""What a call returned: the memory of arrays, while it exists, and numbers; empty where it is not known."""


def remember(result: Any, device: TimedDevice, *, keep: bool = False) -> Returned:
    """Return references to the parts of a result, which keep its arrays alive only where they shall."""
    found: list[Callable[[], Any]] = []
    for value in (leaf.value for leaf in values_of(result)):
        if _is_array(value, device):
            if keep and getattr(value, "requires_grad", False):
                value = value.detach()  # else its autograd graph, with all activations, is kept as well
            root = any_array.root(value)
            reference = partial(_itself, root) if keep else any_array.weak_reference(root)
            if reference is None:
                return ()
            found.append(partial(_memory, reference, any_array.place(value)))
        elif isinstance(value, float | complex | np.generic):
            found.append(lambda value=value: (value, None))  # type: ignore[misc]
    return tuple(found)


def are_same(before: Returned, now: Returned) -> bool:
    """Return whether a call returned the very arrays and numbers of another call."""
    return bool(now) and len(before) == len(now) and all(map(_is_same, before, now))


def look_for_kept(workload: Workload, result: Any, samples: Sequence[float], *, is_same: bool) -> Note | None:
    """Return a note where a call may not have made its result; raise GpuPerfError where it did not.

    `is_same` is whether it is the very result of an earlier call. That is no proof: a call may fill the
    buffer that it returns, or one of several in turn. Proof is that no call can write that array, or that a
    call takes less time than to write a new one of its size.
    """
    device = workload.device
    parts = [leaf.value for leaf in values_of(result)]
    arrays = [value for value in parts if _is_array(value, device)]
    made = {id(any_array.root(value)): value for value in arrays if not _is_of(value, workload)}
    if arrays and not made:  # it returns its inputs
        return None
    call, on = median(samples), device.kind.upper()
    size = sum(
        min(any_array.bytes_of(value), any_array.bytes_of(any_array.root(value))) for value in made.values()
    )
    impossible = size / _FASTEST
    if not is_same:
        if call >= impossible:
            return None
        text = (
            f"a call on the {on} takes {units.seconds(call)} and returns {units.size(size)}, which no memory "
            "takes so fast: its work was done before, or is still to be done"
        )
        return Note(code="faster_than_memory", text=text)
    if not made and not any(_is_made_anew(value) for value in parts):
        return _note_on_reading(workload, call)
    if made and all(
        device.holds(value) and capabilities.is_immutable(device, value) for value in made.values()
    ):
        raise GpuPerfError(
            f"the result on the {on} was kept from an earlier call: it is the very array, which no call can "
            "write again; time the computation itself"
        )
    write = _time_to_write([*made.values()], device)
    if call < max(impossible, write / _MARGIN):
        raise GpuPerfError(
            f"the result on the {on} was kept from an earlier call: a call takes {units.seconds(call)}, less "
            "than it takes to write the result; time the computation itself, and return only what it writes"
        )
    if made and call > _AMPLE * write > 0:
        return None
    text = (
        f"each call on the {on} returned the very result of the one before; if it is cached, time the "
        "computation itself"
    )
    return Note(code="result_kept", text=text)


def _note_on_reading(workload: Workload, call: float) -> Note | None:
    """Return a note where calls return the very number of another call, and read no input in their time.

    A literal is such a number, too. How much a call must read of its inputs is not known: it may be a part.
    """
    read = (array for entry in workload.inputs if (array := entry.array()) is not None)
    size = max(map(any_array.bytes_of, read), default=0)
    if call >= size / _FASTEST:
        return None
    on = workload.device.kind.upper()
    text = (
        f"a call on the {on} takes {units.seconds(call)} and returns the very number of another one, and its "
        f"largest input ({units.size(size)}) is read so fast from no memory: its work was done before, or "
        "needs little of that input"
    )
    return Note(code="faster_than_memory", text=text)


def _time_to_write(arrays: Sequence[Any], device: TimedDevice) -> float:
    """Return the seconds to write new arrays of the same sizes, at least; 0 where that cannot be measured.

    The arrays themselves are a user's, and are left alone. The device is waited for once, as after a block.
    """
    seconds = inf
    try:
        new = [_new_array_like(array, device) for array in arrays]
        for _ in range(_WRITES):
            started = device.clock()
            for array in new * 2:
                array[...] = False if any_array.dtype_of(array) == "bool" else 0
            device.synchronize()
            seconds = min(seconds, seconds_between(started, device.clock()) / 2)
    except ClockError:
        raise
    except Exception:  # noqa: BLE001 - of any library's arrays: sparse, or without room for more
        return 0.0
    return seconds if new else 0.0


def _new_array_like(array: Any, device: TimedDevice) -> Any:
    host = device.asnumpy(array) if device.holds(array) else array
    return device.asarray(np.array(host)) if device.holds(array) else np.array(host)


def _is_of(value: Any, workload: Workload) -> bool:
    """Return whether an array is an input of the workload, or a view of one."""
    read = [array for entry in workload.arrays if (array := entry.array()) is not None]
    place = any_array.place(value)
    allocations = {found.allocation for array in read if (found := any_array.place(array)) is not None}
    is_view = place is not None and place.allocation in allocations
    return is_view or any(any_array.root(array) is any_array.root(value) for array in read)


def _is_made_anew(value: Any) -> bool:
    """Return whether each call that computes a value makes a new object: a number of NumPy, not a literal."""
    return isinstance(value, np.generic) and not isinstance(value, np.bool_)


def _is_array(value: Any, device: TimedDevice) -> bool:
    return device.holds(value) or (
        isinstance(value, np.ndarray) and not (is_masked(value) and value is np.ma.masked)
    )


def _itself(value: Any) -> Any:
    return value


def _memory(
    owner: Callable[[], Any], place: any_array.Place | None
) -> tuple[Any, any_array.Place | None] | None:
    """Return the array that owns some memory, and the place in it; None where it is gone."""
    return None if (array := owner()) is None else (array, place)


def _is_same(before: Callable[[], Any], now: Callable[[], Any]) -> bool:
    """Return whether two references are to one object or place: at one time a place has one owner."""
    old, new = before(), now()
    if old is None or new is None:
        return False
    return old[0] is new[0] if None in (old[1], new[1]) else old[1] == new[1]
