"""A speedup test on a rank that does not measure: run once on each of its devices, as rank 0 does first."""

from collections.abc import Callable
from typing import Any

import pytest

from pytest_gpuperf.collection.items import SPEC, ItemSpec, accelerator_of
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.integrations.collectives import Collectives
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.session import timed_call
from pytest_gpuperf.session.ranks import calls
from pytest_gpuperf.session.ranks.roles import OtherRank, Ranks
from pytest_gpuperf.session.run_devices import RunDevices
from pytest_gpuperf.work.first_call import Bind

_SCALING = "rank 0 alone measures a scaling test, on GPUs that this rank leaves idle"
COLLECTIVE = (
    "a speedup test is measured on rank 0 alone, and this one needs the other ranks in each call: {}; leave "
    "out the marker, or what communicates"
)


def call(item: pytest.Function, spec: ItemSpec, devices: RunDevices, ranks: Ranks) -> None:
    """Run a test as plain pytest would, on the CPU and on this rank's own GPU, or on the one of the two.

    One with `ranks` makes the calls that rank 0 makes.
    """
    if spec.is_in_ranks and isinstance(ranks, OtherRank):
        calls.serve(item, timed_call.bind_of(item, spec), devices.gpu(), ranks)
        return
    if spec.scaling is not None:
        pytest.skip(_SCALING)
    run = _run_once(item, timed_call.bind_of(item, spec))
    if spec.kind == "gpu":
        run(devices.gpu(spec.device))
        return
    run(devices.cpu(spec.device or spec.accelerator))
    if spec.kind is None and devices.look_for_gpu(spec.accelerator) is None:
        run(devices.gpu(spec.accelerator))


def both(item: pytest.Function, bind: Bind, devices: RunDevices) -> tuple[Any, Any]:
    """Run a body on the CPU and on this rank's own GPU, and return both results."""
    run, accelerator = _run_once(item, bind), accelerator_of(item)
    return run(devices.cpu(accelerator)), run(devices.gpu(accelerator))


def _run_once(item: pytest.Function, bind: Bind) -> Callable[[TimedDevice], Any]:
    """Return what runs a test on a device; not once its calls wait for other ranks: rank 0 makes no more."""
    calls = Collectives(item)
    found: list[str | None] = []  # in the runs so far: the first one meets that of rank 0

    def run(device: TimedDevice) -> Any:
        if (what := next(filter(None, found), None)) is not None:
            reason = COLLECTIVE.format(what)
            if item.stash[SPEC].demand.bare:  # rank 0 fails no such test, either
                pytest.skip(reason)
            pytest.fail(reason, pytrace=False)
        return timed_call.run_once(bind, device, lambda: found.append(calls.found()))

    return run


def require_own_calls(calls: Collectives) -> None:
    """Raise GpuPerfError for a test whose calls wait for other ranks, after its first run."""
    if (what := calls.found()) is not None:
        raise GpuPerfError(COLLECTIVE.format(what))
