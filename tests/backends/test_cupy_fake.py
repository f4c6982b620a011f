"""CuPy's edge, on a stand-in for the library: which cause each of its errors is.

What the vendor's library really does is tests/gpu's; here is what we make of its answers.
"""

import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from cases import for_each

from pytest_gpuperf.devices.cupy import _SPIN, CupyBackend, CupyDevice
from pytest_gpuperf.model.errors import Unavailable

H200 = 9  # the first number of its compute capability


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


class FakeHook:
    """As in CuPy: hears of memory while it is entered."""

    entered: ClassVar[list] = []

    def __enter__(self):
        self.entered.append(self)
        return self

    def __exit__(self, *_):
        self.entered.remove(self)


def tell(event, **what):
    """Tell every hook that is entered, with CuPy's keywords."""
    for hook in FakeHook.entered:
        getattr(hook, event, lambda **_: None)(**what)


class FakePool:
    """CuPy's memory pool, which rounds up to 512 bytes and goes to CUDA unless it keeps a free block."""

    def malloc(self, size, *, pointer=1, keeps=False, device=0):
        rounded = -(-size // 512) * 512
        block = {"device_id": device, "mem_size": rounded}
        tell("malloc_preprocess", size=size, **block)
        if not keeps:
            tell("alloc_preprocess", **block)
            tell("alloc_postprocess", mem_ptr=pointer, **block)
        tell("malloc_postprocess", size=size, mem_ptr=pointer, pmem_id=pointer, **block)
        return rounded

    def free(self, rounded, *, device=0):
        block = {"device_id": device, "mem_size": rounded, "mem_ptr": 1, "pmem_id": 1}
        tell("free_preprocess", **block)
        tell("free_postprocess", **block)


class FakeCuda:
    """The parts of cupy.cuda that we touch; its streams are busy until `main_end` and `side_end`."""

    MemoryHook = FakeHook
    MemoryPool = FakePool

    def __init__(self, *, count_error=None, generation=H200, hip=False):
        self.now, self.pool = 0.0, FakePool()
        self.main_end = self.side_end = 0.0
        self.memory = SimpleNamespace(OutOfMemoryError=OutOfMemory)

        def get_count():
            if count_error:
                raise CudaError(count_error)
            return 1

        self.driver = SimpleNamespace(CUDADriverError=DriverError)
        self.runtime = SimpleNamespace(
            CUDARuntimeError=CudaError,
            is_hip=hip,
            getDeviceCount=get_count,
            driverGetVersion=lambda: 12040,
            runtimeGetVersion=lambda: 12090,  # what CuPy was built with
            getDeviceProperties=lambda index: {
                "name": f"Fake {index}".encode(),
                "totalGlobalMem": 1 << 37,
                "major": generation,
            },
        )

    def Device(self, index):  # noqa: N802 - CuPy's name
        def synchronize():
            self.now = max(self.now, self.main_end, self.side_end)

        class Device(nullcontext):
            id = index

            def use(self):
                pass

        device = Device()
        device.synchronize = synchronize
        return device

    def Event(self):  # noqa: N802 - CuPy's name
        event = SimpleNamespace(at=None)
        event.record = lambda: setattr(event, "at", max(self.now, self.main_end))
        event.synchronize = lambda: setattr(self, "now", max(self.now, event.at))
        return event

    @property
    def done(self):
        return self.main_end <= self.now

    def get_current_stream(self):
        return self

    def get_elapsed_time(self, start, end):
        return (end.at - start.at) * 1000

    def get_allocator(self):
        return self.pool.malloc


def fake(monkeypatch, **cuda):
    library = SimpleNamespace(cuda=FakeCuda(**cuda), __version__="14", __spec__=None)
    monkeypatch.setitem(sys.modules, "cupy", library)
    monkeypatch.setattr("pytest_gpuperf.devices.library.find_spec", lambda _: object())
    return library


@pytest.fixture
def device(monkeypatch):
    return CupyDevice(fake(monkeypatch), 0)


@pytest.fixture
def cuda(device, monkeypatch):
    """The stand-in behind `device`, whose clock is the device's too."""
    monkeypatch.setattr(device, "clock", lambda: device.xp.cuda.now, raising=False)
    return device.xp.cuda


@for_each(
    ("error", "said", "is_broken"),
    [
        (
            100,
            "no CUDA device is visible: CUDA_VISIBLE_DEVICES is '', which may hide devices; check `nvid",
            False,
        ),
        (804, "CUDA cannot be used: cudaError 804; ", True),
    ],
)
def test_cuda_that_cannot_be_used_is_named_with_what_to_do(monkeypatch, error, said, is_broken):
    """What a driver says that is not there, or too old, is in tests/fakes."""
    fake(monkeypatch, count_error=error)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(Unavailable) as caught:
        CupyBackend().gpu("")
    assert (True, is_broken) == (str(caught.value).startswith(said), caught.value.broken)


@for_each(
    ("error", "kind", "requested"),
    [
        (CudaError(700), "lost", None),
        (DriverError(719), "lost", None),
        (CudaError(1), None, None),
        (DriverError(46), None, None),
        (CudaError(2), "out_of_memory", None),
        (OutOfMemory(4096), "out_of_memory", 4096),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"), "out_of_memory", None),
    ],
)
def test_only_sticky_errors_lose_the_device_and_memory_runs_out_without_a_pool_too(
    device, error, kind, requested
):
    fault = device.fault(error)
    assert (kind, requested) == ((fault.kind, fault.requested) if fault else (None, None))


def test_the_runtime_is_the_installed_one_where_cupy_finds_it_else_that_it_was_built_with(monkeypatch):
    library = fake(monkeypatch)
    assert CupyDevice(library, 0).info.library == "cupy 14, CUDA 12.9, driver for 12.4"
    library.cuda.get_local_runtime_version = lambda: 12060
    info = CupyDevice(library, 0).info
    assert ("CUDA 12.6", "cupy 14, CUDA 12.6, driver for 12.4") == (info.runtime, info.library)


def test_the_extras_bring_the_parts_of_the_toolkit_that_cupy_compiles_with():
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())["project"]
    for extra, package in (("cuda12", "cupy-cuda12x"), ("cuda13", "cupy-cuda13x")):
        assert [f"{package}[ctk]>=14"] == project["optional-dependencies"][extra]


@for_each(
    ("cupys", "nvidias", "generation", "chosen", "said"),
    [
        (None, None, H200, None, None),
        ("0", None, H200, None, None),
        ("1", None, H200, None, "TF32 in float32 products (CUPY_TF32=1)"),
        (None, "1", H200, None, "TF32 in float32 products (NVIDIA_TF32_OVERRIDE=1)"),
        (None, "2", H200, None, None),
        ("1", "0", H200, None, None),
        ("1", "1", 7, None, None),
        ("1", None, H200, "DEFAULT", None),  # it is read at the first product only: a program may say other
        ("1", None, H200, "TF32", "TF32 in float32 products (CuPy's compute type)"),
        (None, None, H200, "FP16", "float16 in float32 products (CuPy's compute type)"),
        (None, "1", H200, "BF16", "bfloat16 in float32 products (CuPy's compute type)"),
    ],
)
def test_reduced_precision_is_what_cupy_computes_with_and_names_the_setting(
    monkeypatch, setting, cupys, nvidias, generation, chosen, said
):
    setting("CUPY_TF32", cupys)
    setting("NVIDIA_TF32_OVERRIDE", nvidias)
    library = fake(monkeypatch, generation=generation)
    if chosen is not None:
        names = {"compute_type_to_str": lambda _: f"COMPUTE_TYPE_{chosen}", "get_compute_type": lambda _: 7}
        library._core = SimpleNamespace(_routines_linalg=SimpleNamespace(**names))
    info = CupyDevice(library, 0).info
    assert (said, said and (2**-7 if chosen == "BF16" else 2**-10)) == (
        info.reduced_precision,
        info.reduced_eps,
    )


def test_an_array_in_fortrans_order_is_copied_as_it_is(device):
    asked = {}
    device.xp.asnumpy = lambda array, **options: asked.update(options)
    device.asnumpy(None)
    assert asked == {"order": "A"}


def test_the_spinning_kernel_ends_by_its_cycles_too_should_the_timer_stand_still():
    assert "clock64() - first_cycle < 4 * nanoseconds" in _SPIN


def test_rocm_has_no_spinning_kernel(monkeypatch):
    assert CupyDevice(fake(monkeypatch, hip=True), 0).occupy is None


@for_each(
    ("work", "memory", "allocations", "worked"),
    [
        (lambda pool: [pool.free(4096), pool.free(pool.malloc(2000)), pool.malloc(4097)], 512, 2, True),
        (lambda pool: pool.free(4096), 0, 0, False),
        (lambda pool: pool.malloc(100, keeps=True), 512, 0, True),
        (lambda pool: pool.malloc(100, pointer=0), 0, 1, True),  # one that failed
        (lambda pool: [pool.malloc(100, device=1), pool.free(512, device=1)], 0, 0, False),
        (lambda pool: None, 0, 0, False),
    ],
)
def test_memory_is_the_most_held_at_a_time_in_rounded_bytes(device, cuda, work, memory, allocations, worked):
    with device.observe() as seen:
        work(cuda.pool)
    cuda.pool.malloc(1 << 20)
    assert (memory, allocations, worked) == (seen.memory, seen.allocations, seen.worked)


@for_each(("outside", "side"), [(0.0, 0.0), (0.5, 0.75)])
@for_each("before", [0.0, 1.0])
def test_work_of_the_default_stream_is_seen_and_timed_and_that_of_others_is_outside(
    device, cuda, outside, side, before
):
    cuda.main_end = begun = cuda.now + before  # what kept it busy before the call is not the call's
    with device.observe() as seen:
        cuda.main_end, cuda.side_end = begun + 0.25, side and begun + side
    assert seen.worked
    assert [pytest.approx(0.25), pytest.approx(outside)] == [seen.device_time, seen.outside_time]
    assert seen.finished == max(cuda.main_end, cuda.side_end), "when all streams were done"


def test_events_are_made_once_as_those_of_a_lost_device_could_not_be_destroyed(device, cuda, monkeypatch):
    with device.observe():
        pass
    made = []
    monkeypatch.setattr(cuda, "Event", lambda: made.append("event"))
    with device.observe():
        pass
    assert made == []
