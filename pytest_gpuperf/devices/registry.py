"""From a choice such as `cupy:1` to devices: found by name, opened once, at first use."""

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from pytest_gpuperf.devices.protocol import Backend, TimedDevice
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable

__all__ = ["Devices", "backends"]

_CPU_NAMED = {"cupy": "CupyBackend", "sycl": "SyclBackend", "torch": "TorchBackend", "jax": "JaxBackend"}
_BY_NAME_ONLY = ("torch", "jax")
_TURNED_OFF = "the GPU is turned off by --gpuperf-gpu=none; leave the option out to use it"
_MISSING = (
    "no GPU library that auto may choose is installed; install pytest-gpuperf[cuda12] or "
    "pytest-gpuperf[cuda13] for an NVIDIA GPU, or pytest-gpuperf[sycl] for an Intel GPU; torch and JAX are "
    "chosen by name, as in --gpuperf-gpu=torch"
)


def backends(cpu_name: str, registered: Iterable[Backend]) -> list[Backend]:
    """Return every backend: ours, in the order in which `auto` tries them, then those of other plugins.

    A registered backend takes the place of ours with the same name.
    """
    from pytest_gpuperf.devices.simulated import SimulatedBackend

    ours: list[Backend] = [
        getattr(import_module(f"pytest_gpuperf.devices.{name}"), backend)(cpu_name)
        for name, backend in _CPU_NAMED.items()
    ]
    everyone: list[Backend] = [*ours, SimulatedBackend(), *registered]
    return list({backend.name: backend for backend in everyone}.values())


class Devices:
    """The two devices of a run; the GPU is probed at the first call of `gpu()` and never again.

    `choice` is `auto`, `none` or `NAME[:SELECTOR]`; a wrong one raises GpuPerfError, naming the valid ones.
    Where no selector is chosen, the processes that share a run have a device each, by their number `worker`;
    when there are more of them, they share the devices.
    """

    def __init__(self, choice: str, available: Sequence[Backend], worker: int | None = None) -> None:
        name, _, self._selector = choice.partition(":")
        self._available = available
        self._worker = worker
        self._chosen = self._find(name)
        self._cpu: TimedDevice | None = None
        self._gpu: TimedDevice | None = None
        self._reason: str | None = None
        self._others: dict[tuple[str, str], TimedDevice | Unavailable] = {}
        self.off = name == "none"

    def cpu(self) -> TimedDevice:
        """Return the CPU side; opening it probes no GPU."""
        if self._cpu is None:
            self._cpu = (self._chosen or self._available[0]).cpu()
        return self._cpu

    def gpu(self) -> TimedDevice:
        """Return the GPU; raise Unavailable, the same every time, when there is none to use."""
        if self._gpu is None and self._reason is None:
            try:
                self._gpu = self._open()
            except Unavailable as cause:
                self._reason = str(cause)
        if self._gpu is None:
            raise Unavailable(self._reason)
        return self._gpu

    def of(self, kind: Kind, library: str, selector: str) -> TimedDevice:
        """Return the device of a suite's own arrays; an empty library means the run's own.

        Raises Unavailable, the same every time, and GpuPerfError for a library that no backend is for.
        """
        if kind == "gpu" and self.off:
            raise Unavailable(_TURNED_OFF)
        if kind == "gpu" and selector and not library:  # just `cuda:1`
            library = self._chosen.name if self._chosen else self.gpu().backend
            selector = f"cuda:{selector}" if library == "torch" else selector
        if not library or (kind == "gpu" and not selector and self._chosen and self._chosen.name == library):
            return self.gpu() if kind == "gpu" else self.cpu()
        place = (kind, library) if kind == "cpu" else (library, selector)
        if place not in self._others:
            self._others[place] = self._open_other(kind, library, selector)
        found = self._others[place]
        if isinstance(found, Unavailable):
            raise Unavailable(str(found))
        return found

    @property
    def opened(self) -> TimedDevice | None:
        """The GPU, if a test has used one; the run's own, if there are several."""
        others = (each for each in self._others.values() if not isinstance(each, Unavailable))
        return self._gpu or next((each for each in others if each.kind == "gpu"), None)

    @property
    def reason(self) -> str | None:
        """Why there is no GPU, if a test has asked for it."""
        return self._reason or next(
            (str(each) for each in self._others.values() if isinstance(each, Unavailable)), None
        )

    def _open_other(self, kind: Kind, library: str, selector: str) -> TimedDevice | Unavailable:
        if kind == "cpu" and library == "numpy":
            return self._available[0].cpu()
        backend = next((each for each in self._available if each.name == library), None)
        if backend is None:
            return Unavailable(f"no backend is for {library}; it cannot be waited for, and so not be timed")
        if kind == "cpu":
            return backend.cpu()
        try:
            backend.check(selector)
            return backend.gpu(selector or self._own(backend))
        except Unavailable as cause:
            return cause

    def _find(self, name: str) -> Backend | None:
        if name in ("auto", "none"):
            if self._selector:
                raise GpuPerfError(f"{name} takes no device, not {self._selector!r}")
            return None
        for backend in self._available:
            if backend.name == name:
                backend.check(self._selector)
                return backend
        known = ", ".join(["auto", "none", *(backend.name for backend in self._available)])
        raise GpuPerfError(f"no backend is called {name!r}; there are {known}")

    def _own(self, backend: Backend) -> str:
        """Return the selector of this process's device, empty where the backend's first is the one."""
        count = _count(backend) if self._worker is not None else 0
        return str(self._worker % count) if self._worker is not None and count > 1 else ""

    def _open(self) -> TimedDevice:
        if self.off:
            raise Unavailable(_TURNED_OFF)
        if self._chosen is not None:
            return self._chosen.gpu(self._selector or self._own(self._chosen))
        causes: list[Unavailable] = []
        for backend in self._available:
            if backend.automatic:
                try:
                    return backend.gpu(self._own(backend))
                except Unavailable as cause:
                    causes.append(cause)
        there = [*(str(cause) for cause in causes if not cause.missing), *_imported()]
        raise Unavailable("; ".join(there) if there else _MISSING)


def _imported() -> list[str]:
    """Return what to choose for a library that the suite uses and `auto` leaves alone."""
    names = [name for name in _BY_NAME_ONLY if name in sys.modules]
    return [f"{name} is imported: --gpuperf-gpu={name} compares its own CPU and GPU" for name in names]


def _count(backend: Any) -> int:
    """Return how many devices a backend can use, which it numbers from 0 on; 0 where it does not tell."""
    try:
        return int(backend.count())
    except Exception:  # noqa: BLE001 - an attribute that few have; what fails here fails again, with its reason
        return 0
