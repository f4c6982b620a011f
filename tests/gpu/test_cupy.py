"""CuPy on a GPU: the conformance kit, and what only the vendor's library can show.

Runs only where CuPy finds a CUDA device, which may be fake: `python tests/fakes/cuda -m pytest tests/gpu`.
"""

from functools import partial
from time import perf_counter

import numpy as np
import pytest

from pytest_gpuperf.devices import capabilities, nvml
from pytest_gpuperf.devices.cupy import CupyBackend
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.testing import DeviceConformance
from pytest_gpuperf.timing.untimed_calls import first_call

try:
    CupyBackend().gpu("")
except Unavailable as cause:
    pytest.skip(str(cause), allow_module_level=True)


class TestCupy(DeviceConformance):
    size = 4096

    @pytest.fixture
    def backend(self):
        return CupyBackend()

    @pytest.mark.needs_values
    def test_uploads_mix_with_new_arrays(self, gpu):
        super().test_uploads_mix_with_new_arrays(gpu)


@pytest.fixture
def cuda():
    return CupyBackend().gpu("")


def test_only_the_fake_is_an_emulation(cuda, is_fake):
    assert is_fake == cuda.info.emulated


def test_synchronize_waits_for_side_streams(cuda, busy):
    stream = cuda.xp.cuda.Stream(non_blocking=True)
    with stream:
        busy(cuda)
        stream.synchronize()
        busy(cuda)
    cuda.synchronize()
    assert stream.done


@pytest.mark.parametrize("size", [1, 1 << 10, 1 << 20])
def test_in_place_work_without_a_result_is_work_however_short(cuda, size):
    def body(device):
        array = device.xp.ones(size)
        return lambda: (device.xp.add(array, 1, out=array), None)[1]

    assert first_call(lambda seen: partial(body, seen), cuda)[0].did_device_work
    assert not first_call(lambda seen: lambda: lambda: None, cuda)[0].did_device_work


def test_the_devices_own_events_time_a_call(cuda, observed):
    assert observed(cuda).device_time > 0


def test_the_report_knows_the_devices_memory_and_versions(cuda):
    _, total = cuda.xp.cuda.Device().mem_info
    assert cuda.info.memory == pytest.approx(total, rel=0.1)
    assert cuda.info.driver.startswith("for CUDA 1")
    assert cuda.info.runtime.startswith("CUDA 1")


def test_precision_is_reduced_only_where_it_was_asked_for(cuda, monkeypatch):
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    linalg = cuda.xp._core._routines_linalg
    before = linalg.get_compute_type("f4")
    generation = int(cuda.xp.cuda.Device().compute_capability[:-1])
    try:
        linalg.set_compute_type("f4", linalg.COMPUTE_TYPE_DEFAULT)
        assert cuda.info.reduced_precision is None
        linalg.set_compute_type("f4", linalg.COMPUTE_TYPE_TF32)
        assert (cuda.info.reduced_precision is not None) == (generation >= 8)
    finally:
        linalg.set_compute_type("f4", before)


def test_an_occupied_device_is_busy_after_the_call_and_for_as_long_as_said(cuda):
    capabilities.occupy(cuda, 1e-6)  # compiles the kernel
    returned, lasted = [], []
    for _ in range(3):  # a busy machine may take its time
        cuda.synchronize()
        started = perf_counter()
        assert capabilities.occupy(cuda, 0.1)
        returned.append(perf_counter() - started)
        assert returned[-1] > 0.1 or not cuda.xp.cuda.Stream.null.done
        cuda.synchronize()
        lasted.append(perf_counter() - started)
    assert min(returned) < 0.05
    assert min(lasted) == pytest.approx(0.1, rel=0.2)


def test_no_more_than_a_second_is_occupied(cuda):
    started = perf_counter()
    capabilities.occupy(cuda, 60)
    cuda.synchronize()
    assert 0.9 < perf_counter() - started < 5


def test_behind_other_work_the_events_see_only_the_calls_own(cuda):
    array = cuda.xp.ones((2048, 2048), dtype="float32")
    array @ array
    capabilities.occupy(cuda, 1e-6)
    cuda.synchronize()
    capabilities.occupy(cuda, 0.1)
    with cuda.observe() as seen:
        array @ array
    assert 0 < seen.device_time < 0.05


def test_clocks_are_numbers_or_have_a_reason(cuda, busy):
    busy(cuda)
    clocks = capabilities.clocks(cuda)
    if clocks is None:
        assert "the GPU's clocks are unknown: " in cuda.clocks_reason
        assert capabilities.throttle(cuda) == ()
    else:
        assert cuda.clocks_reason is None
        assert (clocks.sm_mhz or 1) > 0
        assert 0 < (clocks.celsius or 1) < 150
        assert 0 < (clocks.watts or 1) < 2000
        assert set(capabilities.throttle(cuda)) <= set(nvml._BAD.values())


def test_a_devices_number_leads_to_its_bus_as_it_does_for_jax(cuda):
    for index in range(CupyBackend().count()):
        assert cuda.xp.cuda.Device(index).pci_bus_id.lower() == nvml.cuda_bus_id(index).lower()


def test_memory_is_what_the_call_held_at_its_peak(cuda):
    cuda.release()
    with cuda.observe() as fresh:
        first = cuda.xp.empty(1 << 20, dtype="uint8")
        second = cuda.xp.empty(3 << 20, dtype="uint8")
        del first, second
        cuda.xp.empty(2 << 20, dtype="uint8")
    assert 4 << 20 == fresh.memory
    assert 1 <= fresh.allocations <= 3
    with cuda.observe() as again:
        cuda.xp.empty(3 << 20, dtype="uint8")
    assert (3 << 20, 0) == (again.memory, again.allocations)


def test_memory_from_outside_of_cupys_pool_is_not_told(cuda):
    with cuda.xp.cuda.using_allocator(None), cuda.observe() as seen:
        cuda.xp.empty(1 << 20, dtype="uint8")
    assert (None, None) == (seen.allocations, seen.memory)


def on_two_streams(cuda, beside):
    """Return what is seen of a call whose main stream has next to nothing to do."""
    stream, small = cuda.xp.cuda.Stream(non_blocking=True), cuda.xp.ones(1)
    array = cuda.xp.ones((8192, 8192), dtype="float32")
    with stream:
        array @ array
    cuda.synchronize()
    with cuda.observe() as seen:
        with stream:
            for _ in range(beside):
                array @ array
        small += 1
    return seen


def test_work_on_a_side_stream_is_outside_of_what_the_events_see(cuda):
    on_two_streams(cuda, 1)
    alone, beside = on_two_streams(cuda, 0), on_two_streams(cuda, 4)
    assert beside.outside_time > 1e-3
    assert beside.outside_time > 5 * alone.outside_time


def test_pinned_host_memory_is_told_from_pageable(cuda):
    cupyx = pytest.importorskip("cupyx")
    assert capabilities.host_memory(cuda, cupyx.empty_pinned(1 << 20, dtype="uint8")) == "pinned"
    assert capabilities.host_memory(cuda, np.ones(1 << 20)) == "pageable"
    assert capabilities.host_memory(cuda, cuda.xp.ones(3)) is None


def test_out_of_memory_names_the_bytes_and_leaves_the_device_usable(cuda, exhaust):
    _, total = cuda.xp.cuda.Device().mem_info
    exhaust(cuda, lambda size: cuda.xp.empty(size, dtype="uint8"), 2 * total, MemoryError)


@pytest.mark.needs_values
def test_a_product_is_timed_and_passes(product):
    record = product("cupy")
    assert record["gpu"]["device"]["emulated"] is False
    assert record["gpu"]["device_time"] > 0


def test_a_lost_context_is_named_in_the_tests_after_it(lose):
    lose(
        "cupy",
        """
def crash(device):
    source = 'extern "C" __global__ void crash(int* p) { *((volatile int*)16) = 1; }'
    kernel = device.xp.RawKernel(source, "crash")
    return lambda: kernel((1,), (1,), (device.xp.zeros(1, dtype="int32"),))
""",
    )
