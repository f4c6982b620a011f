"""Python's garbage collector: paused while it would disturb a measurement, called where memory runs out."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice

_SHARE = 0.25  # of what was free
_MEMORY = Path("/proc/meminfo")


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector; one that was off before stays off."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class MemoryWatch:
    """Collects garbage between rounds where the process, or the device, has taken a quarter of what was free.

    Results in reference cycles stay until the collector runs. It is off in blocks, and between them it counts
    objects, of which an array is one, whatever its size.
    """

    def __init__(self) -> None:
        self._least: tuple[int, int] | None = (
            None  # bytes that shall stay free, of the machine and of the device
        )

    def collect_if_grown(self, device: TimedDevice) -> None:
        """Collect garbage if so much memory was taken since this was first called, or since it collected."""
        free = (_available(), capabilities.free_memory(device) or 0)
        if self._least is not None and any(map(int.__lt__, free, self._least)):
            gc.collect()
            free = (_available(), capabilities.free_memory(device) or 0)
            self._least = None
        if self._least is None:
            on_host, on_device = (int((1 - _SHARE) * number) for number in free)
            self._least = on_host, on_device


def _available() -> int:
    """Return the bytes that processes may still take of the machine's memory; 0 where that is not known."""
    try:
        with _MEMORY.open("rb") as file:
            found = dict(line.split(b":") for line in islice(file, 3))
        return int(found[b"MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 0
