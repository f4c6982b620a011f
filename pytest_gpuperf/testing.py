"""For tests of backends and suites: the tests that any backend must pass, and a stand-in for a GPU.

A suite subclasses the conformance kit, gives it its devices, and pytest runs its tests:

    class TestMyBackend(DeviceConformance):
        @pytest.fixture
        def backend(self):
            return MyBackend()
"""

from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pytest_gpuperf.devices import capabilities, environment
from pytest_gpuperf.devices.host import HostDevice, SynchronousDevice
from pytest_gpuperf.devices.protocol import Backend, Device, TimedDevice
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo

__all__ = ["DeviceConformance", "StandIn"]

_TRIES = 5
_WRAPPER = "array_api_compat"  # libraries have copies of it inside: scipy._lib.array_api_compat.torch


class StandIn:
    """A backend that lets an array library on the CPU stand for a GPU, to try a suite without one.

        @pytest.hookimpl(optionalhook=True)
        def pytest_gpuperf_devices():
            return [StandIn("array_api_strict")]

    `module` is the namespace's, where that is not `name`. Parameters of a suite that are that module, its
    wrapper from array-api-compat, its name, or an Enum's member with that value then mean this GPU, whatever
    other backend is called so. `auto` never chooses it, and reports say that it is emulated.

    Only for libraries whose work is done when the call returns: its device has nothing to wait for. JAX's is
    not, on the CPU either; give its `pytest_gpuperf.devices.jax.JaxDevice` to a backend of your own.
    """

    automatic = False

    def __init__(self, name: str, module: str | None = None) -> None:
        self.name = name
        self.module = module or name

    def recognizes(self, value: Any) -> Kind | None:
        """Say that a value of a suite's own parameters means this GPU."""
        if isinstance(value, Enum):
            value = value.value
        if isinstance(value, str):
            return "gpu" if value in (self.name, self.module) else None
        if not isinstance(value, ModuleType):
            return None
        *above, last = value.__name__.split(".")
        return "gpu" if value.__name__ == self.module or (last == self.module and _WRAPPER in above) else None

    def check(self, selector: str) -> None:
        """Accept no selector."""
        if selector:
            raise GpuPerfError(f"{self.name} has one device and takes no selector, not {selector!r}")

    def gpu(self, selector: str) -> TimedDevice:  # noqa: ARG002 - the protocol passes it
        """Return the library's CPU as the GPU; raise Unavailable where it is not installed."""
        if find_spec(self.module.partition(".")[0]) is None:
            missing = f"{self.module}, which stands for a GPU, is not installed"
            raise Unavailable(f"{missing}; install it, or take its stand-in away", missing=True)
        return _StandInDevice(self.name, import_module(self.module))

    def cpu(self) -> TimedDevice:
        """Return NumPy on the CPU."""
        return HostDevice(environment.cpu_name())


class _StandInDevice(SynchronousDevice):
    """An array library on the CPU that is called a GPU; all its arrays are taken to be on it."""

    kind: Kind = "gpu"

    def __init__(self, backend: str, xp: Any) -> None:
        self.backend = backend
        self.name = f"{backend} on the CPU"
        self.xp = xp
        self._type = type(xp.asarray(0))
        library = f"{xp.__name__} {getattr(xp, '__version__', '')}".strip()
        self.info = DeviceInfo(
            kind=self.kind, backend=backend, name=self.name, library=library, emulated=True
        )

    def asarray(self, host: Any) -> Any:
        """Return a copy."""
        return self.xp.asarray(host if self.holds(host) else np.asarray(host), copy=True)

    def asnumpy(self, array: Any) -> Any:
        """Return a copy; an array that NumPy knows nothing about is asked for it by DLPack."""
        try:
            host = np.array(array)
        except (TypeError, ValueError, RuntimeError):
            return np.from_dlpack(array, device="cpu", copy=True)
        return np.from_dlpack(array, device="cpu", copy=True) if host.dtype == object else host

    def holds(self, value: Any) -> bool:
        """Say whether `value` is an array of the library."""
        return isinstance(value, self._type)


class DeviceConformance:
    """Tests of one backend; override `backend`, and `selector` to choose one of its devices.

    `busy` makes work that lasts: the slower it is beside its submission, the surer the test of synchronize.
    """

    selector = ""
    size = 1024

    @pytest.fixture
    def backend(self) -> Backend:
        """Return the backend under test."""
        raise NotImplementedError("override the fixture `backend` of DeviceConformance")

    @pytest.fixture
    def gpu(self, backend: Backend) -> TimedDevice:
        """Return the device under test."""
        return backend.gpu(self.selector)

    def busy(self, array: Any) -> Any:
        """Submit work on a square float32 array that takes long, and return its result."""
        return array @ array

    def test_it_is_a_gpu_with_a_name(self, gpu: TimedDevice) -> None:
        """Kind, backend and name are what the report says."""
        assert isinstance(gpu, Device)
        assert gpu.kind == "gpu"
        assert (gpu.kind, gpu.backend, gpu.name) == (gpu.info.kind, gpu.info.backend, gpu.info.name)
        assert gpu.name
        assert gpu.info.library

    def test_its_cpu_side_is_a_cpu(self, backend: Backend) -> None:
        """The comparison has a CPU on its other side."""
        cpu = backend.cpu()
        assert cpu.kind == "cpu"
        assert cpu.holds(cpu.asarray(np.ones(3)))

    @pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32", "float64", "complex64"])
    @pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5)])
    def test_arrays_come_back_as_they_went(
        self, gpu: TimedDevice, dtype: str, shape: tuple[int, ...]
    ) -> None:
        """Shape, dtype and values survive the way up and down."""
        host = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
        back = gpu.asnumpy(gpu.asarray(host))
        assert isinstance(back, np.ndarray)
        assert back.dtype == host.dtype
        np.testing.assert_array_equal(host, back)

    def test_asarray_copies(self, gpu: TimedDevice) -> None:
        """Work on the device never changes what the other device will get."""
        host = np.zeros(4)
        there = gpu.asarray(host)
        there += 1
        assert host.tolist() == [0, 0, 0, 0]

    def test_it_knows_its_own_arrays(self, gpu: TimedDevice) -> None:
        """An array of this device is told from one of the host."""
        assert gpu.holds(gpu.asarray(np.ones(3)))
        assert gpu.holds(gpu.xp.ones(3))
        assert not gpu.holds(np.ones(3))
        assert not gpu.holds(1.0)
        assert not gpu.holds(None)

    def test_uploads_mix_with_new_arrays(self, gpu: TimedDevice) -> None:
        """What `asarray` puts up and what `xp` makes live on the same device."""
        total = gpu.asarray(np.ones(3)) + gpu.xp.ones(3)
        assert gpu.asnumpy(total).tolist() == [2, 2, 2]

    def test_synchronize_waits_for_submitted_work(self, gpu: TimedDevice) -> None:
        """After synchronize a result is ready: waiting for it again costs next to nothing.

        A synchronize that does not wait leaves nearly all of the time to the copy that follows it.
        """
        array = gpu.asarray(np.ones((self.size, self.size), dtype=np.float32))
        small = gpu.asnumpy(self.busy(array)[:1, :1])
        assert small.shape == (1, 1)
        submitted, left = [], []
        for _ in range(_TRIES):
            gpu.asnumpy(array[:1, :1])
            started = gpu.clock()
            result = self.busy(array)
            gpu.synchronize()
            synchronized = gpu.clock()
            gpu.asnumpy(result[:1, :1])
            submitted.append(synchronized - started)
            left.append(gpu.clock() - synchronized)
        assert median(submitted) > median(left), "synchronize returned before the submitted work was done"

    def test_synchronize_can_be_repeated(self, gpu: TimedDevice) -> None:
        """With nothing to wait for, it returns."""
        gpu.synchronize()
        gpu.synchronize()

    def test_it_sees_its_own_work_and_no_other(self, gpu: TimedDevice) -> None:
        """Work on the device is seen; work on the host alone is not."""
        array = gpu.asarray(np.ones(1000))
        with gpu.observe() as on_device:
            float(gpu.xp.sum(array * 2))
        with gpu.observe() as on_host:
            float((np.ones(1000) * 2).sum())
        assert on_device.worked
        assert not on_host.worked

    def test_memory_that_it_tells_has_every_new_array_in_it(self, gpu: TimedDevice) -> None:
        """Where the device tells what a call holds, that is at least what the call makes."""
        array = gpu.asarray(np.ones(100_000))
        with gpu.observe() as making:
            kept = [array + 1, array + 2]
        with gpu.observe() as idle:
            pass
        assert making.memory is None or making.memory >= sum(part.nbytes for part in kept)
        assert not idle.memory

    def test_a_device_that_can_be_occupied_is_busy_for_that_long(self, gpu: TimedDevice) -> None:
        """Where the device can be kept busy, the call returns at once and waiting takes as long as asked."""
        capabilities.occupy(gpu, 1e-3)  # the first time may compile something
        gpu.synchronize()
        started = gpu.clock()
        occupied = capabilities.occupy(gpu, 0.05)
        returned = gpu.clock()
        gpu.synchronize()
        assert not occupied or (returned - started < 0.025 and gpu.clock() - started >= 0.045)

    def test_an_ordinary_error_is_no_fault(self, gpu: TimedDevice) -> None:
        """Only the device's own errors are faults."""
        assert gpu.fault(ValueError("wrong shape")) is None
        gpu.release()

    def test_an_impossible_selector_is_refused(self, backend: Backend) -> None:
        """A selector that can't be right on any machine is refused without looking for a device."""
        with pytest.raises(GpuPerfError, match="no such"):
            backend.check("no such device")
