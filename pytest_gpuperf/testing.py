"""The conformance kit: tests that any backend must pass, ours or another plugin's.

A suite subclasses it, gives it its devices, and pytest runs its tests:

    class TestMyBackend(DeviceConformance):
        @pytest.fixture
        def backend(self):
            return MyBackend()
"""

from statistics import median
from typing import Any

import numpy as np
import pytest

from pytest_gpuperf.devices import abilities
from pytest_gpuperf.devices.protocol import Backend, Device, TimedDevice
from pytest_gpuperf.model import GpuPerfError

__all__ = ["DeviceConformance"]

_TRIES = 5


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
            float((array * 2).sum())
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
        abilities.occupy(gpu, 1e-3)  # the first time may compile something
        gpu.synchronize()
        started = gpu.clock()
        occupied = abilities.occupy(gpu, 0.05)
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
