"""From a result to its values with their places: what it is made of, copied to the host, and what is lazy."""

import re
import sys
from collections import ChainMap, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from inspect import ismemberdescriptor
from io import IOBase
from itertools import chain
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from pytest_gpuperf.devices.containers import SEQUENCES, is_container, items
from pytest_gpuperf.devices.torch_and_jax import library_of
from pytest_gpuperf.model.plain_text import quote
from pytest_gpuperf.timing.any_array import dtype_of, reference

# Of arrays, data frames, sparse matrices and futures, whose own parts are not what a user means.
_ONE_VALUE = (
    "__array__",
    "__dlpack__",
    "__dataframe__",
    "to_dense",
    "toarray",
    "todense",
    "add_done_callback",
)
_CODE = (type, ModuleType, FunctionType)
_NOT_SEARCHED = {"_pytest", "builtins", "pluggy", "pytest", "pytest_gpuperf"}
LAZY = (
    "is lazy, or may be: its work would run after the timed call, when its values are read; return these in "
    "a dict or a list"
)
"""What a message says of it."""
_MOST_SEARCHED = 20_000  # objects: a module of torch has some fifteen dicts
_INDEXED = (Mapping, *SEQUENCES)  # of all containers, those that are no dataclasses
_STORING = (dict, OrderedDict, defaultdict, MappingProxyType, list, tuple, deque)
# Containers that gave values which they had not stored: the last ones, as some allow no weak reference.
_COMPUTING: deque[Callable[[], Any]] = deque(maxlen=16)
_BITS = {"bfloat16": 7, "bcomplex32": 7, "complex32": 10}  # of the mantissa, where NumPy has no such dtype
_SINGLE = ("float32", "complex64")
_BITS_IN_NAME = re.compile(r"float\d+_e\d+m(\d+)")  # float8_e4m3fn
_FROM_ANOTHER_PACKAGE = 2  # numpy.dtype.isbuiltin: a dtype of ml_dtypes


Unpack = Callable[[Any], Any]


class Leaf(NamedTuple):
    """One value of a result and its place: `result[0]['x']`.

    `eps` is that of the device's dtype, or of a mode in which it rounds more, where the value on the host
    has a finer one; else 0. `own_eps` is that of the dtype alone, where such a mode may round the value.
    """

    path: str
    value: Any
    eps: float = 0.0
    own_eps: float | None = None


def leaves(result: Any, path: str = "result", unpack: Unpack | None = None) -> Iterator[Leaf]:
    """Yield the values in tuples, lists, deques, dicts and dataclasses, in order; None is no value.

    A container that computes its values when they are read is one value. `unpack` returns the contents of an
    object of a device's library, such as a data frame, and None for any other value.
    """
    if unpack is not None and (contents := unpack(result)) is not None:
        result = contents
    if is_container(result) and not _computes_when_read(result):
        for key, part in items(result):
            yield from leaves(part, _place(path, result, key), unpack)
    elif result is not None:
        yield Leaf(path, result)


def values_of(result: Any, path: str = "result", unpack: Unpack | None = None) -> Iterator[Leaf]:
    """Yield the values in a result: its `leaves`, those of JAX's pytrees, and those in objects with arrays.

    Of a pytree functions are no values. An object has values where an array is among its attributes, theirs,
    and those in containers there: its arrays, its numbers of public names, what is lazy, and what was too
    much to be searched. Its other attributes may say on which device it is.
    """
    tree_util: Any = getattr(sys.modules.get("jax"), "tree_util", None)
    seen: set[int] = set()
    for leaf in leaves(result, path, unpack):
        value = leaf.value
        if tree_util is not None and not tree_util.all_leaves([value]):
            for place, part in tree_util.tree_flatten_with_path(value)[0]:
                if not callable(part):
                    yield from values_of(part, f"{leaf.path}{tree_util.keystr(place)}")
        elif id(value) not in seen or not may_be_searched(value):  # else its values were given before
            found = stored_values(leaf, seen)
            yield from found if any(map(is_array, (part.value for part in found))) else [leaf]


def stored_values(leaf: Leaf, seen: set[int]) -> list[Leaf]:
    """Return the values in an object's attributes, for `values_of`; `seen` are ids of objects that were."""
    found, queue = [], deque([leaf])
    while queue:
        path, value, *_ = part = queue.popleft()
        is_one_value = is_array(value) or any(hasattr(type(value), name) for name in _ONE_VALUE)
        if is_one_value or is_iterator(value) or isinstance(value, np.generic | int | float | complex):
            found.append(part)
        elif id(value) not in seen:
            seen.add(id(value))
            holds_parts = is_container(value)
            if len(seen) > _MOST_SEARCHED or (holds_parts and _computes_when_read(value)):
                found.append(part)
            elif holds_parts:
                queue.extend(Leaf(_place(path, value, key), each) for key, each in items(value))
            elif may_be_searched(value):
                queue.extend(
                    Leaf(f"{path}.{name}", each)
                    for name, each in attributes(value)
                    if not (name.startswith("_") and isinstance(each, int | float))
                )
    return found


def is_array(value: Any) -> bool:
    """Return whether a value is an array of any library; no property of a user's object is read for it."""
    has_both = {"dtype", "shape"} <= getattr(value, "__dict__", {}).keys()
    return hasattr(type(value), "dtype") or (has_both and not isinstance(value, _CODE))


def is_iterator(value: Any) -> bool:
    """Return whether a value computes others when they are asked for, and is no file."""
    return isinstance(value, Iterator) and not isinstance(value, IOBase)


def may_be_searched(value: Any) -> bool:
    """Return whether an object's attributes may hold a user's arrays: not those of code."""
    return not isinstance(value, _CODE) and type(value).__module__.partition(".")[0] not in _NOT_SEARCHED


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values in an object's `__dict__` and slots."""
    yield from [*getattr(value, "__dict__", {}).items()]
    for base in type(value).__mro__:
        if "__slots__" in vars(base):
            for name, slot in vars(base).items():
                with suppress(AttributeError):  # a slot that is still empty
                    if ismemberdescriptor(slot):
                        yield name, slot.__get__(value)


def snapshot(
    result: Any,
    holds: Callable[[Any], bool],
    asnumpy: Callable[[Any], Any],
    reduced_eps: float | None = None,
    dtypes: Iterable[str] = (),
    unpack: Unpack | None = None,
) -> list[Leaf]:
    """Return the result's values on the host: arrays of the device copied, numbers as 0-d arrays.

    Each field of a structured array is a value, and so is a mask; what it hides is zero.
    `reduced_eps` is the spacing to which the device rounds float32, where it rounds more than that dtype.
    A number of Python was computed in one of `dtypes`: its type does not tell in which.
    """
    found: list[Leaf] = []
    used = [(_eps(dtype), dtype in _SINGLE) for dtype in dtypes]
    coarsest = max((eps for eps, _ in used), default=0.0)
    computes_in_single = any(is_single for _, is_single in used)
    for path, value, *_ in values_of(result, unpack=unpack):
        eps = _narrow_eps(dtype_of(value) if is_array(value) else "")
        host, may_be_rounded = value, False
        if is_masked(value):
            host = np.ma.MaskedArray(value, copy=True, subok=False)  # np.ma.masked is no copy of its own
        elif holds(value):
            with suppress(TypeError, NotImplementedError):  # a layout that NumPy lacks, such as a sparse one
                host = asnumpy(value)
            may_be_rounded = str(host.dtype) in _SINGLE
        elif isinstance(value, bytes):
            host = np.array(bytearray(value))
        elif library_of(value) == "torch":  # of others a call may have returned before its work was done
            with suppress(TypeError, RuntimeError):  # on a GPU, sparse, or of a dtype that NumPy lacks
                host = value.detach().resolve_conj().resolve_neg().numpy().copy()
        elif isinstance(value, np.ndarray | np.generic | bool | int | float | complex | str):
            host = np.array(value)
            if type(value) in (float, complex):
                eps, may_be_rounded = coarsest, computes_in_single
        if eps and isinstance(host, np.ndarray) and host.dtype.isbuiltin == _FROM_ANOTHER_PACKAGE:
            host = host.astype(np.float32)
        leaf = Leaf(path, host, eps)
        if may_be_rounded and reduced_eps is not None:
            leaf = leaf._replace(eps=max(eps, reduced_eps), own_eps=eps)
        found += _parts(leaf)
    return found


def is_masked(value: Any) -> bool:
    """Return whether a value is an array with a mask: there is none before numpy.ma, slow to import, is."""
    return "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray)


def incomparable(values: Iterable[Leaf]) -> Iterator[Leaf]:
    """Yield the values that can be neither compared nor copied."""
    return (leaf for leaf in values if not isinstance(leaf.value, np.ndarray))


def is_lazy(value: Any) -> bool:
    """Return whether the work of a value may still be to be done."""
    return is_iterator(value) or is_lazy_graph(value) or _computes_when_read(value)


def is_lazy_graph(value: Any) -> bool:
    """Return whether a value follows dask's protocol: a graph of the work to be done."""
    return hasattr(type(value), "__dask_graph__")


def _place(path: str, container: Any, key: Any) -> str:
    """Return where a container at some place has a part: `result['x']`, `result[0]`, `result.total`."""
    if isinstance(container, Mapping):
        return f"{path}[{quote(key)}]"
    return f"{path}[{key}]" if isinstance(container, SEQUENCES) else f"{path}.{key}"


def _computes_when_read(value: Any) -> bool:
    """Return whether a container may give other values than those that it stored before it was read.

    One that did is remembered: it may keep what it has computed.
    """
    if type(value) in _STORING or not is_container(value):
        return False
    if type(value) is ChainMap:
        return any(map(_computes_when_read, value.maps))
    if any(known() is value for known in _COMPUTING):
        return True
    with suppress(Exception):  # it is the user's code that reads
        if any(_gives(value, store) for store in _stores(value)):
            return False
    _COMPUTING.append(reference(value))
    return True


def _stores(container: Any) -> list[dict[Any, Any]]:
    """Return what may have the parts of a container: it itself, its attributes, or what one of them holds."""
    held = dict(attributes(container))
    if not isinstance(container, _INDEXED):  # a dataclass, whose class has the defaults
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
    """Return whether a container gives the very parts in a store, by iteration and by each key."""
    if not isinstance(container, _INDEXED):
        return all(part is store[name] for name, part in items(container))
    if len(container) != len(store):  # not read at all, as what is in a file
        return False
    are_stored = all(
        key in store and part is store[key] and part is container[key] for key, part in items(container)
    )
    return are_stored and len([*items(container)]) == len(store)


def _parts(leaf: Leaf) -> Iterator[Leaf]:
    """Yield the fields of a structured array, and the data and the mask of a masked one."""
    path, value, *_ = leaf
    if isinstance(value, np.ndarray) and value.dtype.names:
        for name in value.dtype.names:
            yield from _parts(leaf._replace(path=f"{path}[{name!r}]", value=value[name]))
    elif is_masked(value):
        hidden = np.ma.getmaskarray(value)
        value.data[hidden] = np.zeros((), value.dtype)
        yield leaf._replace(value=value.data)
        if hidden.any():  # else it is the answer of a library without masks, too
            yield Leaf(f"{path}.mask", hidden)
    else:
        yield leaf


def _eps(dtype: str) -> float:
    """Return the machine epsilon of a dtype, if coarser than float64; else 0."""
    if dtype == "float16" or dtype in _SINGLE:
        return float(np.finfo(dtype).eps)
    return _narrow_eps(dtype)


def _narrow_eps(dtype: str) -> float:
    """Return the machine epsilon of a dtype that NumPy lacks, known by its name; else 0."""
    name = dtype.rpartition(".")[2]
    in_name = _BITS_IN_NAME.match(name)
    bits = int(in_name[1]) if in_name else _BITS.get(name)
    return 0.0 if bits is None else 2.0**-bits
