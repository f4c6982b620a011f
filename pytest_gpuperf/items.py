"""From collected items to speedup tests: which they are, of what shape, in what order."""

import inspect
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pytest_gpuperf.markers import ThresholdDemand, demand, size, threshold
from pytest_gpuperf.model import Demand, Family, Kind

__all__ = ["SHAPE", "Shape", "families", "in_order", "misuse", "parametrize", "shape"]

_SLOTS = ("device", "xp")
_PLUGIN = "pytest_gpuperf.plugin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a speedup test meets its devices.

    `slots`: the arguments that are filled with one device after the other, in one item. `side` and `pair`:
    the device that this item is parametrized with, and what it shares with its sibling. Neither: an error.
    `family`: what it shares with items of other sizes, where a threshold is asked for.
    """

    demand: Demand
    slots: frozenset[str] = frozenset()
    side: Kind | None = None
    pair: Hashable = None
    family: Family | None = None

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
        pair = _shared(item, "device")
        return Shape(demand=asked, side=side, pair=pair)
    return Shape(demand=asked, slots=_slots(item))


def families(items: Iterable[pytest.Item]) -> list[str]:
    """Give the items of which a threshold is asked their families; return what is wrong with the others.

    The items are all of their functions, so that sizes which will not run are known, too.
    """
    members: dict[Hashable, dict[pytest.Function, ThresholdDemand]] = {}
    wrong = []
    for item in items:
        marks = list(item.iter_markers("offload_threshold"))
        if not marks or not isinstance(item, pytest.Function):
            continue
        try:
            asked = threshold(*marks)
            _check_size(item, asked.parameter)
            members.setdefault(_shared(item, "device", asked.parameter), {})[item] = asked
        except ValueError as error:
            wrong.append(f"{item.nodeid}: @pytest.mark.offload_threshold: {error}")
    names: Counter[str] = Counter()
    for family in members.values():
        try:
            _join(family, names)
        except ValueError as error:
            wrong.append(f"{next(iter(family)).nodeid}: @pytest.mark.offload_threshold: {error}")
    return wrong


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


def _check_size(item: pytest.Function, parameter: str) -> None:
    """Raise ValueError when a threshold over that parameter makes no sense for the item."""
    if SHAPE not in item.stash:
        raise ValueError("needs a speedup test; mark it with @pytest.mark.speedup too")
    parameters = _parameters(item)
    if parameter not in parameters:
        there = ", ".join(parameters) or "none"
        raise ValueError(f"the test has no parameter {parameter!r}; its parameters: {there}")
    if size(parameters[parameter]) is None:
        raise ValueError(f"{parameter}={parameters[parameter]!r} has no order; a size is a finite number")


def _join(members: Mapping[pytest.Function, ThresholdDemand], names: Counter[str]) -> None:
    """Give the members of one family what they share; raise ValueError for sizes without a threshold.

    A family whose name is taken, because a word does not tell its parameters apart, gets a number.
    """
    first, asked = next(iter(members.items()))
    shapes = {item: item.stash[SHAPE] for item in members}
    # Of two siblings the GPU's stands for the size.
    sizes = sorted(_size(item, asked) for item, shape in shapes.items() if shape.side != "cpu")
    if len(set(sizes)) < len(sizes):
        raise ValueError(f"{asked.parameter!r} has a size twice: {', '.join(f'{each:g}' for each in sizes)}")
    if len(sizes) < 2:
        raise ValueError(f"{asked.parameter!r} has one size only; a threshold lies between two")
    if asked.at_most is not None and asked.at_most < sizes[0]:
        raise ValueError(
            f"at_most={asked.at_most:g} is below the smallest size, {sizes[0]:g}: no run can pass"
        )
    if asked.at_least is not None and asked.at_least <= sizes[0]:
        raise ValueError(
            f"at_least={asked.at_least:g} is not above the smallest size, {sizes[0]:g}: none can fail"
        )
    others = {
        name: value for name, value in _parameters(first).items() if name not in ("device", asked.parameter)
    }
    named = ",".join(f"{name}={_word(value)}" for name, value in others.items())
    name = first.nodeid.partition("[")[0] + (f"[{named}]" if named else "")
    names[name] += 1
    family = Family(
        name=name if names[name] == 1 else f"{name} #{names[name]}",
        parameter=asked.parameter,
        size=sizes[0],
        sizes=tuple(sizes),
        at_most=asked.at_most,
        at_least=asked.at_least,
    )
    for item, shape in shapes.items():
        item.stash[SHAPE] = replace(shape, family=replace(family, size=_size(item, asked)))


def _size(item: pytest.Function, asked: ThresholdDemand) -> float:
    found = size(_parameters(item)[asked.parameter])
    return math.nan if found is None else int(found) if found.is_integer() else found


def _parameters(item: pytest.Function) -> Mapping[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _shared(item: pytest.Function, *but: str) -> Hashable:
    """Return what items share that differ in these parameters only: the function, and the other values."""
    others = frozenset((name, id(value)) for name, value in _parameters(item).items() if name not in but)
    return item.nodeid.partition("[")[0], others


def _word(value: Any) -> str:
    """Return a parameter's value in a word that is the same in every run."""
    return value.__name__ if hasattr(value, "__name__") else str(value).partition(" at 0x")[0]


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
