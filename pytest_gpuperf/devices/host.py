"""NumPy on the CPU, the device that every machine has, and what the backends of GPU libraries share."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter, process_time
from typing import Any

import numpy as np

from pytest_gpuperf.devices.protocol import Observation, TimedDevice
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import Fault, GpuPerfError, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo


class SynchronousDevice:
    """Base of devices whose work is done, on the CPU of this process, when the call returns."""

    clock = staticmethod(perf_counter)

    def synchronize(self) -> None:
        """Return at once: nothing is in flight."""

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Take every call for work: it cannot run anywhere else."""
        yield Observation(worked=True)

    def fault(self, error: BaseException) -> Fault | None:
        """Recognize MemoryError; its text does not give the size in bytes."""
        return Fault(kind="out_of_memory") if isinstance(error, MemoryError) else None

    def release(self) -> None:
        """Do nothing: NumPy keeps no pool."""


class HostDevice(SynchronousDevice):
    """The CPU through NumPy."""

    kind: Kind = "cpu"
    backend = "numpy"
    xp = np
    processor_time = staticmethod(process_time)  # of all threads

    def __init__(self, name: str) -> None:
        self.name = name
        self.info = DeviceInfo(kind="cpu", backend=self.backend, name=name, library=f"numpy {np.__version__}")

    def asarray(self, host: Any) -> Any:
        """Return a copy, so that work on it never changes the other device's input."""
        return np.array(host)

    def asnumpy(self, array: Any) -> Any:
        """Return a copy."""
        return np.array(array)

    def holds(self, value: Any) -> bool:
        """Return whether `value` is a NumPy array."""
        return isinstance(value, np.ndarray)


class LibraryBackend:
    """Base of backends whose devices are numbered and compared with NumPy, unless they override that."""

    name: str

    def __init__(self, cpu_name: str) -> None:
        self._cpu_name = cpu_name

    def check(self, selector: str) -> None:
        """Accept nothing or a device number."""
        if selector and not (selector.isascii() and selector.isdecimal()):
            raise GpuPerfError(f"the device of {self.name} is a number, e.g. {self.name}:0, not {selector!r}")

    def cpu(self) -> TimedDevice:
        """Return NumPy."""
        return HostDevice(self._cpu_name)


def require_library(module: str, name: str, remedy: str) -> None:
    """Raise Unavailable, with the remedy, when a library is not installed."""
    if find_spec(module) is None:
        raise Unavailable(f"{name} is not installed; {remedy}", missing=True)


def import_library(module: str, name: str, remedy: str) -> Any:
    """Import a library that users know by `name`; raise Unavailable when it is missing or broken."""
    require_library(module, name, remedy)
    try:
        return import_module(module)
    except Exception as error:
        raise Unavailable(f"{name} is installed but cannot be imported: {error}") from error
