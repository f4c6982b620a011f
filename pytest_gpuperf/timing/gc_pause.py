"""Python's garbage collector: paused where it would disturb a measurement, called where memory gets short."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_gpuperf.devices import environment
from pytest_gpuperf.devices.protocol import TimedDevice

_SHARE = 0.25  # of what was free
_AVAILABLE = re.compile(r"^MemAvailable: *([0-9]+) kB$", re.MULTILINE)


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
    """Collects garbage between rounds where the free memory of the machine or the device fell by a quarter.

    Results in reference cycles stay until the collector runs. It is off in blocks, and between them it counts
    objects, of which an array is one, whatever its size.
    """

    def __init__(self, machine: Path = Path("/proc/meminfo")) -> None:
        self._machine = machine
        self._least: list[int] = []  # bytes that shall stay free, of the machine and of the device

    def collect_if_grown(self, device: TimedDevice) -> None:
        """Collect garbage if so much memory was taken since this was first called, or since it collected."""
        grown = any(map(int.__lt__, self._free(device), self._least))
        if grown:
            gc.collect()
        if grown or not self._least:
            self._least = [int((1 - _SHARE) * number) for number in self._free(device)]

    def _free(self, device: TimedDevice) -> tuple[int, int]:
        """Return the bytes that are free on the machine and on the device; 0 where that is not known."""
        return _available(self._machine), device.free_memory() or 0


def _available(machine: Path) -> int:
    """Return the bytes that processes may still take of the machine's memory; 0 where that is not known."""
    found = _AVAILABLE.search(environment.read(machine) or "")
    return int(found[1]) * 1024 if found else 0
