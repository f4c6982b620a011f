"""Torch's edge, on a stand-in for the library: which cause each of its errors is, and what CUDA tells.

The library itself is in test_torch_cpu.py and tests/gpu; here is what we make of its answers.
"""

import sys
import warnings
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.registry import Devices
from pytest_gpuperf.devices.torch import TorchBackend, TorchDevice
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable
from pytest_gpuperf.model.record import Clocks

H200, V100 = 9, 7  # the first numbers of their compute capabilities


class OutOfMemoryError(RuntimeError):
    pass


class FakeDevice:
    def __init__(self, type_, index=None):
        self.type, self.index = type_, index

    def __eq__(self, other):
        return (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __repr__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"


class FakeTensor:
    def __init__(self, device):
        self.device = device

    def __add__(self, other):
        return self

    def sum(self):
        return self


class FakeCuda:
    """The parts of torch.cuda that we touch; its streams are busy until `main_end` and `side_end`."""

    def __init__(self, *, generation=H200):
        self.now = self.main_end = self.side_end = 0.0
        self.emptied = 0
        self.slept, self.cycles_per_second = [], 2e9
        self._sleep = self.sleep
        self.counts = {
            "allocated_bytes.all.allocated": 7000,
            "allocated_bytes.all.current": 1000,
            "allocated_bytes.all.peak": 5000,
            "num_device_alloc": 3,
        }
        self.properties = SimpleNamespace(
            total_memory=1 << 37, major=generation, pci_domain_id=0, pci_bus_id=0x18, pci_device_id=0
        )

    def get_device_name(self, device):
        return f"Fake {device.index}"

    def get_device_properties(self, device):
        return self.properties

    def memory_stats(self, device):
        return dict(self.counts)

    def reset_peak_memory_stats(self, device):
        self.counts["allocated_bytes.all.peak"] = self.counts["allocated_bytes.all.current"]

    def allocate(self, size, *, pooled=True):
        self.counts["allocated_bytes.all.allocated"] += size
        if not pooled:
            self.counts["num_device_alloc"] += 1
        current = self.counts["allocated_bytes.all.current"] = (
            self.counts["allocated_bytes.all.current"] + size
        )
        self.counts["allocated_bytes.all.peak"] = max(self.counts["allocated_bytes.all.peak"], current)

    def free(self, size):
        self.counts["allocated_bytes.all.current"] -= size

    def current_stream(self, device):
        return SimpleNamespace(query=lambda: self.main_end <= self.now)

    def Event(self, *, enable_timing):  # noqa: N802 - torch's name
        assert enable_timing
        event = SimpleNamespace(at=None)
        event.record = lambda stream: setattr(event, "at", max(self.now, self.main_end))
        event.synchronize = lambda: setattr(self, "now", max(self.now, event.at))
        event.elapsed_time = lambda end: (end.at - event.at) * 1000
        return event

    def device(self, device):
        return nullcontext()

    def sleep(self, cycles):
        self.slept.append(cycles)
        self.main_end = max(self.now, self.main_end) + cycles / self.cycles_per_second

    def empty_cache(self):
        self.emptied += 1


def fake(monkeypatch, *, accelerator="cuda", ones=None, generation=H200, version=None):
    made = ModuleType("torch")
    cuda = FakeCuda(generation=generation)
    waited, current = [], []
    cuda.set_device = current.append

    def synchronize(device):
        waited.append(device)
        cuda.now = max(cuda.now, cuda.main_end, cuda.side_end)

    found = None if accelerator is None else FakeDevice(accelerator)
    matmul = SimpleNamespace(allow_tf32=False)
    made.__dict__.update(
        __version__="2.99",
        version=SimpleNamespace(cuda="13.0", hip=None),
        cuda=cuda,
        xpu=SimpleNamespace(get_device_name=lambda device: "Fake Max", set_device=current.append),
        accelerator=SimpleNamespace(current_accelerator=lambda: found, synchronize=synchronize),
        backends=SimpleNamespace(cuda=SimpleNamespace(matmul=matmul)),
        device=FakeDevice,
        Tensor=FakeTensor,
        OutOfMemoryError=OutOfMemoryError,
        ones=ones or (lambda size, device: FakeTensor(device)),
        is_warn_always_enabled=lambda: False,
        set_warn_always=lambda _: None,
        waited=waited,
        current=current,
    )
    monkeypatch.setitem(sys.modules, "torch", made)
    for room in ("library", "torch"):
        monkeypatch.setattr(
            f"pytest_gpuperf.devices.{room}.find_spec", lambda name: object() if name == "torch" else None
        )
    return made


@pytest.fixture
def torch(monkeypatch):
    return fake(monkeypatch)


@pytest.fixture
def device(torch):
    return TorchBackend("a processor").gpu("")


@pytest.fixture
def cuda(device, torch, monkeypatch):
    """The stand-in behind `device`, whose clock is the device's too."""
    monkeypatch.setattr(device, "clock", lambda: torch.cuda.now, raising=False)
    return torch.cuda


def cause(selector=""):
    with pytest.raises(Unavailable) as caught:
        TorchBackend("a processor").gpu(selector)
    return str(caught.value)


@for_each("selector", ["", "cuda", "cuda:0", "cuda:12", "xpu", "xpu:1", "mps", "hpu:0"])
def test_a_selector_names_a_type_and_a_number(selector):
    TorchBackend("a processor").check(selector)


@for_each("selector", ["0", "cpu", "meta", "cuda:", "cuda:first", "cudas:1", "cuda:1:2", "cuda:٣"])
def test_any_other_selector_is_refused_with_the_valid_ones(selector):
    with pytest.raises(GpuPerfError, match=r"one of cuda, hpu, mps, mtia, npu, xpu, .* e\.g\. torch:cuda:0"):
        TorchBackend("a processor").check(selector)


def test_a_build_without_any_gpu_says_so(monkeypatch):
    fake(monkeypatch, accelerator=None)
    assert "torch 2.99 was built without any GPU; install the build for your GPU" in cause()


@pytest.mark.parametrize(("visible", "said"), [(None, "is not set"), ("", "is '', which may hide devices")])
def test_no_driver_is_torchs_own_cause_with_what_may_hide_the_gpu(monkeypatch, setting, visible, said):
    def no_driver(size, device):
        raise RuntimeError("Found no NVIDIA driver on your system.\nMore of it")

    fake(monkeypatch, ones=no_driver)
    setting("CUDA_VISIBLE_DEVICES", visible)
    assert (
        "torch 2.99 cannot use cuda:0: Found no NVIDIA driver on your system; install the driver" in cause()
    )
    assert cause().endswith(f"CUDA_VISIBLE_DEVICES {said}")


@pytest.mark.parametrize(
    ("said", "seen", "remedy", "is_broken"),
    [
        ("CUDA error: no kernel image is available for execution on the device", 1, "this GPU's gen", True),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", 1, "exclusive mode", True),
        ("The NVIDIA driver on your system is too old (found version 11040).", 0, "update the", True),
        ("CUDA error: something new", 1, "check that nvidia-smi", True),
        ("nvrtc: error: failed to open libnvrtc-builtins.so.13.0", 1, "reinstall torch's build", True),
        ("No CUDA GPUs are available", 0, "MIG mode", False),
    ],
)
def test_a_gpu_that_torch_sees_but_cannot_use_is_broken(monkeypatch, said, seen, remedy, is_broken):
    def fail(size, device):
        raise RuntimeError(said)

    fake(monkeypatch, ones=fail).cuda.device_count = lambda: seen
    with pytest.raises(Unavailable, match=remedy) as caught:
        TorchBackend("a processor").gpu("")
    assert caught.value.broken is is_broken


def test_a_type_that_torch_was_not_built_for_is_named(monkeypatch):
    def not_compiled(size, device):
        raise AssertionError

    fake(monkeypatch, ones=not_compiled)
    assert "cannot use xpu:1: AssertionError; check the device" in cause("xpu:1")


def test_a_device_that_works_was_synchronized_as_a_whole(torch, device):
    assert (device.name, device.kind, device.info.library) == ("Fake 0", "gpu", "torch 2.99")
    assert torch.waited == [FakeDevice("cuda", 0)]
    device.synchronize()
    assert torch.waited == 2 * [FakeDevice("cuda", 0)]


def test_a_torch_without_accelerators_uses_cuda(monkeypatch, torch):
    del torch.accelerator
    torch.cuda.synchronize = torch.waited.append
    TorchBackend("a processor").gpu("")
    assert torch.waited == [FakeDevice("cuda", 0)]


@pytest.mark.parametrize(
    ("expected", "worker"), [("Fake 0", 0), ("Fake 1", 1), ("Fake 0", 2), ("Fake 0", None)]
)
def test_workers_take_the_devices_in_turn(torch, expected, worker):
    torch.accelerator.device_count = lambda: 2
    assert expected == Devices("torch", [TorchBackend("a processor")], worker).gpu().name
    assert [str(device.index) for device in torch.current] == (["1"] if expected == "Fake 1" else [])


def test_before_accelerators_the_devices_of_cuda_are_counted(torch):
    del torch.accelerator
    torch.cuda.device_count = lambda: 2
    assert TorchBackend("a processor").selectors() == ["cuda:0", "cuda:1"]


def test_another_type_is_opened_by_its_name(torch):
    found = TorchBackend("a processor").gpu("xpu:1")
    assert (found.name, torch.waited) == ("Fake Max", [FakeDevice("xpu", 1)])
    assert (found.info.memory, found.info.runtime, found.info.reduced_precision) == (None, None, None)
    with found.observe() as seen:
        pass
    assert seen.worked, "it keeps no count, and is taken at its word"


def test_the_cpu_waits_for_nothing_and_has_no_pool(torch):
    cpu = TorchBackend("a processor").cpu()
    cpu.synchronize()
    cpu.release()
    assert (torch.waited, torch.cuda.emptied) == ([], 0)


def test_release_empties_the_pool(device, cuda):
    device.release()
    assert cuda.emptied == 1


def test_sleeping_occupies_the_device_for_as_long_as_asked_at_the_clock_of_that_moment(device, cuda):
    for cycles_per_second in (2e9, 1e9):
        cuda.cycles_per_second = cycles_per_second
        cuda.slept.clear()
        assert capabilities.occupy(device, 0.005)
        assert cuda.slept[-1] == pytest.approx(0.005 * cycles_per_second, rel=1e-3)
        assert cuda.main_end - cuda.now == pytest.approx(0.005, rel=1e-3), "it returned at once"


def test_a_device_is_occupied_for_at_most_a_second(device, cuda):
    capabilities.occupy(device, 30.0)
    assert cuda.main_end - cuda.now == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("kind", ["xpu", "cuda"])
def test_what_cannot_sleep_cannot_be_occupied(torch, cuda, kind):
    del cuda._sleep
    assert capabilities.occupy(TorchDevice(torch, FakeDevice(kind, 0), "Fake"), 0.005) is False


def test_the_report_knows_memory_and_runtime_and_tells_rocm_from_cuda(torch, device):
    assert (1 << 37, "CUDA 13.0") == (device.info.memory, device.info.runtime)
    torch.version.hip = "6.4"
    assert device.info.runtime == "ROCm 6.4"


@for_each(
    ("words", "kind", "requested"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has", "out_of_memory", 2 << 30),
        ("CUDA out of memory. Tried to allocate 20.50 MiB (GPU 0;", "out_of_memory", 41 << 19),
        ("CUDA error: out of memory", "out_of_memory", None),
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 96 bytes.", "out_of_memory", 96),
        ("CUDA error: an illegal memory access was encountered\nCUDA kernel errors", "lost", None),
        ("CUDA error: device-side assert triggered", "lost", None),
        ("HIP error: unspecified launch failure", "lost", None),
        ("CUDA error: invalid argument", None, None),
        ("CUDA error: invalid configuration argument", None, None),
        ("mat1 and mat2 shapes cannot be multiplied", None, None),
    ],
)
def test_an_errors_words_say_which_fault_it_is(device, words, kind, requested):
    fault = device.fault(OutOfMemoryError(words))
    assert (kind, requested) == ((fault.kind, fault.requested) if fault else (None, None))


@pytest.mark.parametrize(("code", "kind"), [(700, "lost"), (999, "lost"), (2, "out_of_memory"), (1, None)])
def test_an_errors_code_says_which_fault_it_is_whatever_its_words(torch, device, code, kind):
    class AcceleratorError(RuntimeError):
        error_code = code

    torch.AcceleratorError = AcceleratorError
    fault = device.fault(AcceleratorError("CUDA error: new words"))
    assert kind == (fault.kind if fault else None)


def test_other_errors_with_such_words_are_no_fault(device):
    assert device.fault(ValueError("out of memory")) is None
    assert device.fault(MemoryError()).kind == "out_of_memory"


def test_memory_is_the_most_held_above_what_was_held_before(device, cuda):
    with device.observe() as seen:
        cuda.allocate(2000, pooled=False)
        cuda.free(2000)
        cuda.allocate(500)
    assert (2000, 500, 1, True) == (seen.memory, seen.held, seen.allocations, seen.worked)


def test_a_block_that_does_nothing_is_seen_to(device, cuda):
    with device.observe() as seen:
        pass
    assert (0, 0, 0, False) == (seen.memory, seen.held, seen.allocations, seen.worked)


def test_intel_gpus_count_bytes_and_no_allocations(torch, cuda):
    torch.xpu = cuda
    del cuda.counts["num_device_alloc"]
    device = TorchDevice(torch, FakeDevice("xpu", 0), "Fake Max")
    with device.observe() as seen:
        cuda.allocate(2000)
        cuda.free(1500)
    assert (2000, 500, None, True) == (seen.memory, seen.held, seen.allocations, seen.worked)
    with device.observe() as seen:
        pass
    assert (0, False) == (seen.memory, seen.worked)


@pytest.mark.parametrize("kind", ["mtia", "hpu"])
def test_counters_of_another_kind_are_not_told_and_the_call_is_taken_at_its_word(torch, cuda, kind):
    setattr(torch, kind, cuda)
    cuda.counts = {"dram": {"allocated_bytes": 5}} if kind == "mtia" else {"InUse": 5, "MaxInUse": 7}
    cuda.reset_peak_memory_stats = lambda device: None
    with TorchDevice(torch, FakeDevice(kind, 0), "Fake").observe() as seen:
        pass
    assert (None, None, None, True) == (seen.memory, seen.held, seen.allocations, seen.worked)


@pytest.mark.parametrize("raising", ["memory_stats", "reset_peak_memory_stats"])
def test_an_allocator_of_another_library_tells_no_memory_and_its_work_is_still_timed(device, cuda, raising):
    def refuse(_):
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats")

    setattr(cuda, raising, refuse)
    with device.observe() as seen:
        cuda.main_end = 0.25
    assert (None, None, None) == (seen.memory, seen.held, seen.allocations)
    assert (True, 0.25) == (seen.worked, seen.device_time)


@for_each(("outside", "side"), [(0.0, 0.0), (0.5, 0.75)])
def test_work_without_an_allocation_is_seen_by_its_stream_and_that_on_others_is_outside(
    device, cuda, outside, side
):
    begun = cuda.now
    with device.observe() as seen:
        cuda.main_end, cuda.side_end = begun + 0.25, side and begun + side
    assert (True, 0.25, outside) == (seen.worked, seen.device_time, seen.outside_time)
    assert seen.finished == max(cuda.main_end, cuda.side_end), "when all streams were done"


@for_each(
    ("settings", "nvidias", "generation", "said"),
    [
        ({"allow_tf32": False}, None, H200, None),
        ({"allow_tf32": True}, None, H200, "TF32 in float32 products (allow_tf32)"),
        ({"allow_tf32": True}, None, V100, None),
        ({"allow_tf32": True}, "0", H200, None),
        ({"fp32_precision": "tf32"}, None, H200, "TF32 in float32 products (fp32_precision)"),
        ({"fp32_precision": "none"}, None, H200, None),
        ({"fp32_precision": "ieee"}, None, H200, None),
    ],
)
def test_reduced_precision_is_what_is_set_at_that_moment(
    monkeypatch, setting, settings, nvidias, generation, said
):
    torch = fake(monkeypatch, generation=generation)
    device = TorchDevice(torch, FakeDevice("cuda", 0), "Fake 0")
    setting("NVIDIA_TF32_OVERRIDE", nvidias)
    torch.backends.cuda.matmul = SimpleNamespace(**settings)
    assert device.info.reduced_precision == said
    assert device.info.reduced_eps == (2**-10 if said else None)


@for_each(
    ("cudnn", "generation", "said"),
    [
        ({"allow_tf32": True}, H200, "TF32 in float32 convolutions (allow_tf32)"),
        ({"allow_tf32": False}, H200, None),
        ({"allow_tf32": True}, V100, None),
        (
            {"conv": SimpleNamespace(fp32_precision="tf32")},
            H200,
            "TF32 in float32 convolutions (fp32_precision)",
        ),
        ({"conv": SimpleNamespace(fp32_precision="ieee"), "allow_tf32": True}, H200, None),
        (
            {
                "conv": SimpleNamespace(fp32_precision="ieee"),
                "rnn": SimpleNamespace(fp32_precision="tf32"),
            },
            H200,
            "TF32 in float32 recurrent layers (fp32_precision)",
        ),
    ],
)
def test_convolutions_have_a_setting_of_their_own(monkeypatch, setting, cudnn, generation, said):
    torch = fake(monkeypatch, generation=generation)
    setting("NVIDIA_TF32_OVERRIDE", None)
    torch.backends.cuda.matmul = SimpleNamespace(allow_tf32=False)
    torch.backends.cudnn = SimpleNamespace(**cudnn)
    found = TorchDevice(torch, FakeDevice("cuda", 0), "Fake 0").info
    assert (None, said) == (found.reduced_precision, found.reduced_convolutions)
    assert found.reduced_eps == (2**-10 if said else None)


@for_each(
    ("architecture", "said"),
    [("gfx942:sramecc+", True), ("gfx950", True), ("gfx90a", False), ("gfx1100", False)],
)
def test_amds_gpus_have_tf32_in_products_alone_and_not_all_of_them(monkeypatch, setting, architecture, said):
    torch = fake(monkeypatch)
    setting("NVIDIA_TF32_OVERRIDE", None)
    torch.version.hip, torch.cuda.properties.gcnArchName = "7.0", architecture
    torch.backends.cuda.matmul = SimpleNamespace(allow_tf32=True)
    torch.backends.cudnn = SimpleNamespace(allow_tf32=True)
    found = TorchDevice(torch, FakeDevice("cuda", 0), "Fake 0").info
    assert (said, None) == (found.reduced_precision is not None, found.reduced_convolutions)


def test_clocks_are_nvmls_for_the_devices_place_on_the_bus(with_nvml, device):
    clocks = Clocks(sm_mhz=1980, memory_mhz=None, celsius=None, watts=None, throttle=())
    asked = with_nvml(SimpleNamespace(clocks=lambda: clocks, throttle=lambda: ("hardware slowdown",)))
    assert (capabilities.clocks(device), capabilities.throttle(device)) == (clocks, ("hardware slowdown",))
    assert asked == ["00000000:18:00.0"]


def test_without_nvml_the_clocks_are_unknown_and_the_reason_is_known(with_nvml, device):
    with_nvml(GpuPerfError("no NVML; install it"))
    assert (capabilities.clocks(device), capabilities.throttle(device)) == (None, ())
    assert device.clocks_reason == "no NVML; install it"


def test_a_torch_that_does_not_tell_the_place_on_the_bus_has_no_clocks(with_nvml, device, cuda):
    asked = with_nvml(None)
    del cuda.properties.pci_bus_id
    assert capabilities.clocks(device) is None
    assert "does not report the GPU's bus id" in device.clocks_reason
    assert asked == []


@pytest.mark.parametrize(("pinned", "said"), [(True, "pinned"), (False, "pageable")])
def test_host_memory_is_pinned_when_cuda_knows_it(torch, device, pinned, said):
    torch.from_numpy = lambda host: SimpleNamespace(is_pinned=lambda: pinned)
    assert capabilities.host_memory(device, np.ones(3)) == said
    assert capabilities.host_memory(device, [1.0]) is None
    assert capabilities.host_memory(device, np.broadcast_to(1.0, (3,))) is None


_FALLS_BACK = "The operator 'aten::{}' is not currently supported on the {} backend and will run on "
FALLBACKS = {
    "mps": (f"{_FALLS_BACK.format('{}', 'MPS')}the CPU.", "aten::{}"),
    "npu": (f"CAUTION: {_FALLS_BACK.format('{}', 'NPU')}the CPU.", "aten::{}"),
    "xpu": ("Aten Op fallback from XPU to CPU", "an operator that PYTORCH_DEBUG_XPU_FALLBACK=1 names"),
}


@pytest.mark.parametrize("kind", FALLBACKS)
def test_operators_that_fall_back_to_the_cpu_are_named_and_nothing_is_printed(torch, cuda, kind):
    text, name = FALLBACKS[kind]
    always = []
    torch.set_warn_always = always.append
    setattr(torch, kind, cuda)
    device = TorchDevice(torch, FakeDevice(kind, 0), "Fake")
    with warnings.catch_warnings(record=True) as given, device.watch() as seen:
        warnings.simplefilter("always")
        assert always == [True]
        for operator in ("linalg_eig", "linalg_svd", "linalg_eig"):
            warnings.warn(text.format(operator), UserWarning, stacklevel=1)
        warnings.warn("another", UserWarning, stacklevel=1)
    assert ["another"] == [str(each.message) for each in given]
    assert seen.on_cpu == tuple(dict.fromkeys(name.format(each) for each in ("linalg_eig", "linalg_svd")))
    assert always == [True, False]
