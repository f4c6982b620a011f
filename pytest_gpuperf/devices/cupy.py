"""CUDA and ROCm devices through CuPy, compared with NumPy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from os import environ
from typing import Any, Literal

import numpy as np

from pytest_gpuperf.devices import faults
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.library import (
    BFLOAT16_EPS,
    LONGEST_SPIN,
    VISIBLE,
    LibraryBackend,
    LibraryDevice,
    Reduced,
    may_use_tf32,
    unusable,
)
from pytest_gpuperf.devices.nvml import NOT_OF_NVIDIA, cuda_version
from pytest_gpuperf.devices.protocol import Observation
from pytest_gpuperf.model.errors import Fault, GpuPerfError, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo

_TOOLKIT = (
    "install the parts of CUDA's toolkit that CuPy compiles with: pytest-gpuperf[cuda12] or "
    "pytest-gpuperf[cuda13]; or set CUDA_PATH to a toolkit of CuPy's CUDA version"
)
_TYPE = "CuPy's compute type"
_COMPUTE_TYPES = {
    "COMPUTE_TYPE_TF32": Reduced(mode="TF32", setting=_TYPE),
    "COMPUTE_TYPE_FP16": Reduced(mode="float16", setting=_TYPE),  # as many bits
    "COMPUTE_TYPE_BF16": Reduced(mode="bfloat16", setting=_TYPE, eps=BFLOAT16_EPS),
}
_INSUFFICIENT_DRIVER = 35

_SPIN = r"""
extern "C" __global__ void gpuperf_spin(long long nanoseconds) {
    long long begin, now, first_cycle = clock64();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < nanoseconds && clock64() - first_cycle < 4 * nanoseconds);
}
"""


class CupyDevice(LibraryDevice):
    """One CUDA device; work runs asynchronously on its streams.

    It stays the current device: `xp` is CuPy itself, which makes arrays on the current device.
    """

    backend = "cupy"

    def __init__(self, cupy: Any, index: int) -> None:
        self.xp = cupy
        self.native = cupy.cuda.Device(index)
        self.make_current()
        properties = cupy.cuda.runtime.getDeviceProperties(index)
        name = properties["name"]
        self.name = name.decode() if isinstance(name, bytes) else str(name)
        is_hip = cupy.cuda.runtime.is_hip
        runtime = _hip_version(cupy) if is_hip else f"CUDA {_installed_runtime(cupy)}"
        driver = None if is_hip else cuda_version(cupy.cuda.runtime.driverGetVersion())
        self._may_use_tf32 = not is_hip and may_use_tf32(properties["major"])
        self._library = f"cupy {cupy.__version__}, {runtime}{f', driver for {driver}' if driver else ''}"
        self._details = {
            "memory": properties["totalGlobalMem"],
            "multiprocessors": properties["multiProcessorCount"],
            "driver": f"for CUDA {driver}" if driver else None,
            "runtime": runtime,
        }

    def make_current(self) -> None:
        """Let CuPy make arrays on this device."""
        self.native.use()

    @property
    def info(self) -> DeviceInfo:
        """Describe the device."""
        reduced = _reduced_products(self.xp) if self._may_use_tf32 else None
        return self.describe(self._library, products=reduced, **self._details)

    def asarray(self, host: Any) -> Any:
        """Copy to this device."""
        with self.native:
            return self.xp.array(host)

    def asnumpy(self, array: Any) -> Any:
        """Copy to the host on the current stream, and wait for it."""
        return self.xp.asnumpy(array, order="A")  # Fortran's order stays: no kernel transposes it first

    def synchronize(self) -> None:
        """Wait for the whole device, side streams included: a stream's own wait would miss them."""
        self.native.synchronize()

    def holds(self, value: Any) -> bool:
        """Return whether `value` is a CuPy array on this device."""
        return isinstance(value, self.xp.ndarray) and value.device == self.native

    def holds_work(self, value: Any) -> bool:
        """Return whether `value` is a CUDA graph, or a stream of its own."""
        return isinstance(value, self.xp.cuda.Graph | self.xp.cuda.Stream)

    def reuses_results(self, value: Any) -> bool:
        """Return whether `value` is a CUDA graph."""
        return isinstance(value, self.xp.cuda.Graph)

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Detect work by allocations and by an unfinished stream; time it by two events.

        Work on non-blocking side streams escapes those events: `outside_time` has it. Only CuPy's own pool
        reports memory; with any other allocator every call counts as work.
        """
        self.make_current()
        cuda = self.xp.cuda
        observation = Observation()
        pool, live = _pool(cuda, self.native.id), _used_bytes(cuda)
        start, end = self._events
        was_idle = cuda.get_current_stream().done
        start.record()
        if was_idle:
            start.synchronize()  # an event of ours that is still on its way is no work of the call's
        with pool:
            yield observation
        with self.native:  # of a group another one is current
            observation.unfinished = not cuda.get_current_stream().done
            end.record()
            end.synchronize()
        waited = self.clock()
        self.synchronize()
        observation.finished = self.clock()
        observation.outside_time = observation.finished - waited
        observation.worked = observation.unfinished or pool.uses > 0 or live is None
        observation.device_time = cuda.get_elapsed_time(start, end) / 1000  # milliseconds
        if live is not None:
            observation.allocations = pool.allocations
            observation.live = live
            observation.memory = pool.peak
            observation.held = pool.held

    def occupy(self, seconds: float) -> bool:
        """Launch a kernel that spins for some seconds, at most one; False on ROCm: the kernel is PTX."""
        if self.xp.cuda.runtime.is_hip:
            return False
        with self.native:
            self._spin((1,), (1,), (round(min(seconds, LONGEST_SPIN) * 1e9),))
        return True

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
        """Recognize memory errors and the CUDA errors that outlive their call."""
        cuda = self.xp.cuda
        if isinstance(error, cuda.memory.OutOfMemoryError):
            return Fault(kind="out_of_memory", requested=getattr(error, "_size", None))
        cuda_errors = (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)
        if isinstance(error, cuda_errors):
            return faults.parse_status(getattr(error, "status", None))
        return super().fault(error)  # of its libraries, such as cuBLAS

    def free_memory(self) -> int:
        """Return the bytes that CUDA can still give; what CuPy's pool holds is not among them."""
        with self.native:
            return int(self.xp.cuda.runtime.memGetInfo()[0])

    def release(self) -> None:
        """Empty CuPy's pools, one of the suite's own too, and the work areas of its FFT plans."""
        with self.native:
            self.xp.fft.config.get_plan_cache().clear()
            self.xp.get_default_memory_pool().free_all_blocks()
            self.xp.get_default_pinned_memory_pool().free_all_blocks()
            of_suite = getattr(self.xp.cuda.get_allocator(), "__self__", None)
            if of_suite is not None and hasattr(of_suite, "free_all_blocks"):
                of_suite.free_all_blocks()

    @cached_property
    def _events(self) -> tuple[Any, Any]:
        """Two events, kept: CuPy raises when it destroys one of a lost device."""
        return self.xp.cuda.Event(), self.xp.cuda.Event()

    @cached_property
    def _spin(self) -> Any:
        return self.xp.RawKernel(_SPIN, "gpuperf_spin")

    def _pci_bus_id(self) -> str:
        if self.xp.cuda.runtime.is_hip:
            raise GpuPerfError(NOT_OF_NVIDIA)
        return str(self.native.pci_bus_id)


class CupyBackend(LibraryBackend):
    """`cupy[:N]`: device N of those that CUDA_VISIBLE_DEVICES shows."""

    name = "cupy"
    library = (
        "cupy",
        "CuPy",
        "install pytest-gpuperf[cuda12] or pytest-gpuperf[cuda13] for an NVIDIA GPU, cupy-rocm-7-0 for AMD's",
    )
    gpus = "CUDA device"
    automatic = True
    hidden_by = VISIBLE
    remedy = "check with nvidia-smi (rocm-smi) that it is free and healthy"
    toolkit = _TOOLKIT

    def count(self) -> int:
        """Return how many devices CUDA_VISIBLE_DEVICES shows; raise Unavailable where CUDA does not work."""
        cupy = self.load()
        try:
            return int(cupy.cuda.runtime.getDeviceCount())
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise _no_device(cupy, error) from error

    def open(self, index: int) -> CupyDevice:
        """Return that device, after one kernel on it."""
        cupy = self.load()
        device = CupyDevice(cupy, index)
        (cupy.ones(1) + 1).sum()
        return device

    def group(self, devices: Sequence[Any]) -> DeviceGroup:
        """Return several devices as one; the first is the current device again, as the last was opened."""
        devices[0].make_current()
        return DeviceGroup(devices)


def _no_device(cupy: Any, error: Any) -> Unavailable:
    """Return why CUDA sees no device, with its remedy."""
    is_hip = cupy.cuda.runtime.is_hip
    if not is_hip and error.status == _INSUFFICIENT_DRIVER and cupy.cuda.runtime.driverGetVersion() == 0:
        return Unavailable(
            "CuPy is installed but no NVIDIA driver is; install the driver, or use a machine that has one"
        )
    name, tool = ("HIP", "rocm-smi") if is_hip else ("CUDA", "nvidia-smi")
    return unusable(f"{name} cannot be used", error, f"check that {tool} shows the GPU as healthy")


def _hip_version(cupy: Any) -> str:
    """Return the version of HIP, which counts 60342133 for 6.3 (hip_version.h), and goes with ROCm's."""
    number = cupy.cuda.runtime.runtimeGetVersion()
    return f"ROCm {number // 10_000_000}.{number // 100_000 % 100}"


def _installed_runtime(cupy: Any) -> str:
    """Return the version of the CUDA runtime that is installed; of the one CuPy was built with if none is."""
    try:
        return cuda_version(cupy.cuda.get_local_runtime_version())
    except Exception:  # noqa: BLE001 - it looks for a shared library; an old CuPy cannot
        return cuda_version(cupy.cuda.runtime.runtimeGetVersion())


def _reduced_products(cupy: Any) -> Reduced | None:
    """Return what rounds the factors of float32 products.

    CuPy reads its variable at the first product, or here, and never again, so its own state comes first.
    """
    try:
        linalg = cupy._core._routines_linalg  # noqa: SLF001 - there is no public way to read it
        chosen = linalg.compute_type_to_str(linalg.get_compute_type("f4"))
        found = _COMPUTE_TYPES.get(chosen)
    except Exception:  # noqa: BLE001 - a private name
        # https://docs.cupy.dev/en/stable/reference/environment.html
        value = environ.get("CUPY_TF32", "")
        found = None if value in ("", "0") else Reduced(mode="TF32", setting=f"CUPY_TF32={value}")
    if found is None and environ.get("NVIDIA_TF32_OVERRIDE") == "1":
        return Reduced(mode="TF32", setting="NVIDIA_TF32_OVERRIDE=1")
    return found


def _used_bytes(cuda: Any) -> int | None:
    """Return the bytes of CuPy's pool that arrays use on the current device; None of any other allocator."""
    pool = getattr(cuda.get_allocator(), "__self__", None)
    return int(pool.used_bytes()) if isinstance(pool, cuda.MemoryPool) else None


def _pool(cuda: Any, device: int) -> Any:
    """Return a memory hook (a context manager) that follows CuPy's pool on one device; sizes in bytes.

    `uses` counts allocations from the pool, `allocations` those that the pool had to make with CUDA.
    """

    class Pool(cuda.MemoryHook):  # type: ignore[misc]  # CuPy is untyped
        name = f"gpuperf {device}"  # CuPy takes no two of one name
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
