"""From items that differ in their device only to pairs: who is compared with whom, and who runs first."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import fields, replace

import pytest

from pytest_gpuperf.collection.items import SHAPE, ItemSpec
from pytest_gpuperf.devices.spec import DeviceSpec
from pytest_gpuperf.model.demand import Demand

__all__ = [
    "across_functions",
    "brought_back",
    "in_order",
    "join",
    "needs",
    "pairs",
    "together",
    "within_functions",
]


_NONE_FITS = "none is of its library, and none is NumPy's"
_APART = "give one of them another name (pair), or take its marker away"


def join(items: Iterable[pytest.Item], which: Callable[[tuple[Hashable, ...]], bool]) -> list[str]:
    """Give each GPU sibling the CPU sibling that it is compared with; return what is wrong with the others.

    The items are all that were collected, so that siblings which will not run are known, too.
    """
    wrong = []
    for group in pairs(items, which):
        wrong += _join_two(*group) if len(group) == 2 else _join(group)
    return wrong


def within_functions(pair: tuple[Hashable, ...]) -> bool:
    """Say whether siblings are items of one function."""
    return len(pair) == 2


def across_functions(pair: tuple[Hashable, ...]) -> bool:
    """Say whether siblings are joined by a name, or by a class that theirs inherit."""
    return len(pair) != 2


def pairs(
    items: Iterable[pytest.Item], which: Callable[[tuple[Hashable, ...]], bool]
) -> Iterable[list[tuple[pytest.Item, ItemSpec]]]:
    """Return the groups of items that differ in their device only, of some pairs."""
    groups: dict[Hashable, list[tuple[pytest.Item, ItemSpec]]] = {}
    for item in items:
        shape = item.stash[SHAPE]
        pair = shape.pair
        if pair is not None and which(pair):
            if (group := groups.get(pair)) is None:
                groups[pair] = [(item, shape)]
            else:
                group.append((item, shape))
    return groups.values()


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the items in their order, but each GPU sibling after its CPU sibling."""
    ordered: list[pytest.Item] = []
    waiting: dict[str, list[pytest.Item]] = {}
    to_come = _run_late(items)
    for item in items if to_come else ():
        shape = item.stash.get(SHAPE, None)
        if shape is not None and shape.partner in to_come:
            waiting.setdefault(shape.partner or "", []).append(item)
            continue
        ordered.append(item)
        if shape is not None and shape.nodeid in to_come:
            to_come.discard(shape.nodeid)
            ordered += waiting.pop(shape.nodeid, ())
    return ordered if ordered else list(items)


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


def needs(items: Iterable[pytest.Item]) -> dict[int, int]:
    """Return for each GPU sibling the CPU sibling that has to run before it in its process, by places."""
    shapes = [item.stash.get(SHAPE, None) for item in items]
    places = {shape.nodeid: place for place, shape in enumerate(shapes) if shape is not None}
    return {
        place: places[shape.partner]
        for place, shape in enumerate(shapes)
        if shape is not None and shape.partner in places
    }


def brought_back(selected: Iterable[pytest.Item], found: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the selected items, with the CPU siblings that are missing, of all found, before their GPU's."""
    items = list(selected)
    chosen = {shape.nodeid for item in items if (shape := item.stash.get(SHAPE, None)) is not None}
    missing = {item.stash[SHAPE].nodeid: item for item in found if item.stash[SHAPE].nodeid not in chosen}
    complete = []
    for item in items:
        shape = item.stash.get(SHAPE, None)
        partner = missing.pop(shape.partner, None) if shape is not None and shape.partner else None
        complete += [item] if partner is None else [partner, item]
    return complete


def _run_late(items: Iterable[pytest.Item]) -> set[str]:
    """Return the node ids of the CPU siblings that come after one of their GPU siblings."""
    passed: set[str] = set()
    late: set[str] = set()
    for item in items:
        shape = item.stash.get(SHAPE, None)
        if shape is None:
            continue
        if shape.partner is not None:
            passed.add(shape.partner)
        elif shape.nodeid in passed:
            late.add(shape.nodeid)
    return late


def _join_two(one: tuple[pytest.Item, ItemSpec], other: tuple[pytest.Item, ItemSpec]) -> list[str]:
    """Pair two items up: most groups are a CPU sibling and a GPU sibling that were asked the same."""
    (_, cpu), (item, gpu) = (one, other) if one[1].kind == "cpu" else (other, one)
    if (cpu.kind, gpu.kind) != ("cpu", "gpu") or cpu.demand is not gpu.demand:
        return _join([one, other])
    item.stash[SHAPE] = gpu.beside(cpu.nodeid)
    return []


def _join(group: Sequence[tuple[pytest.Item, ItemSpec]]) -> list[str]:
    """Pair the items of one group."""
    wrong = _twice(group)
    cpus = [(item, shape) for item, shape in group if shape.kind == "cpu"]
    gpus = [(item, shape) for item, shape in group if shape.kind == "gpu"]
    for item, shape in gpus if cpus and not wrong else []:
        partner = _partner(shape, [each for _, each in cpus])
        if partner is None:
            known = ", ".join(each.nodeid for each, _ in cpus)
            wrong.append(f"{item.nodeid}: which of {known} is it compared with? {_NONE_FITS}")
        elif partner.demand != shape.demand and not partner.demand.bare:
            wrong.append(
                f"{item.nodeid}: asks for {_asked(shape)}, and its sibling {partner.nodeid} for "
                f"{_asked(partner)}; ask once"
            )
        else:
            item.stash[SHAPE] = shape.beside(partner.nodeid)
    for item, shape in cpus if gpus else []:
        if shape.demand.bare:
            item.stash[SHAPE] = replace(shape, demand=gpus[0][1].demand)
    return wrong


def _partner(gpu: ItemSpec, cpus: Sequence[ItemSpec]) -> ItemSpec | None:
    """Return the only CPU side; of several, that of the GPU's own library, else NumPy's."""
    library = gpu.side.library if gpu.side else ""
    if len(cpus) == 1:
        return cpus[0]
    for wanted in dict.fromkeys((library, "numpy", "")):
        found = [each for each in cpus if each.side is not None and each.side.library == wanted]
        if found:
            return _like(found, gpu.side.variant if gpu.side else "")
    return None


def _like(cpus: Sequence[ItemSpec], variant: str) -> ItemSpec | None:
    """Return the CPU side of the same variant (`numpy:float32`), else the plain one, else the only one."""
    for wanted in (variant, ""):
        found = [each for each in cpus if each.side is not None and each.side.variant == wanted]
        if found:
            return found[0]
    return cpus[0] if len(cpus) == 1 else None


def _asked(shape: ItemSpec) -> str:
    """Return what a demand changes, as a marker's arguments."""
    plain = Demand()
    given = ((each.name, getattr(shape.demand, each.name)) for each in fields(Demand))
    changed = [f"{name}={value!r}" for name, value in given if value != getattr(plain, name)]
    return ", ".join(changed) or "nothing"


def _twice(group: Iterable[tuple[pytest.Item, ItemSpec]]) -> list[str]:
    """Return which siblings work on the same device."""
    first: dict[DeviceSpec | None, pytest.Item] = {}
    for item, shape in group:
        other = first.setdefault(shape.side, item)
        if other is not item and shape.side is not None and shape.source != "all":
            device = ":".join(filter(None, (shape.side.library, shape.side.selector)))
            on = f"{shape.side.kind.upper()} {device}".strip()
            return [f"{item.nodeid}: works on the same {on} as its sibling {other.nodeid}; {_APART}"]
    return []


def _names(item: pytest.Item) -> list[str]:
    """Return the names of what an item belongs to."""
    shape = item.stash.get(SHAPE, None)
    if shape is None:
        return []
    names = [f"pair {shape.partner or shape.nodeid}"] if shape.pair is not None else []
    return [*names, f"family {shape.family.name}"] if shape.family else names
