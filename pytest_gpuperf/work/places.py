"""From the values of two results to which of them are in the same place, whatever the places are called."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import numpy as np

from pytest_gpuperf.model import ask
from pytest_gpuperf.model.plain_text import LONGEST, one_line, quote
from pytest_gpuperf.work.any_array import is_array
from pytest_gpuperf.work.attributes import CODE


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a value is: in another place, the item of a key or index, or the attribute of a name.

    The key of an `entry` says itself what it is called, as those of JAX's pytrees do. The numbers of one
    `type` in a container are called as the container is. Two places are the same
    only if they are one object: keys that read alike are not equal.
    """

    parent: "Place | None"
    key: Any
    kind: Literal["item", "attribute", "entry", "type"] = "item"

    @property
    def path(self) -> str:
        """How messages name it: `result['x'][0].total`."""
        names = []
        place: Place | None = self
        while place is not None:
            names.append(place.name)
            place = place.parent
        return one_line("".join(reversed(names)), LONGEST)

    @property
    def name(self) -> str:
        """What it adds to the path of the place that it is in."""
        if self.kind == "item":
            return f"[{quote(self.key)}]"
        if self.kind == "type":
            return ""
        return f".{self.key}" if self.kind == "attribute" else str(self.key)


RESULT = Place(None, "result", "entry")
"""Where a result as a whole is."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The places of many values in a container, or in its rows; each is made when it is asked for.

    `keys` are those of the container, then those of each row, and so on; `chosen` are the numbers of the
    cells, counted row by row. Two of them are equal if these are. Cells of one row are in one place.
    """

    container: Place = field(compare=False)
    keys: tuple[Sequence[Any], ...]
    chosen: Sequence[int]
    _made: dict[tuple[int, int], Place] = field(default_factory=dict, compare=False, repr=False)

    def place(self, number: int) -> Place:
        """Return the place of one of the chosen cells: the same one whenever it is asked for."""
        return self._place(self.chosen[number], len(self.keys))

    def name(self, number: int) -> str:
        """Return what the place of one of the chosen cells adds to the path of the container."""
        place, name = self.place(number), ""
        while place is not self.container and place.parent is not None:
            place, name = place.parent, place.name + name
        return name

    def _place(self, cell: int, depth: int) -> Place:
        """Return the place of a cell, or of a row of so many keys."""
        if not depth:
            return self.container
        if (cell, depth) not in self._made:
            keys = self.keys[depth - 1]
            row, column = divmod(cell, len(keys))
            self._made[cell, depth] = Place(self._place(row, depth - 1), keys[column])
        return self._made[cell, depth]


def same_places(here: Iterable[Place], there: Iterable[Place]) -> dict[Place, Place]:
    """Return for places of one result, and those that they are in, the same ones of another result.

    It is the one whose key is equal, in whatever order a dict has them. Keys that can equal no other object,
    or say of themselves that they differ, are taken in their order.
    """
    in_here, in_there = _children(here), _children(there)
    found: dict[Place, Place] = {}
    pairs: list[tuple[Place | None, Place | None]] = [(None, None)]
    while pairs:
        one, other = pairs.pop()
        for pair in _pairs(in_here[one], in_there[other]):
            found[pair[0]] = pair[1]
            pairs.append(pair)
    return found


def _children(places: Iterable[Place]) -> defaultdict[Place | None, list[Place]]:
    """Return the places in each place, in order."""
    children: defaultdict[Place | None, list[Place]] = defaultdict(list)
    seen = set()
    for each in places:
        place: Place | None = each
        while place is not None and place not in seen:
            seen.add(place)
            children[place.parent].append(place)
            place = place.parent
    return children


def has_equality(value: Any) -> bool:
    """Return whether the class of an object says which others are equal to it."""
    known: Any = type(value).__eq__
    return known is not object.__eq__


def _pairs(here: list[Place], there: list[Place]) -> Iterator[tuple[Place, Place]]:
    """Yield which of the places in one place are which of those in another."""
    left = dict(enumerate(there))
    by_key: dict[Any, int] = {}
    for number, place in left.items():
        _looked_up(by_key.setdefault, place, number)
    without = []
    for place in here:
        number = _looked_up(by_key.pop, place, None)
        if number is None:
            without.append(place)
        else:
            yield place, left.pop(number)
    yield from zip(filter(_is_unique, without), filter(_is_unique, left.values()), strict=False)


def _looked_up(method: Any, place: Place, value: Any) -> Any:
    """Return what a dict has for a place's key; None where the key, a user's object, cannot be looked up."""
    return ask.answer(method, (place.kind, place.key), value)  # an array has no hash, and no truth


def _is_unique(place: Place) -> bool:
    """Return whether no other object can equal a place's key, so that each call makes another one."""

    def is_unique(key: Any) -> bool:
        if ask.is_really(key, tuple):
            return any(map(is_unique, key))
        if ask.is_a(key, (Enum, *CODE)):  # the same objects on both devices
            return False
        if not has_equality(key) or (is_array(key) and not ask.is_really(key, np.generic)):
            return True
        return bool(ask.answer(lambda: bool(key != key), default=True))  # NaN

    return is_unique(place.key)
