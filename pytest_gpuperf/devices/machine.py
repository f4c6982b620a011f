"""The devices of a run: opened at first use, lost at most once, and surveyed at the end."""

import gc
from collections.abc import Callable, Iterable

from pytest_gpuperf.devices import capabilities, environment, errors
from pytest_gpuperf.devices.protocol import Backend, TimedDevice
from pytest_gpuperf.devices.registry import Devices, backends
from pytest_gpuperf.devices.spec import DeviceSpec
from pytest_gpuperf.model.errors import Fault, Unavailable
from pytest_gpuperf.model.record import Clocks, Environment

__all__ = ["Machine"]


class Machine:
    """What a run measures on; `lost` says which test lost the GPU, if one has.

    `registered` is asked once for other plugins' backends. `worker` is the number of this process among those
    that share a run.
    """

    def __init__(
        self, choice: str, registered: Callable[[], Iterable[Backend]], worker: int | None = None
    ) -> None:
        self.lost: str | None = None
        self._choice = choice
        self._registered = registered
        self._worker = worker
        self._devices: Devices | None = None
        self._elsewhere: Environment | None = None
        self._clocks_at_start: Clocks | None = None

    @property
    def devices(self) -> Devices:
        """The devices, from all backends that plugins registered; raises GpuPerfError for a wrong choice."""
        if self._devices is None:
            everyone = backends(environment.cpu_name(), self._registered())
            self._devices = Devices(self._choice, everyone, self._worker)
        return self._devices

    def cpu(self, side: DeviceSpec | None = None) -> TimedDevice:
        """Return the CPU that a side works on, or the run's own."""
        return self.devices.of("cpu", side.library, side.selector) if side else self.devices.cpu()

    def gpu(self, side: DeviceSpec | None = None) -> TimedDevice:
        """Return the GPU that a side works on, or the run's own; raise Unavailable.

        The clocks are remembered as they were at first.
        """
        first = self.devices.opened is None
        gpu = self.devices.of("gpu", side.library, side.selector) if side else self.devices.gpu()
        if first:
            self._clocks_at_start = capabilities.clocks(gpu)
        return gpu

    def has_gpu(self, side: DeviceSpec | None = None) -> bool:
        """Say whether that GPU can be used."""
        try:
            return self.gpu(side) is not None
        except Unavailable:
            return False

    def fault(self, error: BaseException, nodeid: str, device: TimedDevice | None = None) -> Fault | None:
        """Say what an exception of any test means for the GPU, and remember a lost one."""
        opened = self._devices.opened if self._devices else None
        for gpu in (opened, device):
            found = errors.fault_of(gpu, error)
            if gpu and found and found.kind == "lost" and self.lost is None:
                self.lost = f"the GPU ({gpu.name}) was lost in {nodeid}: {errors.first_line(error)}"
            if found is not None:
                return found
        return None

    def release(self) -> None:
        """Free what a failed test held, on both devices."""
        gc.collect()
        if self.lost is None:
            self.devices.cpu().release()
            if self.devices.opened is not None:
                self.devices.opened.release()

    def learn(self, there: Environment) -> None:
        """Take the environment that another process measured in."""
        if self._elsewhere is None or there.gpu is not None:
            self._elsewhere = there

    def surveyed(self) -> Environment:
        """Return the environment of the measurements."""
        if self._elsewhere is not None:
            return self._elsewhere
        gpu = self._devices.opened if self._devices else None
        if gpu is None:
            return environment.survey(None, self._devices.reason if self._devices else None)
        now = None if self.lost else capabilities.clocks(gpu)
        reason = (
            None if now else getattr(gpu, "clocks_reason", None) or f"{gpu.backend} does not tell its clocks"
        )
        return environment.survey(
            gpu.info, None, clocks_at_start=self._clocks_at_start, clocks_at_end=now, clocks_reason=reason
        )
