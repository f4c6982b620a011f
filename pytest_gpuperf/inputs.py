"""What a workload reads: found when it is made, and compared with what it was when it is done."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any
from zlib import crc32

import numpy as np

from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.parity import leaves

__all__ = ["Input", "Uploads", "changed", "found"]

_MOST_LEAVES = 1000  # of one container that a workload carries: a long list of numbers holds no arrays


class Uploads:
    """A device as a body sees it while it sets up: what it puts up is remembered as input."""

    def __init__(self, device: TimedDevice) -> None:
        self.kind, self.backend, self.name, self.xp = device.kind, device.backend, device.name, device.xp
        self.asnumpy = device.asnumpy
        self.synchronize = device.synchronize
        self.asarray = self._remember
        self._device = device
        self.inputs: list[Any] = []

    def stop(self) -> None:
        """Stop remembering: from here on the device's own method is called."""
        self.asarray = self._device.asarray

    def _remember(self, host: Any) -> Any:
        placed = self._device.asarray(host)
        self.inputs.append(placed)
        return placed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


@dataclass(frozen=True, slots=True)
class Input:
    """An array that the workload uses, and the checksum it had before the first call."""

    array: Callable[[], Any]
    checksum: int


def changed(inputs: Iterable[Input], call: Callable[[], Any], device: TimedDevice) -> str | None:
    """Return a description of an input whose values the workload has changed, if there is one.

    An array that the workload only writes to is no input: erased, it gets the same values again.
    """
    for entry in inputs:
        values = entry.array()
        if values is None or _checksum(device.asnumpy(values)) == entry.checksum:
            continue
        if not _is_output(values, call, device):
            return f"{values.dtype} array of shape {tuple(values.shape)}"
    return None


def _is_output(values: Any, call: Callable[[], Any], device: TimedDevice) -> bool:
    """Say whether one more call restores the values after all were overwritten; they stay as they are."""
    written = device.asnumpy(values)
    try:
        with np.errstate(all="ignore"):
            values[...] = 0 if np.all(written) else 1  # a number that is not there already
            call()
        restored = _checksum(device.asnumpy(values)) == _checksum(written)
        values[...] = device.asarray(written)
    except Exception:  # noqa: BLE001 - a workload that cannot live with other values reads them
        return False
    return restored


def found(call: Callable[[], Any], uploaded: list[Any], device: TimedDevice) -> tuple[Input, ...]:
    """Return the workload's inputs: what the body put on the device, and what the callable closes over."""
    carried = (leaf.value for value in _closed_over(call) for leaf in islice(leaves(value), _MOST_LEAVES))
    found = {id(value): value for value in (*uploaded, *carried) if device.holds(value)}
    return tuple(
        Input(_weakly(value), _checksum(device.asnumpy(value)))
        for value in found.values()
        if value.dtype.kind in "biufc"
    )


def _closed_over(call: Any) -> Iterator[Any]:
    """Yield the values that a function, a partial or a bound method, with its object, carries along."""
    if isinstance(call, partial):
        yield from (*call.args, *call.keywords.values(), *_closed_over(call.func))
    owner = getattr(call, "__self__", None)
    yield from (owner, *getattr(owner, "__dict__", {}).values())
    yield from getattr(call, "__defaults__", None) or ()
    yield from (getattr(call, "__kwdefaults__", None) or {}).values()
    for cell in getattr(call, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a cell that is still empty
            continue


def _weakly(value: Any) -> Callable[[], Any]:
    """Return a way to the value that does not keep it alive, where its type allows that."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _checksum(values: Any) -> int:
    return crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
