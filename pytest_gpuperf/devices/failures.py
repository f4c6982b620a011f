"""From an exception to what it means for a device, to one line, and to its place."""

from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.errors import Fault

__all__ = ["first_line", "of", "place"]


def of(device: TimedDevice | None, error: BaseException) -> Fault | None:
    """Ask a device what an error means; one that fails to say so must not stop the run."""
    try:
        return device.fault(error) if device else None
    except Exception:  # noqa: BLE001 - another plugin's backend
        return None


def first_line(error: BaseException) -> str:
    """Return an exception's type and the first line of what it says."""
    first = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def place(device: TimedDevice | None, begun: int) -> str:
    """Return where an exception came from: `on the GPU (NAME) in round 17`; no round when none had begun."""
    if device is None:
        return "before any device was used"
    round_of_it = f" in round {begun}" if begun else ""
    return f"on the {device.kind.upper()} ({device.name}){round_of_it}"
