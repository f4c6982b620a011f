"""The values that pass from room to room: frozen, in seconds and bytes.

Import them from the part that has them; what a backend of your own needs is here, too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gpuperf.model.errors import Fault, GpuPerfError, Unavailable
    from pytest_gpuperf.model.measurement import DeviceInfo

__all__ = ["DeviceInfo", "Fault", "GpuPerfError", "Unavailable"]


def __getattr__(name: str) -> Any:
    """Import a name at first use: collecting tests needs the errors, and not the measurements."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    part = "measurement" if name == "DeviceInfo" else "errors"
    return getattr(import_module(f"{__name__}.{part}"), name)
