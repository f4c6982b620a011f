"""Time one workload on CPU and GPU in pytest, and say whether moving it to the GPU pays."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gpuperf.devices.protocol import Device
    from pytest_gpuperf.model.errors import BrokenGpuWarning, InconclusiveWarning, NotComparableWarning

__all__ = ["BrokenGpuWarning", "Device", "InconclusiveWarning", "NotComparableWarning", "__version__"]

_HOMES = {
    "BrokenGpuWarning": "pytest_gpuperf.model.errors",
    "Device": "pytest_gpuperf.devices.protocol",
    "InconclusiveWarning": "pytest_gpuperf.model.errors",
    "NotComparableWarning": "pytest_gpuperf.model.errors",
}


def __getattr__(name: str) -> Any:
    """Import public names at first use: pytest imports this package in every run (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        return version("pytest-gpuperf")
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
