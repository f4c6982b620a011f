"""The devices of a run: opened once, at first use, as its choice says; one may be lost."""

import gc
from collections.abc import Callable, Iterable
from typing import cast

from msgspec.structs import replace

from pytest_gpuperf.devices import capabilities, doubts, environment
from pytest_gpuperf.devices.choice import Choice, selectors
from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.protocol import Backend, TimedDevice
from pytest_gpuperf.devices.stand_in import is_jax_on_cpu
from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import Fault, TooFewDevices, Unavailable
from pytest_gpuperf.model.plain_text import first_line
from pytest_gpuperf.model.record import Clocks, Environment

_OWN_CPU, _OWN_GPU = ("cpu", ""), ("", "")  # their keys among the opened devices
_GROUP = "group"  # the first part of the keys of several
_TURNED_OFF = "the GPU is turned off by {}; leave the option out to use it"


class Machine:
    """The devices of a run; each is opened, and a GPU probed, at first use and never again.

    The arguments are those of a `Choice`. `lost` names the test that lost the GPU, if one has. `broken` is
    why each GPU that is there, or a library for one, could not be used.
    """

    def __init__(
        self,
        name: str,
        registered: Callable[[], Iterable[Backend]] = tuple,
        worker: int | None = None,
        setting: str | None = None,
        *,
        required: bool = False,
    ) -> None:
        doubts.forget()
        self.choice = Choice(name, registered, worker, setting, required=required)
        self.lost: str | None = None
        self.broken: list[str] = []
        self._found: Backend | None = None  # by `auto`
        self._opened: dict[tuple[str, str], TimedDevice | Unavailable] = {}
        self._last_used: TimedDevice | None = None  # of the GPUs
        self._worker_environment: Environment | None = None
        self._clocks_at_start: Clocks | None = None

    def cpu(self, spec: DeviceSpec | None = None) -> TimedDevice:
        """Return the CPU of a spec's library, or the run's own; opening it probes no GPU."""
        if spec is None or not spec.library:
            return self._open_once(_OWN_CPU, self._own_cpu)
        return self._open_once(("cpu", spec.library), lambda: self._other_cpu(spec.library))

    def gpu(self, spec: DeviceSpec | None = None) -> TimedDevice:
        """Return the GPU of a spec's library, or the run's own.

        Raises Unavailable, with the same cause every time, and GpuPerfError for a selector that is wrong. Its
        clocks are read when the first GPU is opened, before any work warms it up.
        """
        is_first = self._gpu_in_use is None
        library, selector = (spec.library, spec.selector) if spec and not self.choice.is_off else ("", "")
        chosen = self.choice.backend.name if self.choice.backend else None
        if selector and not library:  # a bare `cuda:1`
            library = chosen or self.gpu().backend
            selector = f"cuda:{selector}" if library == "torch" else selector
        if not library or (not selector and library == chosen):
            gpu = self._open_once(_OWN_GPU, self._own_gpu)
        else:
            gpu = self._open_once((library, selector), lambda: self._other_gpu(library, selector))
        if is_first:
            self._clocks_at_start = gpu.clocks()
        self._make_room_for(gpu)
        return gpu

    def has_gpu(self, spec: DeviceSpec | None = None) -> bool:
        """Return whether that GPU can be used."""
        try:
            return self.gpu(spec) is not None
        except Unavailable:
            return False

    def group(self, count: int) -> DeviceGroup:
        """Return the run's own GPU and its neighbours, `count` in all, as one device.

        Raises Unavailable, with the same cause every time, when there are too few or none can be used.
        """
        self.gpu()
        return cast("DeviceGroup", self._open_once((_GROUP, str(count)), lambda: self._open_group(count)))

    def most_processes(self) -> int:
        """Return how many processes can have a GPU of the run's each; raise Unavailable without one.

        Those that emulate one share the processors.
        """
        if self.gpu().info.emulated:
            return max(2, int(environment.usable_processors()))
        backend = self.choice.backend or self._found
        return 1 if self.choice.selector or backend is None else len(selectors(backend))

    def fault(self, error: BaseException, nodeid: str, device: TimedDevice | None = None) -> Fault | None:
        """Return what an exception of any test means for the GPU, and remember a lost one."""
        for gpu in (self._gpu_in_use, device):
            # Every wait for a lost one would raise.
            fault = gpu.fault(error) if gpu and self.lost else capabilities.fault(gpu, error)
            if gpu and fault and fault.kind == "lost" and self.lost is None:
                self.lost = f"the {gpu.info.noun} ({gpu.info.name}) was lost in {nodeid}: {first_line(error)}"
            if fault is not None:
                return fault
        return None

    def release(self) -> None:
        """Free the memory of a failed test, on all devices."""
        gc.collect()  # a traceback keeps its arrays in reference cycles
        self._release_all_but(None)

    def _make_room_for(self, gpu: TimedDevice) -> None:
        """Free what the libraries of earlier tests keep on the GPU, which may be all of its memory."""
        if gpu is not self._last_used:
            self._last_used = gpu
            self._release_all_but(gpu)

    def _release_all_but(self, kept: TimedDevice | None) -> None:
        if self.lost is None:  # every call of a lost CUDA context raises
            for device in self._opened.values():
                if not isinstance(device, Unavailable) and device is not kept:
                    device.release()

    def use_worker_environment(self, worker: Environment) -> None:
        """Take the environment of a worker process, whose measurements these are; one with a GPU counts."""
        if self._worker_environment is None or worker.gpu is not None:
            self._worker_environment = worker

    def environment(self) -> Environment:
        """Return the environment of the measurements."""
        if self._worker_environment is not None:
            return self._worker_environment
        gpu = self._gpu_in_use
        if gpu is None:
            causes = (str(cause) for cause in self._gpus if isinstance(cause, Unavailable))
            return environment.survey(None, next(causes, self.choice.missing()))
        clocks = None if self.lost else gpu.clocks()
        reason = None
        if clocks is None:
            reason = gpu.clocks_reason or f"{gpu.backend} does not report its clocks"
        here = environment.survey(gpu.info, None)
        start = self._clocks_at_start
        return replace(here, clocks_at_start=start, clocks_at_end=clocks, clocks_reason=reason)

    @property
    def _gpu_in_use(self) -> TimedDevice | None:
        """The GPU, if a test has used one; the run's own, if there are several."""
        return next((gpu for gpu in self._gpus if not isinstance(gpu, Unavailable)), None)

    @property
    def _gpus(self) -> list[TimedDevice | Unavailable]:
        """The GPUs that were opened, or why they could not be; the run's own first, and groups, after it."""
        keys = sorted(self._opened, key=lambda key: key != _OWN_GPU)
        return [self._opened[key] for key in keys if key[0] != "cpu"]

    def _open_once(self, key: tuple[str, str], open_device: Callable[[], TimedDevice]) -> TimedDevice:
        if key not in self._opened:
            try:
                self._opened[key] = open_device()
            except Unavailable as cause:
                self._opened[key] = cause
                self.broken += [str(cause)] if cause.broken else []
        device = self._opened[key]
        if isinstance(device, Unavailable):
            raise type(device)(str(device), broken=device.broken)  # the first one's traceback would grow
        return device

    def _own_cpu(self) -> TimedDevice:
        return (self.choice.backend or self.choice.first).cpu()

    def _own_gpu(self) -> TimedDevice:
        if self.choice.is_off:
            raise Unavailable(_TURNED_OFF.format(self.choice.setting))
        if (chosen := self.choice.backend) is not None:
            return self._opened_by(chosen, self.choice.selector_of(chosen))
        reasons: list[str] = []
        for backend in self.choice.automatic:
            try:
                device = backend.gpu(self.choice.selector_of(backend))
            except Unavailable as cause:
                reasons += [] if cause.missing else [str(cause)]
                self.broken += [str(cause)] if cause.broken else []
            else:
                self._found = backend
                return device
        raise self.choice.none_found(reasons, is_broken=bool(self.broken))

    def _other_cpu(self, library: str) -> TimedDevice:
        return (self.choice.first if library == "numpy" else self.choice.other(library)).cpu()

    def _other_gpu(self, library: str, selector: str) -> TimedDevice:
        backend = self.choice.other(library)
        backend.check(selector)
        return self._opened_by(backend, selector or self.choice.selector_of(backend))

    def _opened_by(self, backend: Backend, selector: str) -> TimedDevice:
        """Open a backend's GPU. Without one, raise Unavailable, which names the option that emulates one."""
        try:
            return backend.gpu(selector)
        except Unavailable as cause:
            if cause.missing or cause.broken or not self.choice.may_emulate(backend):
                raise
            # First what to do: a table cuts what is long.
            raise Unavailable(f"no GPU (--gpuperf-gpu={backend.name}:cpu emulates one): {cause}") from cause

    def _open_group(self, count: int) -> TimedDevice:
        backend = self.choice.backend or self._found
        assert backend is not None  # noqa: S101 - the run's own GPU is open
        chosen = self.choice.selector_of(backend)
        found = selectors(backend)
        if self.choice.selector and count > 1:
            raise Unavailable(
                f"{units.count(count, 'device')} are needed, and {self.choice.setting} names one; leave out "
                f"the selector {self.choice.selector!r}"
            )
        if count > len(found):
            problem = (
                f"{count} devices are needed, and {backend.name} shows {units.count(len(found), 'device')}"
            )
            if is_jax_on_cpu(backend):
                problem += "; set JAX_NUM_CPU_DEVICES, before JAX is used, to emulate more"
            raise TooFewDevices(problem)
        first = found.index(chosen) if chosen in found else 0
        others = [*found[first + 1 :], *found[:first]][: count - 1]
        devices = [self.gpu(), *map(backend.gpu, others)]
        if devices[0].submit is not None:
            problem = f"scaling is not measured with {backend.name}, which computes only what is read"
            raise Unavailable(f"{problem}; use JAX, torch or CuPy")
        return backend.group(devices)
