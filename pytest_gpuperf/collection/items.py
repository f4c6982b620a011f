"""From collected items to speedup tests: which they are, and of what shape."""

import inspect
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pytest_gpuperf.collection import fixtures
from pytest_gpuperf.collection.markers import PairOptions, demand, joint
from pytest_gpuperf.devices.spec import DeviceParser, DeviceSpec
from pytest_gpuperf.model.demand import Demand, Family, Kind, Source
from pytest_gpuperf.model.nodeid import function_of

__all__ = [
    "SHAPE",
    "ItemSpec",
    "SpecCache",
    "has_marked_parameters",
    "misuse",
    "parameters",
    "shape",
    "shared",
    "takes_ours",
    "unfit",
    "word",
]

_REMEDY = (
    "use a value that is known (numpy, cupy, torch, jax, dpnp, cpu, cuda:1, their modules and devices), or "
    "take the parameter's name out of gpuperf_device_params"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSpec:
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
    side: DeviceSpec | None = None
    pair: tuple[Hashable, ...] | None = None
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

    def beside(self, partner: str) -> "ItemSpec":
        """Return it as that of a GPU sibling of this CPU sibling."""
        return self.of(self.nodeid, self.pair, partner)

    def of(self, nodeid: str, pair: tuple[Hashable, ...] | None, partner: str | None) -> "ItemSpec":
        """Return it as that of another item, or in other company; there may be thousands."""
        return ItemSpec(  # faster than `replace`
            nodeid=nodeid,
            demand=self.demand,
            source=self.source,
            slots=self.slots,
            both=self.both,
            side=self.side,
            pair=pair,
            told=self.told,
            partner=partner,
            family=self.family,
        )


SHAPE = pytest.StashKey[ItemSpec]()


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


def shape(item: pytest.Function, sides: DeviceParser, asked: pytest.Mark | None = None) -> ItemSpec:
    """Return the shape of an item that `misuse` found nothing wrong with.

    Raises ValueError for a side that is unknown. `asked` stands for a marker where the item has none.
    """
    mark = asked or _closest(item)[0]
    join, known = joint(mark), parameters(item)
    plain = ItemSpec(nodeid=item.nodeid, demand=demand(mark))
    if fixtures.is_built_on_ours(item, "device") and known.get("device") in ("cpu", "gpu"):
        told = frozenset(("device",))
        side = DeviceSpec(kind=known["device"])
        return replace(plain, side=side, told=told, pair=_pair(item, told, join, sides))
    slots = fixtures.slots(item)
    if slots:
        return replace(plain, slots=slots)
    found, told = _side(item, sides, join)
    if found is None:
        return replace(plain, both=fixtures.is_ours(item, "gpuperf"))
    if isinstance(found, str):
        names = ", ".join(sides.names)
        raise ValueError(f"{found}; {_REMEDY} (it names {names})")  # noqa: TRY004 - misuse
    if fixtures.takes(item, "gpuperf"):
        raise ValueError("it works on one device, and gpuperf.both on two: take the parameter or gpuperf")
    return replace(plain, side=found, told=told, pair=_pair(item, told, join, sides))


class SpecCache:
    """What the items of one function have in common, so that only the first on each device is looked at.

    `like` is the shape of the first, `names` are the parameters that may tell a side.
    """

    def __init__(self, item: pytest.Function, like: ItemSpec, names: Collection[str]) -> None:
        self._common = item._fixtureinfo  # noqa: SLF001 - what pytest itself keeps for all of them
        self._marks = _own_marks(item)
        known = parameters(item)
        self._devices = [name for name in {"device", *names} if name in known]
        self._known: dict[tuple[int, ...], ItemSpec] = {}
        self.learn(item, like)

    def learn(self, item: pytest.Function, like: ItemSpec) -> None:
        """Take the shape of an item on a device that was not seen before."""
        known = parameters(item)
        first = next(iter(self._known.values()), like)
        same = replace(like, demand=first.demand) if like.demand == first.demand else like
        self._known[tuple([id(known[name]) for name in self._devices])] = same

    def has(self, item: pytest.Function) -> bool:
        """Say whether an item is of that function, with the same markers: plugins may mark single items."""
        return item._fixtureinfo is self._common and _own_marks(item) == self._marks  # noqa: SLF001 - as above

    def shape(self, item: pytest.Function) -> ItemSpec | None:
        """Return an item's shape; None where its device was not seen before, or its parameters have marks."""
        callspec = getattr(item, "callspec", None)
        if callspec is None or callspec.marks:
            return None
        known = callspec.params
        like = self._known.get(tuple([id(known[name]) for name in self._devices]))
        if like is None:
            return None
        pair, told = like.pair, like.told
        if pair is not None:
            pair = (*pair[:-1], _values(known, told) if len(pair) == 2 else _named(known, told))
        return like.of(item.nodeid, pair, like.partner)


def takes_ours(item: pytest.Function) -> bool:
    """Say whether an item takes one of our fixtures, itself or through another."""
    return any(fixtures.is_built_on_ours(item, name) for name in ("device", "cpu", "gpu", "gpuperf"))


def parameters(item: pytest.Item) -> Mapping[str, Any]:
    """Return an item's parameters and their values."""
    found: Mapping[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    return found


def shared(item: pytest.Item, but: Collection[str]) -> Hashable:
    """Return what items share that differ in these parameters only: the function, and the other values."""
    return function_of(item.nodeid), _values(parameters(item), but)


def has_marked_parameters(item: pytest.Item) -> bool:
    """Say whether a marker stands on one of the item's own parameters."""
    return hasattr(item, "callspec") and any(mark.name == "speedup" for mark in item.callspec.marks)


def word(value: Any) -> str:
    """Return a parameter's value in a word that is the same in every run."""
    return value.__name__ if hasattr(value, "__name__") else str(value).partition(" at 0x")[0]


def _side(
    item: pytest.Function, sides: DeviceParser, join: PairOptions
) -> tuple[DeviceSpec | str | None, frozenset[str]]:
    """Return the side of an item that meets one device: by marker, parameters, fixtures, or its class."""
    if join.device is not None:
        return sides.of({sides.names[0]: join.device})[0], frozenset()
    found, told = sides.of(parameters(item))
    if found is not None:
        return found, told
    ours = [name for name in ("cpu", "gpu") if name in item.fixturenames and fixtures.is_ours(item, name)]
    if len(ours) == 2:
        return "it takes both cpu and gpu, where device is filled with one after the other", frozenset()
    if ours:
        return DeviceSpec(kind="gpu" if ours == ["gpu"] else "cpu"), frozenset()
    attributes = {name: getattr(item.cls, name, None) for name in sides.names} if item.cls else {}
    found = sides.of({name: value for name, value in attributes.items() if value is not None})[0]
    if isinstance(found, DeviceSpec):
        return found, frozenset()
    if join.pair is not None:
        last = function_of(item.name).rpartition("_")[2]
        found = sides.of({sides.names[0]: last})[0]
        where = "say device='cpu' or device='gpu' in the marker"
        return (
            found if isinstance(found, DeviceSpec) else f"which side of pair={join.pair!r} is it? {where}"
        ), frozenset()
    return None, frozenset()


def _pair(
    item: pytest.Function, told: frozenset[str], join: PairOptions, sides: DeviceParser
) -> tuple[Hashable, ...]:
    """Return what siblings share: a name, a function that two classes have from a third, or the function.

    The last of it is the values of the other parameters.
    """
    if join.pair is not None:
        return "pair", join.pair, _named(parameters(item), told)
    if not told and item.cls is not None and item.cls.__dict__.get(item.originalname or "") is None:
        own = _named(_own(item.cls, sides), told)
        return "inherited", id(item.function), own, _named(parameters(item), told)
    return function_of(item.nodeid), _values(parameters(item), told)


def _own(cls: type, sides: DeviceParser) -> dict[str, Any]:
    """Return what a class itself says beside its device, as a size: others are no siblings."""
    return {
        name: value
        for name, value in vars(cls).items()
        if not (name.startswith("__") or callable(value) or name in ("pytestmark", *sides.names))
    }


def _values(known: Mapping[str, Any], but: Collection[str]) -> tuple[Hashable, ...]:
    """Return the values of the parameters but these; plain ones count as equal when they are."""
    return tuple(
        [
            value if type(value) is str or type(value) is int else _plain(value)
            for name, value in known.items()
            if name not in but
        ]
    )


def _named(known: Mapping[str, Any], but: Collection[str]) -> frozenset[Hashable]:
    """Return those values with their names, which may stand in another order in another function."""
    return frozenset((name, _plain(value)) for name, value in known.items() if name not in but)


def _plain(value: Any) -> Hashable:
    kind = type(value)
    if kind is str or kind is int:
        return value  # type: ignore[no-any-return]  # as its type says
    return kind, value if kind in _PLAIN else id(value)


_PLAIN = frozenset((float, bool, bytes, type(None), type))


def _own_marks(item: pytest.Item) -> list[pytest.Mark]:
    return [mark for mark in item.own_markers if mark.name == "speedup"]


def _closest(item: pytest.Item) -> list[pytest.Mark]:
    """Return the markers that count: the parameter set's, else the function's, else the nearest class's."""
    of_parameters = list(item.callspec.marks) if hasattr(item, "callspec") else []
    levels = [of_parameters, *(node.own_markers for node in item.iter_parents())]
    for level in levels:
        if found := [mark for mark in level if mark.name == "speedup"]:
            return found
    return []
