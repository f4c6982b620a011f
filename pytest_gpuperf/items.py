"""From collected items to speedup tests: which they are, of what shape, in what order."""

import inspect
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_gpuperf.model import Demand, Kind
from pytest_gpuperf.options import demand

__all__ = ["SHAPE", "Shape", "in_order", "misuse", "parametrize", "shape"]

_SLOTS = ("device", "xp")
_PLUGIN = "pytest_gpuperf.plugin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a speedup test meets its devices.

    `slots`: the arguments that are filled with one device after the other, in one item. `side` and `pair`:
    the device that this item is parametrized with, and what it shares with its sibling. Neither: an error.
    """

    demand: Demand
    slots: frozenset[str] = frozenset()
    side: Kind | None = None
    pair: Hashable = None

    @property
    def has_device(self) -> bool:
        """Whether there is a device to measure on."""
        return bool(self.slots) or self.side is not None


SHAPE = pytest.StashKey[Shape]()


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Parametrize our `device` over both devices, unless the test is a slot or has its own values for it."""
    if not _is_built_on_ours(metafunc.definition, "device") or _has_parameter(metafunc, "device"):
        return
    dependents = _dependents(metafunc.definition)
    marked = metafunc.definition.get_closest_marker("speedup") is not None
    if marked and not dependents and _slots(metafunc.definition):
        return
    scope = max((fixture._scope for fixture in dependents), default=None)  # noqa: SLF001 - pytest has no other way
    metafunc.parametrize("device", ["cpu", "gpu"], indirect=True, scope=scope.value if scope else "function")


def misuse(item: pytest.Item) -> str | None:
    """Return what is wrong with a marked item that can be known at collection, in one sentence."""
    marks = _closest(item)
    if len(marks) > 1:
        return f"{item.nodeid}: has {len(marks)} speedup markers of its own; keep one"
    try:
        demand(marks[0])
    except ValueError as error:
        return f"{item.nodeid}: @pytest.mark.speedup: {error}"
    function = getattr(item, "obj", None)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return f"{item.nodeid}: a speedup test cannot be async; time a plain function that runs the loop"
    if inspect.isgeneratorfunction(function):
        return (
            f"{item.nodeid}: a speedup test cannot be a generator; return the workload instead of yielding it"
        )
    return None


def shape(item: pytest.Function) -> Shape:
    """Return the shape of a marked item that `misuse` found nothing wrong with."""
    asked = demand(_closest(item)[0])
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    side = parameters.get("device")
    if _is_built_on_ours(item, "device") and (side == "cpu" or side == "gpu"):
        others = frozenset((name, id(value)) for name, value in parameters.items() if name != "device")
        pair = (item.nodeid.partition("[")[0], others)
        return Shape(demand=asked, side=side, pair=pair)
    return Shape(demand=asked, slots=_slots(item))


def in_order(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the items in their order, but for each GPU sibling after its CPU sibling."""
    listed = list(items)
    shapes = {item: item.stash.get(SHAPE, None) for item in listed}
    cpu_to_come = {s.pair for s in shapes.values() if s is not None and s.side == "cpu"}
    waiting: dict[Hashable, list[pytest.Item]] = {}
    for item in listed:
        found = shapes[item]
        if found is not None and found.side == "gpu" and found.pair in cpu_to_come:
            waiting.setdefault(found.pair, []).append(item)
            continue
        yield item
        if found is not None and found.side == "cpu":
            cpu_to_come.discard(found.pair)
            yield from waiting.pop(found.pair, [])


def _closest(item: pytest.Item) -> list[pytest.Mark]:
    """Return the markers that count: the parameter set's, else the function's, else the nearest class's."""
    of_parameters = list(item.callspec.marks) if hasattr(item, "callspec") else []
    levels = [of_parameters, *(node.own_markers for node in item.iter_parents())]
    for level in levels:
        if found := [mark for mark in level if mark.name == "speedup"]:
            return found
    return []


def _slots(item: Any) -> frozenset[str]:
    """Return which of our fixtures the test function itself takes."""
    return frozenset(name for name in item._fixtureinfo.argnames if name in _SLOTS and _is_ours(item, name))  # noqa: SLF001


def _dependents(item: Any) -> list[Any]:
    """Return the suite's fixtures in this test that build on our device or xp."""
    definitions = (defs[-1] for defs in item._fixtureinfo.name2fixturedefs.values())  # noqa: SLF001 - as above
    return [
        fixture
        for fixture in definitions
        if fixture.func.__module__ != _PLUGIN and any(name in fixture.argnames for name in _SLOTS)
    ]


def _is_ours(item: Any, name: str) -> bool:
    """Say whether the fixture of that name is ours, and not one of the suite's own."""
    definitions = item._fixtureinfo.name2fixturedefs.get(name)  # noqa: SLF001 - as above
    return bool(definitions) and definitions[-1].func.__module__ == _PLUGIN


def _is_built_on_ours(item: Any, name: str) -> bool:
    """Say whether the fixture of that name is ours, or the suite's own that takes ours and extends it."""
    definitions = list(item._fixtureinfo.name2fixturedefs.get(name) or ())  # noqa: SLF001 - as above
    while definitions and definitions[-1].func.__module__ != _PLUGIN:
        if name not in definitions.pop().argnames:
            return False
    return bool(definitions)


def _has_parameter(metafunc: pytest.Metafunc, name: str) -> bool:
    """Say whether a mark or another hook has parametrized this name already."""
    return any(name in call.params for call in metafunc._calls)  # noqa: SLF001 - as above
