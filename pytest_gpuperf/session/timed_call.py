"""From an item and a device to the call that is measured; its extra calls leave no trace."""

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.collection.items import ItemSpec
from pytest_gpuperf.devices import random_states
from pytest_gpuperf.devices.protocol import Device, TimedDevice
from pytest_gpuperf.integrations.fixture_replacements import is_benchmark, replacement_for
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.session import hints, user_properties
from pytest_gpuperf.session.hints import Handed
from pytest_gpuperf.work.first_call import Bind

_CAPTURES = ("capsys", "capsysbinary", "capteesys", "capfd", "capfdbinary")  # fixtures that read the output
_TOOL_IDS = (0, 1, 2)  # of sys.monitoring: debugger, coverage, profiler


def bind_of(item: Any, spec: ItemSpec, debug: Callable[[Callable[[], Any]], Any] | None = None) -> Bind:
    """Return what binds a test function to a device: with its fixtures, and the device in its slots.

    A fixture that cannot be used once per timed call has a stand-in. Without one the function is called
    directly: nothing is added to what is timed. `debug` calls the function itself, and none of our code.
    """
    function: Callable[..., Any] = item.obj
    names = item._fixtureinfo.argnames  # noqa: SLF001 - pytest's own call reads them here
    values = {name: item.funcargs[name] for name in names}
    replacements = {
        id(value): replacement for value in values.values() if (replacement := replacement_for(value))
    }
    others = (value for value in item.funcargs.values() if id(value) not in replacements)
    handed = hints.handed_on(item)
    hidden_benchmark = next((value for value in others if is_benchmark(value)), None)  # a fixture's own

    def bind(device: Device) -> Callable[[], Any]:
        arguments = {name: replacements.get(id(value), value) for name, value in values.items()}
        if "device" in spec.slots:
            arguments["device"] = device
        if "devices" in spec.slots:
            arguments["devices"] = device
        if "ranks" in spec.slots:
            arguments["ranks"] = device
        if "xp" in spec.slots:
            arguments["xp"] = device.xp
        body: Callable[[], Any] = partial(function, **arguments)
        if debug is not None:
            body = partial(debug, body)
        elif handed is not None:
            body = partial(_with_its_result, body, handed)
        for replacement in replacements.values():
            body = partial(replacement.call_body, body)
        return body if hidden_benchmark is None else partial(_without_benchmark, body, hidden_benchmark)

    return bind


def run_once(bind: Bind, device: TimedDevice, on_end: Callable[[], None] = lambda: None) -> Any:
    """Run the workload once on a device, untimed, and return its result when that is ready.

    `on_end` is called then, while the workload and its arrays are still there.
    """
    with device.context():
        workload = bind(device)()
        result = workload() if callable(workload) else workload
        device.synchronize()
        on_end()
    return result


@contextmanager
def isolated(item: pytest.Function) -> Iterator[None]:
    """Undo the side effects of the extra timing calls: random state, warnings, output, user properties."""
    of_others = user_properties.of_others(item)
    try:
        with warnings.catch_warnings(record=True), random_states.kept(), _silenced(item):
            yield
    finally:
        user_properties.put(item, of_others, user_properties.ours(item))


def is_traced() -> bool:
    """Return whether a tool follows the program line by line."""
    if sys.gettrace() is not None:
        return True
    monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
    return monitoring is not None and any(monitoring.get_tool(tool) for tool in _TOOL_IDS)


@contextmanager
def _silenced(item: pytest.Function) -> Iterator[None]:
    """Drop what is printed and logged, except for a test whose fixtures read it."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    of_caplog = ask.attribute(item.funcargs.get("caplog"), "handler")
    handler = of_caplog if ask.is_a(of_caplog, logging.Handler) else logging.NullHandler()
    with ExitStack() as stack:
        if not any(name in item.fixturenames for name in _CAPTURES):
            null = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
            stack.enter_context(redirect_stdout(null))
            stack.enter_context(redirect_stderr(null))
        root.handlers[:] = [handler]
        stack.callback(root.handlers.__setitem__, slice(None), handlers)
        yield


def _with_its_result(body: Callable[[], Any], handed: Handed) -> Any:
    """Return what a decorated body returns; raise where that is not what its source shows.

    This stands in no timed call of a callable, which is timed in its place.
    """
    result = body()
    handed.require(result)
    return result


def _without_benchmark(body: Callable[[], Any], benchmark: Any) -> Any:
    """Call a body whose fixtures have pytest-benchmark's; raise where one of them calls it."""
    mode = getattr(benchmark, "_mode", None)
    benchmark.disabled = True
    result = body()
    if getattr(benchmark, "_mode", None) != mode:
        raise GpuPerfError(
            "another fixture calls benchmark, so the workload is unknown; request benchmark itself as an "
            "argument, or return the workload"
        )
    return result
