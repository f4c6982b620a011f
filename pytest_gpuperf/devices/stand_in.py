"""An array library on the CPU in the place of a GPU, to try a suite without one."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from os import environ
from types import ModuleType
from typing import Any, cast

import numpy as np

from pytest_gpuperf.devices import environment, jax_platforms, python_calls
from pytest_gpuperf.devices.host import HostDevice, SynchronousDevice
from pytest_gpuperf.devices.library import LibraryBackend, unusable
from pytest_gpuperf.devices.protocol import Activity, Backend, TimedDevice
from pytest_gpuperf.devices.registry import REGISTRY, Row
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo

__all__ = ["STAND_IN", "StandIn", "chosen_stand_in"]

STAND_IN = "standin"
"""The name before the module in `--gpuperf-gpu=standin:MODULE`."""

_WRAPPER = "array_api_compat"  # libraries have copies of it inside: scipy._lib.array_api_compat.torch
_UNFINISHED = (
    "__dask_graph__",
    "block_until_ready",
    "async_eval",
)  # of dask, of JAX and what is built on it, of MLX
_NAMESPACES = {row.name: row.namespace for row in REGISTRY if row.namespace}
# By package: our own backends, which wait for what works on after a call.
_OWN_ROWS = {row.values[0]: row for row in REGISTRY if row.emulation}


class StandIn(Backend):
    """A backend that emulates a GPU with an array library on the CPU, to try a suite without one::

        @pytest.hookimpl(optionalhook=True)
        def pytest_gpuperf_devices():
            return [StandIn("array_api_strict")]

    `--gpuperf-gpu=standin:array_api_strict` does the same, and chooses it, without a conftest. `module` is
    the namespace's, where that is not `name`. Parameters of a suite that are that module, its wrapper from
    array-api-compat, or its name then select this GPU, even if another backend has that name. `auto` never
    selects it, and reports mark it as emulated.

    JAX, Keras, dpnp and MLX may work on after a call has returned, and are waited for. Any other library's
    work must be done when the call returns: one that is known to work later is refused.

    The CPU that it is compared with is NumPy's or, `with_itself`, that of the same library.
    """

    def __init__(self, name: str, module: str | None = None, *, with_itself: bool = False) -> None:
        self.name = name
        self.module = module or _NAMESPACES.get(name, name)
        self._library = self.module.partition(".")[0]
        self._with_itself = with_itself or self._library == "keras"  # NumPy has no layers

    def recognizes(self, value: Any) -> Kind | None:
        """Return "gpu" for a parameter value of the suite that selects this GPU."""
        if ask.is_really(value, str):
            return "gpu" if ask.is_one_of(value, (self.name, self.module)) else None
        name = ask.name_of(value) if ask.is_really(value, ModuleType) else None
        *above, last = (name or "").split(".")
        return "gpu" if name == self.module or (last == self.module and _WRAPPER in above) else None

    def check(self, selector: str) -> None:
        """Accept no selector, or those of a library beside itself; refuse one that is not installed."""
        if find_spec(self._library) is None:
            raise GpuPerfError(self._missing)
        if self._with_itself:
            self._own_backend().check(selector)
        elif selector:
            raise GpuPerfError(f"{self.name} has one device and takes no selector, not {selector!r}")

    def is_emulation(self, selector: str) -> bool:  # noqa: ARG002 - as other backends have it
        """Return that its device is no GPU."""
        return True

    def count(self) -> int:
        """Return how many devices there are: as many of JAX's as `JAX_NUM_CPU_DEVICES` says, else one."""
        if self.module != _NAMESPACES["jax"]:
            return 1
        self._prepare()
        jax: Any = import_module("jax")
        return len(jax_platforms.cpus(jax))

    def group(self, devices: Sequence[TimedDevice]) -> TimedDevice:
        """Return several devices as one: a mesh of JAX's."""
        row = self._own_row
        return row.backend().group(devices) if row else super().group(devices)

    def gpu(self, selector: str) -> TimedDevice:
        """Return the emulated GPU; raise Unavailable if the library is not installed or cannot be used."""
        if find_spec(self._library) is None:
            raise Unavailable(self._missing, missing=True)
        if selector and not selector.isdecimal():
            raise Unavailable(f"{self._library}:cpu emulates a GPU, and {selector} is not there")
        row = self._own_row
        if row is not None and row.emulation == "numpy":
            return row.backend().gpu("cpu")
        try:
            self._prepare()
            if row is not None:
                return self._own_backend().emulated(f"{self.name} on the CPU", int(selector or 0))
            return _StandInDevice(self.name, self.module)
        except Unavailable:
            raise
        except Exception as error:
            remedy = "name the module of its array functions, such as array_api_strict or torch"
            raise unusable(f"{self.module} cannot emulate a GPU", error, remedy) from error

    def cpu(self) -> TimedDevice:
        """Return NumPy on the CPU, or the library itself."""
        if self._with_itself:
            return self._own_backend().cpu()
        return HostDevice(environment.cpu_name())

    @property
    def _own_row(self) -> Row | None:
        """The row of our own backend for the library, if there is one."""
        return _OWN_ROWS.get(self._library)

    def _own_backend(self) -> LibraryBackend:
        return cast("LibraryBackend", _OWN_ROWS[self._library].backend())

    def _prepare(self) -> None:
        """Let JAX keep float64 beside NumPy, unless the suite or the environment has decided that.

        JAX has one setting for a whole process.
        """
        is_decided = "jax" in sys.modules or "JAX_ENABLE_X64" in environ
        if self._library == "jax" and not self._with_itself and not is_decided:
            jax: Any = import_module("jax")
            jax.config.update("jax_enable_x64", True)  # noqa: FBT003 - JAX's own

    @property
    def _missing(self) -> str:
        remedy = f"install {f'pytest-gpuperf[{self._library}]' if self._own_row else 'it'}"
        return f"{self._library}, which emulates a GPU, is not installed; {remedy}"


def chosen_stand_in(choice: str) -> StandIn | None:
    """Return the stand-in that `standin:MODULE` chooses, or `LIBRARY:cpu`, else None.

    The latter is for the libraries of our own backends, each compared with the same CPU as on a GPU.
    """
    name, _, module = choice.partition(":")
    row = _OWN_ROWS.get(name)
    if row is not None and row.emulation == "itself" and module == "cpu":
        return StandIn(name, with_itself=True)
    if name != STAND_IN or not module:
        return None
    if not all(part.isidentifier() for part in module.split(".")):
        raise GpuPerfError(f"{STAND_IN}: expected the name of a module, not {module!r}")
    names = {namespace: library for library, namespace in _NAMESPACES.items()}
    return StandIn(names.get(module, module))  # so that a suite's other names of the library mean it, too


def is_jax_on_cpu(backend: object) -> bool:
    """Return whether a backend emulates GPUs with JAX's devices of the CPU."""
    return isinstance(backend, StandIn) and backend.module == _NAMESPACES["jax"]


class _StandInDevice(SynchronousDevice):
    """An array library on the CPU that is called a GPU; all its arrays are taken to be on it."""

    kind: Kind = "gpu"
    shares_host_memory = True

    def __init__(self, backend: str, module: str) -> None:
        self.backend = backend
        self.name = f"{backend} on the CPU"
        self.xp: Any = import_module(module)
        example = self.xp.asarray(0)
        if any(hasattr(each, name) for each in (example, self.xp) for name in _UNFINISHED):
            raise GpuPerfError("its work is not done when a call returns, and this plugin cannot wait for it")
        self._example = example
        self._type = type(example)
        self._library = module.partition(".")[0]
        library = f"{module} {getattr(self.xp, '__version__', '')}".strip()
        self.info: DeviceInfo = DeviceInfo(
            kind=self.kind, backend=backend, name=self.name, library=library, emulated=True
        )

    def asarray(self, host: Any) -> Any:
        """Return a copy."""
        if self.holds(host):
            return self.xp.asarray(host, copy=True)
        return self.xp.asarray(np.array(host))  # a copy that nobody else has, and that can be written

    def asnumpy(self, array: Any) -> Any:
        """Return a copy; an array that NumPy cannot convert is copied through DLPack."""
        try:
            host = np.array(np.asarray(array))  # NumPy warns where a library's `__array__` knows no `copy`
        except (TypeError, ValueError, RuntimeError):
            return np.from_dlpack(array, device="cpu", copy=True)
        is_wrapped = host.dtype == object and not isinstance(array, np.ndarray)
        return np.from_dlpack(array, device="cpu", copy=True) if is_wrapped else host

    def holds(self, value: Any) -> bool:
        """Return whether `value` is an array of the library."""
        return isinstance(value, self._type)

    def activity(self, call: Callable[[], Any], smallest: int) -> Activity | None:
        """Count the functions of the library that a call runs."""
        return python_calls.activity(self._library, self._example, call, smallest)
