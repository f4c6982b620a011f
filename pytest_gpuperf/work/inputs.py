"""From a callable and its device to the arrays that it uses, and to those that its calls change."""

import dis
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import ceil
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any
from zlib import crc32

import numpy as np

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import Single, TimedDevice
from pytest_gpuperf.model import ask
from pytest_gpuperf.work.any_array import bytes_of, describe, dtype_of, reference, root
from pytest_gpuperf.work.attributes import attributes, may_be_searched
from pytest_gpuperf.work.values import leaves

_MAX_LEAVES = 1000  # searched in one container that a workload carries: long lists hold numbers, not arrays
_MOST_FINGERPRINTED = 1 << 30  # bytes, each of which is copied to the host twice, which takes seconds
_MOST_OF_STATE = 1 << 26


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload: its size on the device and how to get the host array back.

    Only uploads to a GPU are repeated, to be timed; on the CPU `host` is None.
    """

    bytes: int
    host: Callable[[], Any] | None


class UploadTracker(Single):
    """A device as a body uses it during its setup: it records the arrays that the body uploads."""

    def __init__(self, device: TimedDevice) -> None:
        self.kind, self.backend, self.name, self.xp = device.kind, device.backend, device.name, device.xp
        self.asnumpy = device.asnumpy
        self.synchronize = device.synchronize
        self.asarray: Callable[..., Any] = self._upload
        self._device = device
        self.arrays: list[Any] = []
        self.uploaded_ids: set[int] = set()
        self.uploads: list[Upload] = []

    def __repr__(self) -> str:
        """Return it as tracebacks show it: `<device gpu torch cuda:0>`."""
        native = None if self.backend == "numpy" else self.native
        return f"<device {self.kind} {self.backend} {native or self.name}>"

    @property
    def native(self) -> Any:
        """The library's own object for the device; None if it has no such object."""
        return self._device.native

    def stop(self) -> None:
        """Stop recording: from here on the device's own method is called."""
        self.asarray = self._device.asarray

    def add(self, arrays: Iterable[Any]) -> None:
        """Record arrays that fixtures put on the device as uploads, too."""
        recorded = {id(array) for array in self.arrays}
        for array in arrays:
            if id(array) not in recorded:
                recorded.add(id(array))
                download = partial(_download, reference(array), self._device)
                self._record(array, Upload(bytes_of(array), download))

    def _upload(self, host: Any, **sharding: Any) -> Any:
        """Upload by the device's own method; a group of devices takes how to divide the array."""
        array = self._device.asarray(host, **sharding)
        is_there = self._device.holds(host) or self._device.arrays_are_on_host
        if isinstance(array, list):  # a part on each device of a group
            for part in array:
                self._record(part, Upload(bytes_of(part), None))
        elif self.kind == "gpu" and is_there:  # already on the device: nothing was uploaded
            self.arrays.append(array)
        else:
            self._record(array, Upload(bytes_of(array), None if self.kind == "cpu" else lambda: host))
        return array

    def _record(self, array: Any, upload: Upload) -> None:
        self.arrays.append(array)
        self.uploaded_ids.add(id(root(array)))
        self.uploads.append(upload)

    def __getattr__(self, name: str) -> Any:
        if name == "_device":  # of a tracker that was not made by its `__init__`
            raise AttributeError(name)
        return getattr(self._device, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """An array that a workload may change, and the checksum that it had: of every `step`-th part of it.

    It `is_uniform` where all of its values were equal, as those of a new buffer. `bytes` is the size of its
    memory; of several views of one memory the first has it all.
    """

    array: Callable[[], Any]
    checksum: int
    step: int = 1
    is_uniform: bool = False
    bytes: int = 0
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """An array that has changed, and whether calls go on to change it; None where time was up."""

    entry: Fingerprint
    goes_on: bool | None

    @property
    def described(self) -> str:
        """The array as messages name it."""
        return describe(self.entry.array())


def fingerprints(
    arrays: Iterable[Any], device: TimedDevice, most: int = _MOST_FINGERPRINTED
) -> tuple[Fingerprint, ...]:
    """Return the fingerprints of arrays, of each once; of more than so many bytes a sample is summed."""
    each = {id(array): array for array in arrays}.values()
    step = max(1, ceil(sum(map(bytes_of, each)) / most))
    counted: set[int] = set()
    found = []
    for array in each:
        values = _sample(array, step, device)
        if values is not None and values.dtype.kind in "biufc":
            memory = root(array)
            entry = Fingerprint(
                array=reference(array),
                checksum=_checksum(values),
                step=step,
                is_uniform=_is_uniform(values),
                bytes=0 if id(memory) in counted else bytes_of(memory),
                dtype=dtype_of(array),
            )
            counted.add(id(memory))
            found.append(entry)
    return tuple(found)


def state_of(
    call: Callable[[], Any], device: TimedDevice, known: Iterable[Fingerprint]
) -> tuple[Fingerprint, ...]:
    """Return the fingerprints of arrays in objects and globals that a call refers to, but the known ones."""
    inputs = {id(entry.array()) for entry in known}
    arrays = [array for array in reached(call, capabilities.holds(device)) if id(array) not in inputs]
    return fingerprints(arrays, device, _MOST_OF_STATE)


def host_arrays_of(call: Callable[[], Any], device: TimedDevice) -> tuple[Fingerprint, ...]:
    """Return the fingerprints of NumPy's arrays that a GPU's call refers to: it may copy results there."""
    if device.kind == "cpu":
        return ()
    holds = capabilities.holds(device)
    arrays = reached(call, lambda value: ask.is_really(value, np.ndarray) and not holds(value))
    return fingerprints(arrays, device, _MOST_OF_STATE)


def changed(before: Iterable[Fingerprint], device: TimedDevice) -> list[Fingerprint]:
    """Return the fingerprints of the arrays that have changed since."""
    return [entry for entry in before if _now(entry, device) not in (None, entry.checksum)]


def changes_of(
    inputs: Iterable[Fingerprint],
    call: Callable[[], Any],
    device: TimedDevice,
    state: Iterable[Fingerprint] = (),
) -> tuple[Change, ...]:
    """Return the arrays that the workload has changed; one more call shows which it goes on to change.

    A buffer that calls fill, one of several in turn, too, has the same values after each of them. So has an
    array that the first call sorted in place: nothing that only reads tells them apart, but that a new buffer
    is uniform, and no array that is sorted is changed by that if it is. The `state` in objects may go on to
    change: statistics of a module, counts.
    """
    of_inputs, of_state = changed(inputs, device), changed(state, device)
    entries = of_inputs + of_state
    if not entries:
        return ()
    before = [_now(entry, device) for entry in entries]
    with np.errstate(all="ignore"):
        call()
    changes = []
    for place, (entry, then) in enumerate(zip(entries, before, strict=True)):
        goes_on = _now(entry, device) != then
        if place < len(of_inputs) if goes_on else not entry.is_uniform:
            changes.append(Change(entry, goes_on))
    return tuple(changes)


def had_values(change: Change, call: Callable[[], Any], device: TimedDevice) -> bool:
    """Return whether an array had values before it was changed: the body has run again, and returned `call`.

    That has the array itself, which a fixture made, or one with the same values. A buffer that was never
    written, as of `empty`, has what was in its memory before: other values each time.
    """
    entry, described = change.entry, change.described
    arrays = [*carried_arrays(call, device), *reached(call, capabilities.holds(device))]
    if any(array is entry.array() for array in arrays):
        return True
    alike = [_sample(array, entry.step, device) for array in arrays if describe(array) == described]
    return not alike or any(values is None or _checksum(values) == entry.checksum for values in alike)


class AfterReset:
    """The arrays that a reset has not restored, and what four calls leave in them: made here or by others.

    After a reset the first call leaves an output as it did after another one, whatever was in it before: the
    buffer is new, or full of NaN, or has the values of later calls. State that the reset forgets goes on to
    change. What no call changes any more may be either, as in `changes_of`.
    """

    def __init__(
        self,
        entries: Iterable[Fingerprint],
        call: Callable[[], Any],
        restore: Callable[[], Any],
        device: TimedDevice,
    ) -> None:
        self._call, self._restore, self._device = call, restore, device
        restore()
        self._kept = [entry for entry in changed(entries, device) if not entry.is_uniform]
        self._before = self._sums()
        self._first = list[list[int | None]]()  # since a reset
        self._second = list[list[int | None]]()

    def look(self, *, is_first: bool) -> None:
        """Look at what a call has left: the first one since a reset, or the second."""
        (self._first if is_first else self._second).append(self._sums())

    def changes(self, has_time: Callable[[], bool]) -> tuple[Change, ...]:
        """Return the arrays that calls do not overwrite; more calls show it, made while the test `has_time`.

        What repeats itself after every second call is told by first calls that are one and two calls apart.
        """
        if not self._kept:
            return ()
        made = len(self._first) + len(self._second)
        for is_first in (True, False, True, True)[made:]:
            if not has_time():
                break
            if is_first:
                self._restore()
            with np.errstate(all="ignore"):
                self._call()
            self.look(is_first=is_first)
            made += 1
        changes = []
        for place, entry in enumerate(self._kept):
            first = {sums[place] for sums in self._first}
            others = {sums[place] for sums in (self._before, *self._second)}
            if len(first) > 1:
                changes.append(Change(entry, goes_on=True))
            elif made < 4:
                changes.append(Change(entry, goes_on=None))
            elif others == first:
                changes.append(Change(entry, goes_on=False))
        return tuple(changes)

    def _sums(self) -> list[int | None]:
        return [_now(entry, self._device) for entry in self._kept]


def _sample(array: Any, step: int, device: TimedDevice) -> Any:
    """Return a copy of every `step`-th part of an array, along its longest axis, on the host.

    None where it has no values there: of a layout that NumPy lacks, freed, or donated to a call.
    """
    try:
        if step > 1 and (shape := tuple(array.shape)):
            longest = shape.index(max(shape))
            array = array[(*(slice(None) for _ in range(longest)), slice(None, None, step))]
        return device.asnumpy(array) if capabilities.holds(device)(array) else np.array(array)
    except Exception as error:
        if device.fault(error) is not None:
            raise
        return None


def _checksum(values: Any) -> int:
    return crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


def _is_uniform(values: Any) -> bool:
    """Return whether all values of an array are equal, or NaN."""
    if not values.size:
        return False
    first, last = values.flat[0], values.flat[-1]
    if first != first:
        return bool(last != last) and bool(np.isnan(values).all())
    return bool(first == last) and bool(np.all(values == first))  # most arrays need no second look


def _now(entry: Fingerprint, device: TimedDevice) -> int | None:
    """Return the checksum of what was summed before; None where the array is gone."""
    array = entry.array()
    values = None if array is None else _sample(array, entry.step, device)
    return None if values is None else _checksum(values)


def carried_arrays(call: Callable[[], Any], device: TimedDevice, *, of_numpy: bool = False) -> Iterator[Any]:
    """Yield the arrays that a callable has in arguments, closures and defaults; those of NumPy, if wanted."""
    holds = capabilities.holds(device)
    for value in _closed_over(call):
        for leaf in islice(leaves(value, once=True), _MAX_LEAVES):
            if holds(leaf.value) or (of_numpy and ask.is_really(leaf.value, np.ndarray)):
                yield leaf.value


def reaches_device(call: Callable[[], Any], device: TimedDevice) -> bool:
    """Return whether a callable refers to an array of the device, or to work recorded for it.

    Functions, objects and globals that it mentions count.
    """
    holds = capabilities.holds(device)

    def is_there(value: Any) -> bool:
        return holds(value) or device.holds_work(value)

    return _reaches(call, is_there)


def mentions_device(call: Callable[[], Any], device: TimedDevice) -> bool:
    """Return whether a callable refers to a device, its arrays or library, or to what cannot be searched."""
    library, holds = device.info.library.partition(" ")[0], capabilities.holds(device)

    def is_of_device(value: Any) -> bool:
        is_of_library = _module_of(value).startswith((library, "pytest_gpuperf"))
        is_there = is_of_library or value is device.xp or holds(value)
        return is_there or ask.is_a(value, Iterator)

    return _reaches(call, is_of_device)


def mentions_numpy(call: Callable[[], Any]) -> bool:
    """Return whether a callable refers to NumPy or to a function of it."""
    return _reaches(call, lambda value: _module_of(value) == "numpy")


def _reaches(call: Callable[[], Any], is_wanted: Callable[[Any], bool]) -> bool:
    return next(reached(call, is_wanted, through_functions=True), None) is not None


def _module_of(value: Any) -> str:
    found = ask.name_of(value) if ask.is_really(value, ModuleType) else ask.module_of(value)
    return found or ask.package(type(value))


def reached(
    call: Callable[[], Any], is_wanted: Callable[[Any], bool], *, through_functions: bool = False
) -> Iterator[Any]:
    """Yield what is wanted in globals that a callable mentions, and in attributes of objects, in theirs, too.

    Plain containers are searched, and functions that it refers to if wanted.
    """
    queue, seen = [*_closed_over(call), innermost(call), *_globals(innermost(call))], set[int]()
    while queue and len(seen) < _MAX_LEAVES:
        value = queue.pop()
        if id(value) in seen or ask.is_really(value, type):
            continue
        seen.add(id(value))
        if is_wanted(value):
            yield value
        elif type(value) in (list, tuple, dict, OrderedDict):
            queue.extend(islice(value.values() if isinstance(value, dict) else value, _MAX_LEAVES))
        elif through_functions and ask.is_really(value, FunctionType | MethodType | partial):
            queue.extend((*_closed_over(value), *_globals(value)))
        elif may_be_searched(value):
            queue.extend(part for _, part in attributes(value))


def _globals(function: Any) -> Iterator[Any]:
    """Yield the values of the global names that a function's own code mentions."""
    if ask.is_really(function, FunctionType):
        steps = dis.get_instructions(function.__code__)
        names = {step.argval for step in steps if step.opname == "LOAD_GLOBAL"}  # not those of attributes
        yield from (function.__globals__[name] for name in names if name in function.__globals__)


def innermost(call: Any) -> Any:
    """Return what partials and decorators call, or the callable itself, which may be any object."""
    while (inner := _inner(call)) is not None:
        call = inner
    return call


def _inner(call: Any) -> Any:
    """Return what a partial calls, or a function that a decorator has wrapped; None of other callables."""
    if ask.is_really(call, partial):
        return call.func
    inner = vars(call).get("__wrapped__") if ask.is_really(call, FunctionType) else None
    return None if inner is call else inner


def _closed_over(call: Any) -> Iterator[Any]:
    """Yield the values that a function, a partial or a bound method (with its object) refers to."""
    if ask.is_really(call, partial):
        yield from (*call.args, *call.keywords.values())
    if (inner := _inner(call)) is not None:
        yield from _closed_over(inner)
    owner = ask.attribute(call, "__self__")
    yield from (owner, *ask.names(owner).values())
    known = {name: ask.attribute(call, name) for name in ("__defaults__", "__kwdefaults__", "__closure__")}
    # An object that has every attribute, as a mock has, has others there than a function.
    defaults, by_name, closure = (known[name] if type(known[name]) in (tuple, dict) else () for name in known)
    yield from defaults
    yield from dict(by_name).values()
    for cell in closure:
        if type(cell) is CellType:
            with suppress(ValueError):  # a cell that is still empty
                yield cell.cell_contents


def _download(array: Callable[[], Any], device: TimedDevice) -> Any:
    return device.asnumpy(array())
