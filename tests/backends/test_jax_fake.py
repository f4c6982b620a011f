"""JAX's edge, on a stand-in for the library: which cause each of its errors is, and what an allocator tells.

The library itself is in test_jax_cpu.py and tests/gpu; this is what we make of its answers.
"""

import logging
import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable


class FakeArray:
    def __init__(self, device):
        self.device = device

    def block_until_ready(self):
        return self

    def devices(self):
        return {self.device}

    def sum(self):
        return self

    def __add__(self, other):
        return self


class FakeDevice:
    client = SimpleNamespace(platform_version="PJRT C API\ncuda 13000")

    def __init__(self, platform="gpu", *, kind="Fake", capability="9.0", counts=None, number=0):
        self.platform, self.device_kind, self.counts = platform, kind, counts
        self.local_hardware_id = number
        if capability is not None:
            self.compute_capability = capability

    def memory_stats(self):
        return None if self.counts is None else dict(self.counts)

    def allocate(self, size):
        self.counts["num_allocs"] += 1
        self.counts["bytes_in_use"] += size


class FakeConfig(SimpleNamespace):
    def update(self, name, value):
        setattr(self, name, value)


@pytest.fixture
def jax(monkeypatch):
    """Put a JAX with these devices in place; some platforms fail, and so say why."""

    def call(*devices, **failures):
        def local_devices(backend="all"):
            failed = "all" if "all" in failures else backend  # the first question starts all platforms
            if failed in failures:
                said = failures.pop(failed)  # JAX raises it once
                raise RuntimeError(said) if said else AssertionError
            return list(devices)

        made = ModuleType("jax")
        made.__dict__.update(
            __spec__=ModuleSpec("jax", None),
            __version__="0.99",
            Array=FakeArray,
            config=FakeConfig(jax_default_matmul_precision=None, jax_default_device=None),
            core=SimpleNamespace(Tracer=()),
            dtypes=SimpleNamespace(issubdtype=lambda dtype, kind: dtype == kind, prng_key="key"),
            default_device=lambda device: nullcontext(),
            device_put=lambda value, device, **_: FakeArray(device),
            jit=lambda function: function,
            live_arrays=lambda platform: [],
            local_devices=local_devices,
            numpy=SimpleNamespace(
                __name__="jax.numpy", __doc__="", ones=lambda size, device=None: FakeArray(device)
            ),
            sharding=SimpleNamespace(Mesh=lambda devices, axes: devices),
            tree=SimpleNamespace(map=lambda function, value: function(value)),
        )
        monkeypatch.setitem(sys.modules, "jax", made)
        return made

    return call


class FakeInternals(SimpleNamespace):
    """What JAX's own modules know: what its plugins raise, and what has kept platforms away."""

    def __init__(self, *, raised=(), kept=(), chips=0):
        logger = logging.getLogger("jax._src.xla_bridge")

        def discover_pjrt_plugins():
            for error in raised:
                logger.error("Jax plugin configuration error", exc_info=RuntimeError(error))

        bridge = SimpleNamespace(
            logger=logger, discover_pjrt_plugins=discover_pjrt_plugins, _backend_errors=dict(kept)
        )
        hardware = SimpleNamespace(num_available_tpu_chips_and_device_id=lambda: (chips, None))
        super().__init__(xla_bridge=bridge, hardware_utils=hardware)


NO_DRIVER = "operation cuInit(0) failed: Unknown CUDA error 303; cuGetErrorName failed."
UNKNOWN = "Unable to initialize backend 'cuda': Backend 'cuda' is not in the list of known backends"
FULL = "Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU devices."
ADVICE = f"{FULL} (you may need to uninstall the failing plugin package, or set JAX_PLATFORMS=cpu)"
NONE = "JAX sees no GPU; install JAX's plugin for your device .*, and give a container its GPUs"
EMULATED = r"^no GPU \(--gpuperf-gpu=jax:cpu emulates one\): "
HIDES = ", which may hide devices$"


@for_each(
    ("platforms", "failures", "internals", "is_broken", "said"),
    [
        (None, {}, {}, False, f"{EMULATED}{NONE}$"),
        ("cpu", {}, {}, False, f"{EMULATED}{NONE}; JAX_PLATFORMS is 'cpu'{HIDES}"),
        ("cuda", {"all": ""}, {}, False, f"{EMULATED}{NONE}; JAX_PLATFORMS is 'cuda'{HIDES}"),
        ("cuda", {"all": UNKNOWN}, {}, True, f"{UNKNOWN}; check its plugin .*; JAX_PLATFORMS is 'cuda'"),
        ("cuda", {"all": UNKNOWN}, {"raised": [NO_DRIVER]}, False, r"GPU: operation cuInit\(0\) .*; install"),
        (None, {"all": ADVICE}, {}, True, r"^JAX sees no GPU: .* No visible GPU devices; free the GPU[^_]+$"),
        (None, {}, {"raised": ["ALREADY_EXISTS: PJRT_Api already exists"]}, False, f"{EMULATED}{NONE}$"),
        (None, {}, {"raised": [NO_DRIVER, "Unable to load cuFFT. Is it installed?"]}, True, "GPU: Unable to"),
        (None, {}, {"kept": {"cuda": "INTERNAL: new words"}}, True, "GPU: cuda: INTERNAL: new words; check"),
        (None, {}, {"kept": {"tpu": "TPU is already in use by process"}}, False, f"{EMULATED}{NONE}$"),
        (
            None,
            {},
            {"kept": {"tpu": "TPU is already in use"}, "chips": 4},
            True,
            "use; end that process: one",
        ),
        (None, {}, {"kept": {"tpu": "Failed to open libtpu.so"}, "chips": 4}, False, r"install jax\[tpu\]"),
    ],
)
def test_a_platform_that_cannot_be_started_is_jaxs_own_cause(
    jax, setting, platforms, failures, internals, is_broken, said
):
    setting("JAX_PLATFORMS", platforms)
    setting("CUDA_VISIBLE_DEVICES", None)
    jax(FakeDevice("cpu"), **failures)._src = FakeInternals(**internals)
    with pytest.raises(Unavailable, match=said) as caught:
        Machine("jax").gpu()
    assert is_broken == caught.value.broken


def test_where_jax_has_no_names_that_tell_the_cause_the_gpu_is_not_there(jax, setting):
    setting("JAX_PLATFORMS", None)
    setting("CUDA_VISIBLE_DEVICES", "")
    jax(FakeDevice("cpu"))
    with pytest.raises(Unavailable, match=f"{NONE}; CUDA_VISIBLE_DEVICES is '', which may hide") as caught:
        Machine("jax").gpu()
    assert not caught.value.broken


def test_a_platform_that_fails_once_leaves_the_cpu_usable_and_stays_the_cause(jax, setting):
    setting("JAX_PLATFORMS", None)
    jax(FakeDevice("cpu"), all=ADVICE)
    assert "cpu" == Machine("jax").cpu().kind
    assert "gpu" == Machine("jax:cpu").gpu().kind
    with pytest.raises(Unavailable, match="No visible GPU devices; free the GPU") as caught:
        Machine("jax").gpu()
    assert caught.value.broken


def test_a_cpu_that_no_platform_but_the_broken_one_may_replace_has_that_ones_cause(jax, setting):
    setting("JAX_PLATFORMS", "cuda")
    jax(FakeDevice("cpu"), all=FULL, cpu=FULL)
    with pytest.raises(Unavailable, match=r"JAX cannot use the CPU .*devices; free the GPU") as caught:
        Machine("jax").cpu()
    assert caught.value.broken


def test_a_gpu_is_described_and_a_cpu_that_jax_may_not_use_is_an_error_that_says_how_it_may(jax, setting):
    setting("JAX_PLATFORMS", "cuda")
    jax(FakeDevice(), cpu="Unknown backend cpu. Available backends are ['cuda']")
    info = Machine("jax").gpu().info
    assert ("gpu", "Fake", "jax 0.99", "cuda 13000") == (info.kind, info.name, info.library, info.runtime)
    with pytest.raises(GpuPerfError, match="add cpu to JAX_PLATFORMS"):
        Machine("jax").cpu()


def test_the_build_of_a_tpus_runtime_is_told_with_the_library_and_is_no_version_of_a_runtime(jax):
    chip = FakeDevice("tpu", kind="TPU v5 lite", capability=None)
    built = "Built on Oct 10 2025 08:40:17 (1760110817) cl/817633333"
    chip.client = SimpleNamespace(platform_version=f"PJRT C API\nTFRT TPU v5 lite\n{built}")
    jax(chip)
    info = Machine("jax").gpu().info
    assert (f"jax 0.99, {built}", None) == (info.library, info.runtime)


def test_work_and_what_it_holds_are_seen_by_the_allocators_count(jax):
    chip = FakeDevice(counts={"num_allocs": 5, "bytes_in_use": 1000})
    jax(chip)
    device = Machine("jax").gpu()
    with device.observe() as working:
        chip.allocate(2000)
    with device.observe() as idle:
        pass
    found = [(seen.worked, seen.held, seen.memory) for seen in (working, idle)]
    assert found == [(True, 2000, None), (False, 0, None)]


@for_each(
    ("worked", "counts"),
    [
        (True, None),
        (True, {"num_allocs": -1, "bytes_in_use": 1000}),  # which it does not count
        (True, {"num_allocs": -1, "bytes_in_use": -1}),
        (False, {"num_allocs": 5, "bytes_in_use": -1}),
    ],
)
def test_what_the_allocator_does_not_count_is_unknown(jax, worked, counts):
    jax(FakeDevice(counts=counts))
    with Machine("jax").gpu().observe() as seen:
        pass
    assert (worked, None) == (seen.worked, seen.held)


@for_each(
    ("mode", "eps", "platform", "capability", "chosen", "nvidias"),
    [
        ("TF32", 2**-10, "gpu", "9.0", None, None),
        ("TF32", 2**-10, "gpu", "8.6", "high", None),
        ("bfloat16", 2**-7, "gpu", "9.0", "BF16_BF16_F32", None),
        ("bfloat16", 2**-10, "gpu", "9.0", "BF16_BF16_F32_X3", None),  # as little as TF32
        ("bfloat16", 2**-7, "tpu", None, None, None),
        *((None, None, "gpu", capability, None, None) for capability in ("7.0", None, "gfx942", "unknown")),
        *(
            (None, None, "gpu", "9.0", chosen, None)
            for chosen in ("highest", "float32", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9", "TF32_TF32_F32_X3")
        ),
        (None, None, "gpu", "9.0", None, "0"),
        (None, None, "tpu", None, "highest", None),
    ],
)
def test_reduced_precision_is_what_is_set_at_that_moment(
    jax, setting, mode, eps, platform, capability, chosen, nvidias
):
    library = jax(FakeDevice(platform, capability=capability))
    device = Machine("jax").gpu()
    setting("NVIDIA_TF32_OVERRIDE", nvidias)
    library.config.jax_default_matmul_precision = chosen
    said = mode and f"{mode} in float32 products (jax_default_matmul_precision={chosen})"
    assert (said, eps) == (device.info.reduced_precision, device.info.reduced_eps)


@for_each("is_cache", [True, False])
def test_every_copy_to_the_host_is_of_a_new_view_and_copied_again_unless_jax_made_it(jax, is_cache):
    """An array of a GPU keeps what was copied of it: the next copy would take no time at all."""
    jax(FakeDevice())
    device = Machine("jax").gpu()
    views, memory = [], np.ones(3)

    def view(index):
        views.append(memory.copy() if is_cache else memory[:])
        views[-1].flags.writeable = False  # as JAX protects what it caches
        return views[-1]

    array = SimpleNamespace(dtype="float32", addressable_data=view)
    hosts = [device.asnumpy(array) for _ in range(2)]
    assert [is_cache] * 2 == [host is view for host, view in zip(hosts, views, strict=True)]
    hosts[0][0] = 2
    assert (memory.tolist(), hosts[1].tolist()) == ([1, 1, 1], [1, 1, 1])


@for_each(("count", "number", "default"), [(1, 0, None), (1, 1, 1), (2, 0, 0)])
def test_arrays_that_a_test_makes_itself_live_on_its_accelerator_the_first_of_a_group(
    jax, count, number, default
):
    chips = [FakeDevice(), FakeDevice()]
    made = jax(chips[0], FakeDevice("cpu"), chips[1])
    devices = Machine("jax", worker=number)
    found = devices.gpu() if count == 1 else devices.group(count).all[0]
    assert found.native is chips[number]
    assert made.config.jax_default_device is (None if default is None else chips[default])


@for_each(
    ("failing", "reason"),
    [
        ("", None),
        ("cuInit", "the driver does not tell the bus of CUDA device 18 (error 3)"),
        ("cuDeviceGet", "the driver does not tell the bus of CUDA device 18 (error 101)"),
        ("its library", "the driver's library cannot be called: libcuda.so.1: cannot open"),
    ],
)
def test_the_clocks_are_those_of_the_gpu_that_has_jaxs_number_where_the_driver_tells_its_bus(
    with_cuda_driver, jax, with_nvml, failing, reason
):
    jax(FakeDevice(number=3), FakeDevice(number=18))
    with_cuda_driver(failing)
    asked = with_nvml()
    device = Machine("jax:1").gpu()
    assert device.sm_mhz() == (None if failing else 1980)
    assert {*asked} == (set() if failing else {"0000:18:00.0"})
    assert not failing or reason in device.clocks_reason


def test_the_driver_has_nvmls_version_else_that_of_cuda_for_which_it_is(jax, with_nvml, with_cuda_driver):
    jax(FakeDevice())
    with_cuda_driver()
    assert "for CUDA 13.0" == Machine("jax").gpu().info.driver
    with_nvml()
    assert "580.65.06" == Machine("jax").gpu().info.driver
    with_cuda_driver("cuDriverGetVersion")
    with_nvml(nvmlSystemGetDriverVersion=None)
    assert Machine("jax").gpu().info.driver is None


@for_each(
    ("expected", "failing"),
    [((4 << 30, 132), ""), ((None, 130), "cuDeviceTotalMem_v2"), ((None, 130), "its library")],
)
def test_memory_and_multiprocessors_are_those_that_the_driver_tells_else_what_jax_does(
    jax, with_cuda_driver, expected, failing
):
    chip = FakeDevice(number=3)
    chip.core_count = 130
    jax(chip)
    with_cuda_driver(failing)
    info = Machine("jax").gpu().info
    assert expected == (info.memory, info.multiprocessors)


@for_each(
    ("version", "number"), [("PJRT C API\nrocm 60300", 0), ("PJRT C API\nTFRT TPU v2", 0), ("cuda 1", None)]
)
def test_a_device_of_another_vendor_is_not_looked_up_in_nvidias_library(jax, with_nvml, version, number):
    chip = FakeDevice(number=number)
    chip.client = SimpleNamespace(platform_version=version)
    jax(chip)
    asked = with_nvml()
    assert "is no NVIDIA GPU" in Machine("jax").gpu().clocks_reason
    assert asked == []
