"""From the arrays of a call to the bytes that it moves at least: each one read or written once."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from pytest_gpuperf.devices.torch_and_jax import library_of
from pytest_gpuperf.model import ask
from pytest_gpuperf.work.any_array import bytes_of, place, root, shape_of

_SPARSE = ("todense", "toarray")  # of SciPy, CuPy and JAX: their size is that of dense arrays, or of a part


def moved_bytes(arrays: Iterable[Any]) -> int | None:
    """Return the size of the memory that arrays use, together; None where one cannot be asked for its size.

    Of several views of one memory, no more than all of it counts. What a call reads again, or both reads and
    writes, counts once.
    """
    by_memory: defaultdict[int, list[Any]] = defaultdict(list)
    for array in {id(each): each for each in arrays}.values():
        by_memory[_memory(array)].append(array)
    if any(_is_unknown(array) for each in by_memory.values() for array in each):
        return None
    return sum(min(_whole(each), sum(map(_used, each))) for each in by_memory.values())


def are_views(returned: Sequence[Any], known: Iterable[Any]) -> bool:
    """Return whether all of these arrays are new views of known ones; a known output itself is no view."""
    memories = {id(array): _memory(array) for array in known}
    new = [array for array in returned if id(array) not in memories]
    return bool(new) and len(new) == len(returned) and {*map(_memory, new)} <= {*memories.values()}


def _is_unknown(array: Any) -> bool:
    is_sparse = any(ask.has(type(array), name) for name in _SPARSE)
    if library_of(array) == "torch":
        is_sparse = str(ask.attribute(array, "layout")) != "torch.strided"
    return is_sparse or (not bytes_of(array) and bool(prod(shape_of(array))))


def _memory(array: Any) -> int:
    """Return what arrays of one memory have in common."""
    found = place(array)
    return id(root(array)) if found is None else found.allocation


def _whole(arrays: list[Any]) -> int:
    """Return the size of the memory that these arrays share, as far as it is known."""
    return max(ask.answer(_storage, array, default=0) or bytes_of(root(array)) for array in arrays)


def _storage(array: Any) -> int:
    """Return the size of a tensor's storage: detached views of it have no `_base`."""
    return int(array.untyped_storage().nbytes()) if library_of(array) == "torch" else 0


def _used(array: Any) -> int:
    """Return the size of an array, each value in its memory once, whatever the array repeats of it."""
    size: int = bytes_of(array)
    extent: int | None = ask.answer(_extent, array)
    return size if extent is None else min(size, extent)


def _extent(array: Any) -> int | None:
    """Return how many bytes lie between an array's first value and its last; None where it has no strides."""
    if library_of(array) == "torch":
        steps, item = array.stride(), array.element_size()
        steps = [step * item for step in steps]
    else:
        steps, item = ask.attribute(array, "strides"), ask.attribute(array, "itemsize")
    if steps is None or item is None:
        return None
    spans = ((length - 1) * abs(step) for length, step in zip(shape_of(array), steps, strict=True))
    return int(item + sum(spans))
