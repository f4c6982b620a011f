"""From one call to the functions of a library that Python calls in it, and to what NumPy allocates."""

import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np

from pytest_gpuperf.devices.protocol import Activity
from pytest_gpuperf.model import ask

# Functions of array libraries that only copy, and those that tell or change a shape alone, or call a method.
_COPIES = frozenset(
    """array asarray asanyarray ascontiguousarray asfortranarray copy copyto empty empty_like
    require""".split()  # noqa: SIM905 - as a list each has its line
)
_SHAPES = frozenset(("ndim", "shape", "size", "reshape", "ravel", "result_type", "_wrapfunc"))
_DISPATCHER = "_dispatcher"  # ends the names of functions that tell NumPy which arguments are arrays
_HIDDEN = 24_000  # bytes: NumPy keeps the memory of small arrays, and an error of Python takes half as much
_NOISE = 4096  # bytes that Python allocates for a call that makes no array


@contextmanager
def profiled(on_call: Callable[[Any, Any], None]) -> Iterator[None]:
    """Pass each call that Python makes to `on_call`: its frame, and the function in C or None.

    A profiler that is set goes on to see everything.
    """
    outer = sys.getprofile()

    def profile(frame: Any, event: Any, argument: Any) -> None:
        if event in ("call", "c_call"):
            on_call(frame, argument if event == "c_call" else None)
        if outer is not None:
            outer(frame, event, argument)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(outer)


def activity(library: str, example: Any, call: Callable[[], Any], smallest: int) -> Activity | None:
    """Return what a library, of which `example` is an array, is seen to do in a call; None where that cannot
    be told.

    Operators in C are no calls: of NumPy what they allocate is seen, but not what they write in place. Those
    of other libraries, and arrays as small as those that NumPy recycles, escape: nothing seen proves nothing.
    """
    found = Counter[str]()

    def count(frame: Any, function: Any) -> None:
        name = frame.f_code.co_name if function is None else function.__name__
        of = frame.f_globals.get("__name__") if function is None else _module_of(function)
        if str(of).partition(".")[0] == library and name not in _SHAPES and not name.endswith(_DISPATCHER):
            found["copied" if name in _COPIES else "computed"] += 1

    is_numpy = isinstance(example, np.ndarray)
    is_hidden = 0 < smallest <= _HIDDEN or tracemalloc.is_tracing()
    is_seen = is_numpy and not is_hidden
    with _allocations(found, max(_NOISE, smallest // 2), is_seen=is_seen), profiled(count):
        call()
    if found["allocated"]:  # by a copy, if there was one: what operators allocate beside it is not told apart
        found["copied" if found["copied"] else "computed"] += 1
    if found.total():
        return Activity(computed=found["computed"], copied=found["copied"])
    has_operators_in_python = isinstance(getattr(type(example), "__add__", None), FunctionType)
    can_tell = not is_hidden if is_numpy else has_operators_in_python
    return Activity() if can_tell else None


def _module_of(function: Any) -> str:
    return ask.module_of(function) or ask.module_of(type(ask.attribute(function, "__self__")))


@contextmanager
def _allocations(found: Counter[str], least: int, *, is_seen: bool) -> Iterator[None]:
    """See whether more than `least` bytes were allocated: NumPy tells tracemalloc.

    An array's memory counts even if it was freed since. A user's own tracing is left alone.
    """
    if not is_seen or tracemalloc.is_tracing():
        yield
        return
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield
        found["allocated"] += tracemalloc.get_traced_memory()[1] - before > least
    finally:
        tracemalloc.stop()
