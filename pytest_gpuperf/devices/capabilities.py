"""Optional methods of a device, beyond the protocol; None where it lacks one, or where that raises."""

from collections.abc import Callable
from time import perf_counter, sleep
from typing import Any, Literal

from pytest_gpuperf.model.record import Clocks

__all__ = [
    "clocks",
    "host_memory",
    "occupy",
    "pause",
    "processor_time",
    "throttle",
    "unfinished",
    "wait_for_result",
]


def occupy(device: Any, seconds: float) -> bool:
    """Keep the device busy for about so many seconds, and return at once; False where it cannot."""
    return call_optional(device, "occupy", seconds, otherwise=False) is not False


def pause(device: Any, seconds: float) -> None:
    """Let so many seconds pass on the device's clock; a clock of its own needs the method for that."""
    if getattr(device, "pause", None) is not None:
        call_optional(device, "pause", seconds)
    elif device.clock is perf_counter:
        sleep(seconds)


def wait_for_result(device: Any) -> Callable[[Any], None] | None:
    """Return the device's method `wait(result)`; None for one that can only `synchronize` as a whole.

    It waits for the arrays in a call's result. Where the result has anything else in it, or nothing, it waits
    for all that this thread has submitted. Unlike other optional methods it may raise, as `synchronize` may.
    """
    return getattr(device, "wait", None)


def unfinished(device: Any) -> list[Any]:
    """Return the arrays that are not ready, which may be none, for `wait`."""
    return call_optional(device, "unfinished") or []


def clocks(device: Any) -> Clocks | None:
    """Return the state of the device's clocks now."""
    return call_optional(device, "clocks")  # type: ignore[no-any-return]  # as the capability is typed


def throttle(device: Any) -> tuple[str, ...]:
    """Return the reasons for which the device runs slower than it should at this moment."""
    return call_optional(device, "throttle") or ()


def host_memory(device: Any, host: Any) -> Literal["pinned", "pageable"] | None:
    """Return the kind of a host array's memory: pinned memory can be read by the device itself."""
    return call_optional(device, "host_memory", host)  # type: ignore[no-any-return]  # as the capability is typed


def processor_time(device: Any) -> float | None:
    """Return the seconds that all processors together have worked for this process."""
    return call_optional(device, "processor_time")  # type: ignore[no-any-return]  # as the capability is typed


def call_optional(device: Any, name: str, *arguments: Any, otherwise: Any = None) -> Any:
    """Return what a method returns; `otherwise` where the device or backend lacks it, or where it raises."""
    method = getattr(device, name, None)
    if method is None:
        return otherwise
    try:
        return method(*arguments)
    except Exception:  # noqa: BLE001 - another plugin's backend; an optional value must not end a measurement
        return otherwise
