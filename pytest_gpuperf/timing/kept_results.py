"""Whether a call made its result, or kept it from an earlier call: by the time that it takes to write it."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.clock import ClockError, seconds_between
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model import ask, units
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.work import any_array, inputs
from pytest_gpuperf.work.returned import KnownMemory, Returned, are_same, has_memory, remember
from pytest_gpuperf.work.values import Result, walked
from pytest_gpuperf.work.workload import NO_WORK, Workload

_FASTEST = 40e12  # bytes per second, five times those of a B200 (HBM3e, 8 TB/s): no device writes as fast
_WRITES, _MORE_WRITES, _LONGEST_LOOK = 3, 20, 0.3  # so many; then more, for so many seconds, where it counts
_WRITES_IN_BLOCK = 2
_MARGIN = 4  # a call that takes a fourth of the time of a write is no write, if nothing disturbed either
_IN_TURN, _SHORT = 8, 10e-3  # calls, and seconds for all of them: so many results may be kept in turn
_AMPLE = 100  # a call that takes so many times a write works, whatever it returns


def look_for_kept(
    workload: Workload, result: Result, samples: Sequence[float], *, is_same: bool, is_busy: bool
) -> Note | None:
    """Return a note where a call may not have made its result; raise GpuPerfError where it did not.

    `is_same` is whether it is the very result of an earlier call. That is no proof: a call may fill the
    buffer that it returns, or one of several in turn. Proof is that no call can write that array, or that a
    call takes less time than to write a new one of its size: as fast as no memory is, or where neither was
    disturbed (`is_busy` says that of the call), and more writes confirm the first ones. Of an array that was
    there before the first call that is none: calls may write a part of it.
    """
    device = workload.device
    holds = capabilities.holds(device)
    parts = [leaf.value for leaf in result.values]
    arrays = [value for value in parts if has_memory(value, holds)]
    call, on = median(samples), device.info.noun
    # What takes longer may write to a buffer the very values that the set-up wrote there to warm up.
    needs_proof = call < NO_WORK
    # The device may fill an array on the host faster than the host itself.
    on_host = _changed(workload.host_arrays, device) if needs_proof else _existing(workload.host_arrays)
    known = KnownMemory([*workload.arrays, *on_host])
    made = {id(any_array.root(value)): value for value in arrays if not known.has(value)}
    if arrays and not made:  # it returns its inputs
        kept = [*filter(KnownMemory(workload.computed).has, arrays)] if is_same and needs_proof else []
        return _cached(device) if kept and not _are_written(workload, kept) else None
    size = sum(
        min(any_array.bytes_of(value), any_array.bytes_of(any_array.root(value))) for value in made.values()
    )
    is_number = is_same and not made and not any(_is_made_anew(value) for value in parts)
    if is_number or not is_same:
        # A call that returns a number may read a part of its inputs only: the largest counts.
        largest_input = max(map(any_array.bytes_of, workload.arrays), default=0)
        return _faster_than_memory(workload, call, largest_input if is_number else size)
    if made and all(device.holds(value) and device.is_immutable(value) for value in made.values()):
        raise GpuPerfError(
            f"the result on the {on} was kept from an earlier call: it is the very array, which no call can "
            "write again; time the computation itself"
        )
    write = _time_to_write([*made.values()], device, suspect=_MARGIN * call)
    is_kept = write.seconds > _MARGIN * call and not (is_busy or write.is_disturbed)
    is_reached = all(map(KnownMemory(workload.reached).has, made.values()))
    is_too_short = is_kept or call < size / _FASTEST
    if is_too_short and not is_reached:
        raise GpuPerfError(
            f"the result on the {on} was kept from an earlier call: a call takes {units.seconds(call)}, less "
            "than it takes to write the result; time the computation itself, and return only what it writes"
        )
    is_ample = call > _AMPLE * write.seconds > 0
    is_buffer = is_reached and not (needs_proof or is_too_short)
    if made and (
        is_ample or is_buffer or _reuses_results(workload) or _are_written(workload, [*made.values()])
    ):
        return None
    return _cached(device)


def _cached(device: TimedDevice) -> Note:
    on = device.info.noun
    text = (
        f"each call on the {on} returned the very result of the one before; if it is cached, time the "
        "computation itself"
    )
    return Note(code="work_in_doubt", text=text)


def _are_written(workload: Workload, arrays: Sequence[Any]) -> bool:
    """Return whether one more call is seen to write arrays: that is counted, or they have other values."""
    workload.prepare()
    counts = [any_array.writes(array) for array in arrays]
    before = inputs.fingerprints(arrays, workload.device) if None in counts else ()
    workload.call()
    changed = KnownMemory(_changed(before, workload.device))
    return all(
        changed.has(array) if count is None else any_array.writes(array) != count
        for array, count in zip(arrays, counts, strict=True)
    )


def _changed(entries: Iterable[inputs.Fingerprint], device: TimedDevice) -> list[Any]:
    """Return the arrays that exist and have other values than before the first call."""
    return _existing(inputs.changed(entries, device))


def _existing(entries: Iterable[inputs.Fingerprint]) -> list[Any]:
    """Return the arrays that exist."""
    return [array for entry in entries if (array := entry.array()) is not None]


def _reuses_results(workload: Workload) -> bool:
    """Return whether a call refers to what writes each result where the one before was, as a graph does."""
    reuses = workload.device.reuses_results
    return next(inputs.reached(workload.call, reuses, through_functions=True), None) is not None


def look_for_kept_in_turn(
    workload: Workload,
    samples: Sequence[float],
    has_time: Callable[[], bool] = lambda: True,
    *,
    is_busy: bool,
) -> None:
    """Refuse a short call that returns results which it kept, one after the other; eight more calls show it.

    They are made while the test `has_time`: to look at a result may take longer than the call. Buffers that
    calls fill in turn are no such results, so proof is needed here, too, and there is no note.
    """
    device, seen = workload.device, list[Returned]()
    if not samples or _IN_TURN * median(samples) > _SHORT:
        return
    for _ in range(_IN_TURN):
        if not has_time():
            return
        result = walked(workload.call(), capabilities.holds(device))
        returned = remember(result.values, device)
        if any(are_same(earlier, returned) for earlier in seen):
            look_for_kept(workload, result, samples, is_same=True, is_busy=is_busy)
            return
        seen.append(returned)
        del result


def _faster_than_memory(workload: Workload, call: float, size: int) -> Note | None:
    """Return a note where no memory takes a result, or gives an input, in the time of a call."""
    if call >= size / _FASTEST:
        return None
    text = (
        f"a call on the {workload.device.info.noun} takes {units.seconds(call)}, in which no memory takes "
        f"or gives {units.size(size)}: its work was done before, is still to be done, or needs little of its "
        "input"
    )
    return Note(code="work_in_doubt", text=text)


class _Write(NamedTuple):
    """The seconds to write arrays, at least, and whether other work disturbed that."""

    seconds: float
    is_disturbed: bool = False


def _time_to_write(arrays: Sequence[Any], device: TimedDevice, *, suspect: float) -> _Write:
    """Return how long it takes to write new arrays of the same sizes; 0 where that cannot be measured.

    The arrays themselves are a user's, and are left alone. If it takes longer than `suspect`, it is measured
    for longer, so that few writes in a moment in which the machine stood still prove nothing.
    """
    if not arrays:
        return _Write(0.0)
    try:
        new = [_new_array_like(array, device) for array in arrays]

        def write() -> list[Any]:
            for array in new:
                array[...] = False if any_array.dtype_of(array) == "bool" else 0
            return new

        timer = BlockTimer(
            workload=Workload(device=device, call=write, scope="call"), block_calls=_WRITES_IN_BLOCK
        )
        started = device.clock()
        for number in range(_WRITES + _MORE_WRITES):
            is_over = seconds_between(started, device.clock()) > _LONGEST_LOOK
            if number >= _WRITES and (is_over or timer.calls.fastest <= suspect):
                break
            timer.take_sample()
    except ClockError:
        raise
    except Exception:  # noqa: BLE001 - of any library's arrays: sparse, or without room for more
        return _Write(0.0)
    return _Write(timer.calls.fastest, timer.interference is not None)


def _new_array_like(array: Any, device: TimedDevice) -> Any:
    host = device.asnumpy(array) if device.holds(array) else array
    return device.asarray(np.array(host)) if device.holds(array) else np.array(host)


def _is_made_anew(value: Any) -> bool:
    """Return whether each call that computes a value makes a new object: a number of NumPy, not a literal."""
    return ask.is_really(value, np.generic) and not ask.is_really(value, np.bool_)
