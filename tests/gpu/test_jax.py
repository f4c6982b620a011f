"""JAX on a real GPU: the conformance kit, and what only the vendor's library can show.

Runs only where JAX finds an accelerator.
"""

import os
from importlib.util import find_spec
from statistics import median
from time import perf_counter

import numpy as np
import pytest

from pytest_gpuperf.devices.choice import backends
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.testing import DeviceConformance

# JAX would take most of the GPU's memory for itself, and other libraries' tests run in this process.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

if find_spec("jax") is not None:
    import jax

    jax.config.update("jax_num_cpu_devices", 2)  # as tests/backends have it

try:
    Machine("jax").gpu()
except Unavailable as cause:
    pytest.skip(str(cause), allow_module_level=True)


class TestJax(DeviceConformance):
    size = 4096

    @pytest.fixture
    def backend(self):
        return backends()["jax"]

    @pytest.fixture
    def gpu(self, backend):
        with jax.enable_x64(True):  # noqa: FBT003 - JAX's own
            yield backend.gpu("")


@pytest.fixture
def device():
    return Machine("jax").gpu()


@pytest.fixture
def cpu():
    return Machine("jax").cpu()


def test_it_is_no_emulation_and_names_its_runtime(device):
    assert not device.info.emulated
    assert device.info.runtime


def test_clocks_are_numbers_or_have_a_reason(device):
    clocks = device.clocks()
    assert (clocks is None) == (device.clocks_reason is not None)
    if find_spec("cupy") is not None and device.info.runtime.startswith("cuda"):
        import cupy

        assert cupy.cuda.Device(0).pci_bus_id.lower() == device._pci_bus_id().lower()


def test_the_two_sides_do_not_hold_each_others_arrays(cpu, device):
    assert cpu.holds(cpu.xp.ones(3))
    assert cpu.holds(cpu.xp.cumsum(np.ones(3)) + 1)
    assert cpu.holds(jax.jit(lambda a: a * jax.numpy.ones(()))(cpu.xp.ones(3)))
    assert not cpu.holds(device.xp.ones(3))
    assert not device.holds(cpu.xp.ones(3))
    assert cpu.holds(cpu.asarray(device.xp.ones(3)))


def products(device):
    array = device.asarray(np.ones((8192, 8192), dtype=np.float32))
    return [array @ (array + step) for step in range(3)]


def test_work_whose_results_nobody_keeps_is_waited_for(device):
    waited, left = [], []
    for _ in range(5):
        products(device)
        started = perf_counter()
        device.synchronize()
        synchronized = perf_counter()
        (device.xp.ones(()) + 1).block_until_ready()  # after all else on the device
        waited.append(synchronized - started)
        left.append(perf_counter() - synchronized)
    assert median(waited) > 5 * median(left)


def test_what_a_call_holds_is_seen(device):
    with device.observe() as seen:
        kept = device.xp.ones((64 << 20,), dtype="float32")
    assert seen.worked
    assert seen.held is None or seen.held >= kept.nbytes


def test_every_copy_to_the_host_is_a_new_one(device):
    array = device.xp.ones(3)
    assert device.asnumpy(array).tolist() == [1, 1, 1]
    assert array._npy_value is None, "JAX kept the copy: the next one would cost no time"


def test_out_of_memory_names_the_bytes_and_leaves_the_device_usable(device, exhaust):
    def allocate(size):
        device.xp.ones(size // 4, dtype="float32").block_until_ready()

    exhaust(device, allocate, 4 << 44, RuntimeError)


def test_a_product_is_timed_and_passes(product):
    record = product("jax")
    assert "jax" == record["cpu"]["device"]["backend"] == record["gpu"]["device"]["backend"]
