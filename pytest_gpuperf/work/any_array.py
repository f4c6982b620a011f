"""One array of any library: its dtype, its size, and where its memory is."""

import re
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from pytest_gpuperf.devices.torch_and_jax import library_of
from pytest_gpuperf.model import ask
from pytest_gpuperf.work.attributes import CODE, attributes

_QUALIFIED = re.compile(r"(?:\w+\.)+(\w+)|<dtype: '(\w+)'>")  # torch.float32, and TensorFlow's way

UNKNOWN_DTYPE = "unknown"
"""The dtype of what says that it is an array, and cannot be asked for it."""
_NOTHING = object()
_MOST_AXES = 64  # of NumPy
_NUMBERS = frozenset((bool, int, float, complex, str, bytes, NoneType))  # most of what is asked
# Under which a wrapper gives its array: xarray's, pint's, astropy's, and those that follow them.
_GIVES_ITS_ARRAY = ("data", "magnitude", "value", "values", "array")
_COMPRESSED = ("to_dense", "toarray", "todense")  # methods of sparse arrays, whose `data` is a part of them
_MOST_LAYERS = 8
# Arrays that gave no array that they held: the last ones. They may keep what they have computed.
_COMPUTED: deque[Callable[[], Any]] = deque(maxlen=16)
_MOST_BASES = 64  # NumPy leaves out all views between, and no other library has so many


def is_array(value: Any) -> bool:
    """Return whether a value is an array of any library; no property of a user's object is read for it."""
    kind = type(value)
    if kind in _NUMBERS or ask.has(kind, "dtype"):
        return kind not in _NUMBERS
    is_code = ask.is_really(value, CODE)  # before a module's many names
    return not is_code and ask.stores(value, "dtype", "shape") and not ask.is_a(value, CODE)


def layers(
    value: Any, holds: Callable[[Any], bool], most: int = _MOST_LAYERS, seen: set[int] | None = None
) -> list[Any]:
    """Return an array and, where it wraps another one, that one too, and so on: the last has the numbers.

    A wrapper, such as xarray's or one with a unit, gives under a usual name what one of its attributes held
    before, or a view of that. What computes the array that it gives, or reads it from a file, is none. `seen`
    are the ids of arrays that were looked into before, which two wrappers may hold, or lead back to.
    """
    is_whole = ask.is_really(value, np.ndarray | np.generic) or library_of(value) is not None or holds(value)
    if is_whole or not most or any(ask.has(type(value), name) for name in _COMPRESSED):
        return [value]
    seen = {id(value)} if seen is None else seen
    held = []
    for _, part in attributes(value):
        if _is_numbers(part) and id(part) not in seen:
            seen.add(id(part))
            held += layers(part, holds, most - 1, seen)
    if not held or any(known() is value for known in _COMPUTED):
        return [value]
    roots = {id(root(layer)) for layer in held}
    for name in _GIVES_ITS_ARRAY:
        given = ask.attribute(value, name)
        is_held = given is not value and _is_numbers(given) and id(root(given)) in roots
        if is_held and shape_of(given) == shape_of(value):
            return [value, *layers(given, holds, most - 1)]
    _COMPUTED.append(reference(value))
    return [value]


def _is_numbers(value: Any) -> bool:
    return is_array(value) or type(value) in (int, float, complex)


def shape_of(value: Any) -> tuple[Any, ...]:
    """Return the shape of an array; that of a scalar where it cannot be asked."""
    return tuple(ask.parts(ask.attribute(value, "shape", ()), _MOST_AXES) or ())


def describe(array: Any) -> str:
    """Return how messages name an array."""
    return f"{dtype_of(array)} array of shape {shape_of(array)}"


def dtype_of(value: Any) -> str:
    """Return NumPy's name of an array's dtype; other libraries put their own name before it."""
    name: str = ask.answer(str, ask.attribute(value, "dtype", UNKNOWN_DTYPE), default=UNKNOWN_DTYPE)
    found = _QUALIFIED.fullmatch(name)
    return (found[1] or found[2]) if found else name


def bytes_of(value: Any) -> int:
    """Return the size of an array in bytes; the array API standard has no name for it.

    It is 0 where it cannot be asked: a sparse tensor of torch raises, for its memory is that of others.
    """
    found: int = ask.answer(_bytes_of, value, default=0)
    return found


def _bytes_of(value: Any) -> int:
    size = getattr(value, "nbytes", None)
    return prod(tuple(value.shape)) * np.dtype(dtype_of(value)).itemsize if size is None else int(size)


def weak_reference(value: Any) -> Callable[[], Any] | None:
    """Return a reference that does not keep the value alive; None where its type allows none."""
    try:
        return weakref.ref(value)
    except TypeError:
        return None


def reference(value: Any) -> Callable[[], Any]:
    """Return a reference that does not keep the value alive, where its type allows that."""
    return weak_reference(value) or (lambda: value)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the memory of an array was allocated, and where in it the array begins."""

    allocation: int
    start: int


class Part(NamedTuple):
    """An array or a number of a result: it, or the array that owns its memory, and where in that it is."""

    owner: Callable[[], Any]
    place: Place | None = None


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


def writes(value: Any) -> int | None:
    """Return how often an array was written, which torch counts; None where that is not known."""
    count = ask.attribute(value, "_version") if library_of(value) == "torch" else None
    return count if type(count) is int else None


def view_base(value: Any) -> Any:
    """Return the array whose memory a view uses, or None; torch calls it `_base`."""
    base = ask.attribute(value, "base", _NOTHING)
    return ask.attribute(value, "_base") if base is _NOTHING else base


def root(value: Any) -> Any:
    """Return the array whose memory an array uses: itself, unless it is a view.

    What a stranger's array calls its `base` may be anything, and lead back to it.
    """
    for _ in range(_MOST_BASES):
        if not ask.has(base := view_base(value), "nbytes"):
            break
        value = base
    return value
