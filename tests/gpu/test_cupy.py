"""CuPy on a real GPU: the conformance kit, and what only the vendor's library can show.

Runs only where CuPy finds a CUDA device.
"""

import json

import numpy as np
import pytest

from pytest_gpuperf.devices.cupy import CupyBackend
from pytest_gpuperf.model import Unavailable
from pytest_gpuperf.testing import DeviceConformance

try:
    CupyBackend("a processor").gpu("")
except Unavailable as cause:
    pytest.skip(str(cause), allow_module_level=True)


class TestCupy(DeviceConformance):
    size = 4096

    @pytest.fixture
    def backend(self):
        return CupyBackend("a processor")


@pytest.fixture
def cuda():
    return CupyBackend("a processor").gpu("")


def busy(xp, size=4096):
    array = xp.ones((size, size), dtype="float32")
    return array @ array


def test_it_is_no_emulation(cuda):
    assert not cuda.info.emulated


def test_synchronize_waits_for_side_streams(cuda):
    cupy = cuda.xp
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        busy(cupy)
        stream.synchronize()
        busy(cupy)
    cuda.synchronize()
    assert stream.done


def test_in_place_work_without_a_result_is_seen(cuda):
    array = cuda.xp.ones(1 << 20)
    cuda.synchronize()
    with cuda.observe() as seen:
        cuda.xp.add(array, 1, out=array)
    assert seen.worked


def test_the_devices_own_events_time_a_call(cuda):
    busy(cuda.xp)
    cuda.synchronize()
    with cuda.observe() as seen:
        busy(cuda.xp)
    assert seen.device_time > 0


def test_out_of_memory_names_the_bytes_and_leaves_the_device_usable(cuda):
    free, total = cuda.xp.cuda.Device().mem_info
    assert free <= total
    with pytest.raises(MemoryError) as caught:
        cuda.xp.empty(2 * total, dtype="uint8")
    fault = cuda.fault(caught.value)
    assert (fault.kind, fault.requested) == ("out_of_memory", pytest.approx(2 * total, rel=0.01))
    cuda.release()
    assert cuda.asnumpy(cuda.asarray(np.ones(2))).tolist() == [1, 1]


def test_a_product_is_timed_and_passes(pytester):
    pytester.makepyfile(
        """
        import numpy as np
        import pytest

        @pytest.mark.speedup(min=1.5)
        def test_product(device):
            a = device.asarray(np.ones((2048, 2048), dtype=np.float32))
            return lambda: a @ a

        def test_scan(gpu):
            assert gpu.xp.cumsum(gpu.asarray([1, 2, 3]))[-1] == 6
        """
    )
    result = pytester.runpytest_subprocess(
        "--gpuperf-gpu=cupy", "--gpuperf-require-gpu", "--gpuperf-json=report.json"
    )
    result.assert_outcomes(passed=2)
    (record,) = json.loads((pytester.path / "report.json").read_text())["records"]
    assert record["status"] == "passed"
    assert record["gpu"]["device"]["emulated"] is False
    assert record["gpu"]["device_time"] > 0


def test_a_lost_context_is_named_in_the_tests_after_it(pytester):
    pytester.makepyfile(
        r"""
        import pytest

        @pytest.mark.speedup(min=1)
        def test_crash(device):
            if device.kind == "cpu":
                return lambda: device.xp.ones(3)
            kernel = device.xp.RawKernel(
                'extern "C" __global__ void crash(int* p) { *((volatile int*)16) = 1; }', "crash"
            )
            return lambda: kernel((1,), (1,), (device.xp.zeros(1, dtype="int32"),))

        def test_after(gpu):
            gpu.synchronize()
        """
    )
    result = pytester.runpytest_subprocess(
        "-p", "no:randomly", "--gpuperf-gpu=cupy", "--gpuperf-json=report.json"
    )
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(["the GPU (*) was lost in test_a_lost_context*::test_crash: *"])
    assert (pytester.path / "report.json").exists()
