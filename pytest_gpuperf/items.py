"""From collected items to speedup tests: which they are, and of what shape."""

import inspect
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pytest_gpuperf.markers import Joint, demand, joint
from pytest_gpuperf.model import Demand, Family, Kind, Source
from pytest_gpuperf.sides import Side, Sides

__all__ = ["SHAPE", "Shape", "misuse", "parameters", "parametrize", "shape", "shared", "unfit", "word"]

_SLOTS = ("device", "xp")
_PLUGIN = "pytest_gpuperf.plugin"
_REMEDY = (
    "use a value that is known (numpy, cupy, torch, jax, dpnp, cpu, cuda:1, their modules and devices), or "
    "take the parameter's name out of gpuperf_device_params"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a speedup test meets its devices.

    `nodeid` is the item's own: pytest-xdist may add a group to it. `slots`: the arguments that are filled
    with one device after the other, in one item; `both`: the body works through the fixture `gpuperf`.
    `side`: the device that this item works on, `pair` what it shares with its siblings, `told` the parameters
    that tell them apart, `partner` the node id of the CPU sibling that a GPU sibling is compared with. None
    of these: an error. `family`: what it shares with items of other sizes, where a threshold is asked for.
    """

    nodeid: str
    demand: Demand
    source: Source = "marker"
    slots: frozenset[str] = frozenset()
    both: bool = False
    side: Side | None = None
    pair: Hashable = None
    told: frozenset[str] = frozenset()
    partner: str | None = None
    family: Family | None = None

    @property
    def kind(self) -> Kind | None:
        """The device's kind, where the item works on one only."""
        return self.side.kind if self.side else None

    @property
    def has_device(self) -> bool:
        """Whether there is a device to measure on."""
        return bool(self.slots) or self.both or self.side is not None


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
        joint(marks[0])
    except ValueError as error:
        return f"{item.nodeid}: @pytest.mark.speedup: {error}"
    why = unfit(item)
    return f"{item.nodeid}: {why}" if why else None


def unfit(item: pytest.Item) -> str | None:
    """Return why an item cannot be timed whatever it is asked, if so."""
    function = getattr(item, "obj", None)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "a speedup test cannot be async; time a plain function that runs the loop"
    if inspect.isgeneratorfunction(function):
        return "a speedup test cannot be a generator; return the workload instead of yielding it"
    if getattr(function, "is_hypothesis_test", False):
        return (
            "a speedup test cannot be hypothesis's, which draws other examples at every call; time a test "
            "with an example of its own"
        )
    return None


def shape(item: pytest.Function, sides: Sides, asked: pytest.Mark | None = None) -> Shape:
    """Return the shape of an item that `misuse` found nothing wrong with.

    Raises ValueError for a side that is unknown. `asked` stands for a marker where the item has none.
    """
    mark = asked or _closest(item)[0]
    join, known = joint(mark), parameters(item)
    plain = Shape(nodeid=item.nodeid, demand=demand(mark))
    if _is_built_on_ours(item, "device") and known.get("device") in ("cpu", "gpu"):
        told = frozenset(("device",))
        side = Side(kind=known["device"])
        return replace(plain, side=side, told=told, pair=_pair(item, told, join))
    slots = _slots(item)
    if slots:
        return replace(plain, slots=slots)
    found, told = _side(item, sides, join)
    if found is None:
        return replace(plain, both=_is_ours(item, "gpuperf"))
    if isinstance(found, str):
        names = ", ".join(sides.names)
        raise ValueError(f"{found}; {_REMEDY} (it names {names})")  # noqa: TRY004 - misuse
    return replace(plain, side=found, told=told, pair=_pair(item, told, join))


def parameters(item: pytest.Item) -> Mapping[str, Any]:
    """Return an item's parameters and their values."""
    found: Mapping[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    return found


def shared(item: pytest.Item, but: Collection[str]) -> Hashable:
    """Return what items share that differ in these parameters only: the function, and the other values."""
    return item.nodeid.partition("[")[0], _values(item, but)


def word(value: Any) -> str:
    """Return a parameter's value in a word that is the same in every run."""
    return value.__name__ if hasattr(value, "__name__") else str(value).partition(" at 0x")[0]


def _side(item: pytest.Function, sides: Sides, join: Joint) -> tuple[Side | str | None, frozenset[str]]:
    """Return the side of an item that meets one device: by marker, parameters, fixtures, or its class."""
    if join.device is not None:
        return sides.of({sides.names[0]: join.device})[0], frozenset()
    found, told = sides.of(parameters(item))
    if found is not None:
        return found, told
    ours = [name for name in ("cpu", "gpu") if name in item.fixturenames and _is_ours(item, name)]
    if len(ours) == 2:
        return "it takes both cpu and gpu, where device is filled with one after the other", frozenset()
    if ours:
        return Side(kind="gpu" if ours == ["gpu"] else "cpu"), frozenset()
    attributes = {name: getattr(item.cls, name, None) for name in sides.names} if item.cls else {}
    found = sides.of({name: value for name, value in attributes.items() if value is not None})[0]
    if isinstance(found, Side):
        return found, frozenset()
    if join.pair is not None:
        last = item.name.partition("[")[0].rpartition("_")[2]
        found = sides.of({sides.names[0]: last})[0]
        where = "say device='cpu' or device='gpu' in the marker"
        return (
            found if isinstance(found, Side) else f"which side of pair={join.pair!r} is it? {where}"
        ), frozenset()
    return None, frozenset()


def _pair(item: pytest.Function, told: frozenset[str], join: Joint) -> Hashable:
    """Return what siblings share: a name, a function that two classes have from a third, or the function."""
    if join.pair is not None:
        return "pair", join.pair, _values(item, told)
    if not told and item.cls is not None and item.cls.__dict__.get(item.originalname or "") is None:
        return "inherited", id(item.function), _values(item, told)
    return shared(item, told)


def _values(item: pytest.Item, but: Collection[str]) -> Hashable:
    """Return the values of the parameters but these; plain ones count as equal when they are."""
    return frozenset(
        (name, type(value), value if type(value) in _PLAIN else id(value))
        for name, value in parameters(item).items()
        if name not in but
    )


_PLAIN = frozenset((str, int, float, bool, bytes, type(None), type))


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
