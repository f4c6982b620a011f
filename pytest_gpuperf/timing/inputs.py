"""What a workload reads: found when it is made, and compared with what it was when it is done."""

import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any
from zlib import crc32

import numpy as np

from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.timing.parity import leaves

__all__ = [
    "Input",
    "Upload",
    "UploadTracker",
    "bytes_of",
    "carried",
    "changed",
    "dtype_of",
    "found",
    "viewed",
]

_MOST_LEAVES = 1000  # of one container that a workload carries: a long list of numbers holds no arrays
_QUALIFIED = re.compile(r"(\w+\.)+\w+")  # torch.float32


@dataclass(frozen=True, slots=True)
class Upload:
    """What went up to a device: its bytes there, and a way to have it on the host again.

    Only a GPU's uploads go up again, to be timed; on the CPU `host` is None.
    """

    bytes: int
    host: Callable[[], Any] | None


class UploadTracker:
    """A device as a body sees it while it sets up: what it puts up is remembered."""

    def __init__(self, device: TimedDevice) -> None:
        self.kind, self.backend, self.name, self.xp = device.kind, device.backend, device.name, device.xp
        self.asnumpy = device.asnumpy
        self.synchronize = device.synchronize
        self.asarray = self._remember
        self._device = device
        self.placed: list[Any] = []
        self.went_up: set[int] = set()
        self.uploads: list[Upload] = []

    def stop(self) -> None:
        """Stop remembering: from here on the device's own method is called."""
        self.asarray = self._device.asarray

    def add(self, brought: Iterable[Any]) -> None:
        """Take arrays that fixtures put on the device as uploads too."""
        known = {id(value) for value in self.placed}
        for value in brought:
            if id(value) not in known:
                known.add(id(value))
                again = partial(_copied_down, _weakly(value), self._device)
                self._note(value, Upload(bytes_of(value), again))

    def _remember(self, host: Any) -> Any:
        placed = self._device.asarray(host)
        if self.kind == "gpu" and self._device.holds(host):  # it was there, and did not go up
            self.placed.append(placed)
        else:
            self._note(placed, Upload(bytes_of(placed), None if self.kind == "cpu" else lambda: host))
        return placed

    def _note(self, placed: Any, upload: Upload) -> None:
        self.placed.append(placed)
        self.went_up.add(id(_root(placed)))
        self.uploads.append(upload)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


@dataclass(frozen=True, slots=True)
class Input:
    """An array that the workload uses, and the checksum it had before the first call.

    `bytes` are those of its memory; of several views of one memory the first has them all. `went_up` says
    that they were put on the device from the host.
    """

    array: Callable[[], Any]
    checksum: int
    bytes: int
    dtype: str
    went_up: bool


def changed(inputs: Iterable[Input], call: Callable[[], Any], device: TimedDevice) -> str | None:
    """Return a description of an input whose values the workload has changed, if there is one.

    An array that the workload only writes to is no input: erased, it gets the same values again.
    """
    for entry in inputs:
        values = entry.array()
        if values is None or _checksum(device.asnumpy(values)) == entry.checksum:
            continue
        if not _is_output(values, call, device):
            return f"{dtype_of(values)} array of shape {tuple(values.shape)}"
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


def found(call: Callable[[], Any], uploads: UploadTracker, device: TimedDevice) -> tuple[Input, ...]:
    """Return the workload's inputs: what the body put on the device, and what the callable closes over."""
    arrays = {id(value): value for value in (*uploads.placed, *carried(call, device)) if device.holds(value)}
    counted: set[int] = set()
    found = []
    for value in arrays.values():
        host = device.asnumpy(value)
        if host.dtype.kind in "biufc":
            root = _root(value)
            size = 0 if id(root) in counted else bytes_of(root)
            counted.add(id(root))
            up = id(root) in uploads.went_up
            found.append(Input(_weakly(value), _checksum(host), size, dtype_of(value), up))
    return tuple(found)


def dtype_of(value: Any) -> str:
    """Return the name of an array's dtype as NumPy has it: others write their own before it."""
    written = str(value.dtype)
    return written.rpartition(".")[2] if _QUALIFIED.fullmatch(written) else written


def bytes_of(value: Any) -> int:
    """Return the size of an array in bytes; the array API standard has no name for it."""
    known = getattr(value, "nbytes", None)
    return int(value.size * np.dtype(dtype_of(value)).itemsize if known is None else known)


def viewed(value: Any) -> Any:
    """Return the array whose memory a view uses, or None; torch has another name for it."""
    return getattr(value, "base", getattr(value, "_base", None))


def carried(call: Callable[[], Any], device: TimedDevice) -> Iterator[Any]:
    """Yield the arrays of the device that a callable carries along."""
    for value in _closed_over(call):
        yield from (leaf.value for leaf in islice(leaves(value), _MOST_LEAVES) if device.holds(leaf.value))


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


def _root(value: Any) -> Any:
    """Return the array whose memory an array uses: itself, unless it is a view."""
    while hasattr(base := viewed(value), "nbytes"):
        value = base
    return value


def _copied_down(array: Callable[[], Any], device: TimedDevice) -> Any:
    return device.asnumpy(array())


def _checksum(values: Any) -> int:
    return crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
