"""For tests of backends and suites: the tests that every backend must pass, and emulated GPUs.

A suite subclasses the conformance kit, gives it its devices, and pytest runs its tests:

    class TestMyBackend(DeviceConformance):
        @pytest.fixture
        def backend(self):
            return MyBackend()
"""

from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any, ClassVar

import numpy as np
import pytest

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import Backend, Device, TimedDevice
from pytest_gpuperf.devices.simulated import SimulatedBackend, Timing
from pytest_gpuperf.devices.stand_in import StandIn
from pytest_gpuperf.model.errors import GpuPerfError

__all__ = ["DeviceConformance", "SimulatedBackend", "StandIn", "Timing"]

_TRIES = 5


class DeviceConformance:
    """Tests of one backend; override `backend`, and `selector` to choose one of its devices.

    `busy` submits work that takes long: the longer, compared with its submission, the more reliable is the
    test of synchronize. `narrowed` maps each dtype that the device lacks to the one that its arrays get.
    """

    selector = ""
    size = 1024
    narrowed: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture
    def backend(self) -> Backend:
        """Return the backend under test."""
        raise NotImplementedError("override the fixture `backend` of DeviceConformance")

    @pytest.fixture
    def gpu(self, backend: Backend) -> TimedDevice:
        """Return the device under test."""
        return backend.gpu(self.selector)

    @pytest.fixture(autouse=True)
    def _context(self, request: pytest.FixtureRequest) -> Iterator[None]:
        """Enter the device's context, if it has one."""
        device = request.getfixturevalue("gpu") if "gpu" in request.fixturenames else None
        with capabilities.context(device):
            yield

    def busy(self, array: Any) -> Any:
        """Submit work on a square float32 array that takes long, and return its result."""
        return array @ array

    def test_it_is_a_gpu_with_a_name(self, gpu: TimedDevice) -> None:
        """Kind, backend and name are the ones in the report."""
        assert isinstance(gpu, Device)
        assert gpu.kind == "gpu"
        assert (gpu.kind, gpu.backend, gpu.name) == (gpu.info.kind, gpu.info.backend, gpu.info.name)
        assert gpu.name
        assert gpu.info.library

    def test_its_cpu_side_is_a_cpu(self, backend: Backend) -> None:
        """The backend's `cpu` is the CPU that its GPU is compared with."""
        cpu = backend.cpu()
        assert cpu.kind == "cpu"
        assert cpu.holds(cpu.asarray(np.ones(3)))

    @pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32", "float64", "complex64"])
    @pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5)])
    def test_arrays_come_back_as_they_went(
        self, gpu: TimedDevice, dtype: str, shape: tuple[int, ...]
    ) -> None:
        """Shape, dtype and values survive the transfers to the device and back."""
        host = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
        back = gpu.asnumpy(gpu.asarray(host))
        assert isinstance(back, np.ndarray)
        assert back.dtype == self.narrowed.get(dtype, dtype)
        np.testing.assert_array_equal(host, back)

    def test_asarray_copies(self, gpu: TimedDevice) -> None:
        """Work on the device never changes the host array."""
        host = np.zeros(4)
        uploaded = gpu.asarray(host)
        uploaded += 1
        assert host.tolist() == [0, 0, 0, 0]

    def test_it_knows_its_own_arrays(self, gpu: TimedDevice) -> None:
        """`holds` distinguishes arrays of this device from those of the host."""
        assert gpu.holds(gpu.asarray(np.ones(3)))
        assert gpu.holds(gpu.xp.ones(3))
        assert not gpu.holds(np.ones(3))
        assert not gpu.holds(1.0)
        assert not gpu.holds(None)

    def test_uploads_mix_with_new_arrays(self, gpu: TimedDevice) -> None:
        """Uploaded arrays and arrays made with `xp` are on the same device."""
        total = gpu.asarray(np.ones(3, dtype=np.float32)) + gpu.xp.ones(3)  # TensorFlow's `+` mixes no dtypes
        assert gpu.asnumpy(total).tolist() == [2, 2, 2]

    def test_synchronize_waits_for_submitted_work(self, gpu: TimedDevice) -> None:
        """After synchronize a result is ready: waiting for it again costs next to nothing.

        A synchronize that does not wait leaves nearly all of the time to the copy that follows it.
        """
        is_done = self._is_done_after(gpu, lambda _: gpu.synchronize())
        assert is_done, "synchronize returned before the submitted work was done"

    def test_a_wait_for_a_result_waits_for_it(self, gpu: TimedDevice) -> None:
        """If the device can wait for a result, it is ready then; without one all submitted work is done."""
        wait = gpu.wait
        if wait is not None:
            assert self._is_done_after(gpu, wait), "wait returned before the result was ready"
            is_done = self._is_done_after(gpu, lambda _: wait(None))
            assert is_done, "wait(None) returned before the submitted work was done"

    def _is_done_after(self, gpu: TimedDevice, wait: Callable[[Any], None]) -> bool:
        """Return whether a result takes longer until a wait for it ends than its copy does after that."""
        array = gpu.asarray(np.ones((self.size, self.size), dtype=np.float32))
        busy = capabilities.submitted(lambda: self.busy(array), gpu)
        small = gpu.asnumpy(busy()[:1, :1])
        assert small.shape == (1, 1)
        waiting = []
        remaining = []
        for _ in range(_TRIES):
            gpu.asnumpy(array[:1, :1])
            started = gpu.clock()
            result = busy()
            wait(result)
            waited = gpu.clock()
            gpu.asnumpy(result[:1, :1])
            waiting.append(waited - started)
            remaining.append(gpu.clock() - waited)
        return median(waiting) > median(remaining)

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

    def test_reported_memory_includes_every_new_array(self, gpu: TimedDevice) -> None:
        """If the device reports the memory of a call, it includes at least the arrays that the call keeps."""
        array = gpu.asarray(np.ones(100_000))
        make = capabilities.submitted(lambda: [array + 1, array + 2], gpu)
        with gpu.observe() as making:
            kept = make()
        with gpu.observe() as idle:
            pass
        assert making.memory is None or making.memory >= sum(part.nbytes for part in kept)
        assert not idle.memory

    def test_a_device_that_can_be_occupied_is_busy_for_that_long(self, gpu: TimedDevice) -> None:
        """If the device can be kept busy, the call returns at once and waiting takes as long as requested.

        It may take as long as the device's `occupied` tells, where it has that.
        """
        gpu.occupy(1e-3)  # the first time may compile something
        gpu.synchronize()
        started = gpu.clock()
        is_occupied = gpu.occupy(0.05)
        returned = gpu.clock()
        gpu.synchronize()
        ended = gpu.clock()
        lasted = gpu.occupied() or 0.05
        assert not is_occupied or (returned - started < 0.025 and ended - started >= 0.9 * lasted)

    def test_plain_copies_can_be_repeated(self, gpu: TimedDevice) -> None:
        """If the device offers plain copies of its memory, each can be called again.

        They leave nothing that a later wait for the device would raise.
        """
        copiers = gpu.copiers(1 << 12)
        assert isinstance(copiers, tuple)
        for copier in copiers:
            copy = capabilities.submitted(copier, gpu)
            copy()
            copy()
        gpu.synchronize()

    def test_an_ordinary_error_is_no_fault(self, gpu: TimedDevice) -> None:
        """Only the device's own errors are faults."""
        assert gpu.fault(ValueError("wrong shape")) is None
        gpu.release()

    def test_an_impossible_selector_is_refused(self, backend: Backend) -> None:
        """A selector that can't be right on any machine is refused without looking for a device."""
        with pytest.raises(GpuPerfError, match="no such"):
            backend.check("no such device")
