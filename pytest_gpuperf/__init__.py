"""Time one workload on CPU and GPU in pytest, and say whether moving it to the GPU pays.

`__all__` here and in `pytest_gpuperf.testing`, the marker, the fixtures and the hooks are public: everything
else may change in any version.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gpuperf.devices.group import DeviceGroup
    from pytest_gpuperf.devices.host import HostDevice
    from pytest_gpuperf.devices.protocol import (
        Activity,
        Backend,
        Device,
        Observation,
        TimedDevice,
        Watched,
    )
    from pytest_gpuperf.model.errors import (
        BackendWarning,
        BrokenGpuWarning,
        Fault,
        GpuPerfError,
        InconclusiveWarning,
        NotComparableWarning,
        Unavailable,
    )
    from pytest_gpuperf.model.measurement import DeviceInfo
    from pytest_gpuperf.model.record import Clocks, Record, Run
    from pytest_gpuperf.report.exports import ReportFormat
    from pytest_gpuperf.report.reader import load_report
    from pytest_gpuperf.session.gpuperf_fixture import GpuPerfFixture

__all__ = [
    "Activity",
    "Backend",
    "BackendWarning",
    "BrokenGpuWarning",
    "Clocks",
    "Device",
    "DeviceGroup",
    "DeviceInfo",
    "Fault",
    "GpuPerfError",
    "GpuPerfFixture",
    "HostDevice",
    "InconclusiveWarning",
    "NotComparableWarning",
    "Observation",
    "Record",
    "ReportFormat",
    "Run",
    "TimedDevice",
    "Unavailable",
    "Watched",
    "__version__",
    "load_report",
]

_HOMES = {
    "devices.group": ("DeviceGroup",),
    "devices.host": ("HostDevice",),
    "devices.protocol": ("Activity", "Backend", "Device", "Observation", "TimedDevice", "Watched"),
    "model.errors": (
        *("BackendWarning", "BrokenGpuWarning", "InconclusiveWarning", "NotComparableWarning"),
        *("Fault", "GpuPerfError", "Unavailable"),
    ),
    "model.measurement": ("DeviceInfo",),
    "model.record": ("Clocks", "Record", "Run"),
    "report.exports": ("ReportFormat",),
    "report.reader": ("load_report",),
    "session.gpuperf_fixture": ("GpuPerfFixture",),
}


def __getattr__(name: str) -> Any:
    """Import public names at first use: pytest imports this package in every run (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        return version("pytest-gpuperf")
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names for completion, imported or not."""
    return sorted({*globals(), *__all__})
