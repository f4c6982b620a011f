"""From the arrays of a call to the bytes that it moves at least: each one read or written once."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from pytest_gpuperf.work.any_array import bytes_of, place, root, shape_of


def moved_bytes(arrays: Iterable[Any]) -> int | None:
    """Return the size of the memory that arrays use, together; None where one cannot be asked for its size.

    Of several views of one memory, no more than all of it counts. What a call reads again, or both reads and
    writes, counts once: so it is the least that the call can do with.
    """
    by_memory: defaultdict[int, list[Any]] = defaultdict(list)
    for array in {id(each): each for each in arrays}.values():
        by_memory[_memory(array)].append(array)
    if any(not bytes_of(array) and prod(shape_of(array)) for each in by_memory.values() for array in each):
        return None
    return sum(min(_whole(each), sum(map(bytes_of, each))) for each in by_memory.values())


def are_views(returned: Sequence[Any], known: Iterable[Any]) -> bool:
    """Return whether all of these arrays are new views of known ones; a known output itself is no view."""
    memories = {id(array): _memory(array) for array in known}
    new = [array for array in returned if id(array) not in memories]
    return bool(new) and len(new) == len(returned) and {*map(_memory, new)} <= {*memories.values()}


def _memory(array: Any) -> int:
    """Return what arrays of one memory have in common."""
    found = place(array)
    return id(root(array)) if found is None else found.allocation


def _whole(arrays: list[Any]) -> int:
    """Return the size of the memory that these arrays share, as far as it is known."""
    return max(bytes_of(root(array)) for array in arrays)
