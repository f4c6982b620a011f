"""What a CPU variant leaves for its GPU variant."""

from dataclasses import dataclass

from pytest_gpuperf.model.measurement import Interference, Measurement
from pytest_gpuperf.model.roof import DeviceRoof
from pytest_gpuperf.work.device_work import CpuWork
from pytest_gpuperf.work.values import Leaf


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuResult:
    """What a CPU variant leaves for its GPU variant: its measurement, and its results on the host.

    Its samples took so many `seconds`. What its calls did is `work`, where somebody looked. With a
    `restart_reason`, earlier samples were discarded. `roof` is how near its calls are to the CPU's roof.
    """

    measurement: Measurement
    seconds: float
    results: list[list[Leaf]]
    interference: Interference | None
    restart_reason: str | None
    work: CpuWork | None = None
    roof: DeviceRoof | None = None
