"""The hooks for marked tests that are not measured: all with --gpuperf-off or beside CodSpeed, else some."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from pytest_gpuperf import option_table, options
from pytest_gpuperf.model import ask, units
from pytest_gpuperf.model.errors import GpuPerfError


class UnmeasuredHooks:
    """Calls what a speedup test returns: its workload, which pytest would take for a mistake.

    A run that measures leaves those alone whose device no backend knows, and bare ones without a device.
    `open_cpu` returns the CPU of a DeviceSpec: of the library whose accelerator a marker names.
    """

    def __init__(self, open_cpu: Callable[[Any], Any]) -> None:
        self._open_cpu = open_cpu

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> object | None:
        """Call a test, and its workload if it returns one."""
        if not _is_left_alone(pyfuncitem):
            return None
        from pytest_gpuperf.collection import fixtures
        from pytest_gpuperf.devices import capabilities
        from pytest_gpuperf.devices.protocol import Device

        names = pyfuncitem._fixtureinfo.argnames  # noqa: SLF001 - pytest's own call reads them here
        values = {name: pyfuncitem.funcargs[name] for name in names}
        ours = [
            name for name in ("device", "devices", "ranks") if fixtures.is_built_on_ours(pyfuncitem, name)
        ]
        devices = (
            self._use_accelerator(pyfuncitem, values),
            *(pyfuncitem.funcargs.get(name) for name in ours),
        )
        # A suite's fixture that is built on ours may give anything in its place.
        device = next((each for each in devices if ask.is_a(each, Device)), None)
        with capabilities.context(device):
            if pyfuncitem.config.getoption("trace", default=False):
                from pytest_gpuperf.session import debugger

                debugger.call_unmeasured(pyfuncitem, values)
            else:
                call_with_workload(partial(pyfuncitem.obj, **values))
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Let unittest do so with a method."""
        if not isinstance(item, pytest.Function) or not _is_left_alone(item):
            return
        from pytest_gpuperf.integrations import unittest_cases

        if unittest_cases.is_called(item):
            unittest_cases.call_instead(item, call_with_workload)

    def pytest_report_collectionfinish(
        self, config: pytest.Config, items: Sequence[pytest.Item]
    ) -> str | list[str]:
        """Return a line where CodSpeed, and not the user, has switched us off."""
        marked = sum(item.get_closest_marker("speedup") is not None for item in items)
        if not marked or not option_table.codspeed_is_on(config):
            return []
        tests = units.count(marked, "test")
        return f"gpuperf: off, because CodSpeed measures: {tests} with a speedup marker run as without it"

    def _use_accelerator(self, item: pytest.Function, values: dict[str, Any]) -> Any:
        """Put the CPU of an accelerator that the marker names into a test's arguments; return it, or None."""
        from pytest_gpuperf.collection import fixtures
        from pytest_gpuperf.collection.items import accelerator_of

        accelerator = accelerator_of(item)
        if accelerator is None:
            return None
        try:
            device = self._open_cpu(accelerator)
        except GpuPerfError as error:  # the marker is wrong, of which our frames would say nothing
            from pytest_gpuperf.devices.accelerators import ACCELERATOR

            name, told = (text.replace(f"{ACCELERATOR}:", "") for text in (accelerator.library, str(error)))
            pytest.fail(f"{item.nodeid}: accelerator={name!r}: {told}", pytrace=False)
        values.update({name: device if name == "device" else device.xp for name in fixtures.slots(item)})
        return device


def call_with_workload(test: Callable[[], Any]) -> None:
    """Call a test, and the callable that it returns, if it returns one."""
    workload = test()
    if callable(workload):
        workload()


def _is_left_alone(item: pytest.Function) -> bool:
    """Return whether a test has a marker of ours and is not measured in this run."""
    mark, scaling = item.get_closest_marker("speedup"), item.get_closest_marker("scaling")
    if (mark is None and scaling is None) or inspect.iscoroutinefunction(item.obj):
        return False
    from pytest_gpuperf.collection import fixtures
    from pytest_gpuperf.collection.items import SPEC

    if (spec := item.stash.get(SPEC, None)) is not None:
        return not spec.has_device
    if scaling is not None:
        return fixtures.takes(item, "devices") or fixtures.takes(item, "ranks")
    return not (options.has_foreign_marker(item.config) and _cannot_be_ours(item))


def _cannot_be_ours(item: pytest.Function) -> bool:
    """Return whether a marker of a suite that has its own of this name is ignored by other runs, too."""
    from pytest_gpuperf.collection import fixtures, markers
    from pytest_gpuperf.collection.items import Problems

    try:
        with Problems():
            demand, _ = markers.read(item)
    except ValueError:
        return True
    return demand.is_default and not fixtures.uses_ours(item)
