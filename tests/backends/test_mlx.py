"""MLX on its CPU, in the place of a GPU: lazy and asynchronous; and what we make of its words on GPUs."""

from collections import UserDict, UserList
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from cases import for_each
from plugins import skip_module
from walks import walked

from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.mlx import MlxDevice
from pytest_gpuperf.devices.stand_in import chosen_stand_in
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.timing.leaves import leaves

if find_spec("mlx") is None:
    skip_module("MLX is not installed; CI's second environment has it")

import mlx.core as mx


@pytest.fixture
def gpu():
    """MLX's CPU in the place of a GPU."""
    return chosen_stand_in("mlx:cpu").gpu("")


@dataclass
class Point:
    x: Any
    y: Any


@for_each(
    "nested",
    [
        lambda array: array,
        lambda array: (1, [array], None),
        lambda array: {"points": [Point(1, array), Point]},
        lambda array: UserDict({"a": UserList([array])}),
    ],
)
@for_each("ask", ["wait", "submit"])
def test_arrays_are_computed_wherever_they_are_in_a_result(gpu, nested, ask):
    a = gpu.asarray(np.ones((256, 256), dtype=np.float32))
    before = mx.get_active_memory()
    result = nested(a + a)
    assert mx.get_active_memory() < before + a.nbytes, "MLX is lazy no more"
    assert any(gpu.holds(leaf.value) for leaf in leaves(result)), "it would be compared"
    getattr(gpu, ask)(result)
    gpu.synchronize()
    assert mx.get_active_memory() >= before + a.nbytes


def test_wide_numbers_are_narrowed_as_a_gpu_of_mlx_needs_it(gpu):
    assert gpu.asarray(np.ones(2, dtype=complex)).dtype == mx.complex64


def test_its_context_is_mlxs_own(gpu, monkeypatch):
    monkeypatch.setattr(mx, "stream", lambda device: f"on {device}")  # here it has one device to work on
    assert gpu.context() == f"on {mx.Device(mx.cpu, 0)}"


def measured(body, **demand):
    """Return the record of a body that is measured with NumPy and with MLX on the CPU."""
    devices = Machine("mlx:cpu")
    return walked(body, devices.cpu(), devices.gpu(), Demand(**demand), max_time=5)


def test_a_workload_has_a_verdict_and_its_copies():
    def body(device):
        a = device.asarray(np.ones((128, 128), dtype=np.float32))
        return lambda: {"product": a @ a, "sum": device.xp.sum(a)}

    record = measured(body)
    assert ("recorded", True) == (record.status, record.check.agreed)
    assert ("mlx", "numpy") == (record.gpu.device.backend, record.cpu.device.backend)
    assert record.transfer.h2d.samples
    assert record.transfer.d2h.samples
    assert record.gpu.inspection.memory >= 128 * 128 * 4


def evaluated(product):
    np.asarray(product)


RETURNED = {  # what a call returns, and whether its work is computed then
    "nothing": (lambda product: None, False),
    "a shape": (lambda product: tuple(product.shape), False),
    "a number of its own": (lambda product: 1.0, False),
    "a number of Python": (lambda product: float(product[0, 0]), True),
    "what it evaluates itself": (evaluated, True),
}


@pytest.mark.parametrize("returned", [*RETURNED, "an input"])
def test_work_that_a_call_leaves_uncomputed_is_an_error_whatever_it_returns(returned):
    made, is_computed = RETURNED.get(returned, (None, False))

    def body(device):
        a = device.asarray(np.ones((64, 64), dtype=np.float32))
        kept = {}

        def call():
            kept["product"] = a @ a
            return made(kept["product"]) if made else a

        return call

    if is_computed:
        assert measured(body, check=False).status == "recorded"
    else:
        with pytest.raises(GpuPerfError, match=r"nothing was computed on mlx on the CPU: .*; return the"):
            measured(body, check=False)


APPLE = {"architecture": "applegpu_g17s", "device_name": "Apple M5 Max", "memory_size": 1 << 36}
NVIDIA = {
    "architecture": "sm_90",
    "compute_capability_major": 9,
    "compute_capability_minor": 0,
    "device_name": "NVIDIA H100",
    "free_memory": 5,
    "pci_bus_id": "0000:0a:00.0",
    "total_memory": 1 << 35,
}


@pytest.fixture
def described(monkeypatch):
    """Make a device of which MLX says this, on a Mac with this system."""

    def make(said, system=""):
        monkeypatch.setattr(mx, "device_info", lambda device: said)
        monkeypatch.setattr("pytest_gpuperf.devices.mlx.mac_ver", lambda: (system, (), ""))
        return MlxDevice(mx, mx.Device(mx.cpu, 0), said["device_name"])

    return make


@for_each(
    ("said", "system", "reduces"),
    [
        (APPLE, "26.2", True),
        (APPLE, "26.1.1", False),
        ({**APPLE, "architecture": "applegpu_g16s"}, "26.2", False),
        ({**APPLE, "architecture": "applegpu_g17p"}, "26.2", False),
        (NVIDIA, "", True),
        ({**NVIDIA, "compute_capability_major": 7}, "", False),
    ],
)
def test_float32_is_rounded_where_mlx_uses_units_that_do_so(monkeypatch, described, said, system, reduces):
    monkeypatch.delenv("MLX_ENABLE_TF32", raising=False)
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    info = described(said, system).info
    assert (reduces, reduces) == (info.reduced_precision is not None, info.reduced_eps is not None)
    monkeypatch.setenv("MLX_ENABLE_TF32", "0")
    assert described(said, system).info.reduced_precision is None


def test_a_gpu_is_described_by_what_mlx_says_of_it(described):
    nvidia = described(NVIDIA)
    assert ("NVIDIA H100", 1 << 35, 5) == (nvidia.info.name, nvidia.info.memory, nvidia.free_memory())
    assert nvidia._pci_bus_id() == "0000:0a:00.0"
    apple = described(APPLE)
    assert ("Apple M5 Max", 1 << 36, None) == (apple.info.name, apple.info.memory, apple.free_memory())
    assert apple.clocks() is None
    assert "NVIDIA's GPUs only" in apple.clocks_reason
