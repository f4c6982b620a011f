"""From a choice such as `cupy:1` to devices: found by name, opened once, at first use."""

from collections.abc import Iterable, Sequence
from importlib import import_module

from pytest_gpuperf.devices.protocol import Backend, TimedDevice
from pytest_gpuperf.model import GpuPerfError, Unavailable

__all__ = ["Devices", "backends"]

_CPU_NAMED = {"cupy": "CupyBackend", "sycl": "SyclBackend"}
_MISSING = (
    "no GPU library is installed; install pytest-gpuperf[cuda12] or pytest-gpuperf[cuda13] for an NVIDIA "
    "GPU, or pytest-gpuperf[sycl] for an Intel GPU"
)


def backends(cpu_name: str, registered: Iterable[Backend]) -> list[Backend]:
    """Return every backend: ours, in the order in which `auto` tries them, then those of other plugins.

    A registered backend takes the place of ours with the same name.
    """
    from pytest_gpuperf.devices.simulated import SimulatedBackend

    ours: list[Backend] = [
        getattr(import_module(f"{__name__}.{name}"), backend)(cpu_name)
        for name, backend in _CPU_NAMED.items()
    ]
    everyone: list[Backend] = [*ours, SimulatedBackend(), *registered]
    return list({backend.name: backend for backend in everyone}.values())


class Devices:
    """The two devices of a run; the GPU is probed at the first call of `gpu()` and never again.

    `choice` is `auto`, `none` or `NAME[:SELECTOR]`; a wrong one raises GpuPerfError, naming the valid ones.
    """

    def __init__(self, choice: str, available: Sequence[Backend]) -> None:
        name, _, self._selector = choice.partition(":")
        self._available = available
        self._chosen = self._find(name)
        self._cpu: TimedDevice | None = None
        self._gpu: TimedDevice | None = None
        self._reason: str | None = None
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

    @property
    def opened(self) -> TimedDevice | None:
        """The GPU, if a test has used it."""
        return self._gpu

    @property
    def reason(self) -> str | None:
        """Why there is no GPU, if a test has asked for it."""
        return self._reason

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

    def _open(self) -> TimedDevice:
        if self.off:
            raise Unavailable("the GPU is turned off by --gpuperf-gpu=none; leave the option out to use it")
        if self._chosen is not None:
            return self._chosen.gpu(self._selector)
        causes: list[Unavailable] = []
        for backend in self._available:
            if backend.automatic:
                try:
                    return backend.gpu("")
                except Unavailable as cause:
                    causes.append(cause)
        there = [str(cause) for cause in causes if not cause.missing]
        raise Unavailable("; ".join(there) if there else _MISSING)
