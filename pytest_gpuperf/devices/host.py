"""NumPy on the CPU: the side that every machine has."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Any

import numpy as np

from pytest_gpuperf.devices.protocol import Observation
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import Fault
from pytest_gpuperf.model.measurement import DeviceInfo

__all__ = ["HostDevice", "SynchronousDevice"]


class SynchronousDevice:
    """What devices share whose work, on the CPU of this process, is done when the call returns."""

    clock = staticmethod(perf_counter)

    def synchronize(self) -> None:
        """Return at once: nothing is in flight."""

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """See work in every call: there is nowhere else for it to run."""
        yield Observation(worked=True)

    def fault(self, error: BaseException) -> Fault | None:
        """Recognize MemoryError; what it says in its text, if anything, is not the bytes."""
        return Fault(kind="out_of_memory") if isinstance(error, MemoryError) else None

    def release(self) -> None:
        """Do nothing: no pool is kept that could be given back."""


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
        """Return a copy, so that work on it never changes what the other device will get."""
        return np.array(host)

    def asnumpy(self, array: Any) -> Any:
        """Return a copy."""
        return np.array(array)

    def holds(self, value: Any) -> bool:
        """Say whether `value` is a NumPy array."""
        return isinstance(value, np.ndarray)
