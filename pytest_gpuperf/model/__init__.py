"""The values that pass from room to room: frozen, in seconds and bytes.

Import them from the part that has them; what a backend of your own needs is here, too.
"""

from typing import TYPE_CHECKING, Any

from pytest_gpuperf.model.errors import Fault, GpuPerfError, Unavailable

if TYPE_CHECKING:
    from pytest_gpuperf.model.measurement import DeviceInfo

__all__ = ["DeviceInfo", "Fault", "GpuPerfError", "Unavailable"]


def __getattr__(name: str) -> Any:
    """Import a name at first use: collecting tests needs the errors, and not the measurements."""
    if name != "DeviceInfo":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pytest_gpuperf.model.measurement import DeviceInfo

    return DeviceInfo
