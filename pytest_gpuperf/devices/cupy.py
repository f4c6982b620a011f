"""CUDA and ROCm devices through CuPy, compared with NumPy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from os import environ
from typing import Any, Literal

import numpy as np

from pytest_gpuperf.devices.library import (
    LibraryBackend,
    LibraryDevice,
    import_library,
    is_emulated,
    shown_setting,
)
from pytest_gpuperf.devices.nvml import MonitoredDevice
from pytest_gpuperf.devices.precision import TF32_EPS, may_use_tf32
from pytest_gpuperf.devices.protocol import Observation
from pytest_gpuperf.model.errors import Fault, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo

_LIBRARY = ("cupy", "CuPy", "install pytest-gpuperf[cuda12] or pytest-gpuperf[cuda13] for an NVIDIA GPU")
# CUDA runtime errors (driver_types.h) after which the process's context cannot be used again.
_LOST = frozenset({4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999})
_INSUFFICIENT_DRIVER, _NO_DEVICE = 35, 100

_LONGEST_SPIN = 1.0  # seconds: a GPU that also drives a screen may kill a kernel that runs for two
_SPIN = r"""
extern "C" __global__ void gpuperf_spin(long long nanoseconds) {
    long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < nanoseconds);
}
"""


class CupyDevice(LibraryDevice, MonitoredDevice):
    """One CUDA device; work runs asynchronously on its streams."""

    backend = "cupy"

    def __init__(self, cupy: Any, index: int) -> None:
        self.xp = cupy
        self._device = cupy.cuda.Device(index)
        self._device.use()
        properties = cupy.cuda.runtime.getDeviceProperties(index)
        name = properties["name"]
        self.name = name.decode() if isinstance(name, bytes) else str(name)
        runtime = _version(cupy.cuda.runtime.runtimeGetVersion())
        driver = _version(cupy.cuda.runtime.driverGetVersion())
        reduced_precision = _reduced_precision(properties["major"])
        library = f"cupy {cupy.__version__}, CUDA {runtime}, driver for {driver}"
        self.info = DeviceInfo(
            kind="gpu",
            backend=self.backend,
            name=self.name,
            library=library,
            emulated=is_emulated(self.name),
            memory=properties["totalGlobalMem"],
            driver=f"for CUDA {driver}",
            runtime=f"CUDA {runtime}",
            reduced_precision=reduced_precision,
            reduced_eps=TF32_EPS if reduced_precision else None,
        )

    def asarray(self, host: Any) -> Any:
        """Copy to this device."""
        with self._device:
            return self.xp.array(host)

    def asnumpy(self, array: Any) -> Any:
        """Copy to the host on the current stream, and wait for it."""
        return self.xp.asnumpy(array)

    def synchronize(self) -> None:
        """Wait for the whole device, side streams included: a stream's own wait would miss them."""
        self._device.synchronize()

    def holds(self, value: Any) -> bool:
        """Return whether `value` is a CuPy array on this device."""
        return isinstance(value, self.xp.ndarray) and value.device == self._device

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Detect work by allocations and by an unfinished stream; time it by two events.

        Work on non-blocking side streams escapes those events: `outside_time` has it. Only CuPy's own pool
        reports memory.
        """
        self._device.use()
        cuda = self.xp.cuda
        observation = Observation()
        pool = _pool(cuda, self._device.id)
        start, end = cuda.Event(), cuda.Event()
        start.record()
        with pool:
            yield observation
        unfinished = not cuda.Stream.null.done
        end.record()
        end.synchronize()
        waited = self.clock()
        self.synchronize()
        observation.outside_time = self.clock() - waited
        observation.worked = pool.uses > 0 or unfinished
        observation.device_time = cuda.get_elapsed_time(start, end) / 1000  # milliseconds
        if isinstance(getattr(cuda.get_allocator(), "__self__", None), cuda.MemoryPool):
            observation.allocations = pool.allocations
            observation.memory = pool.peak
            observation.held = pool.held

    @property
    def occupy(self) -> Callable[[float], None] | None:
        """Launch a kernel that spins for some seconds, at most one; None on ROCm: the kernel is PTX."""
        return None if self.xp.cuda.runtime.is_hip else self._occupy

    def host_memory(self, host: Any) -> Literal["pinned", "pageable"] | None:
        """Return whether CUDA has registered (pinned) the memory of a NumPy array."""
        if not isinstance(host, np.ndarray):
            return None
        runtime = self.xp.cuda.runtime
        try:
            registered = runtime.pointerGetAttributes(host.ctypes.data).type == runtime.memoryTypeHost
        except runtime.CUDARuntimeError:
            return None
        return "pinned" if registered else "pageable"

    def fault(self, error: BaseException) -> Fault | None:
        """Recognize CuPy's memory error and the CUDA errors that outlive their call."""
        cuda = self.xp.cuda
        if isinstance(error, cuda.memory.OutOfMemoryError):
            return Fault(kind="out_of_memory", requested=getattr(error, "_size", None))
        cuda_errors = (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)
        if isinstance(error, cuda_errors) and getattr(error, "status", None) in _LOST:
            return Fault(kind="lost")
        return None

    def release(self) -> None:
        """Empty CuPy's pools of device and pinned memory, and the work areas of its FFT plans."""
        with self._device:
            self.xp.fft.config.get_plan_cache().clear()
            self.xp.get_default_memory_pool().free_all_blocks()
            self.xp.get_default_pinned_memory_pool().free_all_blocks()

    def _occupy(self, seconds: float) -> None:
        with self._device:
            self._spin((1,), (1,), (round(min(seconds, _LONGEST_SPIN) * 1e9),))

    @cached_property
    def _spin(self) -> Any:
        return self.xp.RawKernel(_SPIN, "gpuperf_spin")

    def _pci_bus_id(self) -> str:
        return str(self._device.pci_bus_id)


class CupyBackend(LibraryBackend):
    """`cupy[:N]`: device N of those that CUDA_VISIBLE_DEVICES shows."""

    name = "cupy"
    automatic = True

    def count(self) -> int:
        """Return how many devices CUDA_VISIBLE_DEVICES shows."""
        return int(import_library(*_LIBRARY).cuda.runtime.getDeviceCount())

    def gpu(self, selector: str) -> CupyDevice:
        """Return the device after one allocation, one kernel and one synchronize on it."""
        cupy = import_library(*_LIBRARY)
        index = int(selector or 0)
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise Unavailable(_no_device(cupy, error)) from error
        if index >= count:
            problem = f"CuPy sees {count} CUDA device(s) and number {index} was requested"
            raise Unavailable(f"{problem}; {shown_setting('CUDA_VISIBLE_DEVICES')}")
        try:
            device = CupyDevice(cupy, index)
            (cupy.ones(1) + 1).sum()
            device.synchronize()
        except Exception as error:
            reason = f"the CUDA device {index} was found but cannot be used: {error}"
            raise Unavailable(f"{reason}; check with nvidia-smi that it is free and healthy") from error
        return device


def _no_device(cupy: Any, error: Any) -> str:
    """Return why CUDA sees no device, with its remedy."""
    runtime = cupy.cuda.runtime
    if error.status == _NO_DEVICE:
        return f"no CUDA device is visible: {shown_setting('CUDA_VISIBLE_DEVICES')}"
    if error.status == _INSUFFICIENT_DRIVER and runtime.driverGetVersion() == 0:
        return "CuPy is installed but no NVIDIA driver is; install the driver, or use a machine that has one"
    if error.status == _INSUFFICIENT_DRIVER:
        needed = _version(runtime.runtimeGetVersion())
        supported = _version(runtime.driverGetVersion())
        remedy = "update the driver or install the extra for an older CUDA"
        return f"the NVIDIA driver is too old: it supports CUDA {supported}, CuPy needs {needed}; {remedy}"
    return f"CUDA cannot be used: {error}"


def _version(number: int) -> str:
    """Return CUDA's 12090 as 12.9."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _reduced_precision(generation: int) -> str | None:
    """Return the setting that rounds float32 products to TF32's 10 bits; NVIDIA's overrides CuPy's."""
    cupy_setting = environ.get("CUPY_TF32", "")
    if not may_use_tf32(generation):
        return None
    if cupy_setting not in ("", "0"):
        return f"TF32 in float32 products (CUPY_TF32={cupy_setting})"
    is_forced = environ.get("NVIDIA_TF32_OVERRIDE") == "1"
    return "TF32 in float32 products (NVIDIA_TF32_OVERRIDE=1)" if is_forced else None


def _pool(cuda: Any, device: int) -> Any:
    """Return a memory hook (a context manager) that follows CuPy's pool on one device; sizes in bytes.

    `uses` counts allocations from the pool, `allocations` those that the pool had to make with CUDA.
    """

    class Pool(cuda.MemoryHook):  # type: ignore[misc]  # CuPy is untyped
        name = "gpuperf"
        uses = allocations = held = peak = 0

        def malloc_preprocess(self, *, device_id: int, **_: Any) -> None:
            self.uses += device_id == device

        def alloc_preprocess(self, *, device_id: int, **_: Any) -> None:
            self.allocations += device_id == device

        def malloc_postprocess(self, *, device_id: int, mem_size: int, mem_ptr: int, **_: Any) -> None:
            if device_id == device and mem_ptr:
                self.held += mem_size
                self.peak = max(self.peak, self.held)

        def free_postprocess(self, *, device_id: int, mem_size: int, **_: Any) -> None:
            if device_id == device:
                self.held -= mem_size

    return Pool()
