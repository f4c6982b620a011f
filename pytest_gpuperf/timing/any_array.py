"""One array of any library: its dtype, its size, and where its memory is."""

import re
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

_QUALIFIED = re.compile(r"(?:\w+\.)+(\w+)|<dtype: '(\w+)'>")  # torch.float32, and TensorFlow's way


def describe(array: Any) -> str:
    """Return how messages name an array."""
    return f"{dtype_of(array)} array of shape {tuple(array.shape)}"


def dtype_of(value: Any) -> str:
    """Return NumPy's name of an array's dtype; other libraries put their own name before it."""
    name = str(value.dtype)
    found = _QUALIFIED.fullmatch(name)
    return (found[1] or found[2]) if found else name


def bytes_of(value: Any) -> int:
    """Return the size of an array in bytes; the array API standard has no name for it."""
    try:
        size = getattr(value, "nbytes", None)
    except RuntimeError:  # a sparse tensor of torch, whose memory is that of other tensors
        return 0
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


def view_base(value: Any) -> Any:
    """Return the array whose memory a view uses, or None; torch calls it `_base`."""
    return getattr(value, "base", getattr(value, "_base", None))


def root(value: Any) -> Any:
    """Return the array whose memory an array uses: itself, unless it is a view."""
    while hasattr(base := view_base(value), "nbytes"):
        value = base
    return value
