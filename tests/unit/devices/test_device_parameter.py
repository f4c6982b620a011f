"""Sides: which device of which library a suite's own parameters mean."""

import sys
from enum import Enum
from types import ModuleType, SimpleNamespace

import numpy
import pytest
from cases import for_each

from pytest_gpuperf.devices.device_parameter import DeviceParser, DeviceSpec, ParsedDevice, UnknownDevice
from pytest_gpuperf.model.demand import UnknownValue

NAMES = ("device", "xp", "module", "namespace", "array_namespace", "library", "backend", "nx")


@pytest.fixture(autouse=True)
def _no_library_is_loaded(monkeypatch):
    for name in ("cupy", "torch", "jax", "keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def side(**parameters) -> DeviceSpec | None:
    return DeviceParser(NAMES).parse(parameters).spec


def problem(**parameters) -> str:
    with pytest.raises(ValueError, match=r"use a value that is known .* \(it lists device, xp, ") as refused:
        side(**parameters)
    return str(refused.value).partition("; ")[0]


def torch_device(kind, index=None):
    text = kind if index is None else f"{kind}:{index}"
    return type("device", (), {"__module__": "torch", "type": kind, "__str__": lambda _: text})()


def jax_device(platform, number=0):
    device = type("Device", (), {"__module__": "jaxlib._jax"})()
    device.platform, device.id = platform, number
    return device


class Named:
    """As POT's backends are named."""

    def __init__(self, name):
        self.__name__ = name


class Described:
    def __init__(self, text):
        self.text = text

    def __str__(self):
        if self.text is None:
            raise SystemExit(3)
        return self.text


class Text(str, Enum):  # noqa: UP042 - as it was written before StrEnum
    DASK = "dask"


class Engine(Enum):
    NUMPY = "numpy"
    OWN = "engine"


CPU, NUMPY = DeviceSpec(kind="cpu"), DeviceSpec(kind="cpu", library="numpy")
CUPY = DeviceSpec(kind="gpu", library="cupy")


@for_each(
    ("value", "expected"),
    [
        (numpy, NUMPY),
        ("numpy", NUMPY),
        ("np", NUMPY),
        (ModuleType("scipy.fft"), NUMPY),
        (ModuleType("array_api_compat.numpy"), NUMPY),
        (ModuleType("cupy"), CUPY),
        (ModuleType("cupyx.scipy.fft"), CUPY),
        (ModuleType("scipy._lib.array_api_compat.cupy"), CUPY),
        ("cupy", CUPY),
        ("CuPy", CUPY),
        ("cupy:1", DeviceSpec(kind="gpu", library="cupy", selector="1")),
        (ModuleType("dpnp"), DeviceSpec(kind="gpu", library="sycl")),
        (ModuleType("torch"), DeviceSpec(kind="cpu", library="torch")),
        ("torch", DeviceSpec(kind="cpu", library="torch")),
        ("torch:cpu", DeviceSpec(kind="cpu", library="torch")),
        ("torch:gpu", DeviceSpec(kind="gpu", library="torch")),
        ("torch:cuda:1", DeviceSpec(kind="gpu", library="torch", selector="cuda:1")),
        (torch_device("cpu"), DeviceSpec(kind="cpu", library="torch")),
        (torch_device("cuda", 1), DeviceSpec(kind="gpu", library="torch", selector="cuda:1")),
        (torch_device("npu"), DeviceSpec(kind="gpu", library="torch", selector="npu")),
        (ModuleType("jax.numpy"), DeviceSpec(kind="cpu", library="jax")),
        ("jax.numpy", DeviceSpec(kind="cpu", library="jax")),
        ("jax.numpy:gpu", DeviceSpec(kind="gpu", library="jax")),
        (jax_device("cpu"), DeviceSpec(kind="cpu", library="jax")),
        (jax_device("gpu", 3), DeviceSpec(kind="gpu", library="jax", selector="3")),
        (ModuleType("keras.ops"), DeviceSpec(kind="cpu", library="keras")),
        ("keras", DeviceSpec(kind="cpu", library="keras")),
        ("keras:gpu", DeviceSpec(kind="gpu", library="keras")),
        ("keras:gpu:1", DeviceSpec(kind="gpu", library="keras", selector="1")),
        (ModuleType("mlx.core"), DeviceSpec(kind="gpu", library="mlx")),
        ("mlx", DeviceSpec(kind="gpu", library="mlx")),
        ("cpu", CPU),
        ("gpu", DeviceSpec(kind="gpu")),
        ("cuda", DeviceSpec(kind="gpu")),
        ("cuda:1", DeviceSpec(kind="gpu", selector="1")),
        ("mps", DeviceSpec(kind="gpu", library="torch", selector="mps")),
        ("tpu", DeviceSpec(kind="gpu", library="jax")),
        (Named("cupy"), CUPY),
        (Engine.NUMPY, NUMPY),
    ],
)
def test_a_value_tells_its_side(value, expected):
    assert expected == side(xp=value)
    assert expected == side(device=value)


@for_each(
    "value",
    ["fftw", "numpy_readonly", "cpu-float32", "", "1", 3, 3.5, lambda: 0, object(), int, ModuleType("sparse"),
     torch_device("meta"), ("numpy", "cpu"), Named("dask"), Described("cupy"), Engine.OWN,
     "torch-cpu", "numpy:readonly", "cpu:gpu"])  # fmt: skip
def test_any_other_value_is_unknown_and_named(value):
    said = problem(backend=value)
    assert said.startswith("backend=")
    assert said.endswith("is not a known device or array library")
    assert " at 0x" not in said


def test_parameters_without_such_a_name_tell_nothing():
    assert ParsedDevice() == DeviceParser(NAMES).parse({"n": "cupy", "dtype": "float32"})
    assert ParsedDevice() == DeviceParser(NAMES).parse({"device": None})


def test_a_library_and_a_device_together_are_one_side():
    assert DeviceSpec(kind="gpu", library="torch", selector="cuda:1") == side(
        array_namespace="torch", device="cuda:1"
    )
    assert side(array_namespace="numpy", device=None) == NUMPY
    assert side(xp=ModuleType("cupy"), device="cuda") == CUPY


def test_what_tells_the_side_is_no_part_of_the_pair():
    parsed = DeviceParser(NAMES).parse({"array_namespace": "numpy", "device": None, "dtype": "float32"})
    assert parsed.parameters == {"array_namespace", "device"}


def test_an_unknown_value_beside_a_known_one_is_an_ordinary_parameter():
    parsed = DeviceParser(NAMES).parse({"xp": "numpy", "backend": "pocketfft"})
    assert (parsed.spec, parsed.parameters) == (NUMPY, {"xp"})


@for_each(
    ("parameters", "said"),
    [
        ({"xp": "numpy", "library": "cupy"}, "xp='numpy', library='cupy' name different devices"),
        ({"xp": "torch:cpu", "device": "cuda"}, "device='cuda', xp='torch:cpu' name different devices"),
        ({"xp": numpy, "device": "cuda"}, "device='cuda', xp=numpy: numpy has no GPU"),
        ({"xp": "cupy", "device": "cpu"}, "device='cpu', xp='cupy': cupy has no CPU"),
    ],
)
def test_values_that_contradict_each_other_are_named(parameters, said):
    assert said == problem(**parameters)


@pytest.mark.parametrize(("library", "loaded"), [("torch", ["torch"]), ("", ["torch", "cupy"]), ("", [])])
def test_a_bare_cuda_is_torchs_where_only_torch_is_loaded(monkeypatch, library, loaded):
    for name in loaded:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert side(device="cuda").library == library
    assert side(device="cpu").library == library


@for_each(("default", "kind"), [("cpu", "cpu"), ("cuda", "gpu")])
def test_torch_without_a_device_is_on_its_default_device(monkeypatch, default, kind):
    torch = SimpleNamespace(get_default_device=lambda: SimpleNamespace(type=default))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert side(xp="torch").kind == kind


@for_each(
    ("device", "kind"),
    [
        ("/job:localhost/replica:0/task:0/device:CPU:0", "cpu"),
        ("/job:localhost/replica:0/task:0/device:GPU:0", "gpu"),
        ("cuda:0", "gpu"),
        ("TFRT_CPU_0", "cpu"),
    ],
)
def test_keras_without_a_device_is_where_it_makes_tensors(monkeypatch, device, kind):
    ops = SimpleNamespace(zeros=lambda shape: SimpleNamespace(device=device))
    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(ops=ops))
    assert DeviceSpec(kind=kind, library="keras", is_default=True) == side(xp="keras")


@for_each(("platform", "kind"), [("cpu", "cpu"), ("gpu", "gpu"), ("tpu", "gpu")])
def test_jax_without_a_device_is_on_its_default_backend(monkeypatch, platform, kind):
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(default_backend=lambda: platform))
    assert side(nx="jax").kind == kind


def test_a_library_that_cannot_be_asked_is_taken_for_its_cpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace())
    assert side(nx="jax").kind == "cpu"


def test_another_plugins_backend_knows_its_own_values_first():
    mine = SimpleNamespace(name="mine", recognizes=lambda value: "gpu" if value == "numpy" else None)
    sides = DeviceParser(NAMES, [mine])
    assert DeviceSpec(kind="gpu", library="mine") == sides.parse({"xp": "numpy"}).spec
    assert sides.parse({"xp": "cupy"}).spec == CUPY


@for_each(
    ("value", "shown"),
    [
        ("fftw", "'fftw'"),
        (Named("dask"), "dask"),
        (Described("dask"), "dask"),
        (Described(None), "Described"),
        (object(), "object"),
        (Described("a\nb " * 1000), f"{'a b ' * 14}a..."),
        (Text.DASK, "'dask'"),
        (Engine.OWN, "Engine.OWN"),
        (torch_device("meta"), "meta"),
        (lambda: 0, "<lambda>"),
        (3, "3"),
    ],
)
def test_an_unknown_value_is_shown_in_one_short_line_and_mapped_by_what_is_shown(value, shown):
    with pytest.raises(UnknownDevice) as refused:
        side(nx=value)
    assert UnknownValue(parameter="nx", value=shown) == refused.value.value
    assert CUPY == DeviceParser(NAMES, (), {shown.strip("'"): "cupy"}).parse({"nx": value}).spec


def test_a_suite_maps_its_own_values_and_known_ones_to_devices():
    mine = SimpleNamespace(name="mine", recognizes=lambda value: "gpu" if value == "my gpu" else None)
    devices = {"dask": "my gpu", "torch": "torch:cuda", "Described": "numpy"}
    sides = DeviceParser(NAMES, [mine], devices)
    for value, expected in [
        ("dask", DeviceSpec(kind="gpu", library="mine")),
        (Named("dask"), DeviceSpec(kind="gpu", library="mine")),
        ("torch", DeviceSpec(kind="gpu", library="torch", selector="cuda")),
        (Described("of any text"), NUMPY),
        ("cupy", CUPY),
    ]:
        assert expected == sides.parse({"xp": value}).spec


def test_a_device_that_a_value_cannot_be_mapped_to_is_named():
    with pytest.raises(ValueError, match="'tpu1x' is not a known device"):
        DeviceParser(NAMES, (), {"mlx": "tpu1x"})
