"""From a marked test that uses no device of ours, or names two, to what is wrong and its remedy."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import Any
from unittest import TestCase

import pytest

from pytest_gpuperf.collection import fixtures
from pytest_gpuperf.collection.items import SPEC, parameters
from pytest_gpuperf.devices.device_parameter import DeviceParser, UnknownDevice
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.demand import KINDS, Kind
from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.units import first_few

_MUST_USE = (
    "a speedup test must use a device: request the `device` or `xp` fixture{and_then}, parametrize over "
    "devices or array libraries (`backend`, or a name in gpuperf_device_params), call gpuperf.both(), or "
    "link two tests with pair=NAME"
)
_OF_LIBRARY = {
    "jax": " (that is all: what the test makes with JAX is there)",
    "torch": " and pass device.native to torch",
}
_OF_EITHER = (
    " (with gpuperf_gpu = jax that is all: what the test makes with JAX is there; with torch also pass "
    "device.native)"
)
_OWN_FIXTURE = "the test uses the suite's own fixture {}, whose value the plugin cannot choose"
_GIVE_PARAMS = ": give that fixture params, one for each device"
_NAME_IT = "name that parameter in the ini file: gpuperf_device_params = {}"
_NAMES_ONE = "a speedup test must use a device, and its parameter `{}` seems to name one"
_HOLDS_ONE = (
    "a speedup test must use a device, and one is inside of its parameter `{}` ({}.{}={!r}), where the "
    "plugin does not look: make the device a parameter of its own, `device`, and the object in the test"
)
_ONE_OF_SEVERAL = (
    "{}={} is one of several objects of a class, and the plugin looks into none: request `device` and make "
    "the object in the test, from device.native; or parametrize over the name of its device, as `device`"
)
_TEST_CASE = (
    "a speedup test must use a device, and pytest gives a unittest.TestCase no variants, and so no `device` "
    "or `xp`: request `gpuperf` in an autouse fixture of the class, keep it (self.gpuperf = gpuperf), and "
    "call self.gpuperf.both(function of xp) in the test"
)
_HIDES = (
    "the test's own parameter `{name}` is there in place of the fixture `{name}`, which would give it a "
    "device: rename the parameter and request `{name}`, or call gpuperf.both() in the test"
)
_FIELDS = ("device", "backend", "xp")
_BESIDE = (
    "{tests}: the parameter `{name}` names devices, and the fixture `device` or `xp` runs each of its "
    "values on both: leave out the parameter, or leave out the fixture{and_name_it}"
)


def why(item: pytest.Function, parser: DeviceParser, library: str) -> str:
    """Return what is wrong with a test that has a marker and no device, and the remedy that works for it.

    `library`: that which the run names, or "auto".
    """
    if item.cls is not None and issubclass(item.cls, TestCase):
        return _TEST_CASE
    names = [name for name, value in parameters(item).items() if _is_device(value, parser)]
    own = fixtures.describe_own(item)
    if own is not None:
        chosen = f"; `{names[0]}` seems to choose it: {_named(names[0], parser)}" if names else ""
        return f"{_OWN_FIXTURE.format(own)}{chosen or _GIVE_PARAMS}"
    if names:
        return f"{_NAMES_ONE.format(names[0])}: {_named(names[0], parser)}"
    if hidden := [name for name in ("device", "xp") if name in parameters(item)]:
        return _HIDES.format(name=hidden[0])
    and_then = _OF_EITHER if library == "auto" else _OF_LIBRARY.get(library, "")
    return next(_held(item, parser), _MUST_USE.format(and_then=and_then))


def beside_ours(items: Iterable[pytest.Item], parser: DeviceParser) -> Iterator[str]:
    """Yield what to do about each parameter that names both devices where our fixture gives a test both."""
    kinds: dict[str, dict[str, set[Kind]]] = {}  # by parameter and function
    for item in items:
        spec = item.stash[SPEC]
        if spec.problem is None and (spec.slots or (spec.device_parameters and not spec.names_device)):
            for name, value in parameters(item).items():
                device = parser.parse_text(value) if ask.is_really(value, str) else None
                if device is not None and name not in spec.device_parameters:
                    kinds.setdefault(name, {}).setdefault(function_of(spec.nodeid), set()).add(device.kind)
    for name, of_functions in kinds.items():
        if tests := [function for function, found in of_functions.items() if len(found) == len(KINDS)]:
            and_name_it = "" if name in parser.names else f" and {_named(name, parser)}"
            yield _BESIDE.format(tests=first_few(tests), name=name, and_name_it=and_name_it)


def _named(name: str, parser: DeviceParser) -> str:
    """Return how to name one more device parameter: the key takes the place of all names so far."""
    return _NAME_IT.format(" ".join((*parser.names, name)))


def of_several(values: Iterable[Any]) -> set[type]:
    """Return the classes of which several of these objects are: no name of a class maps them to devices."""
    objects = {id(value): type(value) for value in values if not _is_mapped_by_text(value)}
    return {kind for kind, times in Counter(objects.values()).items() if times > 1}


def why_unknown(error: UnknownDevice, several: Collection[type]) -> str:
    """Return what is wrong with a value that no backend knows, and the remedy that works for it."""
    if type(error.given) in several:
        return _ONE_OF_SEVERAL.format(error.value.parameter, error.value.value)
    return str(error)


def _is_mapped_by_text(value: Any) -> bool:
    """Return whether a value is a text or a number, one of an Enum, or has a name, as a module."""
    return ask.is_really(value, (str, int, float, Enum)) or ask.name_of(value) is not None


def _held(item: pytest.Function, parser: DeviceParser) -> Iterator[str]:
    """Yield what to do with each parameter that has a device in a field."""
    for name, value in parameters(item).items():
        for field in _FIELDS:
            held = ask.attribute(value, field)
            if ask.is_really(held, str) and parser.parse_text(held) is not None:
                yield _HOLDS_ONE.format(name, name, field, held)


def _is_device(value: Any, parser: DeviceParser) -> bool:
    """Return whether a value that names no device parameter would name a device."""
    try:
        return parser.parse({parser.names[0]: value}).spec is not None
    except ValueError:
        return False
