"""PyTorch on a GPU: the conformance kit, and what only the vendor's library can show.

Runs only where torch finds a CUDA device, which may be fake: `python tests/fakes/cuda -m pytest tests/gpu`.
"""

from time import perf_counter

import numpy as np
import pytest

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.torch import TorchBackend
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.testing import DeviceConformance

try:
    TorchBackend().gpu("cuda")
except Unavailable as cause:
    pytest.skip(str(cause), allow_module_level=True)

import torch


class TestTorch(DeviceConformance):
    size = 4096

    @pytest.fixture
    def backend(self):
        return TorchBackend()

    @pytest.mark.needs_values
    def test_uploads_mix_with_new_arrays(self, gpu):
        super().test_uploads_mix_with_new_arrays(gpu)


@pytest.fixture
def cuda():
    return TorchBackend().gpu("cuda")


def test_the_accelerator_is_the_default(cuda):
    assert TorchBackend().gpu("").name == cuda.name


def test_the_two_sides_do_not_hold_each_others_tensors(cuda):
    cpu = TorchBackend().cpu()
    assert not cpu.holds(cuda.xp.ones(3))
    assert not cuda.holds(cpu.xp.ones(3))
    assert cpu.holds(cpu.asarray(cuda.xp.ones(3)))


def test_synchronize_waits_for_side_streams(cuda, busy):
    stream = torch.cuda.Stream()
    busy(cuda)
    cuda.synchronize()
    with torch.cuda.stream(stream):
        busy(cuda)
    cuda.synchronize()
    assert stream.query()


def test_the_devices_own_events_time_a_call(cuda, observed):
    seen = observed(cuda)
    assert seen.worked
    assert seen.device_time > 0


def test_work_on_a_side_stream_is_outside_of_what_the_events_see(cuda):
    stream, array, small = torch.cuda.Stream(), cuda.xp.ones((8192, 8192)), cuda.xp.ones(1)
    with torch.cuda.stream(stream):
        array @ array
    cuda.synchronize()
    outside = []
    for products in (0, 4):
        with cuda.observe() as seen:
            with torch.cuda.stream(stream):
                for _ in range(products):
                    array @ array
            small += 1
        outside.append(seen.outside_time)
    assert outside[1] > 5 * outside[0]


def test_memory_is_what_the_call_held_at_its_peak(cuda):
    cuda.release()
    with cuda.observe() as fresh:
        first = cuda.xp.empty(1 << 20, dtype=torch.uint8)
        second = cuda.xp.empty(32 << 20, dtype=torch.uint8)
        del first, second
    assert 33 << 20 == fresh.memory
    assert fresh.allocations >= 1
    with cuda.observe() as again:
        kept = cuda.xp.empty(32 << 20, dtype=torch.uint8)
    assert (32 << 20, 32 << 20, 0) == (again.memory, again.held, again.allocations)
    del kept


def test_only_the_fake_is_an_emulation(cuda, is_fake):
    assert is_fake == cuda.info.emulated


def test_the_report_knows_memory_and_runtime(cuda):
    _, total = torch.cuda.mem_get_info()
    assert cuda.info.memory == pytest.approx(total, rel=0.1)
    assert cuda.info.runtime.startswith(("CUDA ", "ROCm "))


def test_an_occupied_device_is_busy_after_the_call_and_for_as_long_as_said(cuda):
    returned, lasted = [], []
    for _ in range(3):  # a busy machine may take its time
        cuda.synchronize()
        started = perf_counter()
        assert capabilities.occupy(cuda, 0.1)
        returned.append(perf_counter() - started)
        assert returned[-1] > 0.1 or not torch.cuda.current_stream().query()
        cuda.synchronize()
        lasted.append(perf_counter() - started)
    assert min(returned) < 0.05
    assert min(lasted) == pytest.approx(0.1, rel=0.2)


def test_reduced_precision_follows_the_setting(cuda, monkeypatch):
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        assert cuda.info.reduced_precision is None
        torch.set_float32_matmul_precision("high")
        has_tf32 = torch.version.hip is None and torch.cuda.get_device_capability()[0] >= 8
        assert (cuda.info.reduced_precision is not None) == has_tf32
    finally:
        torch.set_float32_matmul_precision(before)


def test_pinned_host_memory_is_told_from_pageable(cuda):
    assert capabilities.host_memory(cuda, torch.empty(1 << 20, pin_memory=True).numpy()) == "pinned"
    assert capabilities.host_memory(cuda, np.ones(1 << 20)) == "pageable"
    assert capabilities.host_memory(cuda, cuda.xp.ones(3)) is None


def test_clocks_are_numbers_or_have_a_reason(cuda):
    clocks = capabilities.clocks(cuda)
    assert (clocks is None) == (cuda.clocks_reason is not None)


def test_out_of_memory_names_the_bytes_and_leaves_the_device_usable(cuda, exhaust):
    _, total = torch.cuda.mem_get_info()
    exhaust(cuda, lambda size: cuda.xp.empty(size, dtype=torch.uint8), 2 * total, torch.OutOfMemoryError)


@pytest.mark.needs_values
def test_a_product_is_timed_and_passes(product):
    record = product("torch")
    assert "torch" == record["cpu"]["device"]["backend"] == record["gpu"]["device"]["backend"]
    assert record["gpu"]["device_time"] > 0


def test_a_lost_context_is_named_in_the_tests_after_it(lose, monkeypatch):
    monkeypatch.setenv("FAKE_CUDA_CRASH", "index_elementwise")  # the fake checks no index
    lose(
        "torch",
        """
def crash(device):
    table, beyond = device.xp.ones(3), device.asarray([10**9])
    return lambda: table[beyond]  # an assertion in the kernel
""",
    )
