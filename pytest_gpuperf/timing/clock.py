"""From two readings of a device's clock to the seconds between them, if there can be so many."""

from math import inf

from pytest_gpuperf.model.errors import GpuPerfError


class ClockError(GpuPerfError):
    """A device's clock went back, or showed what is no time: nothing that it has timed can be trusted."""


def seconds_between(started: float, ended: float) -> float:
    """Return the seconds between two readings; raise ClockError where there cannot be so many."""
    return require_seconds(ended - started)


def require_seconds(seconds: float) -> float:
    """Return what a device says to have lasted; raise ClockError where nothing can."""
    if not 0 <= seconds < inf:  # NaN is neither
        raise ClockError(f"the device's clock cannot be right: it measured {seconds} s")
    return seconds
