"""One contract for the CPU of each library, alone and in the place of a GPU, and what differs: a table.

Without a library its tests skip; with GPUPERF_NO_SKIP set, as in CI's second environment, they fail instead.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.util import find_spec
from time import process_time
from typing import Any

import numpy as np
import pytest
from cpu_devices import second_of_jax, second_of_keras, two_of_jax, two_of_keras

from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.devices.jax import JaxBackend
from pytest_gpuperf.devices.keras import KerasBackend
from pytest_gpuperf.devices.machine import Machine, backends
from pytest_gpuperf.devices.stand_in import StandIn, chosen_stand_in
from pytest_gpuperf.devices.sycl import SyclBackend
from pytest_gpuperf.devices.torch import TorchBackend
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.testing import DeviceConformance
from pytest_gpuperf.timing import leaves, result_check
from pytest_gpuperf.timing.any_array import bytes_of, dtype_of

if find_spec("jax") is not None:
    two_of_jax()
if has_keras := find_spec("keras") is not None:
    try:
        import keras
    except ImportError:  # it has nothing to run on
        has_keras = False
    else:
        two_of_keras(keras)

KERAS_NARROWS = has_keras and keras.config.backend() == "jax"
NARROW = {"bfloat16": 7, "float8_e4m3fn": 3, "float8_e5m2": 2}  # and the bits of their mantissas


@dataclass(frozen=True, kw_only=True)
class Case:
    """A device and what differs: dtypes that it lacks, or has beside NumPy's, and what it can observe."""

    backend: Callable[[], Any]
    opened: Callable[[Any], Any] = lambda backend: backend.gpu("")
    narrowed: Mapping[str, str] = field(default_factory=dict)
    narrow: tuple[str, ...] = ()
    made: Callable[[Any, list[float], str], Any] = lambda xp, values, dtype: xp.array(
        values, dtype=getattr(xp, dtype)
    )
    sees_work: bool = False  # else every call is work: there is nowhere else for it
    keeps_float64: bool = False  # within JAX's own context


def cpu(backend):
    return backend.cpu()


def cast(ops, values, dtype):
    return ops.cast(ops.asarray(values), dtype)


TORCH = {
    "narrow": tuple(NARROW),
    "made": lambda xp, values, dtype: xp.tensor(values, dtype=getattr(xp, dtype)),
}
JAX = {"narrow": tuple(NARROW), "keeps_float64": True}
KERAS = {
    "narrow": ("bfloat16",),
    "made": cast,
    "narrowed": {"int64": "int32", "float64": "float32"} if KERAS_NARROWS else {},
}
CASES = {
    "torch": Case(backend=lambda: TorchBackend(), opened=cpu, **TORCH),
    "torch as a GPU": Case(backend=lambda: StandIn("torch"), **TORCH),
    "jax": Case(backend=lambda: JaxBackend(), opened=cpu, **JAX),
    "jax on another device": Case(backend=lambda: JaxBackend(), opened=lambda _: second_of_jax(), **JAX),
    "jax as a GPU": Case(backend=lambda: chosen_stand_in("jax:cpu"), **JAX),
    "keras": Case(backend=lambda: KerasBackend(), opened=cpu, **KERAS),
    "keras on another device": Case(
        backend=lambda: KerasBackend(), opened=lambda _: second_of_keras(), **KERAS
    ),
    "keras as a GPU": Case(backend=lambda: chosen_stand_in("keras:cpu"), **KERAS),
    "mlx as a GPU": Case(
        backend=lambda: chosen_stand_in("mlx:cpu"),
        narrowed={"float64": "float32"},
        narrow=("bfloat16",),
        sees_work=True,
    ),
    "dpnp as a GPU": Case(
        backend=lambda: SyclBackend(),
        opened=lambda backend: backend.gpu("cpu"),
        sees_work=True,
    ),
    "array_api_strict as a GPU": Case(backend=lambda: StandIn("array_api_strict")),
}


def need(library):
    if find_spec(library) is None or (library == "keras" and not has_keras):
        pytest.skip(f"{library} is not installed; CI's second environment has it")


class TestContract(DeviceConformance):
    @pytest.fixture(params=CASES)
    def name(self, request):
        need(request.param.partition(" ")[0])
        return request.param

    @pytest.fixture
    def case(self, name):
        return CASES[name]

    @pytest.fixture
    def backend(self, case):
        return case.backend()

    @pytest.fixture
    def gpu(self, case, backend):
        self.narrowed = case.narrowed
        with two_of_jax().enable_x64(True) if case.keeps_float64 else nullcontext():  # noqa: FBT003 - JAX's
            yield case.opened(backend)

    def test_it_is_a_gpu_with_a_name(self, name, gpu):
        is_gpu = name.endswith("as a GPU")
        assert (gpu.kind, gpu.backend, gpu.name) == (gpu.info.kind, gpu.info.backend, gpu.info.name)
        assert (gpu.kind, gpu.info.emulated) == ("gpu" if is_gpu else "cpu", is_gpu)
        assert (gpu.info.reduced_precision, gpu.info.runtime) == (None, None)
        assert gpu.info.library.startswith(name.partition(" ")[0])

    def test_a_cpu_counts_the_time_of_its_processors_and_what_is_called_a_gpu_does_not(self, gpu):
        worked = getattr(gpu, "processor_time", None)
        assert (worked is None) == (gpu.kind == "gpu")
        assert worked is None or 0 < worked() <= process_time()

    def test_it_sees_its_own_work_and_no_other(self, case, gpu):
        if case.sees_work:
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

    def test_a_copy_on_the_host_is_no_view(self, gpu):
        there = gpu.asarray(np.zeros(3))
        gpu.asnumpy(there)[:] = 1
        assert gpu.asnumpy(there).tolist() == [0, 0, 0]

    def test_an_array_of_its_own_is_copied_too(self, gpu):
        there = gpu.xp.zeros(3)
        copied = gpu.asarray(there)
        assert gpu.holds(copied)
        copied += 1  # in place, where arrays can be written
        assert gpu.asnumpy(there).tolist() == [0, 0, 0]

    def test_a_narrow_dtype_comes_down_as_float32_and_is_held_to_its_own_precision(self, case, gpu):
        for dtype in case.narrow:

            def result(value, dtype=dtype):
                there = case.made(gpu.xp, [1.0, value], dtype)
                assert (dtype_of(there), bytes_of(there)) == (dtype, 4 if dtype == "bfloat16" else 2)
                host = gpu.asnumpy(there)
                assert [1.0, value] == host.astype(np.float32).tolist()
                assert dtype != "bfloat16" or host.dtype == np.float32
                return leaves.snapshot(there, gpu.holds, gpu.asnumpy)

            bits = NARROW[dtype]
            found = result_check.compare(result(1.0), result(1 + 2**-bits), Demand())
            assert (found.agreed, found.tolerance) == (True, pytest.approx(2 ** (-bits / 2)))
            assert result_check.compare(result(1.0), result(3.0), Demand()).agreed is False


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
    devices = Machine(choice)
    cpu, gpu = devices.cpu(), devices.gpu()
    assert (compared_with, "cpu", False) == (cpu.backend, cpu.kind, cpu.info.emulated)
    assert (library, "gpu", True) == (gpu.backend, gpu.kind, gpu.info.emulated)
    assert devices.gpu(DeviceSpec(kind="gpu", library=library)) is gpu
    assert devices.cpu(DeviceSpec(kind="cpu", library="numpy")).backend == "numpy"
    with pytest.raises(Unavailable):
        Machine("auto").gpu()


def refusal(backend):
    """Return why a backend has no GPU here."""
    try:
        backend.gpu("")
    except Unavailable as cause:
        return cause
    pytest.skip("this machine has a GPU")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("cupy", "CuPy is installed but no NVIDIA driver is; install the driver"),
        ("torch", r"built without any GPU|cannot use \w+:0: .+; install the driver"),
        ("jax", "JAX sees no GPU, only the CPU; install JAX's plugin .*; JAX_PLATFORMS is "),
        ("keras", r"(sees no GPU|without any GPU|cannot use).*; install"),
        ("mlx", r"MLX \S+ has no GPU here; use a Mac .*; mlx:cpu emulates one"),
        ("sycl", "no Intel GPU; install its compute runtime"),
    ],
)
def test_without_a_gpu_the_remedy_is_named(name, remedy):
    need("dpnp" if name == "sycl" else name)
    cause = refusal(backends()[name])
    assert re.search(remedy, str(cause))
    assert (cause.missing, cause.broken) == (False, False)


@pytest.mark.parametrize(
    ("name", "make", "requested"),
    [
        ("torch", lambda xp: xp.empty(1 << 60), 4 << 60),
        ("jax", lambda xp: xp.ones(1 << 44).block_until_ready(), 4 << 44),
        ("keras", lambda xp: np.asarray(xp.ones((1 << 22, 1 << 22))), None),
    ],
)
def test_too_large_an_array_is_out_of_memory_with_its_bytes(name, make, requested):
    need(name)
    device = CASES[name].opened(CASES[name].backend())
    with pytest.raises(Exception) as caught, getattr(device, "context", nullcontext)():  # noqa: PT011 - each raises its own
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
def test_a_suites_own_values_mean_it_without_a_conftest(
    run, pytester, monkeypatch, choice, namespace, library
):
    need(namespace.partition(".")[0])
    monkeypatch.setenv("COLUMNS", "200")  # the names of processors may be long
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
    result.stdout.fnmatch_lines([f"*| emulated: *{library}*, not a GPU"])
    there = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["records"][1]
    assert (there["pairing"]["library"], there["gpu"]["device"]["emulated"]) == (library, True)
    assert (there["speedup"]["value"] > 0, there["check"]["agreed"]) == (True, True)
