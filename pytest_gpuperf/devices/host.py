"""NumPy on the CPU, the device that every machine has."""

import mmap
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np

from pytest_gpuperf.devices import environment, python_calls
from pytest_gpuperf.devices.protocol import Activity, Observation, TimedDevice
from pytest_gpuperf.devices.torch_and_jax import host_copy, library_of, native_cpu
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import Fault, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo

_EXAMPLE = np.empty(0)
_LEAST_OF_THREAD = 1 << 19  # bytes that a thread copies: to start it takes longer than fewer


def copiers_on_threads(size: int) -> tuple[Callable[[], Any], ...]:
    """Return copies of `size` bytes by NumPy: on one thread, on two, four, up to the usable processors.

    NumPy itself copies on one. Several move more; with too many, their start takes longer than they save.
    """
    source, target = _new_memory(size), _new_memory(size)
    copiers, threads = [partial(np.copyto, target, source)], 2
    while threads <= min(environment.usable_processors(), size / _LEAST_OF_THREAD):
        pool = ThreadPoolExecutor(threads, "gpuperf-copy")  # whose threads end with it
        parts = [*zip(np.array_split(target, threads), np.array_split(source, threads), strict=True)]
        copiers.append(partial(_copy_parts, pool, parts))
        threads *= 2
    return tuple(copiers)


def _new_memory(size: int) -> Any:
    """Return so many bytes of no allocator: glibc's would from then on keep what the calls give back."""
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    memory = mmap.mmap(-1, size, **private)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # as NumPy's large arrays have
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(memory, np.uint8)
    array[:] = 1
    return array


def _copy_parts(pool: ThreadPoolExecutor, parts: Sequence[tuple[Any, Any]]) -> None:
    deque(pool.map(lambda part: np.copyto(*part), parts), maxlen=0)


class SynchronousDevice(TimedDevice):
    """Base of devices whose work is done, on the CPU of this process, when the call returns."""

    clock = staticmethod(perf_counter)
    is_synchronous = True

    def asarray(self, host: Any) -> Any:
        """Return a copy, an array of NumPy: work on it never changes the other device's input."""
        return np.array(host)

    def asnumpy(self, array: Any) -> Any:
        """Return a copy."""
        return np.array(array)

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
    shares_host_memory = True
    processor_time = staticmethod(process_time)  # of all threads
    quota = staticmethod(environment.quota_at_start)

    def __init__(self, name: str) -> None:
        self.name = name
        library = f"numpy {np.__version__}"
        self.info: DeviceInfo = DeviceInfo(kind="cpu", backend="numpy", name=name, library=library)

    @property
    def native(self) -> Any:
        """The CPU of torch or JAX, if one of them alone is imported: NumPy has no object for it."""
        return native_cpu()

    def asarray(self, host: Any) -> Any:
        """Return a copy, of a tensor too."""
        return host_copy(host) if library_of(host) == "torch" else np.array(host)

    def holds(self, value: Any) -> bool:
        """Return whether `value` is a NumPy array."""
        return isinstance(value, np.ndarray)

    def copiers(self, size: int) -> tuple[Callable[[], Any], ...]:
        """Return copies of NumPy's arrays, on one thread and on several."""
        return copiers_on_threads(size)

    def activity(self, call: Callable[[], Any], smallest: int) -> Activity | None:
        """Count the functions of NumPy that a call runs, and see what it allocates."""
        return python_calls.activity("numpy", _EXAMPLE, call, smallest)


class LoneHostDevice(HostDevice):
    """The CPU of a test that is compared with none: a tensor stays one, since it may compute with torch."""

    @property
    def native(self) -> Any:
        """The CPU of torch or JAX; Unavailable where both are imported, as nobody knows which one to give."""
        if (found := native_cpu()) is None and {"torch", "jax"} <= sys.modules.keys():
            raise Unavailable(
                "choose gpuperf_gpu = torch or jax in the ini file: both are imported, and the test, which "
                "hands device.native to a library, was not run; without a GPU, torch:cpu or jax:cpu emulates "
                "one"
            )
        return found

    def asarray(self, host: Any) -> Any:
        """Return a copy."""
        return host.detach().clone() if library_of(host) == "torch" else np.array(host)
