"""From arrays and a call to which of them calls change: checksums before and after, and nothing written."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.timing.any_array import (
    bytes_of,
    checksum,
    describe,
    reference,
    sample,
    to_host,
)

MOST_FINGERPRINTED = 1 << 30
"""Bytes, each of which is copied to the host twice."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """An array that a workload may change, and the checksum that it had: of every `step`-th part of it.

    It `is_uniform` where all of its values were equal, as those of a new buffer.
    """

    array: Callable[[], Any]
    checksum: int
    step: int = field(default=1, kw_only=True)
    is_uniform: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Change:
    """A changed input, as messages name it, and whether calls go on to change it."""

    described: str
    goes_on: bool


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
            found[id(array)] = Fingerprint(reference(array), checksum(host), is_uniform=is_uniform(host))
    return tuple(found.values())


def changes_of(
    inputs: Iterable[Fingerprint], call: Callable[[], Any], device: TimedDevice
) -> tuple[Change, ...]:
    """Return the inputs that the workload has changed; one more call shows which it goes on to change.

    A buffer that calls fill, one of several in turn, too, has the same values after each of them. So has an
    array that the first call sorted in place: nothing that only reads tells them apart, but that a new buffer
    is uniform, and no array that is sorted is changed by that if it is.
    """
    changed = [entry for entry in inputs if _now(entry, device) not in (None, entry.checksum)]
    if not changed:
        return ()
    before = [_now(entry, device) for entry in changed]
    with np.errstate(all="ignore"):
        call()
    changes = []
    for entry, then in zip(changed, before, strict=True):
        goes_on = _now(entry, device) != then
        if goes_on or not entry.is_uniform:
            changes.append(Change(describe(entry.array()), goes_on))
    return tuple(changes)


def changed(before: Iterable[Fingerprint], device: TimedDevice) -> tuple[Fingerprint, ...]:
    """Return the fingerprints, as they are now, of arrays that have changed since, but for new buffers."""
    found = ((entry, _present(entry, device)) for entry in before if not entry.is_uniform)
    return tuple(Fingerprint(entry.array, now) for entry, now in found if now not in (None, entry.checksum))


def changed_once(state: Iterable[Fingerprint], device: TimedDevice) -> str | None:
    """Return a description of an array that only the first call changed, and later ones left as it was.

    They may find their work done, as when it sorted the array in place. What goes on to change is no sign of
    that: statistics of a module, counts.
    """
    return next(
        (describe(entry.array()) for entry in state if _present(entry, device) == entry.checksum), None
    )


def is_uniform(values: Any) -> bool:
    """Return whether all values of an array are equal."""
    if not values.size or values.flat[0] != values.flat[-1]:  # most arrays need no second look
        return False
    return bool(np.all(values == values.flat[0]))


def _now(entry: Fingerprint, device: TimedDevice) -> int | None:
    """Return the checksum of what was summed before; None where the array is gone."""
    values = entry.array()
    return None if values is None else checksum(sample(values, entry.step, device))


def _present(entry: Fingerprint, device: TimedDevice) -> int | None:
    """Return an array's checksum now; None where it is gone: freed, or donated to a call."""
    try:
        return _now(entry, device)
    except Exception:  # noqa: BLE001 - of any library's arrays
        return None
