"""What is known of a GPU's clocks in this process: whether its times depend on what it did before."""

from dataclasses import dataclass
from math import inf
from typing import Any
from weakref import WeakKeyDictionary

from pytest_gpuperf.devices.protocol import TimedDevice

_IDLE = 0.01  # seconds: clocks are changed in steps of about this
_known: "WeakKeyDictionary[Any, GpuClocks]" = WeakKeyDictionary()


@dataclass(slots=True)
class GpuClocks:
    """Whether a GPU's times differ after it idled, None before that is known; when its last block ended."""

    depend_on_idling: bool | None = None
    ended: float = inf

    def have_changed(self, now: float) -> bool:
        """Return whether the GPU has idled for so long that its clocks may not be those of steady work."""
        return self.depend_on_idling is True and now - self.ended > _IDLE


def clocks_of(device: TimedDevice) -> GpuClocks | None:
    """Return what is known of a GPU; None for a CPU or an emulated device, whose clocks are the machine's."""
    if device.kind != "gpu" or device.info.emulated:
        return None
    try:
        return _known.setdefault(device, GpuClocks())
    except TypeError:  # of another plugin, without weak references: it is asked anew in each test
        return GpuClocks()
