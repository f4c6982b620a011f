"""One contract for the CPU of each library, alone and in the place of a GPU, and what differs: a table.

Without a library its tests skip; with GPUPERF_NO_SKIP set, as in CI's second environment, they fail instead.
"""

import json
import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib.util import find_spec
from time import process_time
from typing import Any

import numpy as np
import pytest
from cases import unfolded
from cpu_devices import two_of_jax, two_of_keras
from walks import walked

from pytest_gpuperf.devices.choice import backends
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.testing import DeviceConformance, StandIn

if find_spec("jax") is not None:
    two_of_jax()
if has_keras := find_spec("keras") is not None:
    try:
        import keras
    except ImportError:  # it has nothing to run on
        has_keras = False
    else:
        two_of_keras(keras)

OWN = backends()


@dataclass(frozen=True, kw_only=True)
class Case:
    """A backend's CPU, or one of the GPUs that it emulates, and the dtypes that this lacks."""

    backend: Any
    emulated: str | None = None
    narrowed: Mapping[str, str] = field(default_factory=dict)


KERASS = {"int64": "int32", "float64": "float32"} if has_keras and keras.config.backend() == "jax" else {}
CASES = {
    "torch": Case(backend=OWN["torch"]),
    "torch as a GPU": Case(backend=StandIn("torch"), emulated=""),
    "jax": Case(backend=OWN["jax"]),
    "jax, not its default device, as a GPU": Case(backend=StandIn("jax", with_itself=True), emulated="1"),
    "keras": Case(backend=OWN["keras"], narrowed=KERASS),
    "keras, not its default device, as a GPU": Case(backend=StandIn("keras"), emulated="1", narrowed=KERASS),
    "mlx as a GPU": Case(backend=StandIn("mlx"), emulated="", narrowed={"float64": "float32"}),
    "dpnp as a GPU": Case(backend=OWN["sycl"], emulated="cpu"),
    "array_api_strict as a GPU": Case(backend=StandIn("array_api_strict"), emulated=""),
}


def need(library):
    if find_spec(library) is None or (library == "keras" and not has_keras):
        pytest.skip(f"{library} is not installed; CI's second environment has it")


class TestContract(DeviceConformance):
    @pytest.fixture(params=CASES)
    def name(self, request):
        need(re.match(r"\w+", request.param)[0])
        return request.param

    @pytest.fixture
    def backend(self, name):
        return CASES[name].backend

    @pytest.fixture
    def gpu(self, name, backend):
        case = CASES[name]
        self.narrowed = case.narrowed
        with two_of_jax().enable_x64(True) if name.startswith("jax") else nullcontext():  # noqa: FBT003 - JAX's
            yield backend.cpu() if case.emulated is None else backend.gpu(case.emulated)

    def test_it_is_a_gpu_with_a_name(self, name, gpu):
        is_gpu = name.endswith("as a GPU")
        assert (gpu.kind, gpu.backend, gpu.name) == (gpu.info.kind, gpu.info.backend, gpu.info.name)
        assert (gpu.kind, gpu.info.emulated) == ("gpu" if is_gpu else "cpu", is_gpu)
        assert (gpu.info.reduced_precision, gpu.info.runtime) == (None, None)
        assert gpu.info.library.startswith(re.match(r"\w+", name)[0])
        worked = gpu.processor_time()
        assert (worked is None) == is_gpu
        assert worked is None or 0 < worked <= process_time()

    def test_it_sees_its_own_work_and_no_other(self, name, gpu):
        if name.startswith(("mlx", "dpnp")):
            super().test_it_sees_its_own_work_and_no_other(gpu)
            return
        with gpu.observe() as seen:
            pass
        assert seen.worked, "as on any CPU: there is nowhere else for the work"

    @pytest.mark.parametrize(
        "host", [[1.0, 2.0], np.arange(3.0)[::-1], np.broadcast_to(1.0, (2, 2)), np.ones((2, 3)).T]
    )
    def test_any_host_array_goes_up(self, gpu, host):
        assert gpu.asnumpy(gpu.asarray(host)).tolist() == np.asarray(host).tolist()

    def test_copies_of_its_own_array_on_the_device_and_on_the_host_are_no_views(self, gpu):
        there = gpu.xp.zeros(3)
        copied = gpu.asarray(there)
        assert gpu.holds(copied)
        copied += 1  # in place, where arrays can be written
        gpu.asnumpy(there)[:] = 1
        assert gpu.asnumpy(there).tolist() == [0, 0, 0]


def made(xp, library, values, dtype):
    """Return an array of a dtype that NumPy lacks; of float32 where the library is NumPy itself."""
    if library == "keras":
        return xp.cast(xp.asarray(values), dtype)
    make = xp.tensor if library == "torch" else xp.array
    return make(values, dtype=getattr(xp, dtype, np.float32))


@pytest.mark.parametrize(
    ("library", "dtype", "bits"),
    [
        *((library, "bfloat16", 7) for library in ("torch", "jax", "keras", "mlx")),
        *((library, "float8_e4m3fn", 3) for library in ("torch", "jax")),
        *((library, "float8_e5m2", 2) for library in ("torch", "jax")),
    ],
)
def test_results_of_a_narrow_dtype_are_copied_and_held_to_its_own_precision(library, dtype, bits):
    need(library)
    devices = Machine(f"{library}:cpu")

    def body(device):
        array = made(device.xp, library, [1.0, 1.0 if device.kind == "cpu" else 1 + 2**-bits], dtype)
        return lambda: device.asarray(array)

    record = walked(body, devices.cpu(), devices.gpu(), Demand(min=1e-7), max_time=0.5)
    assert (True, (dtype,)) == (record.check.agreed, record.gpu.dtypes)
    assert pytest.approx(2 ** (-bits / 2)) == record.check.tolerance
    assert pytest.approx(2**-bits, rel=0.5) == record.check.error
    assert record.transfer.d2h.bytes == (4 if dtype == "bfloat16" else 2)


@pytest.mark.parametrize(
    ("choice", "library", "compared_with"),
    [
        ("torch:cpu", "torch", "torch"),
        ("jax:cpu", "jax", "jax"),
        ("standin:jax.numpy", "jax", "numpy"),
        ("keras:cpu", "keras", "keras"),
        ("mlx:cpu", "mlx", "numpy"),
        ("standin:array_api_strict", "array_api_strict", "numpy"),
    ],
)
def test_what_is_called_a_gpu_is_compared_with_its_own_cpu_or_with_numpy(choice, library, compared_with):
    need(library)
    cpu, gpu = Machine(choice).cpu(), Machine(choice).gpu()
    assert (compared_with, "cpu", False) == (cpu.backend, cpu.kind, cpu.info.emulated)
    assert (library, "gpu", True) == (gpu.backend, gpu.kind, gpu.info.emulated)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("cupy", "CuPy is installed but no NVIDIA driver is; install the driver"),
        ("torch", r"built without any GPU|cannot use \w+:0: .+; install the driver"),
        ("jax", "JAX sees no GPU.*; install (JAX's plugin|the driver)"),
        ("keras", r"(sees no GPU|without any GPU|cannot use).*; install"),
        ("mlx", r"^no GPU \(--gpuperf-gpu=mlx:cpu emulates one\): MLX \S+ has no GPU here; use a Mac "),
        ("sycl", "no Intel GPU; install its compute runtime"),
    ],
)
def test_without_a_gpu_the_remedy_is_named(name, remedy):
    need("dpnp" if name == "sycl" else name)
    if Machine(name).has_gpu():
        pytest.skip("this machine has a GPU")
    with pytest.raises(Unavailable, match=remedy) as cause:
        Machine(name).gpu()
    assert (False, False) == (cause.value.missing, cause.value.broken)
    with pytest.raises(Unavailable) as required:
        Machine(name, required=True).gpu()
    assert "emulates" not in str(required.value)


@pytest.mark.parametrize(
    ("choice", "make", "requested"),
    [
        ("torch:cpu", lambda xp: xp.empty(1 << 60), 4 << 60),
        ("jax:cpu", lambda xp: xp.ones(1 << 44).block_until_ready(), 4 << 44),
        ("keras:cpu", lambda xp: np.asarray(xp.ones((1 << 22, 1 << 22))), None),
        ("sycl:cpu", lambda xp: xp.empty(1 << 44), None),
    ],
)
def test_too_large_an_array_is_out_of_memory_with_its_bytes(choice, make, requested):
    need("dpnp" if choice == "sycl:cpu" else choice.removesuffix(":cpu"))
    device = Machine(choice).gpu()
    with pytest.raises(Exception) as caught, device.context():  # noqa: PT011 - each raises its own
        make(device.xp)
    fault = device.fault(caught.value)
    assert fault.kind == "out_of_memory"
    assert requested in (None, fault.requested)


@pytest.mark.parametrize(
    ("choice", "namespace", "library"),
    [
        ("keras:cpu", "keras.ops", "keras"),
        ("mlx:cpu", "mlx.core", "mlx"),
        ("sycl:cpu", "dpnp", "sycl"),
        ("standin:array_api_strict", "array_api_strict", "array_api_strict"),
    ],
)
def test_a_suites_own_values_mean_it_without_a_conftest(run, pytester, setting, choice, namespace, library):
    need(namespace.partition(".")[0])
    setting("COLUMNS", "200")  # the names of processors may be long
    source = f"""
        import numpy, pytest, {namespace}

        @pytest.mark.speedup
        @pytest.mark.parametrize("xp", [numpy, {namespace}])
        def test_sum(xp):
            array = xp.ones((10, 10), dtype="float32" if xp.__name__ == "keras.ops" else xp.float32)
            return lambda: xp.sum(xp.matmul(array, array))
    """
    result = run(source, "--gpuperf-json=r.json", "--gpuperf-max-time=2", gpu=choice)
    result.assert_outcomes(passed=2)
    assert fnmatch(unfolded(result), f"*| emulated: *{library}*, not a GPU *")
    there = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["records"][1]
    assert (there["pairing"]["library"], there["gpu"]["device"]["emulated"]) == (library, True)
    assert (there["speedup"]["value"] > 0, there["check"]["agreed"]) == (True, True)
    assert (["float32"], 4) == (there["gpu"]["dtypes"], there["transfer"]["d2h"]["bytes"])
