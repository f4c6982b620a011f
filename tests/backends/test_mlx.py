"""MLX on its CPU, in the place of a GPU: lazy and asynchronous; and what we make of its words on GPUs."""

import sys
from collections import UserDict, UserList
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from cases import for_each
from plugins import skip_module
from walks import walked

from pytest_gpuperf.devices.library import Reduced
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.mlx import MlxDevice
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError

if find_spec("mlx") is None:
    skip_module("MLX is not installed; CI's second environment has it")

import mlx.core as mx


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
def test_arrays_are_computed_wherever_they_are_in_a_result(nested, ask):
    gpu = Machine("mlx:cpu").gpu()
    a = gpu.asarray(np.ones((256, 256), dtype=np.float32))
    before = mx.get_active_memory()
    result = nested(a + a)
    assert mx.get_active_memory() < before + a.nbytes, "MLX is lazy no more"
    getattr(gpu, ask)(result)
    gpu.synchronize()
    assert mx.get_active_memory() >= before + a.nbytes


def measured(body, **demand):
    """Return the record of a body that is measured with NumPy and with MLX on the CPU."""
    devices = Machine("mlx:cpu")
    return walked(body, devices.cpu(), devices.gpu(), Demand(**demand), max_time=5)


def products():
    """Return calls by whether they multiply or convolve: True, False, or None where that is not known."""
    a, state = mx.array(np.ones((16, 16), dtype=np.float32)), {}
    mx.eval(a)
    compiled = mx.compile(lambda x: mx.exp(x) * 2 + 1)

    def kept():
        state["x"] = mx.sort(a)
        mx.eval(state)
        return state["x"] + 1

    return {
        True: {
            "product": lambda: mx.sort(a @ a),
            "convolution": lambda: {"x": mx.conv1d(a[None], a[None])},
            "attention": lambda: mx.fast.scaled_dot_product_attention(*[a[None, None]] * 3, scale=1.0),
            "gradient": lambda: mx.grad(lambda x: (x @ x).sum())(a),
            "compiled": lambda: mx.compile(lambda x: mx.exp(x) @ x)(a),
        },
        False: {
            "sort": lambda: mx.sort(a) * 1.02,
            "compiled": lambda: compiled(a),
            "one of two": lambda: (mx.fft.fft(a), a.sum(), mx.cumsum(a), 3),
            "written": lambda: mx.zeros(16).at[mx.array([1, 2])].add(1.0),
            "random numbers": lambda: mx.random.normal((4,)),
        },
        None: {
            "nothing": lambda: None,
            "a kept array": lambda: a,
            "computed at once": kept,
            "read": lambda: mx.sort(a) * np.array(a + 1),
        },
    }


@for_each("known", [True, False, None])
def test_products_are_seen_in_the_graph_of_one_more_result(known):
    gpu = Machine("mlx:cpu").gpu()
    calls = products()[known]
    assert dict.fromkeys(calls, known) == {name: gpu.runs_products(call) for name, call in calls.items()}


def test_a_primitive_that_mlx_does_not_have_may_be_a_product(monkeypatch):
    gpu = Machine("mlx:cpu").gpu()
    for graph, known in (
        ('{ 1 [label ="CustomKernel", shape=rectangle]; }', None),
        ('{ 1 [label ="Sort", shape=rectangle]; } { 2 [label ="Own", shape=rectangle]; }', None),
        ('{ 1 [label ="Own", shape=rectangle]; } { 2 [label ="GatherMM", shape=rectangle]; }', True),
        ('{ 1 [label ="Scatter Sum", shape=rectangle]; }', False),
    ):
        monkeypatch.setattr(mx, "export_to_dot", lambda file, *_, graph=graph: file.write(graph))
        assert gpu.runs_products(lambda: mx.zeros(3)) is known


@for_each(
    ("name", "factor", "agrees"),
    [
        ("sort", 1.02, False),
        ("sort", 1.0001, True),
        ("matmul", 1.02, True),
        ("matmul", 1.04, False),
    ],
)
def test_only_a_product_has_the_tolerance_of_tf32(monkeypatch, name, factor, agrees):
    monkeypatch.setattr(
        MlxDevice, "_reduced_products", lambda _: Reduced(mode="TF32", setting="MLX_ENABLE_TF32")
    )
    values = np.random.default_rng(0).uniform(1, 2, (16, 16)).astype(np.float32)

    def body(device):
        a, wrong = device.asarray(values), 1 if device.kind == "cpu" else factor
        inputs = [a] if name == "sort" else [a, a]
        return lambda: getattr(device.xp, name)(*inputs) * np.float32(wrong).item()

    assert agrees is measured(body).check.agreed


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


@pytest.mark.parametrize(
    ("made", "is_computed"),
    [
        (lambda product, _: None, False),
        (lambda product, _: tuple(product.shape), False),
        (lambda product, _: 1.0, False),
        (lambda _, an_input: an_input, False),
        (lambda product, _: float(product[0, 0]), True),
        (lambda product, _: np.asarray(product) is None, True),
    ],
)
def test_work_that_a_call_leaves_uncomputed_is_an_error_whatever_it_returns(made, is_computed):
    def body(device):
        a = device.asarray(np.ones((64, 64), dtype=np.float32))
        kept = {}

        def call():
            kept["product"] = a @ a
            return made(kept["product"], a)

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
def opened(monkeypatch):
    """Open a GPU of which MLX says this, on a Mac with this system; it computes on the CPU."""

    def call(said, system=""):
        library = ModuleType("mlx.core")
        vars(library).update(vars(mx))
        library.is_available, library.device_count = lambda kind: kind == mx.gpu, lambda kind: 1
        library.Device, library.stream = lambda kind, index: mx.Device(mx.cpu, index), nullcontext
        library.device_info = lambda device: said
        monkeypatch.setitem(sys.modules, "mlx.core", library)
        monkeypatch.setattr("pytest_gpuperf.devices.mlx.mac_ver", lambda: (system, (), ""))
        return Machine("mlx").gpu()

    return call


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
def test_float32_is_rounded_where_mlx_uses_units_that_do_so(setting, opened, said, system, reduces):
    setting("MLX_ENABLE_TF32", None)
    setting("NVIDIA_TF32_OVERRIDE", None)
    gpu = opened(said, system)
    assert (reduces, reduces) == (gpu.info.reduced_precision is not None, gpu.info.reduced_eps is not None)
    setting("MLX_ENABLE_TF32", "0")
    assert gpu.info.reduced_precision is None


def test_a_gpu_is_described_by_what_mlx_says_of_it(opened, with_nvml, with_cuda_driver):
    with_cuda_driver()
    assert "for CUDA 13.0" == opened(NVIDIA).info.driver
    buses = with_nvml()
    nvidia = opened(NVIDIA)
    assert ("NVIDIA H100", 1 << 35, 5) == (nvidia.info.name, nvidia.info.memory, nvidia.free_memory())
    assert "580.65.06" == nvidia.info.driver
    assert ["0000:0a:00.0"] == buses, "its clocks are read"
    with nvidia.context() as device:
        assert device == mx.Device(mx.cpu, 0)
    apple = opened(APPLE)
    assert ("Apple M5 Max", 1 << 36, None) == (apple.info.name, apple.info.memory, apple.free_memory())
    assert apple.info.driver is None
    assert "NVIDIA's GPUs only" in apple.clocks_reason
