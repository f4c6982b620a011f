"""From the results of two calls to whether the second was made anew, or kept from the first."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from pytest_gpuperf.timing.clock import seconds_between
from pytest_gpuperf.timing.gc_pause import gc_paused
from pytest_gpuperf.timing.leaves import is_masked, leaves
from pytest_gpuperf.timing.workload import Workload

_FASTEST = 40e12  # bytes per second, five times those of a B200 (HBM3e, 8 TB/s): no device writes as fast
_WRITES = 3
_MARGIN = 4  # a call that takes a fourth of the time of a write is no write, however noisy both are

Returned = tuple[Callable[[], Any], ...]
"""What a call returned: the memory of arrays, while it exists, and numbers; empty where it is not known."""


def remember(result: Any, device: TimedDevice, *, keep: bool = False) -> Returned:
    """Return references to the parts of a result, which keep its arrays alive only where they shall."""
    found: list[Callable[[], Any]] = []
    for value in (leaf.value for leaf in leaves(result)):
        if _is_array(value, device):
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


def look_for_kept(
    workload: Workload, result: Any, samples: Sequence[float], *, is_same: bool, may_call: bool
) -> Note | None:
    """Return a note where a call may not have made its result; raise GpuPerfError where it did not.

    `is_same` is whether it is the very result of an earlier call. That is no proof: a call may fill the
    buffer that it returns, or one of several in turn. Proof is that one more call, if it may be, returns that
    very array, leaves each element as it was overwritten, and takes less time than to write it. Where nobody
    can write there, no memory may be fast enough.
    """
    device = workload.device
    parts = [leaf.value for leaf in leaves(result)]
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
    if made and all(_is_immutable(value, device) for value in made.values()):
        raise GpuPerfError(
            f"the result on the {on} was kept from an earlier call: it is the very array, which no call can "
            "write again; time the computation itself"
        )
    if may_call and made:
        probe = _probe(list(made.values()), workload)
        if probe.is_kept is False:
            return None
        impossible = max(impossible, probe.seconds / _MARGIN)
    if call < impossible:
        raise GpuPerfError(
            f"the result on the {on} was kept from an earlier call: a call takes {units.seconds(call)}, less "
            "than it takes to write the result; time the computation itself"
        )
    text = (
        f"each call on the {on} returned the very result of the one before, and was not seen to write it; if "
        "it is cached, time the computation itself"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    """Whether a call returned arrays as they had been overwritten, None where not known; seconds to write."""

    is_kept: bool | None = None
    seconds: float = 0.0


def _probe(arrays: list[Any], workload: Workload) -> _Probe:
    """Overwrite each element of arrays, call, and look what it returns; they end as they were."""
    device = workload.device
    overwritten: list[tuple[Any, Any]] = []
    try:
        overwritten += [(array, device.asnumpy(array)) for array in arrays]
        for array, values in overwritten:
            any_array.overwrite(array, any_array.different(values), device)
        before = [any_array.checksum(device.asnumpy(array)) for array in arrays]
        with np.errstate(all="ignore"), gc_paused():  # as timed calls run
            result = workload.call()
        after = [any_array.checksum(device.asnumpy(array)) for array in arrays]
        returned = [leaf.value for leaf in leaves(result)]
        del result
        is_kept = before == after and all(
            any(_share_memory(array, value) for value in returned) for array in arrays
        )
        seconds = _time_to_write(arrays, device) if is_kept else 0.0
        for array, values in overwritten:
            any_array.overwrite(array, values, device)
    except GpuPerfError:
        raise
    except Exception:  # noqa: BLE001 - arrays that cannot be written, or a workload that fails on other values
        with suppress(Exception):
            for array, values in overwritten:
                any_array.overwrite(array, values, device)
        return _Probe()
    return _Probe(is_kept=is_kept, seconds=seconds)


def _time_to_write(arrays: list[Any], device: TimedDevice) -> float:
    """Return the seconds to write arrays, at least; the device is waited for once, as after a block."""
    seconds = inf
    for _ in range(_WRITES):
        started = device.clock()
        for array in arrays * 2:
            array[...] = 0
        device.synchronize()
        seconds = min(seconds, seconds_between(started, device.clock()) / 2)
    return seconds


def _share_memory(one: Any, other: Any) -> bool:
    """Return whether two arrays are one, or at one place."""
    return one is other or ((place := any_array.place(one)) is not None and place == any_array.place(other))


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


def _is_immutable(value: Any, device: TimedDevice) -> bool:
    return device.holds(value) and capabilities.is_immutable(device, value)


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
