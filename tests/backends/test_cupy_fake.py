"""CuPy's edge, on a stand-in for the library: what we make of its answers.

What it really does is shown in tests/gpu and tests/fakes, on GPUs or fake ones.
"""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from cases import for_each

from pytest_gpuperf.devices.cupy import _SPIN, CupyDevice

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


def fake(*, generation=H200, hip=False):
    """Return the parts of CuPy that describe a device; what one does is shown on fake ones in tests/gpu."""
    runtime = SimpleNamespace(
        CUDARuntimeError=CudaError,
        is_hip=hip,
        driverGetVersion=lambda: 12040,
        runtimeGetVersion=lambda: 12090,  # what CuPy was built with
        getDeviceProperties=lambda index: {"name": b"Fake", "totalGlobalMem": 1 << 37, "major": generation},
    )
    cuda = SimpleNamespace(
        runtime=runtime,
        driver=SimpleNamespace(CUDADriverError=DriverError),
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemory),
        Device=lambda index: SimpleNamespace(id=index, use=lambda: None),
    )
    return SimpleNamespace(cuda=cuda, __version__="14")


@pytest.fixture
def device():
    return CupyDevice(fake(), 0)


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


def test_the_runtime_is_the_installed_one_where_cupy_finds_it_else_that_it_was_built_with():
    library = fake()
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
    setting, cupys, nvidias, generation, chosen, said
):
    setting("CUPY_TF32", cupys)
    setting("NVIDIA_TF32_OVERRIDE", nvidias)
    library = fake(generation=generation)
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


def test_rocm_has_no_spinning_kernel():
    assert CupyDevice(fake(hip=True), 0).occupy is None
