"""The SYCL backend on its CPU device, beyond the contract: queues, allocations, and what it lists."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
from plugins import skip_module

from pytest_gpuperf.devices.sycl import SyclBackend

if find_spec("dpnp") is None:
    skip_module("dpnp is not installed; CI's second environment has it")


@pytest.fixture(scope="module")
def cpu_device():
    return SyclBackend().gpu("cpu")


def test_synchronize_waits_for_queues_of_the_users_own(cpu_device):
    import dpctl
    import dpnp

    queue = dpctl.SyclQueue(dpctl.select_cpu_device())
    array = dpnp.ones((1500, 1500), dtype="float32", sycl_queue=queue)
    dpnp.asnumpy(array @ array)
    synchronized, left = [], []
    for _ in range(5):
        queue.wait()
        started = cpu_device.clock()
        result = array @ array
        cpu_device.synchronize()
        middle = cpu_device.clock()
        queue.wait()
        synchronized.append(middle - started)
        left.append(cpu_device.clock() - middle)
        del result
    assert sorted(synchronized)[2] > sorted(left)[2]


def test_an_allocation_beyond_the_device_is_out_of_memory(cpu_device):
    import dpctl
    from dpctl.memory import USMAllocationError

    too_large = dpctl.select_cpu_device().max_mem_alloc_size // 8 * 2
    with pytest.raises(USMAllocationError) as caught:
        cpu_device.xp.empty(too_large)
    assert cpu_device.fault(caught.value).kind == "out_of_memory"


GPU_FIRST = """
from contextlib import suppress
from pytest_gpuperf.devices.sycl import SyclBackend
from pytest_gpuperf.model.errors import Unavailable

with suppress(Unavailable):
    SyclBackend().gpu("")
print(SyclBackend().gpu("cpu").info.emulated)
"""


def test_the_cpu_is_found_after_the_gpu_was_looked_for(monkeypatch):
    """SYCL's loaders look once in a process, and so it is a process of its own."""
    for name in ("OCL_ICD_FILENAMES", "ONEAPI_DEVICE_SELECTOR"):  # as set for this process
        monkeypatch.delenv(name, raising=False)
    ran = subprocess.run([sys.executable, "-c", GPU_FIRST], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"


def test_observing_leaves_a_profiler_in_place(cpu_device):
    seen = []

    def profiler(*event):
        seen.append(event)

    sys.setprofile(profiler)
    try:
        with cpu_device.observe() as observation:
            cpu_device.xp.ones(3)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert observation.worked
    assert seen
