"""From a value of a result to whether its work is done: what is lazy, and handles of work that still runs."""

import inspect
import re
import sys
from collections import ChainMap, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from io import IOBase
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np

from pytest_gpuperf.devices.containers import INDEXED, is_container, items
from pytest_gpuperf.devices.torch_and_jax import host_copy, library_of
from pytest_gpuperf.model import ask
from pytest_gpuperf.work.any_array import is_array, layers, place, reference, root, shape_of
from pytest_gpuperf.work.attributes import CALLABLES, attributes, may_be_searched
from pytest_gpuperf.work.places import RESULT, Place

LAZY = (
    "is lazy, or may be: its work would run after the timed call, when its values are read; return these in "
    "a dict or a list"
)
"""What a message says of it."""
# The methods of a handle of work, and what to do instead of returning one: `get_loop` is that of asyncio.
_HANDLES = {
    ("get_loop", "add_done_callback"): "run its loop until it is done, and return what it gives",
    ("result", "done"): "return {}.result()",  # concurrent.futures, joblib, dask.distributed
    ("get", "ready"): "return {}.get()",  # multiprocessing, ipyparallel, Celery
    ("wait", "done"): "return {}.wait()",  # torch.futures
    ("wait", "is_completed"): "call {}.wait(), and return the tensors",  # torch.distributed
    ("wait", "test"): "return {}.wait()",  # MPI
    ("fetch_blocking", "fetch"): "return {}.fetch_blocking()",  # polars
}
# Those that give no value: they count where they are returned, not where an object has one for its own use.
_RUNNING = {
    ("join", "is_alive"): "call {}.join(), and return what it computes",  # threads and processes
    ("wait", "poll"): "call {}.wait(), and return what it computes",  # subprocess
}
_COROUTINE = "the workload is async and would never run; time a function that runs the loop"
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_ARGUMENTS = (tuple, dict)  # without names, and with
_MOST_SEARCHED = 1000  # objects in one that says it is an array
_MAPPINGS = (dict, OrderedDict, defaultdict, MappingProxyType)
_STORING = (*_MAPPINGS, list, tuple, deque)
# Containers that gave values which they had not stored: the last ones, as some allow no weak reference.
_COMPUTING: deque[Callable[[], Any]] = deque(maxlen=16)


def is_lazy(value: Any) -> bool:
    """Return whether the work of a value may still be to be done."""
    return (
        is_iterator(value)
        or is_lazy_graph(value)
        or computes_when_read(value)
        or is_handle(value)
        or is_delayed(value)
        or is_lazy_tensor(value)
    )


def why_lazy(at: Place, value: Any) -> str:
    """Return what is said of a lazy value, with what to return instead."""
    kind = type(value).__name__
    article = "an" if kind[0] in "AEIOUaeiou" else "a"
    what = f"the workload returns {article} {kind}," if at is RESULT else f"{at.path} is of type {kind},"
    if is_lazy_graph(value):
        return f"{at.path} is of type {kind}, which {LAZY}"
    if (remedy := _remedy(value, _HANDLES | _RUNNING)) is not None:
        name = _WORD.findall(kind)
        return f"{what} whose work is not waited for: {remedy.format(name[-1].lower() if name else 'handle')}"
    if _is_awaitable(value):
        return _COROUTINE if at is RESULT else f"{at.path} is awaitable: {_COROUTINE}"
    if is_delayed(value):
        return (
            f"{what} of a function with its arguments, which nobody calls: return what the function returns"
        )
    return f"{at.path} is of type {kind}, which {LAZY}"


def is_handle(value: Any, *, with_value: bool = False) -> bool:
    """Return whether a value stands for work that may still run, asked by the methods of its type.

    So no library need be known, nor imported. Of two kinds that give no value, threads and processes of the
    system, many objects have one for their own use.
    """
    if library_of(value) is not None:  # an array, which is not asked for all of these methods
        return False
    if _remedy(value, _HANDLES if with_value else _HANDLES | _RUNNING) is not None:
        return True
    return _is_awaitable(value) and not is_lazy_graph(value)


def is_delayed(value: Any) -> bool:
    """Return whether a tuple is a call that joblib has still to make: a named function and its arguments."""
    if type(value) is not tuple or len(value) != 1 + len(_ARGUMENTS):
        return False
    if tuple(map(type, value[1:])) != _ARGUMENTS:
        return False
    has_name = ask.answer(inspect.getattr_static, value[0], "__name__", None) is not None  # a model has none
    return callable(value[0]) and (has_name or ask.is_a(value[0], CALLABLES))


def is_iterator(value: Any) -> bool:
    """Return whether a value computes others when they are asked for, and is no file."""
    return ask.is_a(value, Iterator) and not ask.is_a(value, IOBase)


def is_lazy_graph(value: Any) -> bool:
    """Return whether a value follows dask's protocol and has a graph of the work to be done.

    By that protocol a graph that is None says that the value is no collection of dask: xarray and pint wrap
    any arrays.
    """
    if not ask.has(type(value), "__dask_graph__"):
        return False
    return ask.answer(lambda: value.__dask_graph__(), default=value) is not None


def computes_from_inputs(array: Any, holds: Callable[[Any], bool], known: set[int]) -> bool:
    """Return whether what says that it is an array has no memory, and holds only known arrays and functions.

    Then its values are computed when they are read. `known` are ids of roots of arrays.
    """
    is_there = ask.is_really(array, np.ndarray | np.generic) or place(array) is not None
    if is_there or (holds(array) and library_of(array) != "torch") or 0 in shape_of(array):
        return False
    seen, queue, found = set[int](), [array], False
    while queue:
        value = queue.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if len(seen) > _MOST_SEARCHED:
            return False
        if ask.is_a(value, CALLABLES):
            found = True
        elif value is not array and is_array(value) and (holds(value) or place(value) is not None):
            found = True
            if id(root(value)) not in known and shape_of(value):  # a new scalar is a factor of something
                return False
        elif type(value) in _STORING:
            queue.extend(value.values() if type(value) in _MAPPINGS else value)
        elif may_be_searched(value):
            queue.extend(part for _, part in attributes(value))
    return found


def computes_when_read(value: Any) -> bool:
    """Return whether a container may give other values than those that it stored before it was read.

    One that did is remembered: it may keep what it has computed.
    """
    if type(value) in _STORING or not is_container(value):
        return False
    if type(value) is ChainMap:
        return bool(ask.answer(_has_computing_map, value, default=True))  # it may be one of its own maps
    if any(known() is value for known in _COMPUTING):
        return True
    if ask.answer(_gives_what_it_stores, value, default=False):  # it is the user's code that reads
        return False
    _COMPUTING.append(reference(value))
    return True


def _has_computing_map(value: Any) -> bool:
    return any(map(computes_when_read, value.maps))


def _is_awaitable(value: Any) -> bool:
    return ask.answer(inspect.isawaitable, value, default=False) is True


def _remedy(value: Any, handles: dict[tuple[str, str], str]) -> str | None:
    """Return what to do instead of returning a handle; None for what is none.

    A field of a named tuple is no method, and a library that makes up attributes has none on its type.
    """
    kind = type(value)
    for methods, remedy in handles.items():
        if all(callable(ask.attribute(kind, method)) for method in methods):
            return remedy
    return None


def is_lazy_tensor(value: Any) -> bool:
    """Return whether a tensor shows other values than those in its memory: its class computes them when read.

    Only a class that overrides `__torch_function__` can. Most do so to keep what they know beside the
    numbers, and show their memory.
    """
    if library_of(value) != "torch":
        return False
    torch = sys.modules["torch"]
    override = getattr(getattr(type(value), "__torch_function__", None), "__func__", None)
    if override in (None, torch.Tensor.__torch_function__.__func__):
        return False
    with suppress(Exception):  # it is the user's code that reads, or a layout that NumPy lacks
        shown = host_copy(value)
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - the documented way
            own = host_copy(value)
        return bool(shown.tobytes() != own.tobytes())
    return False


def _gives_what_it_stores(container: Any) -> bool:
    return any(_gives(container, store) for store in _stores(container))


def _stores(container: Any) -> list[dict[Any, Any]]:
    """Return what may have the parts of a container: it itself, its attributes, or what one of them holds."""
    held = dict(attributes(container))
    if not isinstance(container, INDEXED):  # a dataclass, whose class has the defaults
        defaults = (vars(base).items() for base in reversed(type(container).__mro__))
        return [dict(chain.from_iterable(defaults)) | held]
    contents = map(_contents, (container, *held.values()))
    return [dict(each) for each in contents if each is not None]


def _contents(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """Return what a dict or a sequence stores as the built-in type that it is, whatever its methods give."""
    if isinstance(value, dict):
        return dict.items(value)
    kinds: tuple[Any, ...] = (list, tuple, deque)
    return next((enumerate(kind.__iter__(value)) for kind in kinds if isinstance(value, kind)), None)


def _gives(container: Any, store: dict[Any, Any]) -> bool:
    """Return whether a container gives the very parts in a store, by iteration and by each key.

    It may wrap them anew each time, as a dataset of xarray does, which stores its coordinates beside them.
    """
    if not isinstance(container, INDEXED):
        return all(part is store[name] for name, part in items(container))
    size, given = len(container), 0
    if size > len(store):  # not read at all, as what is in a file
        return False
    for key, part in items(container):
        if key not in store or not (_is_in(part, store[key]) and _is_in(container[key], store[key])):
            return False
        given += 1
        if given > size:  # the same parts over and over
            return False
    return given == size


def _is_in(part: Any, stored: Any) -> bool:
    """Return whether a part is what was stored, or another wrapper of the array in it."""
    if part is stored:
        return True
    inner = layers(part, lambda _: False) if is_array(part) and is_array(stored) else []
    return len(inner) > 1 and inner[-1] is layers(stored, lambda _: False)[-1]
