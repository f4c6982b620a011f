"""What calls returned, remembered: whether a later call returned the same, or an array of its own."""

import operator
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model import ask
from pytest_gpuperf.work import any_array
from pytest_gpuperf.work.values import Holds, Leaf, Numbers, is_masked
from pytest_gpuperf.work.workload import Workload

Returned = tuple[any_array.Part, ...]
"""What a call returned; empty where that is not known."""


def remember(values: Iterable[Leaf], device: TimedDevice, *, keep: bool = False) -> Returned:
    """Return references to the values of a result, which keep its arrays alive only where they shall."""
    found, holds = [], capabilities.holds(device)
    for value in (leaf.value for leaf in values):
        if has_memory(value, holds):
            if keep and getattr(value, "requires_grad", False):
                value = value.detach()  # else its autograd graph, with all activations, is kept as well
            root = any_array.root(value)
            owner = partial(_itself, root) if keep else any_array.weak_reference(root)
            if owner is None:
                return ()
            found.append(any_array.Part(owner, any_array.place(value)))
        elif ask.is_really(value, float | complex | np.generic) or _are_floats(value):
            found.append(any_array.Part(partial(_itself, value)))
    return tuple(found)


def _are_floats(value: Any) -> bool:
    """Return whether a value is many numbers that each call makes anew: whole ones Python keeps."""
    return type(value) is Numbers and type(value.values[0]) not in (bool, int)


def are_same(before: Returned, now: Returned) -> bool:
    """Return whether a call returned the very arrays and numbers of another call."""
    return bool(now) and len(before) == len(now) and all(map(_is_same, before, now))


def returns_new(workload: Workload, values: Iterable[Leaf]) -> bool:
    """Return whether one of a result's values is an array of the device that the call cannot reach."""
    holds = capabilities.holds(workload.device)
    arrays = [leaf.value for leaf in values if holds(leaf.value)]
    reached = KnownMemory(workload.reached if arrays else [])
    return not all(map(reached.has, arrays))


class KnownMemory:
    """The memory of arrays. Each is asked once, for there may be as many results as inputs."""

    def __init__(self, arrays: Iterable[Any]) -> None:
        arrays = [*arrays]
        self._owners = {id(owner): owner for owner in map(any_array.root, arrays)}
        places = map(any_array.place, arrays)
        self._allocations = {place.allocation for place in places if place is not None}

    def has(self, array: Any) -> bool:
        """Return whether an array is one of these, or a view of one."""
        place = any_array.place(array)
        is_view = place is not None and place.allocation in self._allocations
        return is_view or id(any_array.root(array)) in self._owners


def has_memory(value: Any, holds: Holds) -> bool:
    """Return whether a value is an array of the device or of NumPy; the masked constant is none."""
    return holds(value) or (
        ask.is_really(value, np.ndarray) and not (is_masked(value) and value is np.ma.masked)
    )


def _itself(value: Any) -> Any:
    return value


def _is_same(before: any_array.Part, now: any_array.Part) -> bool:
    """Return whether two parts are one object, or at one place: at one time a place has one owner."""
    old, new = before.owner(), now.owner()
    if old is None or new is None:
        return False
    if type(old) is Numbers and type(new) is Numbers:
        return len(old) == len(new) and all(map(operator.is_, old.values, new.values))
    # A donated array is nowhere any more, and the next result may be where it was.
    is_placed = None not in (before.place, now.place, any_array.place(old))
    return before.place == now.place if is_placed else old is new
