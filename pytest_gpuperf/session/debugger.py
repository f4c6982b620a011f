"""`pytest --trace`: a test runs once on each of its devices, in pytest's debugger, and is not measured."""

from collections.abc import Callable
from typing import Any

import pytest
from _pytest.debugging import pytestPDB

from pytest_gpuperf.collection.items import ItemSpec
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import Device
from pytest_gpuperf.model.record import Verdict
from pytest_gpuperf.session import timed_call
from pytest_gpuperf.session.run_devices import RunDevices
from pytest_gpuperf.timing.first_call import Bind
from pytest_gpuperf.timing.workload import ResettableCall

NOT_MEASURED = Verdict(status="skipped", reason="not measured: pytest --trace runs the test in the debugger")


def call(item: pytest.Function, spec: ItemSpec, devices: RunDevices) -> None:
    """Debug a test on the CPU, the GPU, or both; a skip where it has no GPU."""
    # pytest's own wrapper would debug the body alone, and drop what it returns.
    item.obj = item.obj.__wrapped__
    bind = timed_call.bind_of(item, spec)
    if spec.scaling is not None:
        _debug(bind, devices.group(spec.scaling.count))
        return
    if spec.kind != "gpu":
        _debug(bind, devices.cpu(spec.device or spec.accelerator))
    if spec.kind != "cpu":
        _debug(bind, devices.gpu(spec.device or spec.accelerator))


def _debug(bind: Bind, device: Device) -> None:
    start: Callable[[str], Any] = pytestPDB._init_pdb  # noqa: SLF001 - as pytest's own --trace
    debugger = start("runcall")
    with capabilities.context(device):
        workload = debugger.runcall(bind(device))
        if isinstance(workload, ResettableCall):
            workload.restore()
            workload = workload.call
        if callable(workload):
            debugger.runcall(workload)
        device.synchronize()
