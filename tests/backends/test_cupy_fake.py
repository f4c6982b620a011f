"""CuPy's edge, on a stand-in for the library: what we make of its answers.

What it really does is shown in tests/gpu and tests/fakes, on GPUs or fake ones.
"""

import sys
import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.errors import Unavailable

H200 = 9  # the first number of its compute capability


class WithStatus(RuntimeError):
    def __init__(self, status):
        super().__init__(f"CUDA error {status}")
        self.status = status


class CudaError(WithStatus):
    pass


class DriverError(WithStatus):
    """Not a CudaError, as in CuPy: kernel launches raise it."""


class OutOfMemory(MemoryError):
    def __init__(self, size):
        super().__init__(f"Out of memory allocating {size} bytes")
        self._size = size


@pytest.fixture
def opened(monkeypatch):
    """Open the GPU of a CuPy that describes it so; this is its module `cupy.cuda`."""
    cuda = SimpleNamespace(
        runtime=SimpleNamespace(
            CUDARuntimeError=CudaError,
            is_hip=False,
            getDeviceCount=lambda: 1,
            driverGetVersion=lambda: 12040,
            runtimeGetVersion=lambda: 12090,  # what CuPy was built with
        ),
        driver=SimpleNamespace(CUDADriverError=DriverError),
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemory),
        Device=lambda index: SimpleNamespace(use=lambda: None, synchronize=lambda: None, pci_bus_id="0"),
    )

    def call(*, generation=H200, chosen=None, **functions):
        cupy = ModuleType("cupy")
        cupy.__spec__, cupy.__version__ = ModuleSpec("cupy", None), "14"
        vars(cupy).update(functions, cuda=cuda, ones=np.ones)
        described = {
            "name": b"Fake",
            "totalGlobalMem": 1 << 37,
            "multiProcessorCount": 132,
            "major": generation,
        }
        cuda.runtime.getDeviceProperties = lambda index: described
        if chosen is not None:
            names = {"compute_type_to_str": lambda _: f"COMPUTE_TYPE_{chosen}", "get_compute_type": len}
            cupy._core = SimpleNamespace(_routines_linalg=SimpleNamespace(**names))
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        return Machine("cupy").gpu()

    call.cuda = cuda
    return call


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
    opened, error, kind, requested
):
    fault = opened().fault(error)
    assert (kind, requested) == ((fault.kind, fault.requested) if fault else (None, None))


def test_the_runtime_is_the_installed_one_where_cupy_finds_it_else_that_it_was_built_with(opened):
    assert opened().info.library == "cupy 14, CUDA 12.9, driver for 12.4"
    opened.cuda.get_local_runtime_version = lambda: 12060
    info = opened().info
    assert ("CUDA 12.6", "cupy 14, CUDA 12.6, driver for 12.4") == (info.runtime, info.library)


def test_the_driver_has_nvmls_version_else_that_of_cuda_for_which_it_is(opened, with_nvml):
    assert "for CUDA 12.4" == opened().info.driver
    with_nvml()
    assert "580.65.06" == opened().info.driver


def test_a_gpu_has_its_size_and_the_power_that_it_may_take(opened, with_nvml):
    with_nvml()
    info = opened().info
    assert (1 << 37, 132, 700) == (info.memory, info.multiprocessors, info.power_limit_watts)


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
    setting, opened, cupys, nvidias, generation, chosen, said
):
    setting("CUPY_TF32", cupys)
    setting("NVIDIA_TF32_OVERRIDE", nvidias)
    info = opened(generation=generation, chosen=chosen).info
    eps = said and (2**-7 if chosen == "BF16" else 2**-10)
    assert (said, eps) == (info.reduced_precision, info.reduced_eps)


def test_an_array_in_fortrans_order_is_copied_as_it_is(opened):
    host = opened(asnumpy=lambda array, order: array.copy(order)).asnumpy(np.ones((2, 3)).T)
    assert host.flags.f_contiguous


@pytest.fixture
def rocm(opened):
    """Let CuPy be its build for ROCm, whose runtime is HIP."""
    opened.cuda.runtime.is_hip = True
    opened.cuda.runtime.runtimeGetVersion = opened.cuda.runtime.driverGetVersion = lambda: 60342133
    return opened


def test_rocm_has_its_own_version_and_neither_tf32_nor_a_spinning_kernel_nor_nvidias_clocks(
    rocm, setting, with_nvml
):
    setting("CUPY_TF32", "1")
    assert [] == with_nvml()
    gpu = rocm()
    info = gpu.info
    assert ("cupy 14, ROCm 6.3", "ROCm 6.3", None) == (info.library, info.runtime, info.driver)
    assert (None, False, None) == (info.reduced_precision, gpu.occupy(1e-3), gpu.sm_mhz())
    assert "the GPU's clocks are unknown: only NVIDIA's GPUs are asked for them" == gpu.clocks_reason


def test_without_an_amd_gpu_the_reason_names_its_tools_and_variables_and_none_of_nvidias(rocm, setting):
    def fail():
        raise error

    setting("CUDA_VISIBLE_DEVICES", None)
    setting("HIP_VISIBLE_DEVICES", "3")
    rocm.cuda.runtime.getDeviceCount = fail
    for status, text in ((100, "hipErrorNoDevice: no ROCm-capable device is detected"), (35, "driver")):
        error = CudaError(status)
        error.args = (text,)
        with pytest.raises(Unavailable, match=f"^HIP cannot be used: {text}; check .*rocm-smi") as caught:
            rocm()
        assert "nvidia" not in str(caught.value).casefold()
        is_absent = status != 35
        assert is_absent is (not caught.value.broken)
        assert is_absent is ("HIP_VISIBLE_DEVICES is '3', which may hide devices" in str(caught.value))
