"""The two sides of a comparison: of each a timer, or what a CPU variant left."""

from dataclasses import dataclass

from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model.measurement import Interference
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.cpu_result import CpuResult


@dataclass(slots=True, kw_only=True)
class Sides:
    """What one test measures. In a scaling test both sides are groups of GPUs.

    Where the demand is on `latency`, samples of single calls count, else those of blocks. `device` was
    used last. `called` names sides other than a CPU and a GPU.
    """

    latency: bool
    called: tuple[str, str] | None = None
    cpu: BlockTimer | CpuResult | None = None
    gpu: BlockTimer | None = None
    device: TimedDevice | None = None

    @property
    def timers(self) -> list[BlockTimer]:
        """The timers of the devices that this test measures: of the CPU first."""
        return [side for side in (self.cpu, self.gpu) if isinstance(side, BlockTimer)]

    @property
    def at_work(self) -> TimedDevice | None:
        """The device of a block that has begun and not ended, else the one that was used last."""
        return next((timer.device for timer in self.timers if timer.is_running), self.device)

    @property
    def other_library(self) -> str | None:
        """The library, of torch and JAX, that made arrays of the first result; None for the device's own."""
        return self.timers[0].workload.other_library

    @property
    def are_both(self) -> bool:
        """Whether there is something to compare."""
        return self.cpu is not None and self.gpu is not None

    @property
    def names(self) -> tuple[str, str]:
        """What both sides are called: `the CPU` and `the GPU`, or `1 device` and `2 devices`."""
        return self.called or ("the CPU", f"the {self.gpu.device.info.noun if self.gpu else 'GPU'}")

    @property
    def is_busy(self) -> bool:
        """Whether other work disturbed the samples of either device."""
        return bool(self.interference(self.cpu) or self.interference(self.gpu))

    def sampled(self, timer: BlockTimer) -> BlockTimer:
        """Return the timer of the mode that the demand is on: of blocks, or of single calls."""
        # Not `per_call`: without latencies so far, a record must not take any.
        return timer.per_call_timer or timer if self.latency else timer

    def interference(self, side: BlockTimer | CpuResult | None) -> Interference | None:
        """Return what disturbed the samples of a side that count for the demand."""
        counting = self.sampled(side) if isinstance(side, BlockTimer) else side
        return counting.interference if counting else None

    def release(self) -> None:
        """Drop every reference that may keep arrays of the devices alive."""
        self.cpu = self.gpu = None
