"""The SYCL backend on its CPU device, beyond the contract: queues, and other programs that look on."""

import subprocess
import sys
from importlib.util import find_spec
from statistics import median

import pytest
from plugins import skip_module

from pytest_gpuperf.devices.machine import Machine

if find_spec("dpnp") is None:
    skip_module("dpnp is not installed; CI's second environment has it")


@pytest.fixture
def gpu():
    return Machine("sycl:cpu").gpu()


def test_synchronize_waits_for_queues_of_the_users_own(gpu):
    import dpctl

    queue = dpctl.SyclQueue(dpctl.select_cpu_device())
    array = gpu.xp.ones((1500, 1500), dtype="float32", sycl_queue=queue)
    gpu.xp.asnumpy(array @ array)
    synchronized, left = [], []
    for _ in range(5):
        queue.wait()
        started = gpu.clock()
        result = array @ array
        gpu.synchronize()
        middle = gpu.clock()
        queue.wait()
        synchronized.append(middle - started)
        left.append(gpu.clock() - middle)
        del result
    assert median(synchronized) > median(left)


GPU_FIRST = """
from pytest_gpuperf.devices.machine import Machine

Machine("sycl").has_gpu()
info = Machine("sycl:cpu").gpu().info
print(info.emulated, info.memory > 0, info.multiprocessors > 0)
"""


def test_the_cpu_is_found_after_the_gpu_was_looked_for(setting):
    """SYCL's loaders look once in a process, and so it is a process of its own."""
    for name in ("OCL_ICD_FILENAMES", "ONEAPI_DEVICE_SELECTOR"):  # as set for this process
        setting(name, None)
    ran = subprocess.run([sys.executable, "-c", GPU_FIRST], capture_output=True, text=True, check=True)
    assert ran.stdout == "True True True\n"


def test_observing_leaves_a_profiler_in_place(gpu):
    seen = []

    def profiler(*event):
        seen.append(event)

    sys.setprofile(profiler)
    try:
        with gpu.observe() as observation:
            gpu.xp.ones(3)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert observation.worked
    assert seen
