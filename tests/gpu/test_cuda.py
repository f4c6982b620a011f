"""CUDA devices through CuPy and through torch: the conformance kit, and what only NVIDIA's library can show.

Runs only where they find one, which may be fake: `python tests/fakes/cuda -m pytest tests/gpu`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from walks import prepared

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.choice import backends
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.testing import DeviceConformance

BYTES = "uint8"


@dataclass(frozen=True, kw_only=True)
class Library:
    """How to write in a library what the tests are about; each function takes its namespace."""

    side_stream: Callable[[Any], Any]
    entered: Callable[[Any, Any], Any]
    done: Callable[[Any, Any], bool]  # of a stream, or without one of the current one
    set_tf32: Callable[[Any, bool], Any]
    generation: Callable[[Any], int]
    pinned: Callable[[Any], Any]
    total: Callable[[Any], int]
    crash: str


def cupys_tf32(cp: Any, is_on: bool) -> None:  # noqa: FBT001 - as torch's
    linalg = cp._core._routines_linalg
    linalg.set_compute_type("f4", linalg.COMPUTE_TYPE_TF32 if is_on else linalg.COMPUTE_TYPE_DEFAULT)


LIBRARIES = {
    "cupy": Library(
        side_stream=lambda cp: cp.cuda.Stream(non_blocking=True),
        entered=lambda cp, stream: stream,
        done=lambda cp, stream: (stream or cp.cuda.Stream.null).done,
        set_tf32=cupys_tf32,
        generation=lambda cp: int(cp.cuda.Device().compute_capability[:-1]),
        pinned=lambda cp: pytest.importorskip("cupyx").empty_pinned(1 << 20, dtype=BYTES),
        total=lambda cp: cp.cuda.Device().mem_info[1],
        crash="""
def crash(device):
    source = 'extern "C" __global__ void crash(int* p) { *((volatile int*)16) = 1; }'
    kernel = device.xp.RawKernel(source, "crash")
    return lambda: kernel((1,), (1,), (device.xp.zeros(1, dtype="int32"),))
""",
    ),
    "torch": Library(
        side_stream=lambda torch: torch.cuda.Stream(),
        entered=lambda torch, stream: torch.cuda.stream(stream),
        done=lambda torch, stream: (stream or torch.cuda.current_stream()).query(),
        set_tf32=lambda torch, is_on: torch.set_float32_matmul_precision("high" if is_on else "highest"),
        generation=lambda torch: 0 if torch.version.hip else torch.cuda.get_device_capability()[0],
        pinned=lambda torch: torch.empty(1 << 20, device="cpu", pin_memory=True).numpy(),
        total=lambda torch: torch.cuda.mem_get_info()[1],
        crash="""
def crash(device):
    table, beyond = device.xp.ones(3), device.asarray([10**9])
    return lambda: table[beyond]  # an assertion in the kernel
""",
    ),
}


@pytest.fixture(params=LIBRARIES)
def name(request):
    return request.param


@pytest.fixture
def library(name):
    return LIBRARIES[name]


@pytest.fixture
def backend(name):
    return backends()[name]


@pytest.fixture
def cuda(name, backend):
    try:
        return backend.gpu("cuda" if name == "torch" else "")
    except Unavailable as cause:
        pytest.skip(str(cause))


class TestCuda(DeviceConformance):
    size = 4096

    @pytest.fixture
    def backend(self, name, cuda):
        return backends()[name]

    @pytest.mark.needs_values
    def test_uploads_mix_with_new_arrays(self, gpu):
        super().test_uploads_mix_with_new_arrays(gpu)


def bytes_on(cuda, count):
    return cuda.xp.empty(count, dtype=getattr(cuda.xp, BYTES))


def test_the_report_knows_memory_and_versions_and_only_the_fake_is_an_emulation(
    name, library, backend, cuda, is_fake
):
    assert is_fake == cuda.info.emulated
    assert cuda.info.memory == pytest.approx(library.total(cuda.xp), rel=0.1)
    assert cuda.info.runtime.startswith(("CUDA 1", "ROCm "))
    assert name == "torch" or cuda.info.driver.startswith("for CUDA 1")
    assert backend.gpu("").name == cuda.name, "it is the default"


def test_synchronize_waits_for_side_streams(library, cuda, busy):
    stream = library.side_stream(cuda.xp)
    busy(cuda)
    cuda.synchronize()
    with library.entered(cuda.xp, stream):
        busy(cuda)
    cuda.synchronize()
    assert library.done(cuda.xp, stream)


@pytest.mark.parametrize("size", [1, 1 << 10, 1 << 20])
def test_in_place_work_without_a_result_is_work_however_short(cuda, size):
    def body(device):
        array = device.xp.ones(size)
        return lambda: (device.xp.add(array, 1, out=array), None)[1]

    assert prepared(cuda, body).did_device_work
    assert not prepared(cuda, lambda device: lambda: None).did_device_work


def test_precision_is_reduced_only_where_it_was_asked_for(library, cuda, monkeypatch):
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    try:
        library.set_tf32(cuda.xp, True)  # noqa: FBT003 - torch's own
        assert (cuda.info.reduced_precision is not None) == (library.generation(cuda.xp) >= 8)
    finally:
        library.set_tf32(cuda.xp, False)  # noqa: FBT003 - as above
    assert cuda.info.reduced_precision is None


def test_an_occupied_device_is_busy_after_the_call_and_for_as_long_as_said(library, cuda):
    cuda.occupy(1e-6)  # compiles the kernel
    returned, lasted = [], []
    for _ in range(3):  # a busy machine may take its time
        cuda.synchronize()
        started = perf_counter()
        assert cuda.occupy(0.1)
        returned.append(perf_counter() - started)
        assert returned[-1] > 0.1 or not library.done(cuda.xp, None)
        cuda.synchronize()
        lasted.append((perf_counter() - started) / (cuda.occupied() or 0.1))
    assert min(returned) < 0.05
    assert min(lasted) == pytest.approx(1, rel=0.2)


def test_no_more_than_a_second_is_occupied(cuda):
    started = perf_counter()
    cuda.occupy(60)
    cuda.synchronize()
    lasted = cuda.occupied() or 1.0
    assert lasted < 1.5
    assert 0.9 * lasted < perf_counter() - started < 5


def test_behind_other_work_the_events_see_only_the_calls_own(cuda):
    array = cuda.xp.ones((2048, 2048), dtype=cuda.xp.float32)
    array += 1
    cuda.occupy(1e-6)
    cuda.synchronize()
    cuda.occupy(0.1)
    with cuda.observe() as seen:
        array += 1  # which allocates nothing: an unfinished stream shows it
    assert seen.worked
    assert 0 < seen.device_time < 0.05


def test_work_on_a_side_stream_is_outside_of_what_the_events_see(library, cuda):
    array, small = cuda.xp.ones((8192, 8192), dtype=cuda.xp.float32), cuda.xp.ones(1)
    stream = library.side_stream(cuda.xp)
    outside = []
    for products in (1, 0, 4):  # the first compiles
        cuda.synchronize()
        with cuda.observe() as seen:
            with library.entered(cuda.xp, stream):
                for _ in range(products):
                    array @ array
            small += 1
        outside.append(seen.outside_time)
    assert outside[2] > max(5 * outside[1], 1e-3)
    assert cuda.clock() >= seen.finished > 0


def test_clocks_are_numbers_or_have_a_reason(cuda, busy):
    busy(cuda)
    clocks = cuda.clocks()
    if clocks is None:
        assert "the GPU's clocks are unknown: " in cuda.clocks_reason
        assert capabilities.throttle(cuda) == ()
    else:
        assert cuda.clocks_reason is None
        assert (clocks.sm_mhz or 1) > 0
        assert 0 < (clocks.celsius or 1) < 150
        assert 0 < (clocks.watts or 1) < 2000


def test_memory_is_what_the_call_held_at_its_peak(cuda):
    cuda.release()
    with cuda.observe() as fresh:
        first, second = bytes_on(cuda, 2 << 20), bytes_on(cuda, 32 << 20)
        del first, second
        bytes_on(cuda, 32 << 20)
    assert (34 << 20, 0) == (fresh.memory, fresh.held)
    assert 1 <= fresh.allocations <= 3
    with cuda.observe() as again:
        kept = bytes_on(cuda, 32 << 20)
    assert (32 << 20, 32 << 20, 0) == (again.memory, again.held, again.allocations)
    with cuda.observe() as freed:
        del kept
    assert (0, -32 << 20, False) == (freed.memory, freed.held, freed.worked)
    assert freed.live - again.live == 32 << 20


def test_memory_from_outside_of_cupys_pool_is_not_told(name, cuda):
    if name == "cupy":  # tests/fakes has torch's
        with cuda.xp.cuda.using_allocator(None), cuda.observe() as seen:
            bytes_on(cuda, 1 << 20)
        assert (None, None) == (seen.allocations, seen.memory)


def test_pinned_host_memory_is_told_from_pageable(library, cuda):
    assert cuda.host_memory(library.pinned(cuda.xp)) == "pinned"
    assert cuda.host_memory(np.ones(1 << 20)) == "pageable"
    assert cuda.host_memory(cuda.xp.ones(3)) is None


def test_out_of_memory_names_the_bytes_and_leaves_the_device_usable(name, library, cuda, exhaust):
    error = MemoryError if name == "cupy" else RuntimeError
    exhaust(cuda, lambda size: bytes_on(cuda, size), 2 * library.total(cuda.xp), error)


def test_the_two_sides_do_not_hold_each_others_arrays(backend, cuda):
    cpu = backend.cpu()
    assert not cpu.holds(cuda.xp.ones(3))
    assert not cuda.holds(cpu.xp.ones(3))
    assert cpu.backend == "numpy" or cpu.holds(cpu.asarray(cuda.xp.ones(3)))


@pytest.mark.needs_values
def test_a_product_is_timed_and_passes(name, cuda, product):
    record = product(name)
    assert {"cupy": "numpy", "torch": "torch"}[name] == record["cpu"]["device"]["backend"]
    assert (name, False) == (record["gpu"]["device"]["backend"], record["gpu"]["device"]["emulated"])
    assert record["gpu"]["device_time"] > 0


def test_a_lost_context_is_named_in_the_tests_after_it(name, library, cuda, lose, monkeypatch):
    if name == "torch":
        monkeypatch.setenv("FAKE_CUDA_CRASH", "index_elementwise")  # the fake checks no index
    lose(name, library.crash)
