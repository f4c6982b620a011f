"""From a callable and its device to the arrays that it reads: what was uploaded, and what changed since."""

import dis
import re
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from inspect import ismemberdescriptor
from itertools import islice
from math import ceil
from types import FunctionType, MethodType
from typing import Any, Literal
from zlib import crc32

import numpy as np

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.timing.leaves import leaves

_MAX_LEAVES = 1000  # searched in one container that a workload carries: long lists hold numbers, not arrays
_MAX_FINGERPRINTED = 1 << 30  # bytes, each of which is copied to the host twice
_MAX_OF_STATE = 1 << 26  # bytes: large models are left alone
_MOST_IN_TURN = 4  # arrays of which each call writes one
_NOT_SEARCHED = {"_pytest", "builtins", "pluggy", "pytest", "pytest_gpuperf"}
_QUALIFIED = re.compile(r"(\w+\.)+\w+")  # torch.float32


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload: its size on the device and how to get the host array back.

    Only uploads to a GPU are repeated, to be timed; on the CPU `host` is None.
    """

    bytes: int
    host: Callable[[], Any] | None


class UploadTracker:
    """A device as a body uses it during its setup: it records the arrays that the body uploads."""

    def __init__(self, device: TimedDevice) -> None:
        self.kind, self.backend, self.name, self.xp = device.kind, device.backend, device.name, device.xp
        self.asnumpy = device.asnumpy
        self.synchronize = device.synchronize
        self.asarray = self._upload
        self._device = device
        self.arrays: list[Any] = []
        self.uploaded_ids: set[int] = set()
        self.uploads: list[Upload] = []

    def stop(self) -> None:
        """Stop recording: from here on the device's own method is called."""
        self.asarray = self._device.asarray

    def add(self, arrays: Iterable[Any]) -> None:
        """Record arrays that fixtures put on the device as uploads, too."""
        recorded = {id(array) for array in self.arrays}
        for array in arrays:
            if id(array) not in recorded:
                recorded.add(id(array))
                download = partial(_download, _reference(array), self._device)
                self._record(array, Upload(bytes_of(array), download))

    def _upload(self, host: Any) -> Any:
        array = self._device.asarray(host)
        if self.kind == "gpu" and self._device.holds(host):  # already on the device: nothing was uploaded
            self.arrays.append(array)
        else:
            self._record(array, Upload(bytes_of(array), None if self.kind == "cpu" else lambda: host))
        return array

    def _record(self, array: Any, upload: Upload) -> None:
        self.arrays.append(array)
        self.uploaded_ids.add(id(root(array)))
        self.uploads.append(upload)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """An array that a workload may change, and the checksum that it had: of every `step`-th part of it."""

    array: Callable[[], Any]
    checksum: int
    step: int = field(default=1, kw_only=True)


@dataclass(frozen=True, slots=True)
class Input(Fingerprint):
    """An array that the workload uses, and the checksum it had before the first call.

    `bytes` is the size of its memory; of several views of one memory the first has it all. `uploaded` is
    whether it was copied from the host.
    """

    bytes: int
    dtype: str
    uploaded: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A changed input, as messages name it; it may be an output of which each call writes a part."""

    described: str
    may_be_output: bool


def fingerprints(
    arrays: Iterable[Any], device: TimedDevice, most: int = _MAX_FINGERPRINTED
) -> tuple[Fingerprint, ...]:
    """Return the fingerprints of arrays: each once, and no more than `most` bytes of them."""
    found = {}
    budget = most
    for array in arrays:
        if id(array) in found or bytes_of(array) > budget:
            continue
        try:
            host = _to_host(array, device)
        except Exception:  # noqa: BLE001, S112 - an array of any library without values, or donated to a call
            continue
        if host.dtype.kind in "biufc":
            budget -= host.nbytes
            found[id(array)] = Fingerprint(_reference(array), checksum(host))
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
        if values is None or checksum(_sample(values, entry.step, device)) == entry.checksum:
            continue
        if (part := _part_restored(values, call, device)) != "all":
            changes.append(Change(describe(values), may_be_output=part == "some"))
    return tuple(changes)


def state_of(
    call: Callable[[], Any], device: TimedDevice, known: Iterable[Fingerprint]
) -> tuple[Fingerprint, ...]:
    """Return the fingerprints of arrays in the objects that a call carries, of few enough bytes."""
    inputs = {id(entry.array()) for entry in known}
    arrays = (array for array in _arrays_of_objects(call, device) if id(array) not in inputs)
    return fingerprints(arrays, device, _MAX_OF_STATE)


def changed(before: Iterable[Fingerprint], device: TimedDevice) -> tuple[Fingerprint, ...]:
    """Return the fingerprints, as they are now, of arrays that have changed since."""
    found = ((entry, _present(entry, device)) for entry in before)
    return tuple(Fingerprint(entry.array, now) for entry, now in found if now not in (None, entry.checksum))


def _present(entry: Fingerprint, device: TimedDevice) -> int | None:
    """Return an array's checksum now; None where it is gone: freed, or donated to a call."""
    try:
        array = entry.array()
        return None if array is None else checksum(_to_host(array, device))
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


def describe(array: Any) -> str:
    """Return how messages name an array."""
    return f"{dtype_of(array)} array of shape {tuple(array.shape)}"


def _part_restored(
    values: Any, call: Callable[[], Any], device: TimedDevice
) -> Literal["all", "some", "none"]:
    """Return how much of overwritten values calls restore; they end as they were.

    A call may write a part of an array, or one of several arrays in turn. Where it changes anything else, it
    reads what it writes.
    """
    written = _to_host(values, device)
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
    before = _to_host(values, device)
    for _ in range(_MOST_IN_TURN):
        with np.errstate(all="ignore"):
            call()
        found = _to_host(values, device)
        if not np.array_equal(found, before):
            break
    return found


def _equal(some: Any, others: Any) -> Any:
    """Return where two arrays are equal; NaN equals NaN."""
    return (some == others) | ((some != some) & (others != others))


def different(values: Any) -> Any:
    """Return small numbers, each of which differs from that of the array."""
    low = 0 if values.dtype.kind in "bu" else -1
    return np.where((values.real if values.dtype.kind == "c" else values) > 0, low, 1).astype(values.dtype)


def overwrite(array: Any, host: Any, device: TimedDevice) -> None:
    """Write a host array's values to an array of the device, or of NumPy."""
    array[...] = device.asarray(host) if device.holds(array) else host


def find_inputs(call: Callable[[], Any], uploads: UploadTracker, device: TimedDevice) -> tuple[Input, ...]:
    """Return the workload's inputs: what the body put on the device, and what the callable closes over.

    Of more than a gigabyte a sample is summed: to copy all of it to the host takes seconds, and that twice on
    each device.
    """
    candidates = (*uploads.arrays, *carried_arrays(call, device))
    arrays = {id(array): array for array in candidates if device.holds(array)}
    step = max(1, ceil(sum(map(bytes_of, arrays.values())) / _MAX_FINGERPRINTED))
    counted: set[int] = set()
    inputs = []
    for array in arrays.values():
        try:
            host = _sample(array, step, device)
        except Exception as error:
            if device.fault(error) is not None:
                raise
            continue  # of a layout that NumPy lacks, such as torch's sparse ones
        if host.dtype.kind in "biufc":
            memory = root(array)
            size = 0 if id(memory) in counted else bytes_of(memory)
            counted.add(id(memory))
            uploaded = id(memory) in uploads.uploaded_ids
            known = _reference(array), checksum(host), size, dtype_of(array), uploaded
            inputs.append(Input(*known, step=step))
    return tuple(inputs)


def dtype_of(value: Any) -> str:
    """Return NumPy's name of an array's dtype; other libraries put their own name before it."""
    name = str(value.dtype)
    return name.rpartition(".")[2] if _QUALIFIED.fullmatch(name) else name


def bytes_of(value: Any) -> int:
    """Return the size of an array in bytes; the array API standard has no name for it."""
    try:
        size = getattr(value, "nbytes", None)
    except RuntimeError:  # a sparse tensor of torch, whose memory is that of other tensors
        return 0
    return int(value.size * np.dtype(dtype_of(value)).itemsize if size is None else size)


def view_base(value: Any) -> Any:
    """Return the array whose memory a view uses, or None; torch calls it `_base`."""
    return getattr(value, "base", getattr(value, "_base", None))


def carried_arrays(call: Callable[[], Any], device: TimedDevice) -> Iterator[Any]:
    """Yield the arrays of the device that a callable reaches without its arguments."""
    for value in _closed_over(call):
        parts = islice(leaves(value, compute=True), _MAX_LEAVES)
        yield from (leaf.value for leaf in parts if device.holds(leaf.value))


def arrays_of_fixtures(body: Callable[[], Any], device: TimedDevice) -> Iterator[Any]:
    """Yield the arrays that a body got from its fixtures; those of NumPy too, whatever the device."""
    for value in _closed_over(body):
        for leaf in islice(leaves(value), _MAX_LEAVES):
            if device.holds(leaf.value) or isinstance(leaf.value, np.ndarray):
                yield leaf.value


def reaches_device(call: Callable[[], Any], device: TimedDevice) -> bool:
    """Return whether a callable refers to an array of the device, or to work recorded for it.

    Functions, objects and globals that it mentions count.
    """

    def is_there(value: Any) -> bool:
        return device.holds(value) or capabilities.holds_work(device, value)

    return next(_reached(call, is_there, through_functions=True), None) is not None


def _arrays_of_objects(call: Callable[[], Any], device: TimedDevice) -> Iterator[Any]:
    """Yield the arrays in attributes of objects, in theirs, and in plain containers; few at most."""
    return _reached(call, device.holds)


def _reached(
    call: Callable[[], Any], is_wanted: Callable[[Any], bool], *, through_functions: bool = False
) -> Iterator[Any]:
    """Yield what is wanted in attributes of objects, in theirs, and in plain containers."""
    queue, seen = [*_closed_over(call), _innermost(call)], set[int]()
    if through_functions:
        queue.extend(_globals(_innermost(call)))
    while queue and len(seen) < _MAX_LEAVES:
        value = queue.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen.add(id(value))
        if is_wanted(value):
            yield value
        elif type(value) in (list, tuple, dict, OrderedDict):
            queue.extend(islice(value.values() if isinstance(value, dict) else value, _MAX_LEAVES))
        elif through_functions and isinstance(value, FunctionType | MethodType | partial):
            queue.extend((*_closed_over(value), *_globals(value)))
        elif type(value).__module__.partition(".")[0] not in _NOT_SEARCHED:
            queue.extend(_attributes(value))


def _globals(function: Any) -> Iterator[Any]:
    """Yield the values of the global names that a function's own code mentions."""
    if isinstance(function, FunctionType):
        steps = dis.get_instructions(function.__code__)
        names = {step.argval for step in steps if step.opname == "LOAD_GLOBAL"}  # not those of attributes
        yield from (function.__globals__[name] for name in names if name in function.__globals__)


def _innermost(call: Any) -> Any:
    """Return what a partial calls, or the callable itself: it may be an object with attributes."""
    while isinstance(call, partial):
        call = call.func
    return call


def _attributes(value: Any) -> Iterator[Any]:
    """Yield the values in an object's `__dict__` and slots."""
    yield from getattr(value, "__dict__", {}).values()
    for base in type(value).__mro__:
        if "__slots__" in vars(base):
            for slot in filter(ismemberdescriptor, vars(base).values()):
                with suppress(AttributeError):  # a slot that is still empty
                    yield slot.__get__(value)


def _closed_over(call: Any) -> Iterator[Any]:
    """Yield the values that a function, a partial or a bound method (with its object) refers to."""
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


def weak_reference(value: Any) -> Callable[[], Any] | None:
    """Return a reference that does not keep the value alive; None where its type allows none."""
    try:
        return weakref.ref(value)
    except TypeError:
        return None


def _reference(value: Any) -> Callable[[], Any]:
    """Return a reference that does not keep the value alive, where its type allows that."""
    return weak_reference(value) or (lambda: value)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the memory of an array was allocated, and where in it the array begins."""

    allocation: int
    start: int


def place(value: Any) -> Place | None:
    """Return where an array is in memory; None where it is empty, or its library does not tell."""
    try:
        if hasattr(value, "untyped_storage"):  # torch: a detached tensor has no `_base`
            found = Place(value.untyped_storage().data_ptr(), value.data_ptr())
        elif hasattr(value, "__sycl_usm_array_interface__"):  # dpnp's views have no `base`
            interface = value.__sycl_usm_array_interface__
            found = Place(interface["data"][0], interface.get("offset", 0))
        else:
            found = Place(_address(root(value)), _address(value))
    except Exception:  # noqa: BLE001 - of any library's arrays: torch's sparse ones have no storage
        return None
    return found if found.allocation else None


def _address(value: Any) -> int:
    interface = getattr(value, "__array_interface__", None) or value.__cuda_array_interface__
    return int(interface["data"][0])


def root(value: Any) -> Any:
    """Return the array whose memory an array uses: itself, unless it is a view."""
    while hasattr(base := view_base(value), "nbytes"):
        value = base
    return value


def _sample(array: Any, step: int, device: TimedDevice) -> Any:
    """Return a copy of every `step`-th part of an array, along its longest axis."""
    if step > 1 and (shape := tuple(array.shape)):
        longest = shape.index(max(shape))
        array = array[(*(slice(None) for _ in range(longest)), slice(None, None, step))]
    return _to_host(array, device)


def _to_host(array: Any, device: TimedDevice) -> Any:
    """Return a copy of an array of the device, or of NumPy."""
    return device.asnumpy(array) if device.holds(array) else np.array(array)


def _download(array: Callable[[], Any], device: TimedDevice) -> Any:
    return device.asnumpy(array())


def checksum(values: Any) -> int:
    """Return a checksum of an array's bytes."""
    return crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
