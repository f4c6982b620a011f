"""From a choice such as `cupy:1` to devices: looked up by name, opened once, at first use."""

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import cast

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.accelerators import ACCELERATOR, LIBRARIES, chosen_accelerator
from pytest_gpuperf.devices.capabilities import call_optional
from pytest_gpuperf.devices.cupy import CupyBackend
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.jax import JaxBackend
from pytest_gpuperf.devices.keras import KerasBackend
from pytest_gpuperf.devices.mlx import MlxBackend
from pytest_gpuperf.devices.protocol import Backend, TimedDevice
from pytest_gpuperf.devices.simulated import SimulatedBackend
from pytest_gpuperf.devices.stand_in import STAND_IN, chosen_stand_in, is_jax_on_cpu
from pytest_gpuperf.devices.sycl import SyclBackend
from pytest_gpuperf.devices.torch import TorchBackend
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import GpuPerfError, TooFewDevices, Unavailable
from pytest_gpuperf.model.other_names import remedy

_BACKENDS = (CupyBackend, SyclBackend, TorchBackend, JaxBackend, KerasBackend, MlxBackend)
_OWN_GPU = ("", "")  # its key among the opened devices
_GROUP = "group"  # the first part of the keys of several
_TURNED_OFF = "the GPU is turned off by --gpuperf-gpu=none; leave the option out to use it"
_MISSING = "install pytest-gpuperf[cuda13] (NVIDIA) or [sycl] (Intel), or pass --gpuperf-gpu=torch or jax"
_MORE = "more: gpuperf devices"


def backends(cpu_name: str, registered: Iterable[Backend]) -> list[Backend]:
    """Return every backend: our own, in the order in which `auto` tries them, then those of other plugins.

    A registered backend replaces our own of the same name.
    """
    built_in: list[Backend] = [backend(cpu_name) for backend in _BACKENDS]
    available = [*built_in, SimulatedBackend(), *registered]
    return list({backend.name: backend for backend in available}.values())


def selectors(backend: Backend) -> list[str]:
    """Return a selector for each device; just an empty one where a backend has one, or counts none."""
    # An error in it comes again, with its cause, when a device is opened.
    found: list[str] | None = call_optional(backend, "selectors", expected=list)
    if found is None:
        found = [str(index) for index in range(call_optional(backend, "count", otherwise=0, expected=int))]
    return found if len(found) > 1 else [""]


class Devices:
    """The two devices of a run; the GPU is probed at the first call of `gpu()` and never again.

    `choice` is `auto`, `none`, `NAME[:SELECTOR]`, a stand-in's or an accelerator's; a wrong one raises
    GpuPerfError, naming the valid ones.
    `broken` is why each GPU that is there, or a library for one, could not be used. Without a selector, the
    processes that share a run are spread over the devices by their number `worker`.
    """

    def __init__(self, choice: str, available: Sequence[Backend], worker: int | None = None) -> None:
        own: Backend | None = chosen_stand_in(choice) or chosen_accelerator(choice)
        name, _, self._selector = choice.partition(":")
        if own is not None:
            name, self._selector = own.name, ""
        known = [*available, own] if own else available
        self._available: dict[str, Backend] = {backend.name: backend for backend in known}
        self._first = available[0]  # compares with NumPy, as every backend of ours does that `auto` chooses
        self._worker = worker
        self._chosen = self._find(name)
        self._own_backend = self._chosen  # `auto` finds it later
        self._opened: dict[tuple[str, str], TimedDevice | Unavailable] = {}
        self.broken: list[str] = []
        self.off = name == "none"

    @property
    def missing(self) -> str | None:
        """Why the library that was chosen cannot be there at all, if it is one of our own backends'."""
        return call_optional(self._chosen, "missing", expected=str) if self._chosen else None

    def cpu(self) -> TimedDevice:
        """Return the CPU; opening it probes no GPU."""
        return self._open_once(("cpu", ""), (self._chosen or self._first).cpu)

    def gpu(self) -> TimedDevice:
        """Return the GPU; raise Unavailable, with the same cause every time, when none can be used."""
        return self._open_once(_OWN_GPU, self._open)

    def get(self, kind: Kind, library: str, selector: str) -> TimedDevice:
        """Return the device of a suite's own arrays; an empty library means the run's own.

        Raises Unavailable, with the same cause every time, and GpuPerfError for a selector that is wrong.
        """
        if kind == "gpu" and self.off:
            raise Unavailable(_TURNED_OFF)
        if kind == "gpu" and selector and not library:  # a bare `cuda:1`
            library = self._chosen.name if self._chosen else self.gpu().backend
            selector = f"cuda:{selector}" if library == "torch" else selector
        if not library or (kind == "gpu" and not selector and self._chosen and self._chosen.name == library):
            return self.gpu() if kind == "gpu" else self.cpu()
        key = (kind, library) if kind == "cpu" else (library, selector)
        return self._open_once(key, lambda: self._open_other(kind, library, selector))

    def group(self, count: int) -> DeviceGroup:
        """Return the run's own GPU and its neighbours, `count` in all, as one device.

        Raises Unavailable, with the same cause every time, when there are too few or none can be used.
        """
        self.gpu()
        return cast("DeviceGroup", self._open_once((_GROUP, str(count)), lambda: self._open_group(count)))

    @property
    def opened(self) -> TimedDevice | None:
        """The GPU, if a test has used one; the run's own, if there are several."""
        return next((gpu for gpu in self._gpus if not isinstance(gpu, Unavailable)), None)

    @property
    def all_opened(self) -> list[TimedDevice]:
        """All devices that a test has used, groups of them included."""
        return [device for device in self._opened.values() if not isinstance(device, Unavailable)]

    @property
    def reason(self) -> str | None:
        """Why there is no GPU, if a test has requested one."""
        return next((str(cause) for cause in self._gpus if isinstance(cause, Unavailable)), None)

    @property
    def _gpus(self) -> list[TimedDevice | Unavailable]:
        """The GPUs that were opened, or the causes why they could not be; the run's own first."""
        keys = sorted(self._opened, key=lambda key: key != _OWN_GPU)
        return [self._opened[key] for key in keys if key[0] not in ("cpu", _GROUP)]

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

    def _open_other(self, kind: Kind, library: str, selector: str) -> TimedDevice:
        if kind == "cpu" and library == "numpy":
            return self._first.cpu()
        backend = self._available.get(library) or chosen_accelerator(library)
        if backend is None:
            raise Unavailable(
                f"no backend supports {library}: it cannot be synchronized, so it cannot be timed"
            )
        if kind == "cpu":
            return backend.cpu()
        backend.check(selector)
        return backend.gpu(selector or self._selector_of_worker(backend))

    def _open_group(self, count: int) -> TimedDevice:
        backend = self._own_backend
        assert backend is not None  # noqa: S101 - the run's own GPU is open
        chosen = self._selector or self._selector_of_worker(backend)
        found = selectors(backend)
        if self._selector and count > 1:
            raise Unavailable(
                f"{units.count(count, 'device')} are needed, and --gpuperf-gpu names one; leave out the "
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
        if capabilities.is_lazy(devices[0]):
            problem = f"scaling is not measured with {backend.name}, which computes only what is read"
            raise Unavailable(f"{problem}; use JAX, torch or CuPy")
        make: Callable[[list[TimedDevice]], TimedDevice] = getattr(backend, "group", DeviceGroup)
        return make(devices)

    def _find(self, name: str) -> Backend | None:
        if name in ("auto", "none"):
            if self._selector:
                raise GpuPerfError(f"{name} takes no device, not {self._selector!r}")
            return None
        if name not in self._available:
            if name in LIBRARIES:
                whole = f"{name}:{self._selector}" if self._selector else name
                raise GpuPerfError(f"{name} is an accelerator and no backend; pass {ACCELERATOR}:{whole}")
            names = ", ".join(["auto", "none", *self._available, f"{STAND_IN}:MODULE", f"{ACCELERATOR}:NAME"])
            hint = remedy("backend", name, f"available: {names}")
            raise GpuPerfError(f"no backend is called {name!r}; {hint}")
        self._available[name].check(self._selector)
        return self._available[name]

    def _selector_of_worker(self, backend: Backend) -> str:
        """Return the selector of this process's device; empty for the backend's first."""
        if self._worker is None:
            return ""
        found = selectors(backend)
        return found[self._worker % len(found)]

    def _open(self) -> TimedDevice:
        if self.off:
            raise Unavailable(_TURNED_OFF)
        if self._chosen is not None:
            return self._chosen.gpu(self._selector or self._selector_of_worker(self._chosen))
        reasons: list[str] = []
        for backend in self._available.values():
            if backend.automatic:
                try:
                    device = backend.gpu(self._selector_of_worker(backend))
                except Unavailable as cause:
                    reasons += [] if cause.missing else [str(cause)]
                    self.broken += [str(cause)] if cause.broken else []
                else:
                    self._own_backend = backend
                    return device
        used = [
            name for name in ("keras", "torch", "jax") if name in sys.modules
        ]  # auto chooses none of them
        imported = [
            f"{name} is imported: gpuperf_gpu = {name} in the ini file compares its CPU and its GPU"
            for name in used
        ]
        if self.broken:  # a GPU is there: to mend it comes first
            raise Unavailable("; ".join([*reasons, *imported, _emulation(used)]))
        causes = [*imported, *reasons] or [_MISSING]
        raise Unavailable(f"no GPU found: {'; '.join([*causes, _emulation(used), _MORE])}")


def _emulation(used: Sequence[str]) -> str:
    """Return what to do without a GPU: with a library that the suite has imported, or JAX, else simulated."""
    if used:
        return f"emulated: --gpuperf-gpu={used[0]}:cpu"
    return f"emulated: --gpuperf-gpu={'standin:jax.numpy' if find_spec('jax') else 'simulated'}"
