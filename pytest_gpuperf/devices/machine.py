"""The devices of a run: chosen by a name such as `cupy:1`, opened once, at first use; one may be lost."""

import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import cast

from msgspec.structs import replace

from pytest_gpuperf.devices import capabilities, doubts, environment
from pytest_gpuperf.devices.accelerators import ACCELERATOR, LIBRARIES, chosen_accelerator
from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.protocol import Backend, TimedDevice
from pytest_gpuperf.devices.registry import EMULATED, REGISTRY
from pytest_gpuperf.devices.stand_in import STAND_IN, chosen_stand_in, is_jax_on_cpu
from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import Fault, GpuPerfError, TooFewDevices, Unavailable, is_outcome
from pytest_gpuperf.model.other_names import remedy
from pytest_gpuperf.model.plain_text import first_line
from pytest_gpuperf.model.record import Clocks, Environment

_OWN_CPU, _OWN_GPU = ("cpu", ""), ("", "")  # their keys among the opened devices
_ON_EITHER = tuple(row.name for row in REGISTRY if row.is_on_either)
_GROUP = "group"  # the first part of the keys of several
_TURNED_OFF = "the GPU is turned off by {}; leave the option out to use it"
_MISSING = "install pytest-gpuperf[cuda13] (NVIDIA) or [sycl] (Intel), or pass --gpuperf-gpu=torch or jax"
_MORE = "more: gpuperf devices"


def backends(registered: Iterable[Backend] = ()) -> dict[str, Backend]:
    """Return every backend by its name: our own, and other plugins', which replace one of that name."""
    built_in: list[Backend] = [row.backend() for row in REGISTRY]
    return {backend.name: backend for backend in [*built_in, *registered]}


def selectors(backend: Backend) -> list[str]:
    """Return a selector for each device; just an empty one where a backend has one, or counts none."""
    found = _listed(backend)
    return found if len(found) > 1 else [""]


def _listed(backend: Backend) -> list[str]:
    """Return a selector for each device that a backend shows or counts; the run tells what else it raises."""
    try:
        return [*backend.selectors()]
    except GpuPerfError:
        pass  # it comes again, with its cause, when a device is opened
    except Exception as error:
        if is_outcome(error):
            raise
        is_counted = type(backend).selectors is Backend.selectors
        doubts.note(backend, "count" if is_counted else "selectors", f"raised {first_line(error)}")
    return []


class Machine:
    """The devices of a run; each is opened, and a GPU probed, at first use and never again.

    `choice` is `auto`, `none`, `NAME[:SELECTOR]`, a stand-in's or an accelerator's. `registered` returns
    other plugins' backends and is called once, at the first use of a device: hooks must not run before.
    Without a selector, the processes that share a run are spread over the devices by their number `worker`.
    `setting` is how the user wrote the choice: an option, unless it says otherwise. Where a GPU is `required`
    no reason for a missing one tells to emulate it.

    `lost` names the test that lost the GPU, if one has. `broken` is why each GPU that is there, or a library
    for one, could not be used.
    """

    def __init__(
        self,
        choice: str,
        registered: Callable[[], Iterable[Backend]] = tuple,
        worker: int | None = None,
        setting: str | None = None,
        *,
        required: bool = False,
    ) -> None:
        doubts.forget()
        self.setting = setting or f"--gpuperf-gpu={choice}"
        self.off = choice == "none"
        self.lost: str | None = None
        self.broken: list[str] = []
        self._choice = choice
        self._registered = registered
        self._worker = worker
        self._required = required
        self._found: Backend | None = None  # by `auto`
        self._opened: dict[tuple[str, str], TimedDevice | Unavailable] = {}
        self._last_used: TimedDevice | None = None  # of the GPUs
        self._worker_environment: Environment | None = None
        self._clocks_at_start: Clocks | None = None

    def missing(self) -> str | None:
        """Return why the library that was chosen cannot be there at all; this imports nothing.

        None where it is installed, or where a backend does not say. Raises GpuPerfError, with the valid ones,
        for a choice that nobody offers.
        """
        return self._chosen.missing() if self._chosen else None

    def emulates(self) -> bool:
        """Return whether the choice emulates a GPU, as its backend says; this opens nothing."""
        return self._chosen is not None and self._chosen.is_emulation(self._selector)

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
        library, selector = (spec.library, spec.selector) if spec and not self.off else ("", "")
        if selector and not library:  # a bare `cuda:1`
            library = self._chosen.name if self._chosen else self.gpu().backend
            selector = f"cuda:{selector}" if library == "torch" else selector
        if not library or (not selector and self._chosen and self._chosen.name == library):
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
            return environment.survey(None, next(causes, self.missing()))
        clocks = None if self.lost else gpu.clocks()
        reason = None
        if clocks is None:
            reason = gpu.clocks_reason or f"{gpu.backend} does not report its clocks"
        here = environment.survey(gpu.info, None)
        start = self._clocks_at_start
        return replace(here, clocks_at_start=start, clocks_at_end=clocks, clocks_reason=reason)

    @cached_property
    def _whole(self) -> Backend | None:
        """What is chosen by a name that has its device in it: a stand-in, or an accelerator."""
        return chosen_stand_in(self._choice) or chosen_accelerator(self._choice)

    @cached_property
    def _available(self) -> dict[str, Backend]:
        return backends([*self._registered(), *filter(None, [self._whole])])

    @property
    def _first(self) -> Backend:
        """The backend whose CPU is NumPy's, as is that of each that `auto` chooses."""
        return next(iter(self._available.values()))

    @property
    def _selector(self) -> str:
        """The device that is chosen of the backend; empty for any."""
        return "" if self._whole else self._choice.partition(":")[2]

    @cached_property
    def _chosen(self) -> Backend | None:
        """The backend that is chosen; None for `auto` and `none`."""
        name = self._whole.name if self._whole else self._choice.partition(":")[0]
        if name in ("auto", "none"):
            if self._selector:
                raise GpuPerfError(f"{name} takes no device, not {self._selector!r}")
            return None
        if name not in self._available:
            if name in LIBRARIES:
                accelerator = f"{ACCELERATOR}:{self._choice}"
                raise GpuPerfError(f"{name} is an accelerator and no backend; pass {accelerator}")
            names = ["auto", "none", *self._available, f"{STAND_IN}:MODULE", f"{ACCELERATOR}:NAME"]
            hint = remedy("backend", name, names, f"available: {', '.join(names)}")
            raise GpuPerfError(f"no backend is called {name!r}; {hint}")
        self._available[name].check(self._selector)
        return self._available[name]

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
        return (self._chosen or self._first).cpu()

    def _own_gpu(self) -> TimedDevice:
        if self.off:
            raise Unavailable(_TURNED_OFF.format(self.setting))
        if self._chosen is not None:
            return self._opened_by(self._chosen, self._selector or self._selector_of_worker(self._chosen))
        reasons: list[str] = []
        for backend in self._available.values():
            if backend.automatic:
                try:
                    device = backend.gpu(self._selector_of_worker(backend))
                except Unavailable as cause:
                    reasons += [] if cause.missing else [str(cause)]
                    self.broken += [str(cause)] if cause.broken else []
                else:
                    self._found = backend
                    return device
        # auto chooses none of them
        used = [name for name in _ON_EITHER if name in sys.modules]
        seeing = [name for name in used if _listed(self._available[name])]
        imported = [
            f"{name} {'sees a GPU' if name in seeing else 'is imported'}: gpuperf_gpu = {name} in the ini "
            "file compares its CPU and its GPU"
            for name in seeing or used
        ]
        emulation = [] if self._required else [_emulation(used)]
        if self.broken:  # a GPU is there: to mend it comes first
            raise Unavailable("; ".join([*reasons, *imported, *emulation]))
        if seeing:
            raise Unavailable("; ".join(["auto chooses no library that replaces NumPy", *imported, _MORE]))
        # What suits the suite stands first: a table cuts what is long.
        said = [*imported, *emulation, *reasons] if used else [*(reasons or [_MISSING]), *emulation]
        raise Unavailable(f"no GPU found: {'; '.join([*said, _MORE])}")

    def _other(self, library: str) -> Backend:
        backend = self._available.get(library) or chosen_accelerator(library)
        if backend is None:
            problem = f"no backend supports {library}"
            raise Unavailable(f"{problem}: it cannot be synchronized, so it cannot be timed")
        return backend

    def _other_cpu(self, library: str) -> TimedDevice:
        return (self._first if library == "numpy" else self._other(library)).cpu()

    def _other_gpu(self, library: str, selector: str) -> TimedDevice:
        backend = self._other(library)
        backend.check(selector)
        return self._opened_by(backend, selector or self._selector_of_worker(backend))

    def _opened_by(self, backend: Backend, selector: str) -> TimedDevice:
        """Open a backend's GPU. Without one, raise Unavailable, which names the option that emulates one."""
        try:
            return backend.gpu(selector)
        except Unavailable as cause:
            is_no_remedy = self._required or self._whole is not None
            if cause.missing or cause.broken or is_no_remedy or backend.name not in EMULATED:
                raise
            # First what to do: a table cuts what is long.
            raise Unavailable(f"no GPU (--gpuperf-gpu={backend.name}:cpu emulates one): {cause}") from cause

    def _open_group(self, count: int) -> TimedDevice:
        backend = self._chosen or self._found
        assert backend is not None  # noqa: S101 - the run's own GPU is open
        chosen = self._selector or self._selector_of_worker(backend)
        found = selectors(backend)
        if self._selector and count > 1:
            raise Unavailable(
                f"{units.count(count, 'device')} are needed, and {self.setting} names one; leave out the "
                f"selector {self._selector!r}"
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

    def _selector_of_worker(self, backend: Backend) -> str:
        """Return the selector of this process's device; empty for the backend's first."""
        if self._worker is None:
            return ""
        found = selectors(backend)
        return found[self._worker % len(found)]


def _emulation(used: Sequence[str]) -> str:
    """Return what to do without a GPU: with a library that the suite has imported, or JAX, else simulated."""
    if used:
        return f"--gpuperf-gpu={used[0]}:cpu emulates one"
    return f"--gpuperf-gpu={'standin:jax.numpy' if find_spec('jax') else 'simulated'} emulates one"
