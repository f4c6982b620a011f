"""`pytest --trace`: a test runs once on each of its devices, in pytest's debugger, and is not measured."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from _pytest.debugging import pytestPDB

from pytest_gpuperf.collection.items import ItemSpec
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.record import Verdict
from pytest_gpuperf.session import timed_call
from pytest_gpuperf.session.run_devices import RunDevices
from pytest_gpuperf.work.workload import ResettableCall

NOT_MEASURED = Verdict(status="skipped", reason="not measured: pytest --trace runs the test in the debugger")
_RunCall = Callable[[Callable[[], Any]], Any]


def call(item: pytest.Function, spec: ItemSpec, devices: RunDevices) -> None:
    """Debug a test on the CPU, the GPU, or both; a skip where it has no GPU."""
    _unwrap(item)
    if spec.scaling is not None:
        count = spec.scaling.count
        _debug(item, spec, devices.ranks(count, meet=False) if spec.is_in_ranks else devices.group(count))
        return
    if spec.kind != "gpu":
        _debug(item, spec, devices.cpu(spec.device or spec.accelerator))
    if spec.kind != "cpu":
        _debug(item, spec, devices.gpu(spec.device or spec.accelerator))


def call_unmeasured(item: pytest.Function, values: dict[str, Any]) -> None:
    """Debug a test that is not measured in any run, and its workload if it returns one."""
    _unwrap(item)
    runcall = _start()
    _debug_workload(runcall(partial(item.obj, **values)), runcall)


def _unwrap(item: pytest.Function) -> None:
    """Remove pytest's own wrapper, which would debug the body alone, and drop what it returns."""
    item.obj = item.obj.__wrapped__


def _start() -> _RunCall:
    """Return what calls a function in the debugger."""
    start: Callable[[str], Any] = pytestPDB._init_pdb  # noqa: SLF001 - as pytest's own --trace
    runcall: _RunCall = start("runcall").runcall
    return runcall


def _debug(item: pytest.Function, spec: ItemSpec, device: TimedDevice) -> None:
    runcall = _start()
    with device.context():
        _debug_workload(timed_call.bind_of(item, spec, runcall)(device)(), runcall)
        device.synchronize()


def _debug_workload(workload: Any, runcall: _RunCall) -> None:
    if isinstance(workload, ResettableCall):
        workload.restore()
        workload = workload.call
    if callable(workload):
        runcall(workload)
