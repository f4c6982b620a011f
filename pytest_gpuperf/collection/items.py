"""From a collected item with a speedup marker to its ItemSpec, or to what is wrong with it."""

import dataclasses
from collections.abc import Collection, Hashable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from operator import contains
from types import MethodType, TracebackType
from typing import Any, Literal, NamedTuple

import pytest

from pytest_gpuperf.collection import fixtures, markers
from pytest_gpuperf.collection.markers import PairOptions, why_not_timeable
from pytest_gpuperf.devices.device_parameter import DeviceParser, DeviceSpec, ParsedDevice
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.demand import KINDS, Demand, Kind, SizeGroup, Source, UnknownValue
from pytest_gpuperf.model.errors import ends_run
from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.plain_text import first_line, quote
from pytest_gpuperf.model.scaling import Scaling

_RUNS_ON_BOTH = (
    "{} is for a test on one device, and this one runs on the CPU and on the GPU: the fixture `device` or "
    "`xp` gives it both; leave it out, and choose the GPU with gpuperf_gpu in the ini file, as torch or jax:1"
)


class PairKey(NamedTuple):
    """What CPU and GPU variants have in common; items with equal keys are compared with each other.

    `kind` is what connects them: they are items of one test function, their markers have the same `pair`
    name, or two classes inherit the method from a third. A NamedTuple, because collection hashes thousands of
    them and a dataclass hashes more slowly.
    """

    kind: Literal["function", "name", "inherited"]
    name: Hashable
    parameters: tuple[Hashable, ...] | frozenset[tuple[str, Hashable]]


# More than 15 fields: all that collection finds out of an item.
class ItemSpec(NamedTuple):
    """How a speedup test is measured.

    `nodeid` is the item's `test_id`: pytest-xdist may append a group to pytest's own. `slots`: the arguments
    that get one device after the other, within one item. `calls_both`: the body uses the fixture `gpuperf`.
    `device`: the only device that this item uses, `device_parameters` the parameters that select it,
    `names_device` whether those are the suite's own and not our fixture's, `pair` the key that it shares with
    its variants, `partner` the id of the CPU variant that a GPU variant is compared with. `differs`: the
    parameters whose values keep an item from having a variant on the other device. `awaits_gpu`: it or a
    variant is on the CPU here, and on a GPU where its library has one. `stand_in_taken`: why an item has no
    GPU, where the one that is emulated stands in for its variant's.
    An item without slots, calls_both and device cannot be measured. `size_group`: that
    of its offload threshold. `scaling`: the numbers of devices that it is compared on, in the slot `devices`,
    or `ranks` where each of these is another process's.
    `problem`: what is wrong with its marker, for which it fails at its setup.

    A NamedTuple, because collection makes thousands of changed copies, and a dataclass copies more slowly.
    """

    nodeid: str
    demand: Demand
    source: Source = "marker"
    slots: frozenset[str] = frozenset()
    calls_both: bool = False
    device: DeviceSpec | None = None
    pair: PairKey | None = None
    device_parameters: frozenset[str] = frozenset()
    names_device: bool = False
    partner: str | None = None
    differs: tuple[str, ...] = ()
    awaits_gpu: bool = False
    stand_in_taken: str | None = None
    size_group: SizeGroup | None = None
    scaling: Scaling | None = None
    problem: str | None = None

    @property
    def kind(self) -> Kind | None:
        """The device's kind, where the item uses one device only."""
        return self.device.kind if self.device else None

    @property
    def has_device(self) -> bool:
        """Whether there is a device to measure on."""
        return bool(self.slots) or self.calls_both or self.device is not None

    @property
    def is_in_ranks(self) -> bool:
        """Whether each of its devices is another rank's."""
        return "ranks" in self.slots

    @property
    def accelerator(self) -> DeviceSpec | None:
        """What stands for both devices in place of the run's own, if the marker names an accelerator."""
        return _accelerator(self.demand.accelerator)


SPEC = pytest.StashKey[ItemSpec]()
"""In the stash of each speedup test."""
NODEID = pytest.StashKey[str]()
"""In the stash of each item whose node id a plugin has changed since collection: what it was."""
UNKNOWN = pytest.StashKey[UnknownValue]()
"""In the stash of each marked test that is left alone: no backend knows its device."""
WHY_NO_DEVICE = pytest.StashKey[str]()
"""In the stash of each marked test that names no device: what to do."""


def refuse(item: pytest.Item, problem: str) -> None:
    """Let an item fail at its setup, because of its marker."""
    spec = item.stash.get(SPEC, None) or ItemSpec(nodeid=test_id(item), demand=Demand())
    item.stash[SPEC] = spec._replace(problem=problem)


class Problems:
    """Raises ValueError, which is a problem of the item alone, for whatever reading an item raises.

    A class, because collection enters it thousands of times and a generator takes longer.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, ValueError) or ends_run(error):
            return
        raise ValueError(
            f"reading the test's marker, parameters and fixtures raised {first_line(error)}; a value among "
            "them, another plugin or pytest-gpuperf is at fault: remove it or the marker, and report it"
        ) from error


def accelerator_of(item: pytest.Item) -> DeviceSpec | None:
    """Return what a marker names in place of the run's devices, also where nothing is measured."""
    mark = item.get_closest_marker("speedup")
    name = mark.kwargs.get("accelerator") if mark else None
    return (
        _accelerator(name) if ask.is_really(name, str) else None
    )  # a wrong one is told where tests are measured


def _accelerator(name: str | None) -> DeviceSpec | None:
    return DeviceSpec(kind="gpu", library=f"accelerator:{name}") if name else None


def item_spec(item: pytest.Function, parser: DeviceParser, demand: Demand, options: PairOptions) -> ItemSpec:
    """Return the spec of an item; raise ValueError for a device that is unknown or ambiguous."""
    spec = ItemSpec(nodeid=test_id(item), demand=demand)
    kind: Any = parameters(item).get("device")
    is_of_ours = ask.is_one_of(kind, KINDS) and fixtures.is_built_on_ours(item, "device")
    if is_of_ours:
        _refuse_on_both(device=options.device)
        kind = "gpu" if str.__str__(kind) == "gpu" else "cpu"  # of a subclass, whose methods may be anything
        parsed = ParsedDevice(spec=DeviceSpec(kind=kind), parameters=frozenset(("device",)))
    elif slots := fixtures.slots(item):
        _refuse_on_both(pair=options.pair, device=options.device)
        return spec._replace(slots=slots)
    else:
        parsed = _device(item, parser, options)
        if parsed.spec is None:
            return spec._replace(calls_both=fixtures.is_ours(item, "gpuperf"))
    if spec.demand.accelerator is not None:
        raise ValueError(
            "accelerator= compares two devices within one test, and this one runs on one; request device or "
            "xp in the test itself, or call gpuperf.both()"
        )
    return spec._replace(
        device=parsed.spec,
        device_parameters=parsed.parameters,
        names_device=bool(parsed.parameters) and not is_of_ours,
        pair=_pair_key(item, parsed.parameters, options, parser),
    )


def _refuse_on_both(**given: Any) -> None:
    """Raise ValueError where arguments choose one of two tests, and the test runs on both devices."""
    if useless := [f"{name}={quote(value)}" for name, value in given.items() if value is not None]:
        raise ValueError(_RUNS_ON_BOTH.format(" and ".join(useless)))


class SpecReader:
    """Reads the specs of marked items: what those of one function share is read once for each device."""

    def __init__(self, parser: DeviceParser) -> None:
        self._parser = parser
        self._names = tuple(dict.fromkeys(("device", *parser.names)))
        # With what it was read from, so that no other object gets the identity of one of these.
        self._read: dict[tuple[int, ...], tuple[ItemSpec, tuple[Any, ...]]] = {}

    def spec(self, item: pytest.Function) -> ItemSpec:
        """Return the spec of a marked item; raise ValueError with what is wrong with marker or item."""
        shared = self._shared(item)
        key = tuple(map(id, shared))
        if key in self._read:
            spec, _ = self._read[key]
            nodeid, pair = test_id(item), spec.pair
            if pair is not None:
                values = _values(parameters(item), spec.device_parameters)
                pair = PairKey("function", function_of(nodeid), values)
            return spec._replace(nodeid=nodeid, pair=pair)
        demand, options = markers.read(item)
        spec = item_spec(item, self._parser, demand, options)
        if options.pair is None and (spec.pair is None or spec.pair.kind == "function"):
            self._read[key] = spec, shared
        return spec

    def _shared(self, item: pytest.Function) -> tuple[Any, ...]:
        """Return the objects that a marker and a device are read from; no value is asked anything."""
        function, values = item.obj, parameters(item)
        return (
            item.parent,  # whose markers, class and module these are
            item.originalname,
            function.__func__ if type(function) is MethodType else function,  # each item binds its own
            item._fixtureinfo,  # noqa: SLF001 - see fixtures.py
            item.fixturenames,
            *[values.get(name, _ABSENT) for name in self._names],
            *item.own_markers,
            _ABSENT,
            *(item.callspec.marks if values else ()),
        )


def unmarked_spec(item: pytest.Item, parser: DeviceParser) -> ItemSpec | None:
    """Return the spec of an unmarked item under a marker without arguments, or None if it cannot be timed."""
    if not isinstance(item, pytest.Function) or why_not_timeable(item):
        return None
    try:
        with Problems():
            return item_spec(item, parser, Demand(), PairOptions())
    except ValueError:
        return None


def test_id(item: pytest.Item) -> str:
    """Return the id of an item's record, which depends on nothing else that is collected.

    It is pytest's node id, except where the file lies outside of the root folder: there pytest leaves out
    what the command line says of the file, so that tests of several modules may have one node id.
    """
    nodeid = item.stash.get(NODEID, item.nodeid)
    parent = item.parent
    if parent is None:
        return nodeid
    begins = parent.stash.get(_BEGINS, None)
    if begins is None:
        module = parent.getparent(pytest.Module)
        begins = ("", "") if module is None else (module.nodeid, _file_or_name(module))
        parent.stash[_BEGINS] = begins
    module_id, file = begins
    return f"{file}{nodeid.removeprefix(module_id)}"


_BEGINS = pytest.StashKey[tuple[str, str]]()
"""In the stash of each module or class: what pytest's ids of its tests begin with, and what theirs do."""


def _file_or_name(module: pytest.Module) -> str:
    root = module.config.rootpath
    if module.path.is_relative_to(root):
        return module.nodeid
    path, root = module.path.resolve(), root.resolve()  # a link may lead into the root folder
    name: str = path.relative_to(root).as_posix() if path.is_relative_to(root) else module.obj.__name__
    return name


def parameters(item: pytest.Item) -> Mapping[str, Any]:
    """Return an item's parameters and their values."""
    values: Mapping[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    return values


def differing(item: pytest.Item, other: pytest.Item, excluded: Collection[str]) -> tuple[str, ...]:
    """Return the parameters of which two items of one function have different values."""
    values, others = parameters(item), parameters(other)
    return tuple(
        name
        for name in values
        if name not in excluded and _hashable(values[name]) != _hashable(others.get(name))
    )


def swept_key(item: pytest.Function, excluded: Collection[str]) -> Hashable:
    """Return what items have in common that differ in these parameters only."""
    return function_of(test_id(item)), _values(parameters(item), excluded)


def _device(item: pytest.Function, parser: DeviceParser, options: PairOptions) -> ParsedDevice:
    """Return the device of an item that uses one only: of its marker, parameters, fixtures, class, or name.

    Raises ValueError where the first of them that names one has an unknown value, or contradicts itself.
    """
    if options.device is not None:
        try:
            return ParsedDevice(spec=parser.parse({parser.names[0]: options.device}).spec)
        except ValueError as error:
            raise ValueError(str(error)) from None  # of no parameter, so no test may be left alone for it
    parsed = parser.parse(parameters(item))
    if parsed.spec is not None:
        return parsed
    kinds = [kind for kind in KINDS if kind in item.fixturenames and fixtures.is_ours(item, kind)]
    if len(kinds) == 2:
        raise ValueError(
            "the test requests both `cpu` and `gpu`; request `device` instead, which is each of them in turn"
        )
    if kinds:
        return ParsedDevice(spec=DeviceSpec(kind=kinds[0]))
    attributes = {name: ask.attribute(item.cls, name) for name in parser.names}
    with suppress(ValueError):  # an attribute may have such a name and nothing to do with devices
        parsed = ParsedDevice(spec=parser.parse(attributes).spec)
    if parsed.spec is None and options.pair is not None:
        parsed = ParsedDevice(spec=parser.parse_text(function_of(item.name).rpartition("_")[2]))
        if parsed.spec is None:
            raise ValueError(
                f"it is unknown whether this is the CPU or the GPU test of pair={options.pair!r}; pass "
                "device='cpu' or device='gpu' to the marker"
            )
    return parsed


def _pair_key(
    item: pytest.Function, device_parameters: frozenset[str], options: PairOptions, parser: DeviceParser
) -> PairKey:
    """Return what an item shares with its variants, the values of its other parameters included."""
    values = parameters(item)
    if options.pair is not None:
        return PairKey("name", options.pair, _named_values(values, device_parameters))
    # Of another class: inherited, or copied, as a class decorator does that makes a subclass for each device.
    is_shared = item.cls and item.function.__qualname__ != f"{item.cls.__qualname__}.{item.originalname}"
    if not device_parameters and is_shared:
        attributes = _named_values(_class_attributes(item.cls, parser), ())
        return PairKey(
            "inherited",
            (id(item.function), item.originalname, attributes),
            _named_values(values, device_parameters),
        )
    return PairKey("function", function_of(test_id(item)), _values(values, device_parameters))


# The latter two are unittest's, in each class.
_NO_ATTRIBUTES = ("pytestmark", "_classSetupFailed", "_class_cleanups")


def _class_attributes(cls: type, parser: DeviceParser) -> dict[str, Any]:
    """Return a class's own attributes but its device, e.g. a size: variants have the same."""
    return {
        name: value
        for name, value in vars(cls).items()
        if not (name.startswith("__") or callable(value) or name in _NO_ATTRIBUTES or name in parser.names)
    }


def _values(values: Mapping[str, Any], excluded: Collection[str]) -> tuple[Hashable, ...]:
    """Return the values of the other parameters, in the order that one function has them."""
    return tuple(_hashable(value) for name, value in values.items() if name not in excluded)


def _named_values(values: Mapping[str, Any], excluded: Collection[str]) -> frozenset[tuple[str, Hashable]]:
    """Return them with their names: another function may have them in another order."""
    return frozenset((name, _hashable(value)) for name, value in values.items() if name not in excluded)


def _hashable(value: Any) -> Hashable:
    """Return a key for a value: the same for equal values of one class.

    What says of nothing else that it is equal, and what has too many parts, is the same as itself only.
    """
    kind = type(value)
    if kind in _COMPARED_BY_VALUE:
        return kind, value
    found: Hashable = ask.answer(_by_parts, value, count(), default=(kind, id(value)))
    return found


def _by_parts(value: Any, seen: Iterator[int]) -> Hashable:
    """Return the key of a value, made of those of its parts; raise ValueError where these are too many."""
    if next(seen) >= _MOST_PARTS:
        raise ValueError
    kind = type(value)
    if kind in _COMPARED_BY_VALUE:
        return kind, value
    key_of = partial(_by_parts, seen=seen)
    if ask.is_really(value, (tuple, list)):
        return kind, tuple(map(key_of, value))
    if ask.is_really(value, (set, frozenset)):
        return kind, frozenset(map(key_of, value))
    if ask.is_really(value, dict):
        return kind, frozenset((key_of(name), key_of(part)) for name, part in value.items())
    if kind is slice:
        return kind, tuple(map(key_of, (value.start, value.stop, value.step)))
    if dataclasses.is_dataclass(value) and kind.__dataclass_params__.eq:
        compared = (field.name for field in dataclasses.fields(value) if field.compare)
        return kind, tuple(key_of(getattr(value, name)) for name in compared)
    hashed = ask.answer(hash, value) if kind.__eq__ is not _BY_IDENTITY else None
    return kind, id(value) if hashed is None else _ByValue(value, hashed)


class _ByValue:
    """A value as a key: `==` of a foreign class may raise, or return an array."""

    __slots__ = ("_hash", "_value")

    def __init__(self, value: Any, hashed: int) -> None:
        self._value = value
        self._hash = hashed

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        # NumPy's scalars answer with a bool of their own, which `in` takes for what it is.
        return isinstance(other, _ByValue) and ask.answer(contains, (self._value,), other._value) is True


_ABSENT = object()
_COMPARED_BY_VALUE = frozenset((str, int, float, bool, bytes, type(None), type))
_BY_IDENTITY: Any = object.__eq__
_MOST_PARTS = 1000
