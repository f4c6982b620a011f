"""From items that differ in their device only to pairs: who is compared with whom, and who runs first."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

import pytest

from pytest_gpuperf.items import SHAPE, Shape
from pytest_gpuperf.sides import Side

__all__ = ["brought_back", "in_order", "join", "pairs", "together"]


_APART = "give one of them another name (pair), or take its marker away"


def join(items: Iterable[pytest.Item]) -> list[str]:
    """Give each GPU sibling the CPU sibling that it is compared with; return what is wrong with the others.

    The items are all that were collected, so that siblings which will not run are known, too.
    """
    wrong = []
    for group in pairs(items):
        wrong += _twice(group) or _join(group)
    return wrong


def pairs(items: Iterable[pytest.Item]) -> Iterator[list[pytest.Item]]:
    """Yield the groups of items that differ in their device only."""
    groups: dict[Hashable, list[pytest.Item]] = {}
    for item in items:
        shape = item.stash.get(SHAPE, None)
        if shape is not None and shape.pair is not None:
            groups.setdefault(shape.pair, []).append(item)
    yield from groups.values()


def in_order(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the items in their order, but for each GPU sibling after its CPU sibling."""
    listed = list(items)
    shapes = {item: shape for item in listed if (shape := item.stash.get(SHAPE, None)) is not None}
    to_come = {shape.nodeid for shape in shapes.values() if shape.kind == "cpu"}
    waiting: dict[str, list[pytest.Item]] = {}
    for item in listed:
        shape = shapes.get(item)
        if shape is not None and shape.partner in to_come:
            waiting.setdefault(shape.partner or "", []).append(item)
            continue
        yield item
        if shape is not None and shape.kind == "cpu":
            to_come.discard(shape.nodeid)
            yield from waiting.pop(shape.nodeid, [])


def together(items: Sequence[pytest.Item]) -> list[list[int]]:
    """Return the places of items that one process must run, in order: siblings, and sizes of a family."""
    above: dict[str, str] = {}

    def top(name: str) -> str:
        while above.setdefault(name, name) != name:
            name = above[name]
        return name

    names = [_names(item) for item in items]
    for first, *others in filter(None, names):
        for other in others:
            above[top(first)] = top(other)
    groups: dict[str, list[int]] = {}
    for place, known in enumerate(names):
        if known:
            groups.setdefault(top(known[0]), []).append(place)
    return [group for group in groups.values() if len(group) > 1]


def brought_back(selected: Iterable[pytest.Item], found: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the CPU siblings, of all that were found, that selected GPU siblings miss."""
    chosen = [shape for item in selected if (shape := item.stash.get(SHAPE, None)) is not None]
    missing = {shape.partner for shape in chosen} - {shape.nodeid for shape in chosen}
    return [item for item in found if item.stash[SHAPE].nodeid in missing]


def _join(group: Sequence[pytest.Item]) -> list[str]:
    """Pair the items of one group."""
    cpus = [item for item in group if item.stash[SHAPE].kind == "cpu"]
    gpus = [item for item in group if item.stash[SHAPE].kind == "gpu"]
    wrong = []
    for item in gpus if cpus else []:
        shape = item.stash[SHAPE]
        partner = _partner(shape, [each.stash[SHAPE] for each in cpus])
        if partner is None:
            known = ", ".join(each.nodeid for each in cpus)
            wrong.append(
                f"{item.nodeid}: which of {known} is it compared with? None is of its library or NumPy"
            )
        elif not partner.demand.bare and partner.demand != shape.demand:
            wrong.append(
                f"{item.nodeid}: asks for something else than its sibling {partner.nodeid}; ask it once"
            )
        else:
            item.stash[SHAPE] = replace(shape, partner=partner.nodeid)
    for item in cpus if gpus else []:
        if item.stash[SHAPE].demand.bare:
            asked = gpus[0].stash[SHAPE]
            item.stash[SHAPE] = replace(item.stash[SHAPE], demand=asked.demand)
    return wrong


def _partner(gpu: Shape, cpus: Sequence[Shape]) -> Shape | None:
    """Return the CPU side of a GPU's own library, else NumPy's, else the only one."""
    library = gpu.side.library if gpu.side else ""
    for wanted in dict.fromkeys((library, "numpy", "")):
        found = [each for each in cpus if each.side is not None and each.side.library == wanted]
        if found:
            return min(found, key=lambda each: bool(each.side and each.side.variant))
    return cpus[0] if len(cpus) == 1 else None


def _twice(group: Sequence[pytest.Item]) -> list[str]:
    """Return which siblings work on the same device."""
    first: dict[Side, pytest.Item] = {}
    for item in group:
        shape = item.stash[SHAPE]
        other = first.setdefault(shape.side, item) if shape.side else item
        if other is not item and shape.source != "all":
            device = ":".join(filter(None, (shape.side.library, shape.side.selector))) if shape.side else ""
            on = f"{(shape.kind or '').upper()} {device}".strip()
            message = f"{item.nodeid}: works on the same {on} as its sibling {other.nodeid}; {_APART}"
            return [message]
    return []


def _names(item: pytest.Item) -> list[str]:
    """Return the names of what an item belongs to."""
    shape = item.stash.get(SHAPE, None)
    if shape is None:
        return []
    names = [f"pair {shape.partner or shape.nodeid}"] if shape.pair is not None else []
    return [*names, f"family {shape.family.name}"] if shape.family else names
