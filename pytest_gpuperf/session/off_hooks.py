"""The hooks of a run with --gpuperf-off, or beside CodSpeed: marked tests run once, as without the plugin."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_gpuperf import options
from pytest_gpuperf.model import units


class OffHooks:
    """Calls what a speedup test returns: its workload, which pytest would take for a mistake.

    `open_cpu` returns the CPU of a DeviceSpec: of the library whose accelerator a marker names.
    """

    def __init__(self, open_cpu: Callable[[Any], Any]) -> None:
        self._open_cpu = open_cpu

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> object | None:
        """Call a test that would be measured, and its workload if it returns one."""
        function = pyfuncitem.obj
        if inspect.iscoroutinefunction(function) or not self._is_measured(pyfuncitem):
            return None
        from pytest_gpuperf.devices import capabilities
        from pytest_gpuperf.devices.protocol import Device

        names = pyfuncitem._fixtureinfo.argnames  # noqa: SLF001 - pytest's own call reads them here
        values = {name: pyfuncitem.funcargs[name] for name in names}
        device = self._use_accelerator(pyfuncitem, values)
        device = device or pyfuncitem.funcargs.get("device") or pyfuncitem.funcargs.get("devices")
        # It may also be a fixture of the suite's own.
        with capabilities.context(device if isinstance(device, Device) else None):
            workload = function(**values)
            if callable(workload):
                workload()
        return True

    def pytest_report_collectionfinish(
        self, config: pytest.Config, items: Sequence[pytest.Item]
    ) -> str | list[str]:
        """Return a line where CodSpeed, and not the user, has switched us off."""
        marked = sum(item.get_closest_marker("speedup") is not None for item in items)
        if not marked or not options.codspeed_is_on(config):
            return []
        tests = units.count(marked, "test")
        return f"gpuperf: off, because CodSpeed measures: {tests} with a speedup marker run as without it"

    def _use_accelerator(self, item: pytest.Function, values: dict[str, Any]) -> Any:
        """Put the CPU of an accelerator that the marker names into a test's arguments; return it, or None."""
        mark = item.get_closest_marker("speedup")
        if mark is None or mark.kwargs.get("accelerator") is None:
            return None
        from pytest_gpuperf.collection import fixtures
        from pytest_gpuperf.collection.items import accelerator_of

        device = self._open_cpu(accelerator_of(item))
        values.update({name: device if name == "device" else device.xp for name in fixtures.slots(item)})
        return device

    def _is_measured(self, item: pytest.Function) -> bool:
        if item.get_closest_marker("scaling") is not None:
            from pytest_gpuperf.collection import fixtures

            return fixtures.takes(item, "devices")
        mark = item.get_closest_marker("speedup")
        return mark is not None and not (options.has_foreign_marker(item.config) and _cannot_be_ours(item))


def _cannot_be_ours(item: pytest.Function) -> bool:
    """Return whether a marker of a suite that has its own of this name is ignored by other runs, too."""
    from pytest_gpuperf.collection import fixtures, markers

    try:
        demand, _ = markers.read(item)
    except ValueError:
        return True
    return demand.bare and not fixtures.uses_ours(item)
