"""What some devices can tell or do beyond the protocol; None where one cannot."""

from typing import Any, Literal

from pytest_gpuperf.model import Clocks

__all__ = ["clocks", "host_memory", "occupy", "processor_time", "throttle"]


def occupy(device: Any, seconds: float) -> bool | None:
    """Keep the device busy for about so long, and return True at once."""
    ability = getattr(device, "occupy", None)
    if ability is None:
        return None
    ability(seconds)
    return True


def clocks(device: Any) -> Clocks | None:
    """Return the state of the device's clocks now."""
    ability = getattr(device, "clocks", None)
    return ability() if ability is not None else None


def throttle(device: Any) -> tuple[str, ...]:
    """Return the reasons for which the device runs slower than it should at this moment."""
    ability = getattr(device, "throttle", None)
    return ability() if ability is not None else ()


def host_memory(device: Any, host: Any) -> Literal["pinned", "pageable"] | None:
    """Return what the host's side of a copy is: memory the device can read by itself, or not."""
    ability = getattr(device, "host_memory", None)
    return ability(host) if ability is not None else None


def processor_time(device: Any) -> float | None:
    """Return the seconds that all processors, together, have worked for this process."""
    ability = getattr(device, "processor_time", None)
    return ability() if ability is not None else None
