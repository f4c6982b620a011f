"""How near a call is to its device's roof: what a plain copy of as many bytes takes there."""

from typing import Literal

from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.plain_text import keep_plain
from pytest_gpuperf.model.value import Bandwidth, Bytes, Seconds, Value

_MOST_BYTES = 2**63  # beyond are those of files that lie


class DeviceRoof(Value, frozen=True, kw_only=True):
    """The bytes that a call moves on one device, and how near it is to the device's roof."""

    bytes: Bytes
    """Bytes that a call reads and writes, each array once."""
    bandwidth: Bandwidth | None
    """These bytes over the median seconds of a call, without transfers; null when no call was timed."""
    copy_time: Seconds | None = None
    """Seconds of a plain copy on the device that reads and writes as many bytes in all, repeated; null
    where none was timed."""
    bandwidth_limited: bool = False
    """Whether bandwidth limits that copy: it takes at least three times as long as one of 4 KiB."""
    share: Estimate | None = None
    """Share of the roof: seconds of the copy over those of a call, with the range of the stretches; null
    where bandwidth does not limit the copy."""
    cache_resident: bool = False
    """Whether a call is faster than that copy while the bytes fit into a cache: a copy of eight times as many
    has a lower bandwidth."""


class Roof(Value, frozen=True, kw_only=True):
    """How near both sides of a test are to the roofs of their devices."""

    asked: bool = False
    """Whether copies to compare with were asked for."""
    source: Literal["marker", "arrays"] | None
    """Who tells the bytes: `bytes=` of the marker, or the arrays that are known; null where nothing does."""
    cpu: DeviceRoof | None = None
    """On the CPU; null where its bytes are not known."""
    gpu: DeviceRoof | None = None
    """On the GPU; null where its bytes are not known."""
    reason: str | None = None
    """Why a side is null or has no share."""

    def __post_init__(self) -> None:
        """Keep what a device says from steering a terminal."""
        keep_plain(self, "reason")

    @property
    def of_bandwidths(self) -> float | None:
        """The bandwidth of the GPU's copy over that of the CPU's; None where a share is not known."""
        cpu, gpu = self.cpu, self.gpu
        if not (cpu and gpu and cpu.share and gpu.share and cpu.copy_time and gpu.copy_time and cpu.bytes):
            return None
        if max(cpu.bytes, gpu.bytes) > _MOST_BYTES:
            return None
        return (gpu.bytes / gpu.copy_time) / (cpu.bytes / cpu.copy_time)

    @property
    def of_bytes(self) -> float:
        """The bytes that the CPU's call moves over those of the GPU's; 1 where one is not known."""
        sizes = [side.bytes for side in (self.cpu, self.gpu) if side and 0 < side.bytes <= _MOST_BYTES]
        return sizes[0] / sizes[1] if len(sizes) == 2 else 1.0
