"""What some devices can tell or do beyond the protocol; None where one cannot, or fails to."""

from typing import Any, Literal

from pytest_gpuperf.model.record import Clocks

__all__ = ["clocks", "host_memory", "occupy", "processor_time", "throttle"]


def occupy(device: Any, seconds: float) -> bool | None:
    """Keep the device busy for about so long, and return True at once."""
    if getattr(device, "occupy", None) is None:
        return None
    try:
        device.occupy(seconds)
    except Exception:  # noqa: BLE001 - what is only told beside a measurement must not end it
        return None
    return True


def clocks(device: Any) -> Clocks | None:
    """Return the state of the device's clocks now."""
    return _told(device, "clocks")  # type: ignore[no-any-return]  # the ability's own type


def throttle(device: Any) -> tuple[str, ...]:
    """Return the reasons for which the device runs slower than it should at this moment."""
    return _told(device, "throttle") or ()


def host_memory(device: Any, host: Any) -> Literal["pinned", "pageable"] | None:
    """Return what the host's side of a copy is: memory the device can read by itself, or not."""
    return _told(device, "host_memory", host)  # type: ignore[no-any-return]  # as above


def processor_time(device: Any) -> float | None:
    """Return the seconds that all processors, together, have worked for this process."""
    return _told(device, "processor_time")  # type: ignore[no-any-return]  # as above


def _told(device: Any, ability: str, *asked: Any) -> Any:
    tell = getattr(device, ability, None)
    if tell is None:
        return None
    try:
        return tell(*asked)
    except Exception:  # noqa: BLE001 - as above
        return None
