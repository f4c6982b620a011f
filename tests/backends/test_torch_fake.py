"""Torch's edge, on a stand-in for the library: what we make of its answers, and of GPUs that are not CUDA's.

The library itself is in test_torch_cpu.py, and in tests/gpu and tests/fakes on CUDA's GPUs or fake ones.
"""

import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.devices.choice import Choice
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable

H200, V100 = 9, 7  # the first numbers of their compute capabilities


class FakeDevice(NamedTuple):
    type: str
    index: int | None = None

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"


class FakeTensor:
    def __init__(self, device):
        self.device = device

    def __add__(self, other):
        return self

    def sum(self):
        return self


class FakeModule:
    """The parts of torch.cuda, or another accelerator's module, that describe a device and its memory."""

    def __init__(self):
        self.counts = {f"allocated_bytes.all.{name}": 1000 for name in ("allocated", "current", "peak")}
        self.properties = SimpleNamespace(
            total_memory=1 << 37,
            multi_processor_count=132,
            major=H200,
            pci_domain_id=0,
            pci_bus_id=0x18,
            pci_device_id=0,
        )

    def get_device_name(self, device):
        return "Fake"

    def get_device_properties(self, device):
        return self.properties

    def memory_stats(self, device):
        return dict(self.counts)

    def reset_peak_memory_stats(self, device):
        pass

    def allocate(self, size):
        for name in self.counts:
            self.counts[name] += size

    def free(self, size):
        self.counts["allocated_bytes.all.current"] -= size


@pytest.fixture
def torch(monkeypatch):
    """Put a torch in place that has a GPU of CUDA, and one of Intel that keeps no count of its memory."""
    made = ModuleType("torch")
    made.__dict__.update(
        __spec__=ModuleSpec("torch", None),
        __version__="2.99",
        version=SimpleNamespace(cuda="13.0", hip=None),
        cuda=FakeModule(),
        xpu=SimpleNamespace(get_device_name=lambda device: "Fake Max", set_device=lambda device: None),
        waited=[],
        backends=SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False))),
        device=FakeDevice,
        Tensor=FakeTensor,
        ones=lambda size, device: FakeTensor(device),
        are_deterministic_algorithms_enabled=lambda: False,
        is_warn_always_enabled=lambda: False,
        set_warn_always=lambda _: None,
    )
    made.accelerator = SimpleNamespace(
        current_accelerator=lambda: FakeDevice("cuda"),
        device_count=lambda: 1,
        synchronize=made.waited.append,
    )
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setitem(sys.modules, "array_api_compat", None)  # it would import the real one
    return made


@for_each("selector", ["cuda", "cuda:0", "cuda:12", "xpu", "xpu:1", "mps", "hpu:0"])
def test_a_selector_names_a_type_and_a_number(torch, selector):
    assert Choice(f"torch:{selector}").missing() is None


@for_each("selector", ["0", "meta", "cuda:", "cuda:first", "cudas:1", "cuda:1:2", "cuda:٣"])
def test_any_other_selector_is_refused_with_the_valid_ones(torch, selector):
    with pytest.raises(GpuPerfError, match=r"one of cuda, hpu, mps, mtia, npu, xpu, .* e\.g\. torch:cuda:0"):
        Choice(f"torch:{selector}").missing()


def not_compiled(size, device):
    raise AssertionError


@pytest.mark.parametrize(
    ("changes", "choice", "said"),
    [
        (
            {"accelerator": SimpleNamespace(current_accelerator=lambda: None)},
            "torch",
            "torch 2.99 was built without any GPU; install the build for your GPU",
        ),
        ({"ones": not_compiled}, "torch:xpu:1", "cannot use xpu:1: AssertionError; check the device"),
        ({"accelerator": None}, "torch", "torch 2.99 is too old; install torch>=2.6"),
    ],
)
def test_a_build_without_the_gpu_or_too_old_says_so(torch, changes, choice, said):
    vars(torch).update(changes)
    if torch.accelerator is None:
        del torch.accelerator
    with pytest.raises(Unavailable, match=said):
        Machine(choice).gpu()


def test_a_number_beyond_the_devices_says_how_many_there_are_and_what_may_hide_them(torch, setting):
    setting("CUDA_VISIBLE_DEVICES", "4")
    torch.ones, torch.cuda.device_count = not_compiled, lambda: 1
    with pytest.raises(
        Unavailable, match=r"sees 1 device.* cuda:1 was requested; CUDA_VISIBLE.* is '4'"
    ) as caught:
        Machine("torch:cuda:1").gpu()
    assert not caught.value.broken


def test_another_type_is_opened_by_its_name(torch):
    found = Machine("torch:xpu:1").gpu()
    assert (found.name, torch.waited) == ("Fake Max", [FakeDevice("xpu", 1)])
    assert (found.info.memory, found.info.runtime, found.info.reduced_precision) == (None, None, None)
    with found.observe() as seen:
        pass
    assert seen.worked, "it keeps no count, and is taken at its word"
    assert found.occupy(1e-3) is False


def test_apples_gpu_has_its_own_name_where_torch_tells_it(torch):
    torch.mps = SimpleNamespace()
    assert "MPS" == Machine("torch:mps").gpu().name
    torch.backends.mps = SimpleNamespace(get_name=lambda: "Apple M2 Pro", get_core_count=lambda: 19)
    info = Machine("torch:mps").gpu().info
    assert ("Apple M2 Pro", 19) == (info.name, info.multiprocessors)


@for_each(
    ("dtype", "kind", "said"),
    [
        (np.float64, "mps", r"a float64 array of shape \(3, 4\); give it float32 on both devices"),
        (np.complex128, "mps", r"complex128 array of shape \(3, 4\); give it complex64 on both"),
        (np.float32, "mps", "as torch says it"),
        (np.float64, "xpu", "as torch says it"),
    ],
)
def test_an_array_that_apples_gpus_cannot_have_is_named_with_the_dtype_to_use(torch, dtype, kind, said):
    def refuse(values, device):
        assert values is host, "which nobody has copied"
        raise TypeError("as torch says it")

    torch.mps, torch.tensor, host = SimpleNamespace(), refuse, np.ones((3, 4), dtype)
    with pytest.raises(GpuPerfError if "give it" in said else TypeError, match=said):
        Machine(f"torch:{kind}").gpu().asarray(host)


@for_each(
    ("expected", "changes"),
    [
        ((), {"enabled": True, "benchmark": False, "deterministic": False}),
        (("cudnn.benchmark=True",), {"benchmark": True}),
        (("cudnn.enabled=False", "cudnn.deterministic=True"), {"enabled": False, "deterministic": True}),
    ],
)
def test_settings_that_change_its_algorithms_are_those_that_are_not_torchs_default(torch, expected, changes):
    gpu, cpu = Machine("torch").gpu(), Machine("torch").cpu()
    torch.backends.cudnn = SimpleNamespace(**changes)
    torch.are_deterministic_algorithms_enabled = lambda: False
    assert (expected, ()) == (gpu.info.settings, cpu.info.settings)
    torch.are_deterministic_algorithms_enabled = lambda: True
    always = "deterministic algorithms"
    assert ((always, *expected), (always,)) == (gpu.info.settings, cpu.info.settings)


def test_the_driver_has_nvmls_version_else_that_of_cuda_or_intels_own(torch, with_nvml, with_cuda_driver):
    with_cuda_driver()
    assert "for CUDA 13.0" == Machine("torch").gpu().info.driver
    torch.xpu.get_device_properties = lambda device: SimpleNamespace(
        driver_version="1.6.31294", max_compute_units=448
    )
    info = Machine("torch:xpu").gpu().info
    assert ("1.6.31294", 448) == (info.driver, info.multiprocessors)
    with_nvml()
    assert "580.65.06" == Machine("torch").gpu().info.driver
    assert Machine("torch").cpu().info.driver is None
    with_cuda_driver("its library")
    with_nvml(nvmlSystemGetDriverVersion=None)
    assert Machine("torch").gpu().info.driver is None


def test_the_report_knows_memory_and_runtime_and_tells_rocm_from_cuda(torch):
    gpu = Machine("torch").gpu()
    assert (1 << 37, 132, "CUDA 13.0") == (gpu.info.memory, gpu.info.multiprocessors, gpu.info.runtime)
    torch.version.hip = "6.4"
    info = Machine("torch").gpu().info
    assert ("ROCm 6.4", None) == (info.runtime, info.driver)
    assert gpu.occupy(1e-3) is False, "this torch has no kernel for it"


@for_each(("code", "kind"), [(700, "lost"), (999, "lost"), (2, "out_of_memory"), (1, None)])
def test_an_errors_code_says_which_fault_it_is_whatever_its_words(torch, code, kind):
    class AcceleratorError(RuntimeError):
        error_code = code

    torch.AcceleratorError = AcceleratorError
    fault = Machine("torch").gpu().fault(AcceleratorError("CUDA error: new words"))
    assert kind == (fault.kind if fault else None)


def test_memory_is_the_most_held_above_what_was_held_before_and_intels_gpus_count_no_allocations(torch):
    torch.xpu = xpu = FakeModule()
    device = Machine("torch:xpu").gpu()
    with device.observe() as seen:
        xpu.allocate(2000)
        xpu.free(1500)
    assert (1000, 2000, 500, None, True) == (
        seen.live,
        seen.memory,
        seen.held,
        seen.allocations,
        seen.worked,
    )
    with device.observe() as idle:
        xpu.free(500)
    assert (1500, -500, False) == (idle.live, idle.held, idle.worked)


@for_each(
    ("kind", "counts"), [("mtia", {"dram": {"allocated_bytes": 5}}), ("hpu", {"InUse": 5, "MaxInUse": 7})]
)
def test_counters_of_another_kind_are_not_told_and_the_call_is_taken_at_its_word(torch, kind, counts):
    vars(torch)[kind] = module = FakeModule()
    module.counts = counts
    with Machine(f"torch:{kind}").gpu().observe() as seen:
        pass
    assert (None, None, None, True) == (seen.memory, seen.held, seen.allocations, seen.worked)


TF32, IEEE = SimpleNamespace(fp32_precision="tf32"), SimpleNamespace(fp32_precision="ieee")
ALLOWED, NOT_ALLOWED = {"allow_tf32": True}, {"allow_tf32": False}


@for_each(
    ("matmul", "cudnn", "has_tf32", "products", "convolutions"),
    [
        (NOT_ALLOWED, NOT_ALLOWED, True, None, None),
        (ALLOWED, NOT_ALLOWED, True, "products (allow_tf32)", None),
        (ALLOWED, ALLOWED, False, None, None),
        (vars(TF32), {}, True, "products (fp32_precision)", None),
        ({"fp32_precision": "none"}, {}, True, None, None),
        (vars(IEEE), {}, True, None, None),
        (NOT_ALLOWED, ALLOWED, True, None, "convolutions (allow_tf32)"),
        (NOT_ALLOWED, {"conv": TF32}, True, None, "convolutions (fp32_precision)"),
        (NOT_ALLOWED, {"conv": IEEE, **ALLOWED}, True, None, None),
        (NOT_ALLOWED, {"conv": IEEE, "rnn": TF32}, True, None, "recurrent layers (fp32_precision)"),
        (ALLOWED, ALLOWED, "gfx942:sramecc+", "products (allow_tf32)", None),  # AMD's: in products alone
        (ALLOWED, ALLOWED, "gfx950", "products (allow_tf32)", None),
        (ALLOWED, ALLOWED, "gfx90a", None, None),
        (ALLOWED, ALLOWED, "gfx1100", None, None),
    ],
)
def test_reduced_precision_is_what_is_set_at_that_moment_for_products_and_for_layers(
    torch, setting, matmul, cudnn, has_tf32, products, convolutions
):
    torch.cuda.properties.major = H200 if has_tf32 else V100
    device = Machine("torch").gpu()
    if isinstance(has_tf32, str):  # these come last
        torch.version.hip, torch.cuda.properties.gcnArchName = "7.0", has_tf32
    setting("NVIDIA_TF32_OVERRIDE", None)
    torch.backends.cuda.matmul, torch.backends.cudnn = SimpleNamespace(**matmul), SimpleNamespace(**cudnn)
    info = device.info
    said = (info.reduced_precision, info.reduced_convolutions)
    assert said == tuple(work and f"TF32 in float32 {work}" for work in (products, convolutions))
    assert info.reduced_eps == (2**-10 if products or convolutions else None)
    if not isinstance(has_tf32, str):
        setting("NVIDIA_TF32_OVERRIDE", "0")
        assert (device.info.reduced_precision, device.info.reduced_convolutions) == (None, None)


@for_each("is_told", [True, False])
def test_clocks_are_of_the_place_on_the_bus_that_torch_tells(torch, with_nvml, is_told):
    if not is_told and hasattr(torch.cuda.properties, "pci_bus_id"):
        del torch.cuda.properties.pci_bus_id
    asked = with_nvml()
    device = Machine("torch").gpu()
    assert device.sm_mhz() == (1980 if is_told else None)
    assert {*asked} == ({"00000000:18:00.0"} if is_told else set())
    assert is_told or "does not report the GPU's bus id" in device.clocks_reason


def test_an_amd_gpu_is_no_nvidia_gpu_in_any_reason(torch, with_nvml, setting):
    setting("ROCR_VISIBLE_DEVICES", "1")
    setting("CUDA_VISIBLE_DEVICES", None)
    torch.version.hip = "7.0"
    assert [] == with_nvml()
    gpu = Machine("torch").gpu()
    assert (None, None) == (gpu.sm_mhz(), gpu.other_processes())
    assert "the GPU's clocks are unknown: only NVIDIA's GPUs are asked for them" == gpu.clocks_reason

    def fail(size, device):
        raise RuntimeError(said)

    torch.ones, torch.cuda.device_count = fail, lambda: 0
    hidden = (
        "check `rocm-smi`: .* /dev/kfd and /dev/dri; .*ROCR_VISIBLE_DEVICES is '1', which may hide devices"
    )
    for said, told in (
        ("No HIP GPUs are available", hidden),
        ("new", "check that rocm-smi shows it as free"),
    ):
        with pytest.raises(Unavailable, match=f"{said}; {told}") as caught:
            Machine("torch").gpu()
        assert "nvidia" not in str(caught.value).casefold()


_FALLS_BACK = "The operator 'aten::{}' is not currently supported on the {} backend and will run on "
FALLBACKS = {
    "mps": (f"{_FALLS_BACK.format('{}', 'MPS')}the CPU.", "aten::{}"),
    "npu": (f"CAUTION: {_FALLS_BACK.format('{}', 'NPU')}the CPU.", "aten::{}"),
    "xpu": ("Aten Op fallback from XPU to CPU", "an operator that PYTORCH_DEBUG_XPU_FALLBACK=1 names"),
}


@pytest.mark.parametrize("kind", FALLBACKS)
def test_operators_that_fall_back_to_the_cpu_are_named_and_nothing_is_printed(torch, kind):
    text, name = FALLBACKS[kind]
    always = []
    torch.set_warn_always = always.append
    vars(torch)[kind] = FakeModule()
    device = Machine(f"torch:{kind}").gpu()
    with warnings.catch_warnings(record=True) as given, device.watch() as seen:
        warnings.simplefilter("always")
        assert always == [True]
        for operator in ("linalg_eig", "linalg_svd", "linalg_eig"):
            warnings.warn(text.format(operator), UserWarning, stacklevel=1)
        warnings.warn("another", UserWarning, stacklevel=1)
    assert ["another"] == [str(each.message) for each in given]
    assert seen.on_cpu == tuple(dict.fromkeys(name.format(each) for each in ("linalg_eig", "linalg_svd")))
    assert always == [True, False]
