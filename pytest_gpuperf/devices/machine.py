"""The devices of a run: opened lazily; remembers a lost GPU and describes the environment."""

import gc
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from pytest_gpuperf.devices import capabilities, environment
from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.protocol import Backend, TimedDevice
from pytest_gpuperf.devices.registry import Devices, backends
from pytest_gpuperf.model.errors import Fault, Unavailable
from pytest_gpuperf.model.plain_text import first_line
from pytest_gpuperf.model.record import Clocks, Environment


class Machine:
    """The devices of a run; `lost` names the test that lost the GPU, if one has.

    `registered` returns other plugins' backends and is called once, at the first use of a device: hooks must
    not run before. `worker` is the number of this process among those that share a run.
    """

    def __init__(
        self, choice: str, registered: Callable[[], Iterable[Backend]], worker: int | None = None
    ) -> None:
        self.lost: str | None = None
        self._choice = choice
        self._registered = registered
        self._worker = worker
        self._devices: Devices | None = None
        self._worker_environment: Environment | None = None
        self._clocks_at_start: Clocks | None = None

    @property
    def devices(self) -> Devices:
        """The devices, from our own and the registered backends; raises GpuPerfError for a wrong choice."""
        if self._devices is None:
            available = backends(environment.cpu_name(), self._registered())
            self._devices = Devices(self._choice, available, self._worker)
        return self._devices

    def cpu(self, spec: DeviceSpec | None = None) -> TimedDevice:
        """Return the CPU of a spec's library, or the run's own."""
        return self.devices.get("cpu", spec.library, spec.selector) if spec else self.devices.cpu()

    def gpu(self, spec: DeviceSpec | None = None) -> TimedDevice:
        """Return the GPU of a spec's library, or the run's own; raise Unavailable.

        Its clocks are read when the first GPU is opened, before any work warms it up.
        """
        first = self.devices.opened is None
        gpu = self.devices.get("gpu", spec.library, spec.selector) if spec else self.devices.gpu()
        if first:
            self._clocks_at_start = capabilities.clocks(gpu)
        return gpu

    def group(self, count: int) -> DeviceGroup:
        """Return the run's own GPU and others, `count` in all, as one device; raise Unavailable."""
        self.gpu()
        return self.devices.group(count)

    def has_gpu(self, spec: DeviceSpec | None = None) -> bool:
        """Return whether that GPU can be used."""
        try:
            return self.gpu(spec) is not None
        except Unavailable:
            return False

    def fault(self, error: BaseException, nodeid: str, device: TimedDevice | None = None) -> Fault | None:
        """Return what an exception of any test means for the GPU, and remember a lost one."""
        opened = self._devices.opened if self._devices else None
        for gpu in (opened, device):
            # A defect in another plugin's backend must not hide the test's own error.
            fault: Fault | None
            if self.lost is None:
                fault = capabilities.fault(gpu, error)
            else:  # every wait for it would raise
                fault = capabilities.call_optional(gpu, "fault", error)
            if gpu and fault and fault.kind == "lost" and self.lost is None:
                self.lost = f"the GPU ({gpu.info.name}) was lost in {nodeid}: {first_line(error)}"
            if fault is not None:
                return fault
        return None

    def release(self) -> None:
        """Free the memory of a failed test, on all devices."""
        gc.collect()  # a traceback keeps its arrays in reference cycles
        if self.lost is None:  # every call of a lost CUDA context raises
            for device in self.devices.all_opened:
                device.release()

    def use_worker_environment(self, worker: Environment) -> None:
        """Take the environment of a worker process, whose measurements these are; one with a GPU counts."""
        if self._worker_environment is None or worker.gpu is not None:
            self._worker_environment = worker

    def environment(self) -> Environment:
        """Return the environment of the measurements."""
        if self._worker_environment is not None:
            return self._worker_environment
        gpu = self._devices.opened if self._devices else None
        if gpu is None:
            return environment.survey(None, self._devices.reason if self._devices else None)
        clocks = None if self.lost else capabilities.clocks(gpu)
        reason = None
        if clocks is None:
            reason = getattr(gpu, "clocks_reason", None) or f"{gpu.backend} does not report its clocks"
        here = environment.survey(gpu.info, None)
        start = self._clocks_at_start
        return replace(here, clocks_at_start=start, clocks_at_end=clocks, clocks_reason=reason)
