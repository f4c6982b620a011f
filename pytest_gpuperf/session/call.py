"""From an item and a device to the call that is measured: the test function with its fixtures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_gpuperf.collection.items import ItemSpec
from pytest_gpuperf.devices.protocol import Device
from pytest_gpuperf.integrations.stand_ins import BenchmarkStandIn, SubtestsStandIn, is_benchmark, stand_in
from pytest_gpuperf.model.errors import GpuPerfError


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixtures:
    """The arguments of a test function; `hidden_benchmark` is pytest-benchmark's, if not among them."""

    arguments: Mapping[str, Any]
    hidden_benchmark: Any = None


def fixtures(item: Any) -> Fixtures:
    """Return the fixtures that a test function takes, with a stand-in for each that cannot be used often."""
    names = item._fixtureinfo.argnames  # noqa: SLF001 - pytest's own call reads them here
    values = {name: item.funcargs[name] for name in names}
    stand_ins = {id(value): replacement for value in values.values() if (replacement := stand_in(value))}
    arguments = {name: stand_ins.get(id(value), value) for name, value in values.items()}
    others = (value for value in item.funcargs.values() if id(value) not in stand_ins)
    hidden = next((value for value in others if is_benchmark(value)), None)
    return Fixtures(arguments=arguments, hidden_benchmark=hidden)


def bind(
    function: Callable[..., Any], fixtures: Fixtures, spec: ItemSpec, device: Device
) -> Callable[[], Any]:
    """Return a test function with its fixtures, and the device in its slots.

    Without a stand-in the function is called directly: nothing is added to what is timed.
    """
    arguments = dict(fixtures.arguments)
    if "device" in spec.slots:
        arguments["device"] = device
    if "xp" in spec.slots:
        arguments["xp"] = device.xp
    body: Callable[[], Any] = partial(function, **arguments)
    for value in arguments.values():
        if isinstance(value, SubtestsStandIn):
            body = partial(_report_once, body, value)
    if fixtures.hidden_benchmark is not None:
        body = partial(_without_benchmark, body, fixtures.hidden_benchmark)
    benchmark = next((value for value in arguments.values() if isinstance(value, BenchmarkStandIn)), None)
    return body if benchmark is None else partial(_benchmarked_workload, body, benchmark)


def _report_once(body: Callable[[], Any], subtests: SubtestsStandIn) -> Any:
    result = body()
    subtests.are_reported = False
    return result


def _benchmarked_workload(body: Callable[[], Any], benchmark: BenchmarkStandIn) -> Any:
    """Return what a body passed to pytest-benchmark, if it did: that is the workload."""
    benchmark.set_workload(None)
    result = body()
    return result if benchmark.workload is None else benchmark.workload


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
