"""SYCL devices through dpnp, compared with NumPy; `sycl:cpu` is a real asynchronous queue anywhere."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from os import environ, pathsep
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pytest_gpuperf.devices import python_calls
from pytest_gpuperf.devices.library import (
    LibraryBackend,
    LibraryDevice,
    shown_setting,
    unusable,
)
from pytest_gpuperf.devices.protocol import Activity, Observation
from pytest_gpuperf.model.errors import Fault, GpuPerfError, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo

_LOST = ("DEVICE_LOST", "device lost")


class SyclDevice(LibraryDevice):
    """One SYCL device through its default queue; work runs asynchronously."""

    backend = "sycl"

    def __init__(self, dpnp: Any, dpctl: Any, device: Any) -> None:
        from dpctl.utils import SequentialOrderManager

        self.xp = dpnp
        self.native = device
        self._queue = dpctl.get_device_cached_queue(device)
        self._order = SequentialOrderManager
        self.name = device.name
        library = f"dpnp {dpnp.__version__}, dpctl {dpctl.__version__}, driver {device.driver_version}"
        self.emulates_gpu = device.is_cpu
        self._memory = _Memory()
        self._example = dpnp.empty(0, sycl_queue=self._queue)
        self.info: DeviceInfo = self.describe(
            library,
            memory=device.global_mem_size,
            multiprocessors=device.max_compute_units,
            driver=device.driver_version,
        )

    def asarray(self, host: Any) -> Any:
        """Copy to this device's default queue; arrays of other queues would not mix."""
        return self.xp.array(host, sycl_queue=self._queue, copy=True)

    @property
    def shares_host_memory(self) -> bool:  # type: ignore[override]  # as in the base
        """Whether it is the CPU."""
        return bool(self._queue.sycl_device.is_cpu)

    def ones(self, count: int) -> Any:
        """Return so many new values of float32 on this device."""
        return self.xp.ones(count, dtype=self.xp.float32, sycl_queue=self._queue)

    def asnumpy(self, array: Any) -> Any:
        """Copy to the host once the array is ready."""
        return self.xp.asnumpy(array)

    def synchronize(self) -> None:
        """Wait for what dpnp has in order on every queue, then for all else on the default queue."""
        self._order.clear()
        self._queue.wait()

    def holds(self, value: Any) -> bool:
        """Return whether `value` is a dpnp array on this device."""
        return isinstance(value, self.xp.ndarray) and value.sycl_device == self._queue.sycl_device

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Detect work by the calls that reach dpnp: its queues do not count finished work.

        Memory is that of the arrays that dpnp makes in observed calls, until they are freed; work space in
        oneMKL is not included.
        """
        observation, memory = Observation(live=self._memory.live), self._memory
        memory.peak = before = memory.live

        def see(frame: Any, _: Any) -> None:
            observation.worked = observation.worked or frame.f_globals.get("__name__", "").startswith("dpnp")

        with python_calls.profiled(see), _counted(memory):
            yield observation
        observation.memory, observation.held = memory.peak - before, memory.live - before

    def activity(self, call: Callable[[], Any], smallest: int) -> Activity | None:
        """Count the functions of dpnp that a call runs: its operators are among them."""
        return python_calls.activity("dpnp", self._example, call, smallest)

    def host_memory(self, host: Any) -> Literal["pageable"] | None:
        """Return "pageable" for a NumPy array: only SYCL's own allocations are pinned."""
        return "pageable" if isinstance(host, np.ndarray) else None

    def fault(self, error: BaseException) -> Fault | None:
        """Recognize a failed allocation (dpctl does not report its size) and a lost device."""
        from dpctl.memory import USMAllocationError

        if isinstance(error, USMAllocationError | MemoryError):
            return Fault(kind="out_of_memory")
        is_sycl = type(error).__module__.startswith(("dpctl", "dpnp"))
        if is_sycl and any(phrase in str(error) for phrase in _LOST):
            return Fault(kind="lost")
        return None

    def release(self) -> None:
        """Wait, so that finished work drops its references; dpctl keeps no pool."""
        self.synchronize()


class _Memory:
    """The bytes of arrays that were made in observed calls and are not freed yet, and their peak."""

    live = peak = 0

    def add(self, size: int) -> None:
        """Count what was allocated, or freed where it is negative."""
        self.live += size
        self.peak = max(self.peak, self.live)


@contextmanager
def _counted(counter: _Memory) -> Iterator[None]:
    """Count the bytes of device memory that is allocated, and that of it which is freed then or later.

    dpctl has no hook for that, but its arrays look up the class of their memory by name when they are made.
    """
    from dpctl import memory

    original = memory.MemoryUSMDevice

    class Counted(original):  # type: ignore[misc, valid-type]  # dpctl is untyped
        def __init__(self, *_: Any, **__: Any) -> None:
            counter.add(self.nbytes)
            weakref.finalize(self, counter.add, -self.nbytes)

    memory.MemoryUSMDevice = Counted
    try:
        yield
    finally:
        memory.MemoryUSMDevice = original


class SyclBackend(LibraryBackend):
    """`sycl[:gpu|:cpu]`: an Intel GPU, or the CPU as an emulated GPU."""

    name = "sycl"
    library = ("dpnp", "dpnp", "install pytest-gpuperf[sycl], for an Intel GPU or the CPU as a device")
    automatic = True

    def check(self, selector: str) -> None:
        """Accept nothing, gpu or cpu."""
        if selector not in ("", "gpu", "cpu"):
            raise GpuPerfError(f"the device of sycl is gpu or cpu, e.g. sycl:gpu, not {selector!r}")

    def is_emulation(self, selector: str) -> bool:
        """Return whether that device is no GPU."""
        return selector == "cpu"

    def gpu(self, selector: str) -> SyclDevice:
        """Return the device after one kernel and one synchronize on it."""
        kind = selector or "gpu"
        if find_spec("dpnp") is not None:  # else another library is left the environment as it is
            _show_runtime(kind)
        dpnp = self.load()
        import dpctl

        try:
            selected = dpctl.select_cpu_device() if kind == "cpu" else dpctl.select_gpu_device()
        except dpctl.SyclDeviceCreationError as error:
            raise Unavailable(_no_device(kind)) from error
        try:
            device = SyclDevice(dpnp, dpctl, selected)
            (device.asarray([1.0, 2.0]) + 1).sum()
            device.synchronize()
        except Exception as error:
            raise unusable(
                f"the SYCL {kind} was found but cannot be used", error, "check its driver"
            ) from error
        return device


def _no_device(kind: str) -> str:
    """Return why SYCL sees no such device, with its remedy."""
    if kind == "cpu":
        remedy = "install pytest-gpuperf[sycl], which includes it, in a virtual environment"
        return f"SYCL finds no CPU runtime (libintelocl.so); {remedy}"
    problem = "dpnp is installed but SYCL sees no Intel GPU; install its compute runtime"
    return f"{problem}; {shown_setting('ONEAPI_DEVICE_SELECTOR')}"


def _show_runtime(kind: str) -> None:
    """Make SYCL's loaders find the CPU; they read the environment at the first SYCL call only.

    The package intel-opencl-rt puts the CPU runtime where the OpenCL loader does not look. It is named even
    when a GPU is requested: a process that has loaded SYCL for one could not add the CPU any more. New arrays
    (`xp.ones`) go to SYCL's default device, which is a GPU if there is one, unless the CPU was chosen.
    """
    if kind == "cpu":
        environ.setdefault("ONEAPI_DEVICE_SELECTOR", "*:cpu")
    runtime = _cpu_runtime()
    if runtime is not None:
        listed = environ.get("OCL_ICD_FILENAMES", "")
        if str(runtime) not in listed.split(pathsep):
            environ["OCL_ICD_FILENAMES"] = pathsep.join(filter(None, [listed, str(runtime)]))


def _cpu_runtime() -> Path | None:
    """Return the CPU runtime that pip installed, if there is one."""
    try:
        files = metadata.files("intel-opencl-rt") or []
    except metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())).resolve() for file in files if file.name == "libintelocl.so")
    return next((path for path in paths if path.exists()), None)
