"""From arrays and a call to which of them calls change: a checksum before, and what calls restore after."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.timing.any_array import (
    bytes_of,
    checksum,
    describe,
    overwrite,
    reference,
    sample,
    to_host,
)

MOST_FINGERPRINTED = 1 << 30
"""Bytes, each of which is copied to the host twice."""
_MOST_IN_TURN = 4  # arrays of which each call writes one


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """An array that a workload may change, and the checksum that it had: of every `step`-th part of it."""

    array: Callable[[], Any]
    checksum: int
    step: int = field(default=1, kw_only=True)


@dataclass(frozen=True, slots=True)
class Change:
    """A changed input, as messages name it; it may be an output of which each call writes a part."""

    described: str
    may_be_output: bool


def fingerprints(
    arrays: Iterable[Any], device: TimedDevice, most: int = MOST_FINGERPRINTED
) -> tuple[Fingerprint, ...]:
    """Return the fingerprints of arrays: each once, and no more than `most` bytes of them."""
    found = {}
    budget = most
    for array in arrays:
        if id(array) in found or bytes_of(array) > budget:
            continue
        try:
            host = to_host(array, device)
        except Exception:  # noqa: BLE001, S112 - an array of any library without values, or donated to a call
            continue
        if host.dtype.kind in "biufc":
            budget -= host.nbytes
            found[id(array)] = Fingerprint(reference(array), checksum(host))
    return tuple(found.values())


def changes_of(
    inputs: Iterable[Fingerprint], call: Callable[[], Any], device: TimedDevice
) -> tuple[Change, ...]:
    """Return the inputs whose values the workload has changed.

    An array that the workload only writes to is not an input: overwritten, it gets the same values again.
    Where a part of it does, an earlier call may have changed the rest.
    """
    changes = []
    for entry in inputs:
        values = entry.array()
        if values is None or checksum(sample(values, entry.step, device)) == entry.checksum:
            continue
        if (part := _part_restored(values, call, device)) != "all":
            changes.append(Change(describe(values), may_be_output=part == "some"))
    return tuple(changes)


def changed(before: Iterable[Fingerprint], device: TimedDevice) -> tuple[Fingerprint, ...]:
    """Return the fingerprints, as they are now, of arrays that have changed since."""
    found = ((entry, _present(entry, device)) for entry in before)
    return tuple(Fingerprint(entry.array, now) for entry, now in found if now not in (None, entry.checksum))


def _present(entry: Fingerprint, device: TimedDevice) -> int | None:
    """Return an array's checksum now; None where it is gone: freed, or donated to a call."""
    try:
        array = entry.array()
        return None if array is None else checksum(to_host(array, device))
    except Exception:  # noqa: BLE001 - of any library's arrays
        return None


def changed_once(state: Iterable[Fingerprint], call: Callable[[], Any], device: TimedDevice) -> str | None:
    """Return a description of an array that only the first call changed, if a call reads it.

    Such a call may find its work done, as one that sorts an array in place. What goes on to change is no sign
    of that: statistics of a module, counts, buffers.
    """
    for entry in state:
        if _present(entry, device) != entry.checksum:
            continue
        if _part_restored(entry.array(), call, device) == "none":
            return describe(entry.array())
    return None


def _part_restored(
    values: Any, call: Callable[[], Any], device: TimedDevice
) -> Literal["all", "some", "none"]:
    """Return how much of overwritten values calls restore; they end as they were.

    A call may write a part of an array, or one of several arrays in turn. Where it changes anything else, it
    reads what it writes.
    """
    written = to_host(values, device)
    try:
        fill, other = (0, 1) if np.all(written) else (1, 0)  # the first differs from at least one value
        found = {fill: _written_by_calls(values, fill, call, device)}
        if is_whole := checksum(found[fill]) == checksum(written):
            is_part = True
        else:
            found[other] = _written_by_calls(values, other, call, device)
            is_part = _is_written_in_part(written, found)
        overwrite(values, written, device)
    except Exception:  # noqa: BLE001 - a workload that fails on other values reads them
        return "none"
    return "all" if is_whole else "some" if is_part else "none"


def _is_written_in_part(written: Any, found: Mapping[int, Any]) -> bool:
    """Return whether calls wrote a part, over each of two numbers, and only what had been there before.

    What they write may be one of the numbers, and shows over the other then.
    """
    restored = {fill: _equal(values, written) & (written != fill) for fill, values in found.items()}
    is_kept = all(np.all(restored[fill] | (values == fill)) for fill, values in found.items())
    shows_over_both = (written != 0) & (written != 1)
    seen = {bool(np.any(part & shows_over_both)) for part in restored.values()}
    return is_kept and len(seen) == 1 and any(map(np.any, restored.values()))


def _written_by_calls(values: Any, fill: int, call: Callable[[], Any], device: TimedDevice) -> Any:
    """Return what calls make of an array full of one number: one call, or as many until they change it."""
    values[...] = fill
    before = to_host(values, device)
    for _ in range(_MOST_IN_TURN):
        with np.errstate(all="ignore"):
            call()
        found = to_host(values, device)
        if not np.array_equal(found, before):
            break
    return found


def _equal(some: Any, others: Any) -> Any:
    """Return where two arrays are equal; NaN equals NaN."""
    return (some == others) | ((some != some) & (others != others))
