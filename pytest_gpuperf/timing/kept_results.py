"""From the results of two calls to whether the second was made anew, or kept from the first."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from statistics import median
from typing import Any

import numpy as np

from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.timing import inputs
from pytest_gpuperf.timing.clock import seconds_between
from pytest_gpuperf.timing.leaves import leaves
from pytest_gpuperf.timing.workload import Workload

_FASTEST = 40e12  # bytes per second, five times those of a B200 (HBM3e, 8 TB/s): no device writes as fast
_WRITES = 3

Returned = tuple[Callable[[], Any], ...]
"""What a call returned: references to its arrays' memory, and its numbers; empty where it is not known."""


def remember(result: Any, device: TimedDevice) -> Returned:
    """Return references to the parts of a result which keep none of its arrays alive."""
    found: list[Callable[[], Any]] = []
    for value in (leaf.value for leaf in leaves(result)):
        if _is_array(value, device):
            reference = inputs.weak_reference(inputs.root(value))
            if reference is None:
                return ()
            found.append(reference)
        elif isinstance(value, float | complex | np.generic):
            found.append(lambda value=value: value)  # type: ignore[misc]
    return tuple(found)


def are_same(before: Returned, now: Returned) -> bool:
    """Return whether a call returned the very arrays and numbers of another call."""
    if not now or len(before) != len(now):
        return False
    return all((value := new()) is not None and old() is value for old, new in zip(before, now, strict=True))


def look_for_kept(
    workload: Workload, result: Any, samples: Sequence[float], *, is_same: bool, may_call: bool
) -> Note | None:
    """Return a note where a call may not have made its result; raise GpuPerfError where it did not.

    `is_same` is whether it is the very result of an earlier call. That is no proof: a call may fill the
    buffer that it returns. Proof is that one more call, if it may be, leaves there what was written, and that
    calls take less time than to write it. Where nobody can write there, no memory may be fast enough.
    """
    device = workload.device
    arrays = [leaf.value for leaf in leaves(result) if _is_array(leaf.value, device)]
    read = {id(inputs.root(array)) for entry in workload.arrays if (array := entry.array()) is not None}
    made = {id(root): value for value in arrays if id(root := inputs.root(value)) not in read}
    if arrays and not made:  # it returns its inputs
        return None
    call, on = median(samples), device.kind.upper()
    size = sum(min(inputs.bytes_of(value), inputs.bytes_of(inputs.root(value))) for value in made.values())
    impossible = size / _FASTEST
    if not is_same:
        if call >= impossible:
            return None
        text = (
            f"a call on the {on} takes {units.seconds(call)} and returns {units.size(size)}, which no memory "
            "takes so fast: its work was done before, or is still to be done"
        )
        return Note(code="faster_than_memory", text=text)
    if may_call and made:
        seconds = _seconds_to_write(list(made.values()), workload)
        if seconds is None:
            return None
        impossible = max(impossible, seconds)
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


def _seconds_to_write(arrays: list[Any], workload: Workload) -> float | None:
    """Write to arrays, call, and look there; None where the call wrote there, too, 0 where that is not known.

    The arrays end as they were.
    """
    device = workload.device
    seconds = inf
    overwritten = [(array, device.asnumpy(array)) for array in arrays]
    try:
        for _ in range(_WRITES):
            started = device.clock()
            for array, values in overwritten:
                array[...] = 0 if values.all() else 1  # differs from at least one value
            device.synchronize()
            seconds = min(seconds, seconds_between(started, device.clock()))
        before = [inputs.checksum(device.asnumpy(array)) for array in arrays]
        with np.errstate(all="ignore"):
            workload.call()
        is_left = before == [inputs.checksum(device.asnumpy(array)) for array in arrays]
    except GpuPerfError:
        raise
    except Exception:  # noqa: BLE001 - arrays that cannot be written, or a workload that fails on other values
        return 0.0
    finally:
        with suppress(Exception):
            for array, values in overwritten:
                array[...] = device.asarray(values)
    return seconds if is_left else None


def _is_array(value: Any, device: TimedDevice) -> bool:
    return device.holds(value) or isinstance(value, np.ndarray)
