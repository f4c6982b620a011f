"""What a typed suite writes: `mypy` in .ci/run proves that the public types allow it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_gpuperf import (
    Backend,
    Device,
    DeviceGroup,
    GpuPerfError,
    GpuPerfFixture,
    HostDevice,
    Record,
    ReportFormat,
    Run,
    TimedDevice,
    Unavailable,
    load_report,
)
from pytest_gpuperf.testing import DeviceConformance, SimulatedBackend


@pytest.mark.speedup(min=3)
def test_returned(device: Device) -> Callable[[], Any]:
    """Return the workload."""
    values = device.asarray(np.ones(3))
    return lambda: values @ values


@pytest.mark.speedup(min=3)
def test_both(gpuperf: GpuPerfFixture) -> None:
    """Time a body on both devices."""

    def body(device: Device) -> Any:
        values = device.asarray(np.ones(3))
        return gpuperf.workload(lambda: values * 2, reset=lambda: None)

    _, _ = gpuperf.both(body)


@pytest.mark.scaling([1, 2])
def test_scales(devices: DeviceGroup) -> Callable[[], list[Any]]:
    """Use each of the devices."""
    parts = devices.asarray(np.ones(4), shard=0)
    return lambda: [device.xp.sum(part) for device, part in zip(devices.all, parts, strict=True)]


def test_members(gpu: Device, cpu: Device) -> None:
    """Use what a test may touch of a device, its native object included."""
    assert (gpu.kind, cpu.kind) == ("gpu", "cpu")
    assert gpu.native is not cpu.native
    gpu.synchronize()


class TestMine(DeviceConformance):
    """Prove a device."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Return the backend to prove."""
        return SimulatedBackend()


def report(path: Path, host: TimedDevice | None = None) -> list[float | None]:
    """Read a report."""
    run: Run = load_report(path)
    host = host or HostDevice("CPU")
    return [record.speedup.low for record in run.records if record.speedup is not None]


@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices() -> Iterable[Backend]:
    """Return a backend."""
    return [SimulatedBackend()]


@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_reports() -> Iterable[ReportFormat]:
    """Return no format."""
    return []


@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_record(item: pytest.Item, record: Record) -> None:
    """Take a record."""
    if record.status == "error":
        raise GpuPerfError(item.nodeid) from Unavailable(record.reason)
