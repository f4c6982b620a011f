"""From a result to its values with their places: what it is made of, and copied to the host."""

import re
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, time, timedelta
from itertools import chain, compress
from math import prod
from numbers import Number
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from pytest_gpuperf.devices.containers import INDEXED, MOST_OPENED, asked_items, is_container
from pytest_gpuperf.devices.torch_and_jax import library_of
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import text_of
from pytest_gpuperf.work.any_array import dtype_of, is_array, layers
from pytest_gpuperf.work.any_array import place as memory_of
from pytest_gpuperf.work.attributes import attributes, may_be_searched
from pytest_gpuperf.work.lazy import (
    computes_when_read,
    is_delayed,
    is_handle,
    is_iterator,
    is_lazy,
    is_lazy_tensor,
    why_lazy,
)
from pytest_gpuperf.work.places import RESULT, Cells, Place

# Of arrays, data frames and sparse matrices, whose own parts are not what a user means.
_ONE_VALUE = ("__array__", "__dlpack__", "__dataframe__", "to_dense", "toarray", "todense")
_MOST_SEARCHED = 20_000  # objects: a module of torch has some fifteen dicts
_SIMPLE = frozenset((bool, int, float, complex, str, bytes, np.ndarray))
_NO_CONTAINERS = _SIMPLE | {NoneType}
_MANY = 64  # numbers in one list or dict are one value, and so are so many rows of fewer
_MOST_LEVELS = 4  # of rows in rows, which may hold themselves
_OF_NUMPY = (np.bool_, *(np.dtype(code).type for code in "bhilqBHILQefd"))
_KINDS: dict[type, str] = {bool: "b", int: "i", float: "f"}  # of the dtypes of arrays that hold them
_KINDS |= {kind: np.dtype(kind).kind for kind in _OF_NUMPY}
# Of keys that are compared as they are, also in a tuple: no user's object is asked whether it is equal.
_KEYS = frozenset((*_KINDS, str, bytes, NoneType))
_TYPED = ({bool}, {int}, {float}, {complex}, {str})
_PLAIN = (np.ndarray, np.generic, str, Number, date, time, timedelta)
_SAYS_WHAT_IT_IS = ("unit", "units", "dims")  # of the attributes of wrappers and subclasses
_SAYS_NOTHING = ("", "None")
_BITS = {"bfloat16": 7, "bcomplex32": 7, "complex32": 10}  # of the mantissa, where NumPy has no such dtype
_SINGLE = ("float32", "complex64")
_BITS_IN_NAME = re.compile(r"float\d+_e\d+m(\d+)")  # float8_e4m3fn
_FROM_ANOTHER_PACKAGE = 2  # numpy.dtype.isbuiltin: a dtype of ml_dtypes


class Numbers:
    """The numbers of one type in a long list or dict, or in its rows, as they were, with the place of each.

    A result of many is one value, so that to look at it takes no longer than to make it.
    """

    __slots__ = ("cells", "values")

    def __init__(self, cells: Cells, values: tuple[Any, ...]) -> None:
        self.cells = cells
        self.values = values

    def __len__(self) -> int:
        return len(self.values)


Unpack = Callable[[Any], Any]
Holds = Callable[[Any], bool]


class Leaf(NamedTuple):
    """One value of a result and its place: `result[0]['x']`.

    `eps` is that of the device's dtype, or of a mode in which it rounds more, where the value on the host
    has a finer one; else 0. `own_eps` is that of the dtype alone, where such a mode may round the value. A
    label is a text that says what an array is: its unit, its dimensions. Of `Numbers` the host has an array,
    and the places of its `cells`: each is a value of its own, not compared by the size of the others.
    """

    place: Place
    value: Any
    eps: float = 0.0
    own_eps: float | None = None
    is_label: bool = False
    cells: Cells | None = None

    @property
    def path(self) -> str:
        """The place as messages name it."""
        return self.place.path


class Result(NamedTuple):
    """What a call returned, and the values in it: it is walked once, however often they are looked at."""

    whole: Any
    values: list[Leaf]


def walked(result: Any, holds: Holds) -> Result:
    """Return a result with its values; it keeps all of them alive."""
    return Result(result, [*values_of(result, holds)])


def leaves(
    result: Any, place: Place = RESULT, unpack: Unpack | None = None, *, once: bool = False
) -> Iterator[Leaf]:
    """Yield the values in tuples, lists, deques, dicts and dataclasses, in order; None is no value.

    A container that computes its values when they are read, or cannot be asked for them, is one value, and
    one within itself is none. With `once` none is opened again, wherever else it is found. `unpack` returns
    the contents of an object of a device's library, such as a data frame, and None for any other value.
    """
    opened: dict[int, tuple[Any, Iterator[tuple[Place, Any]]]] = {0: (None, iter([(place, result)]))}
    count, known = 0, dict[int, Any]()
    while opened:
        _, parts = next(reversed(opened.values()))
        if (part := next(parts, None)) is None:
            opened.popitem()
            continue
        place, value = part
        if type(value) in _NO_CONTAINERS:
            if value is not None:
                yield Leaf(place, value)
            continue
        if unpack is not None and (contents := unpack(value)) is not None:
            value = contents
        if id(value) in opened or id(value) in known:
            continue
        if (inside := _inside(value, place)) is None:
            yield Leaf(place, value)
            continue
        if (numbers := _numbers(value, place)) is not None:
            yield from numbers
            continue
        opened[id(value)] = (value, inside)
        count += 1
        if once:
            known[id(value)] = value  # alive, so that no other container gets its id
        elif count > MOST_OPENED:
            raise GpuPerfError(
                f"the workload returns more than {MOST_OPENED:,} containers, or some of them in many places "
                f"({place.path}); return arrays instead"
            )


def values_of(
    result: Any, holds: Holds, unpack: Unpack | None = None, place: Place = RESULT
) -> Iterator[Leaf]:
    """Yield the values in a result: its `leaves`, those of JAX's pytrees, and those in objects with arrays.

    Of a pytree functions are no values. An object has values where an array is among its attributes, theirs,
    and those in containers there: its arrays, its numbers of public names, what is lazy, and what was too
    much to be searched. Its other attributes may say on which device it is. Of a wrapper the array is the
    value; `holds` says which arrays are the device's own.
    """
    seen: set[int] = set()
    for leaf in leaves(result, place, unpack):
        for found in _values_in(leaf, seen):
            yield from _unwrapped(found, holds)


def require_waited_for(result: Any) -> None:
    """Refuse a result with a handle of work that nobody has waited for, or a call that nobody has made."""
    for leaf in leaves(result):
        if type(leaf.value) not in _SIMPLE and (is_handle(leaf.value) or is_delayed(leaf.value)):
            if ask.is_a(leaf.value, Coroutine):
                ask.answer(leaf.value.close)  # else it warns that it was not awaited
            raise GpuPerfError(why_lazy(leaf.place, leaf.value))


def stored_values(leaf: Leaf, seen: set[int]) -> list[Leaf]:
    """Return the values in an object's attributes, for `values_of`; `seen` are ids of objects that were."""
    found, queue = [], deque([leaf])
    while queue:
        part = queue.popleft()
        place, value = part.place, part.value
        is_one_value = is_array(value) or any(ask.has(type(value), name) for name in _ONE_VALUE)
        may_be_lazy = is_iterator(value) or is_handle(value, with_value=True)
        if is_one_value or may_be_lazy or ask.is_really(value, np.generic | int | float | complex):
            found.append(part)
        elif id(value) not in seen:
            seen.add(id(value))
            parts = None if len(seen) > _MOST_SEARCHED else _inside(value, place)
            if parts is not None:
                queue.extend(Leaf(at, each) for at, each in parts)
            elif len(seen) > _MOST_SEARCHED or is_container(value):
                found.append(part)
            elif may_be_searched(value):
                queue.extend(
                    Leaf(Place(place, name, "attribute"), each)
                    for name, each in attributes(value)
                    if not (name.startswith("_") and ask.is_really(each, int | float))
                )
    return found


class Host:
    """How a device's values come to the host, and how it rounds them.

    `reduced_eps` is the spacing to which the device rounds float32, where it rounds more than that dtype.
    A number of Python was computed in one of `dtypes`: its type does not tell in which.
    """

    def __init__(
        self, holds: Holds, asnumpy: Callable[[Any], Any], reduced_eps: float | None, dtypes: Iterable[str]
    ) -> None:
        self.holds = holds
        self._asnumpy = asnumpy
        self._reduced_eps = reduced_eps
        dtypes = [*dtypes]
        self._coarsest = max(map(_eps, dtypes), default=0.0)
        self._computes_in_single = any(dtype in _SINGLE for dtype in dtypes)

    def copies(self, leaf: Leaf, within: frozenset[int] = frozenset()) -> Iterator[Leaf]:
        """Yield a value on the host: arrays of the device copied, numbers as 0-d arrays.

        Each field of a structured array is a value, and so is a mask; what it hides is zero. So is each
        object in an array of objects, unless it is `within` itself, and unless all are numbers of one type.
        """
        if type(leaf.value) is Numbers:
            yield from self._copies_of(leaf, leaf.value)
            return
        for part in _parts(self._copy(leaf)):
            value = part.value
            is_array_of_objects = ask.is_really(leaf.value, np.ndarray) and value.dtype.kind == "O"
            if not (is_array_of_objects and value.size):
                yield part
            elif set(map(type, value.flat)) in _TYPED and (typed := np.array(value.tolist())).dtype != object:
                part = part._replace(value=typed)
                yield self._of_number(part) if typed.dtype.kind in "fc" else part
            elif id(leaf.value) not in within:
                for index, each in np.ndenumerate(value):
                    key = index[0] if len(index) == 1 else index
                    place = Place(part.place, key) if index else part.place
                    for found in values_of(each, self.holds, place=place):
                        yield from map(_boxed, self.copies(found, within | {id(leaf.value)}))

    def _copies_of(self, leaf: Leaf, numbers: Numbers) -> Iterator[Leaf]:
        """Yield numbers as one array, or each, where they are too large for one."""
        host, first = np.array(numbers.values), numbers.values[0]
        if host.dtype.kind != _KINDS[type(first)]:
            for each in _each(numbers.cells, numbers.values):
                yield from self.copies(each)
            return
        many = leaf._replace(value=host, cells=numbers.cells)
        if ask.is_really(first, np.generic):
            may_be_rounded = str(host.dtype) in _SINGLE and self.holds(first)
            yield self._rounded(many, 0.0, may_be_rounded=may_be_rounded)
        else:
            yield self._of_number(many) if host.dtype.kind == "f" else many

    def _copy(self, leaf: Leaf) -> Leaf:
        value = host = leaf.value
        eps, may_be_rounded = _narrow_eps(dtype_of(value) if is_array(value) else ""), False
        if is_masked(value):
            host = np.ma.MaskedArray(value, copy=True, subok=False)  # np.ma.masked is no copy of its own
        elif self.holds(value) and not is_lazy_tensor(value):
            # Some layouts NumPy lacks, such as a sparse one, or a tensor that has other ones in its place.
            no_copy = (RuntimeError,) if library_of(value) and memory_of(value) is None else ()
            with suppress(TypeError, NotImplementedError, BufferError, *no_copy):
                host = self._asnumpy(value)
            may_be_rounded = str(host.dtype) in _SINGLE
        elif ask.is_really(value, bytes):
            host = np.array(bytearray(value))
        elif library_of(value) == "torch" and not is_lazy_tensor(value):
            # Of other libraries a call may have returned before its work was done.
            with suppress(TypeError, RuntimeError):  # on a GPU, sparse, or of a dtype that NumPy lacks
                host = value.detach().resolve_conj().resolve_neg().numpy().copy()
        elif ask.is_a(value, _PLAIN):
            host = np.array(value) if ask.is_really(value, np.ndarray) else ask.answer(np.array, value)
            if host is None:
                return leaf
            if ask.is_really(value, float | complex) and not is_array(value):
                return self._of_number(leaf._replace(value=host))
        if eps and isinstance(host, np.ndarray) and host.dtype.isbuiltin == _FROM_ANOTHER_PACKAGE:
            host = host.astype(np.float32)
        return self._rounded(leaf._replace(value=host), eps, may_be_rounded=may_be_rounded)

    def _of_number(self, leaf: Leaf) -> Leaf:
        """Return numbers of Python with the precision of what they may have been computed in."""
        return self._rounded(leaf, self._coarsest, may_be_rounded=self._computes_in_single)

    def _rounded(self, leaf: Leaf, eps: float, *, may_be_rounded: bool) -> Leaf:
        if may_be_rounded and self._reduced_eps is not None and self._reduced_eps > eps:
            return leaf._replace(eps=self._reduced_eps, own_eps=eps)
        return leaf._replace(eps=eps)


def snapshot(
    values: Iterable[Leaf],
    holds: Holds,
    asnumpy: Callable[[Any], Any],
    reduced_eps: float | None = None,
    dtypes: Iterable[str] = (),
) -> list[Leaf]:
    """Return a result's values on the host, as `Host` copies them."""
    host = Host(holds, asnumpy, reduced_eps, dtypes)
    return [copy for leaf in values for copy in host.copies(leaf)]


def apart(leaf: Leaf) -> Iterable[Leaf]:
    """Return each of many numbers as a value of its own; any other value as it is."""
    if leaf.cells is None:
        return [leaf]
    return [
        each._replace(value=np.array(each.value), eps=leaf.eps, own_eps=leaf.own_eps)
        for each in _each(leaf.cells, leaf.value)
    ]


def _each(cells: Cells, values: Iterable[Any]) -> Iterator[Leaf]:
    return (Leaf(cells.place(number), value) for number, value in enumerate(values))


def _numbers(value: Any, place: Place) -> list[Leaf] | None:
    """Return the numbers in a list, or in a dict of plain keys, if it has many and nothing but them and None.

    It may have them in rows: containers of as many each, or of the same plain keys. Those of each type are
    one value: whole numbers are compared by other rules than others. The first one of a type of NumPy is a
    value of its own, which has a dtype and may be the device's.
    """
    if type(value) not in (list, tuple, dict) or len(value) < _MANY:
        return None
    values: tuple[Any, ...] = (value,)
    keys: list[Sequence[Any]] = []
    while len(keys) < _MOST_LEVELS and (of_row := _keys_of_each(values)) is not None:
        keys.append(of_row)
        if prod(map(len, keys[1:])) >= _MANY:
            return None  # rows of so many are values of their own, and one may be there many times
        rows = map(dict.values, values) if type(values[0]) is dict else values
        values = tuple(chain.from_iterable(rows))
    types = [*map(type, values)]
    kinds = dict.fromkeys(types)
    if not keys or not kinds.keys() <= _KINDS.keys() | {NoneType}:
        return None
    cells = Cells(place, tuple(keys), range(len(values)))
    if len(kinds) == 1 and kinds.keys() <= {*_KINDS} - {*_OF_NUMPY}:
        return [Leaf(place, Numbers(cells, values))]
    found: list[Leaf] = []
    for kind in filter(_KINDS.get, kinds):
        is_of_kind = [each is kind for each in types]
        if kind in _OF_NUMPY:
            first = types.index(kind)
            is_of_kind[first] = False
            found += _each(replace(cells, chosen=[first]), [values[first]])
        if any(is_of_kind):
            chosen = replace(cells, chosen=[*compress(cells.chosen, is_of_kind)])
            numbers = Numbers(chosen, tuple(compress(values, is_of_kind)))
            found.append(Leaf(Place(place, kind.__name__, "type"), numbers))
    return found


def _keys_of_each(rows: Sequence[Any]) -> Sequence[Any] | None:
    """Return the keys that each row has; None where one is none, has others, or keys of a user's."""
    kinds = {*map(type, rows)}
    if kinds == {dict}:
        if not _are_plain([*chain.from_iterable(rows)]) or len({*map(tuple, rows)}) > 1:
            return None
        return [*rows[0]]
    if kinds not in ({list}, {tuple}) or len({*map(len, rows)}) > 1:
        return None
    return range(len(rows[0]))


def _are_plain(keys: Sequence[Any]) -> bool:
    """Return whether keys are numbers, texts or None, or tuples of them."""
    kinds = {*map(type, keys)}
    in_tuples = {*map(type, chain.from_iterable(key for key in keys if type(key) is tuple))}
    return kinds <= _KEYS | {tuple} and in_tuples <= _KEYS


def is_masked(value: Any) -> bool:
    """Return whether a value is an array with a mask: there is none before numpy.ma, slow to import, is."""
    return "numpy.ma" in sys.modules and ask.is_really(value, np.ma.MaskedArray)


def incomparable(values: Iterable[Leaf]) -> Iterator[Leaf]:
    """Yield the values that can be neither compared nor copied."""
    return (leaf for leaf in values if not ask.is_really(leaf.value, np.ndarray))


def _inside(value: Any, place: Place) -> Iterator[tuple[Place, Any]] | None:
    """Return the parts of a container, each with its place; None of what is none, or is not opened."""
    if not is_container(value) or is_delayed(value) or computes_when_read(value):
        return None
    if (parts := asked_items(value)) is None:
        return None
    kind: Any = "item" if ask.is_a(value, INDEXED) else "attribute"
    return ((Place(place, key, kind), part) for key, part in parts)


def _values_in(leaf: Leaf, seen: set[int]) -> Iterable[Leaf]:
    """Return the values in one leaf; `seen` are ids of the objects of which they were given."""
    value = leaf.value
    if type(value) in _SIMPLE or type(value) is Numbers or is_handle(value) or is_delayed(value):
        return [leaf]
    tree_util: Any = getattr(sys.modules.get("jax"), "tree_util", None)
    if tree_util is not None and not ask.answer(tree_util.all_leaves, [value]):
        flat = ask.answer(tree_util.tree_flatten_with_path, value)
        return [leaf] if flat is None else _in_pytree(leaf, flat[0])
    if id(value) in seen and may_be_searched(value):  # its values were given before
        return []
    found = stored_values(leaf, seen)
    return found if any(is_array(part.value) for part in found) else [leaf]


def _in_pytree(leaf: Leaf, parts: list[tuple[Any, Any]]) -> Iterator[Leaf]:
    for entries, part in parts:
        if not callable(part):
            place = leaf.place
            for entry in entries:
                place = Place(place, entry, "entry")
            seen: set[int] = set()
            for each in leaves(part, place):
                yield from _values_in(each, seen)


def _unwrapped(leaf: Leaf, holds: Holds) -> Iterator[Leaf]:
    """Yield a value, in place of an array that wraps one that; and labels, which a plain array has not."""
    if type(leaf.value) in _SIMPLE or not is_array(leaf.value):
        yield leaf
        return
    through = layers(leaf.value, holds)
    yield leaf._replace(value=through[-1])
    labels = {name: text for layer in reversed(through) for name, text in _labels(layer)}
    for name, text in labels.items():
        yield Leaf(Place(leaf.place, name, "attribute"), text, is_label=True)


def _labels(array: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts that say what an array's numbers mean, if its type keeps any."""
    known = ask.names(array)
    for name in _SAYS_WHAT_IT_IS:
        if name in known or ask.has(type(array), name):
            yield from _label(name, ask.attribute(array, name))
    if "attrs" in known or ask.has(type(array), "attrs"):
        yield from _label("units", ask.answer(lambda: array.attrs.get("units")))


def _label(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield a label that has words: of dimensions their names, of a unit its text."""
    if name == "dims":
        value = ", ".join(map(str, value)) if type(value) is tuple else None
    text = text_of(str, value)
    if text not in _SAYS_NOTHING and text != object.__repr__(value) and not callable(value):
        yield name, text


def _boxed(leaf: Leaf) -> Leaf:
    """Return a value that is no array as an array of one object, which can be asked whether it is equal."""
    if ask.is_really(leaf.value, np.ndarray) or is_lazy(leaf.value):
        return leaf
    box = np.empty((), object)
    box[()] = leaf.value
    return leaf._replace(value=box)


def _parts(leaf: Leaf) -> Iterator[Leaf]:
    """Yield the fields of a structured array, and the data and the mask of a masked one."""
    value = leaf.value
    if ask.is_really(value, np.ndarray) and value.dtype.names:
        for name in value.dtype.names:
            yield from _parts(leaf._replace(place=Place(leaf.place, name), value=value[name]))
    elif is_masked(value):
        hidden = np.ma.getmaskarray(value)
        value.data[hidden] = np.zeros((), value.dtype)
        yield leaf._replace(value=value.data)
        if hidden.any():  # else it is the answer of a library without masks, too
            yield Leaf(Place(leaf.place, "mask", "attribute"), hidden)
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
