"""CuPy's edge, on a stand-in for the library: which cause each of its errors is.

What the vendor's library really does is tests/gpu's; here is what we make of its answers.
"""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_gpuperf.devices.cupy import CupyBackend, CupyDevice
from pytest_gpuperf.model import Unavailable


class CudaError(RuntimeError):
    def __init__(self, status):
        super().__init__(f"cudaError {status}")
        self.status = status


class DriverError(RuntimeError):
    """Not a CudaError, as in CuPy: kernel launches raise it."""

    def __init__(self, status):
        super().__init__(f"CUDA_ERROR {status}")
        self.status = status


class OutOfMemory(MemoryError):
    def __init__(self, size):
        super().__init__(f"Out of memory allocating {size} bytes")
        self._size = size


class FakeCuda:
    """The parts of cupy.cuda that the backend touches."""

    MemoryHook = object

    def __init__(self, *, count=1, count_error=None, driver=12040):
        self.waited = []
        self.memory = SimpleNamespace(OutOfMemoryError=OutOfMemory)

        def get_count():
            if count_error:
                raise CudaError(count_error)
            return count

        self.driver = SimpleNamespace(CUDADriverError=DriverError)
        self.runtime = SimpleNamespace(
            CUDARuntimeError=CudaError,
            getDeviceCount=get_count,
            driverGetVersion=lambda: driver,
            runtimeGetVersion=lambda: 12090,
            getDeviceProperties=lambda index: {"name": f"Fake {index}".encode()},
        )

    def Device(self, index):  # noqa: N802 - CuPy's name
        return SimpleNamespace(use=lambda: None, synchronize=lambda: self.waited.append(index))


def fake(monkeypatch, *, ones=np.ones, **cuda):
    library = SimpleNamespace(cuda=FakeCuda(**cuda), ones=ones, __version__="14", __spec__=None)
    monkeypatch.setitem(sys.modules, "cupy", library)
    monkeypatch.setattr("pytest_gpuperf.devices.cupy.find_spec", lambda _: object())
    return library


def cause(selector=""):
    with pytest.raises(Unavailable) as caught:
        CupyBackend("a processor").gpu(selector)
    return str(caught.value)


def test_no_driver(monkeypatch):
    fake(monkeypatch, count_error=35, driver=0)
    assert "no NVIDIA driver is; install the driver" in cause()


def test_a_driver_too_old_names_both_versions(monkeypatch):
    fake(monkeypatch, count_error=35, driver=11040)
    assert "serves CUDA 11.4, CuPy needs 12.9; update the driver" in cause()


@pytest.mark.parametrize(("visible", "said"), [(None, "is not set"), ("", "is '', which may hide it")])
def test_no_visible_device_says_what_cuda_visible_devices_says(monkeypatch, visible, said):
    fake(monkeypatch, count_error=100)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert f"no CUDA device is visible: CUDA_VISIBLE_DEVICES {said}" in cause()


def test_a_number_beyond_the_devices_says_how_many_there_are(monkeypatch):
    fake(monkeypatch, count=2)
    assert "sees 2 CUDA device(s) and number 2 was asked for" in cause("2")


def test_any_other_cuda_error_is_passed_on(monkeypatch):
    fake(monkeypatch, count_error=804)
    assert "CUDA cannot be used: cudaError 804" in cause()


def test_a_device_that_fails_its_trial_allocation_is_unusable(monkeypatch):
    def no_memory(_):
        raise OutOfMemory(512)

    fake(monkeypatch, ones=no_memory)
    assert "is there but cannot be used: Out of memory allocating 512 bytes; see" in cause()


def test_a_device_that_works_was_synchronized_as_a_whole(monkeypatch):
    library = fake(monkeypatch)
    device = CupyBackend("a processor").gpu("")
    assert (device.name, device.info.library) == ("Fake 0", "cupy 14, CUDA 12.9, driver for 12.4")
    assert library.cuda.waited == [0]
    device.synchronize()
    assert library.cuda.waited == [0, 0]


def test_out_of_memory_names_the_bytes(monkeypatch):
    device = CupyDevice(fake(monkeypatch), 0)
    assert (device.fault(OutOfMemory(4096)).kind, device.fault(OutOfMemory(4096)).requested) == (
        "out_of_memory",
        4096,
    )


@pytest.mark.parametrize("error", [CudaError, DriverError])
@pytest.mark.parametrize(("status", "kind"), [(700, "lost"), (719, "lost"), (1, None), (46, None)])
def test_only_sticky_errors_lose_the_device(monkeypatch, status, kind, error):
    fault = CupyDevice(fake(monkeypatch), 0).fault(error(status))
    assert (fault.kind if fault else None) == kind
