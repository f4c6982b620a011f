"""CuPy's edge, on a stand-in for the library: which cause each of its errors is.

What the vendor's library really does is tests/gpu's; here is what we make of its answers.
"""

import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.cupy import _SPIN, CupyBackend, CupyDevice
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.registry import Devices
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable
from pytest_gpuperf.model.record import Clocks

H200 = 9  # the first number of its compute capability
BUS = "0000:18:00.0"


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

    def __init__(self, *, keeps=False, device=0):
        self.keeps, self.device = keeps, device

    def malloc(self, size, *, pointer=1):
        rounded = -(-size // 512) * 512
        tell("malloc_preprocess", device_id=self.device, size=size, mem_size=rounded)
        if not self.keeps:
            tell("alloc_preprocess", device_id=self.device, mem_size=rounded)
            tell("alloc_postprocess", device_id=self.device, mem_size=rounded, mem_ptr=pointer)
        tell(
            "malloc_postprocess",
            device_id=self.device,
            size=size,
            mem_size=rounded,
            mem_ptr=pointer,
            pmem_id=pointer,
        )
        return rounded

    def free(self, rounded):
        tell("free_preprocess", device_id=self.device, mem_size=rounded, mem_ptr=1, pmem_id=1)
        tell("free_postprocess", device_id=self.device, mem_size=rounded, mem_ptr=1, pmem_id=1)


class FakeCuda:
    """The parts of cupy.cuda that we touch; its streams are busy until `main_end` and `side_end`."""

    MemoryHook = FakeHook
    MemoryPool = FakePool

    def __init__(self, *, count=1, count_error=None, driver=12040, generation=H200, hip=False):
        self.waited = []
        self.launched = []
        self.now, self.pool = 0.0, FakePool()
        self.main_end = self.side_end = 0.0
        self.memory = SimpleNamespace(OutOfMemoryError=OutOfMemory)
        self.Stream = SimpleNamespace(null=self)
        self.current = self  # the stream on which this thread submits

        def get_count():
            if count_error:
                raise CudaError(count_error)
            return count

        def attributes(pointer):
            if self.lost:
                raise CudaError(719)
            return SimpleNamespace(type=1 if pointer in self.registered else 0)

        self.lost, self.registered = False, set()
        self.driver = SimpleNamespace(CUDADriverError=DriverError)
        self.runtime = SimpleNamespace(
            CUDARuntimeError=CudaError,
            is_hip=hip,
            memoryTypeHost=1,
            getDeviceCount=get_count,
            driverGetVersion=lambda: driver,
            runtimeGetVersion=lambda: 12090,  # what CuPy was built with
            getDeviceProperties=lambda index: {
                "name": f"Fake {index}".encode(),
                "totalGlobalMem": 1 << 37,
                "major": generation,
            },
            pointerGetAttributes=attributes,
        )

    def Device(self, index):  # noqa: N802 - CuPy's name
        def synchronize():
            self.waited.append(index)
            self.now = max(self.now, self.main_end, self.side_end)

        class Device(nullcontext):
            id, pci_bus_id = index, BUS

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
        return self.current

    def get_elapsed_time(self, start, end):
        return (end.at - start.at) * 1000

    def get_allocator(self):
        return self.pool.malloc

    def kernel(self, source, name):
        return lambda grid, block, arguments: self.launched.append((grid, block, arguments))


def fake(monkeypatch, *, ones=np.ones, **cuda):
    made = FakeCuda(**cuda)
    library = SimpleNamespace(
        cuda=made, ones=ones, __version__="14", __spec__=None, RawKernel=made.kernel, ndarray=FakePool
    )
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


def cause(selector=""):
    with pytest.raises(Unavailable) as caught:
        CupyBackend("a processor").gpu(selector)
    return str(caught.value)


@pytest.mark.parametrize(
    ("said", "is_broken", "found"),
    [
        ("no NVIDIA driver is; install the driver", False, {"count_error": 35, "driver": 0}),
        (
            "supports CUDA 11.4, CuPy needs 12.9; update the driver",
            True,
            {"count_error": 35, "driver": 11040},
        ),
        ("no CUDA device is visible", False, {"count_error": 100}),
        ("CUDA cannot be used: cudaError 804", True, {"count_error": 804}),
        ("CUDA cannot be used: cudaError 999", True, {"count_error": 999}),
    ],
)
def test_cuda_that_cannot_be_used_is_named_with_what_to_do(monkeypatch, said, is_broken, found):
    fake(monkeypatch, **found)
    with pytest.raises(Unavailable, match=said) as caught:
        CupyBackend("a processor").gpu("")
    assert caught.value.broken is is_broken


@pytest.mark.parametrize(("visible", "said"), [(None, "is not set"), ("", "is '', which may hide devices")])
def test_no_visible_device_says_what_cuda_visible_devices_says(monkeypatch, setting, visible, said):
    fake(monkeypatch, count_error=100)
    setting("CUDA_VISIBLE_DEVICES", visible)
    assert f"no CUDA device is visible: CUDA_VISIBLE_DEVICES {said}; check `nvidia-smi -L`: " in cause()
    assert cause().endswith("one in MIG mode needs instances")


def test_a_number_beyond_the_devices_says_how_many_there_are(monkeypatch):
    fake(monkeypatch, count=2)
    assert "sees 2 CUDA device(s) and number 2 was requested" in cause("2")


def test_the_extras_bring_the_parts_of_the_toolkit_that_cupy_compiles_with():
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())["project"]
    for extra, package in (("cuda12", "cupy-cuda12x"), ("cuda13", "cupy-cuda13x")):
        assert [f"{package}[ctk]>=14"] == project["optional-dependencies"][extra]


def test_a_device_that_fails_its_trial_allocation_is_unusable(monkeypatch):
    def no_memory(_):
        raise OutOfMemory(512)

    fake(monkeypatch, ones=no_memory)
    assert (
        "was found but cannot be used: Out of memory allocating 512 bytes; free memory of the GPU: "
        in cause()
    )


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (
            "Failed to find CUDA headers. Please install ...",
            "pytest-gpuperf[cuda12] or pytest-gpuperf[cuda13]",
        ),
        ('Failure finding "libnvrtc.so.13": No such file\n  listdir(...)', "set CUDA_PATH"),
        ("cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable", "nvidia-smi -c 0"),
        (
            "cudaErrorNoKernelImageForDevice: no kernel image is available for execution",
            "this GPU's generation",
        ),
        ("cudaErrorUnknown: unknown error", "restart the machine"),
        ("something new", "check with nvidia-smi that it is free and healthy"),
    ],
)
def test_a_device_that_was_found_and_fails_is_broken_and_its_remedy_is_by_cause(monkeypatch, said, remedy):
    def fail(_):
        raise RuntimeError(said)

    fake(monkeypatch, ones=fail)
    with pytest.raises(Unavailable) as caught:
        CupyBackend("a processor").gpu("")
    problem = said.partition("\n")[0].rstrip(".")
    assert str(caught.value).startswith(f"CuPy's CUDA device 0 was found but cannot be used: {problem}; ")
    assert remedy in str(caught.value)
    assert caught.value.broken


def test_a_device_that_works_was_synchronized_as_a_whole(monkeypatch):
    library = fake(monkeypatch)
    device = CupyBackend("a processor").gpu("")
    assert (device.name, device.info.library) == ("Fake 0", "cupy 14, CUDA 12.9, driver for 12.4")
    assert library.cuda.waited == [0]
    device.synchronize()
    assert library.cuda.waited == [0, 0]


@pytest.mark.parametrize("error", [CudaError, DriverError])
@pytest.mark.parametrize(
    ("status", "kind"), [(700, "lost"), (719, "lost"), (1, None), (46, None), (2, "out_of_memory")]
)
def test_only_sticky_errors_lose_the_device_and_memory_runs_out_without_a_pool_too(
    device, status, kind, error
):
    fault = device.fault(error(status))
    assert (fault.kind if fault else None) == kind


def test_out_of_memory_names_the_bytes(device):
    fault = device.fault(OutOfMemory(4096))
    assert ("out_of_memory", 4096) == (fault.kind, fault.requested)


def test_a_librarys_error_is_told_by_its_text(device):
    assert device.fault(RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")).kind == "out_of_memory"
    assert device.fault(RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED")) is None


def test_the_report_knows_memory_driver_and_runtime(device):
    info = device.info
    assert (1 << 37, "for CUDA 12.4", "CUDA 12.9") == (info.memory, info.driver, info.runtime)


def test_the_runtime_is_the_installed_one_where_cupy_finds_it(monkeypatch):
    def none():
        raise RuntimeError("libcudart.so was not found")

    library = fake(monkeypatch)
    library.cuda.get_local_runtime_version = lambda: 12060
    assert CupyDevice(library, 0).info.runtime == "CUDA 12.6"
    assert CupyDevice(library, 0).info.library == "cupy 14, CUDA 12.6, driver for 12.4"
    library.cuda.get_local_runtime_version = none
    assert CupyDevice(library, 0).info.runtime == "CUDA 12.9"


@for_each(
    ("cupys", "nvidias", "generation", "said"),
    [
        (None, None, H200, None),
        ("0", None, H200, None),
        ("", None, H200, None),
        ("1", None, H200, "TF32 in float32 products (CUPY_TF32=1)"),
        (None, "1", H200, "TF32 in float32 products (NVIDIA_TF32_OVERRIDE=1)"),
        (None, "2", H200, None),
        ("1", "0", H200, None),
        ("1", None, 7, None),
        (None, "1", 7, None),
    ],
)
def test_reduced_precision_names_the_setting_behind_it(
    monkeypatch, setting, cupys, nvidias, generation, said
):
    setting("CUPY_TF32", cupys)
    setting("NVIDIA_TF32_OVERRIDE", nvidias)
    info = CupyDevice(fake(monkeypatch, generation=generation), 0).info
    assert (info.reduced_precision, info.reduced_eps) == (said, 2**-10 if said else None)


@pytest.mark.parametrize(
    ("chosen", "said", "eps"),
    [
        ("COMPUTE_TYPE_DEFAULT", None, None),
        ("COMPUTE_TYPE_PEDANTIC", None, None),
        ("COMPUTE_TYPE_TF32", "TF32 in float32 products (CuPy's compute type)", 2**-10),
        ("COMPUTE_TYPE_FP16", "float16 in float32 products (CuPy's compute type)", 2**-10),
        ("COMPUTE_TYPE_BF16", "bfloat16 in float32 products (CuPy's compute type)", 2**-7),
    ],
)
def test_reduced_precision_is_what_cupy_computes_with_whatever_the_variable_says(
    monkeypatch, setting, chosen, said, eps
):
    setting("CUPY_TF32", "1")  # it is read at the first product only, and a program can choose otherwise
    setting("NVIDIA_TF32_OVERRIDE", None)
    library = fake(monkeypatch)
    linalg = SimpleNamespace(get_compute_type=lambda dtype: 7, compute_type_to_str=lambda number: chosen)
    library._core = SimpleNamespace(_routines_linalg=linalg)
    info = CupyDevice(library, 0).info
    assert (said, eps) == (info.reduced_precision, info.reduced_eps)


def test_an_array_in_fortrans_order_is_copied_as_it_is(device):
    asked = {}
    device.xp.asnumpy = lambda array, **options: asked.update(options)
    device.asnumpy(None)
    assert asked == {"order": "A"}


@pytest.mark.parametrize(("seconds", "nanoseconds"), [(0.005, 5_000_000), (1.0, 10**9), (30.0, 10**9)])
def test_a_spinning_kernel_occupies_the_device_for_at_most_a_second(device, cuda, seconds, nanoseconds):
    assert capabilities.occupy(device, seconds)
    assert cuda.launched == [((1,), (1,), (nanoseconds,))]
    assert cuda.waited == []


def test_the_spinning_kernel_ends_by_its_cycles_too_should_the_timer_stand_still():
    assert "clock64() - first_cycle < 4 * nanoseconds" in _SPIN


def test_rocm_has_no_spinning_kernel(monkeypatch):
    library = fake(monkeypatch, hip=True)
    assert capabilities.occupy(CupyDevice(library, 0), 0.005) is False
    assert library.cuda.launched == []


def test_host_memory_is_pinned_when_cuda_knows_it_and_unknown_when_it_fails(device, cuda):
    host = np.ones(3)
    assert capabilities.host_memory(device, host) == "pageable"
    cuda.registered = {host.ctypes.data}
    assert capabilities.host_memory(device, host) == "pinned"
    assert capabilities.host_memory(device, [1.0, 2.0]) is None
    cuda.lost = True
    assert capabilities.host_memory(device, host) is None


class FakeWatch:
    def clocks(self):
        return Clocks(sm_mhz=1980, memory_mhz=None, celsius=None, watts=None, throttle=("power cap",))

    def throttle(self):
        return ("hardware slowdown",)


def test_clocks_and_throttle_are_nvmls_asked_for_at_first_use(with_nvml, device):
    asked = with_nvml(FakeWatch())
    assert (capabilities.clocks(device).sm_mhz, capabilities.throttle(device)) == (
        1980,
        ("hardware slowdown",),
    )
    assert capabilities.clocks(device).throttle == ("power cap",)
    assert asked == [BUS]
    assert device.clocks_reason is None


def test_without_nvml_the_clocks_are_unknown_and_the_reason_is_known(with_nvml, device):
    asked = with_nvml(GpuPerfError("no NVML; install it"))
    assert (capabilities.clocks(device), capabilities.throttle(device)) == (None, ())
    assert device.clocks_reason == "no NVML; install it"
    assert asked == [BUS]


def test_memory_is_the_most_held_at_a_time_in_rounded_bytes(device, cuda):
    before = cuda.pool.malloc(4096)
    with device.observe() as seen:
        cuda.pool.free(before)
        first = cuda.pool.malloc(2000)
        cuda.pool.free(first)
        most = cuda.pool.malloc(5000)
        cuda.pool.free(most)
        cuda.pool.malloc(4097)
    assert 5120 - 4096 == seen.memory
    assert (3, True) == (seen.allocations, seen.worked)


def test_a_block_that_only_gives_back_held_nothing_more(device, cuda):
    with device.observe() as seen:
        cuda.pool.free(4096)
    assert (0, 0) == (seen.memory, seen.allocations)


def test_memory_from_the_pool_is_no_allocation_but_is_work(device, cuda):
    cuda.pool.keeps = True
    with device.observe() as seen:
        cuda.pool.malloc(100)
    assert (0, 512, True) == (seen.allocations, seen.memory, seen.worked)


def test_an_allocation_that_failed_holds_nothing(device, cuda):
    with device.observe() as seen:
        cuda.pool.malloc(100, pointer=0)
    assert seen.memory == 0


def test_memory_on_another_device_is_not_counted(device, cuda):
    cuda.pool.device = 1
    with device.observe() as seen:
        cuda.pool.malloc(100)
        cuda.pool.malloc(100)
        cuda.pool.free(512)
    assert (0, 0, False) == (seen.allocations, seen.memory, seen.worked)
    cuda.pool.device = 0
    with device.observe() as seen:
        cuda.pool.malloc(100)
        cuda.pool.device = 1
        cuda.pool.free(512)
        cuda.pool.device = 0
        cuda.pool.malloc(100)
    assert seen.memory == 1024


def test_what_comes_from_no_pool_of_cupys_is_not_told(device, cuda):
    cuda.pool = SimpleNamespace(malloc=lambda size: size)
    with device.observe() as seen:
        cuda.pool.malloc(100)
    assert (None, None) == (seen.allocations, seen.memory)
    assert seen.worked  # nothing tells whether it did


def test_memory_is_followed_in_the_block_only(device, cuda):
    with device.observe() as seen:
        pass
    cuda.pool.malloc(100)
    assert (0, False) == (seen.memory, seen.worked)


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


def test_work_of_a_current_stream_that_is_not_the_null_one_is_seen(device, cuda):
    cuda.current = SimpleNamespace(done=False)
    with device.observe() as seen:
        pass
    assert seen.worked


def test_events_are_made_once_as_those_of_a_lost_device_could_not_be_destroyed(device, cuda, monkeypatch):
    with device.observe():
        pass
    made = []
    monkeypatch.setattr(cuda, "Event", lambda: made.append("event"))
    with device.observe():
        pass
    assert made == []


def test_the_host_counts_the_time_of_its_processors():
    before = process_time()
    counted = capabilities.processor_time(HostDevice("a processor"))
    assert before <= counted <= process_time()


@for_each(("expected", "worker"), [("Fake 0", 0), ("Fake 1", 1), ("Fake 0", 2)])
def test_workers_take_the_visible_devices_in_turn(monkeypatch, expected, worker):
    fake(monkeypatch, count=2)
    assert expected == Devices("auto", [CupyBackend("a processor")], worker).gpu().name


def test_a_worker_learns_why_there_is_no_device(monkeypatch):
    fake(monkeypatch, count_error=100)
    with pytest.raises(Unavailable, match="no CUDA device is visible"):
        Devices("auto", [CupyBackend("a processor")], 1).gpu()
