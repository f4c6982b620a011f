"""Which fixtures of a test are this plugin's, and not the suite's own of the same names."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.model import ask

# pytest has no public API for which fixtures a function takes and who defined them; `_fixtureinfo` is what
# its own parametrization uses.

_SLOTS = ("device", "xp")
_NAMES = (*_SLOTS, "cpu", "gpu")
_PLUGIN = "pytest_gpuperf.plugin"


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Parametrize our `device` over both devices, unless the test is a slot or has its own values for it."""
    # A mark or another hook may have parametrized it already.
    is_parametrized = any("device" in call.params for call in metafunc._calls)  # noqa: SLF001 - see the top
    if is_parametrized or not is_built_on_ours(metafunc.definition, "device"):
        return
    dependents = _dependents(metafunc.definition)
    is_marked = metafunc.definition.get_closest_marker("speedup") is not None
    if is_marked and not dependents and slots(metafunc.definition):
        return
    scope = max((fixture._scope for fixture in dependents), default=None)  # noqa: SLF001 - see the top
    metafunc.parametrize("device", ["cpu", "gpu"], indirect=True, scope=scope.value if scope else "function")


def slots(item: Any) -> frozenset[str]:
    """Return which of our fixtures the test function itself takes."""
    return frozenset(name for name in _SLOTS if takes(item, name))


def takes(item: Any, name: str) -> bool:
    """Return whether the test function itself takes our fixture of that name; our xp needs our device."""
    if name not in item._fixtureinfo.argnames or not is_ours(item, name):  # noqa: SLF001 - see the top
        return False
    return name != "xp" or is_built_on_ours(item, "device")


def is_ours(item: Any, name: str) -> bool:
    """Return whether the fixture of that name is ours, and not one of the suite's own."""
    definitions = item._fixtureinfo.name2fixturedefs.get(name)  # noqa: SLF001 - see the top
    return bool(definitions) and ask.module_of(definitions[-1].func) == _PLUGIN


def describe_own(item: Any) -> str | None:
    """Return which fixture of the suite's own a test takes in the place of one of ours, and where it is."""
    for name in _NAMES:
        definitions = item._fixtureinfo.name2fixturedefs.get(name)  # noqa: SLF001 - see the top
        if definitions and ask.module_of(definitions[-1].func).startswith("_pytest"):  # of parametrize itself
            continue
        if not definitions or is_ours(item, name):
            continue
        code = ask.attribute(inspect.unwrap(definitions[-1].func), "__code__")
        if code is None:  # of a builtin function
            return f"`{name}`"
        path, root = Path(code.co_filename), item.config.rootpath
        shown = path.relative_to(root) if path.is_relative_to(root) else path
        return f"`{name}` ({shown}:{code.co_firstlineno})"
    return None


def is_built_on_ours(item: Any, name: str) -> bool:
    """Return whether the fixture of that name is ours, or the suite's own that takes ours and extends it."""
    definitions = list(item._fixtureinfo.name2fixturedefs.get(name) or ())  # noqa: SLF001 - see the top
    while definitions and ask.module_of(definitions[-1].func) != _PLUGIN:
        if name not in definitions.pop().argnames:
            return False
    return bool(definitions)


def uses_ours(item: Any) -> bool:
    """Return whether an item uses one of our fixtures, itself or through another."""
    return any(is_built_on_ours(item, name) for name in ("device", "cpu", "gpu", "gpuperf"))


def _dependents(item: Any) -> list[Any]:
    """Return the suite's fixtures in this test that use our device or xp."""
    definitions = item._fixtureinfo.name2fixturedefs.values()  # noqa: SLF001 - see the top
    return [
        fixture
        for *_, fixture in definitions
        if ask.module_of(fixture.func) != _PLUGIN and any(name in fixture.argnames for name in _SLOTS)
    ]
