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
SECOND = DeviceSpec(kind="gpu", library="torch", selector="cuda:1")


@for_each(
    ("value", "expected"),
    [
        (numpy, NUMPY),
        ("np", NUMPY),
        (ModuleType("scipy.fft"), NUMPY),
        (ModuleType("cupy"), CUPY),
        (ModuleType("cupyx.scipy.fft"), CUPY),
        (ModuleType("scipy._lib.array_api_compat.cupy"), CUPY),
        ("CuPy", CUPY),
        ("cupy:1", DeviceSpec(kind="gpu", library="cupy", selector="1")),
        (ModuleType("dpnp"), DeviceSpec(kind="gpu", library="sycl")),
        (ModuleType("torch"), DeviceSpec(kind="cpu", library="torch")),
        ("torch:cpu", DeviceSpec(kind="cpu", library="torch")),
        ("torch:gpu", DeviceSpec(kind="gpu", library="torch")),
        ("torch:cuda:1", SECOND),
        (torch_device("cpu"), DeviceSpec(kind="cpu", library="torch")),
        (torch_device("cuda", 1), SECOND),
        (torch_device("npu"), DeviceSpec(kind="gpu", library="torch", selector="npu")),
        (ModuleType("jax.numpy"), DeviceSpec(kind="cpu", library="jax")),
        ("jax.numpy:gpu", DeviceSpec(kind="gpu", library="jax")),
        (jax_device("cpu"), DeviceSpec(kind="cpu", library="jax")),
        (jax_device("gpu", 3), DeviceSpec(kind="gpu", library="jax", selector="3")),
        (ModuleType("keras.ops"), DeviceSpec(kind="cpu", library="keras")),
        ("keras:gpu:1", DeviceSpec(kind="gpu", library="keras", selector="1")),
        (ModuleType("mlx.core"), DeviceSpec(kind="gpu", library="mlx")),
        ("cpu", CPU),
        ("gpu", DeviceSpec(kind="gpu")),
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
    ("parameters", "spec", "named_by"),
    [
        ({"n": "cupy", "dtype": "float32"}, None, set()),
        ({"device": None}, None, set()),
        (
            {"array_namespace": "numpy", "device": None, "dtype": "float32"},
            NUMPY,
            {"array_namespace", "device"},
        ),
        ({"xp": ModuleType("cupy"), "device": "cuda"}, CUPY, {"xp", "device"}),
        ({"array_namespace": "torch", "device": "cuda:1"}, SECOND, {"array_namespace", "device"}),
        ({"xp": "numpy", "backend": "pocketfft"}, NUMPY, {"xp"}),  # an unknown value is an ordinary parameter
    ],
)
def test_parameters_that_have_such_a_name_tell_one_side_and_are_no_part_of_the_pair(
    parameters, spec, named_by
):
    assert ParsedDevice(spec=spec, parameters=frozenset(named_by)) == DeviceParser(NAMES).parse(parameters)


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
    with pytest.raises(ValueError, match=r"use a value that is known .* \(it lists device, xp, ") as refused:
        side(**parameters)
    assert said == str(refused.value).partition("; ")[0]


def test_a_bare_cuda_is_torchs_where_only_torch_is_loaded(monkeypatch):
    for loaded, library in ((), ""), (("torch",), "torch"), (("torch", "cupy"), ""):
        for name in loaded:
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        assert (library, library) == (side(device="cuda").library, side(device="cpu").library)


def default_of(library, device):
    """Return a library that puts its arrays there."""
    if library == "torch":
        return SimpleNamespace(get_default_device=lambda: SimpleNamespace(type=device))
    if library == "keras":
        return SimpleNamespace(ops=SimpleNamespace(zeros=lambda shape: SimpleNamespace(device=device)))
    return SimpleNamespace(default_backend=lambda: device)


@for_each(
    ("kind", "library", "device"),
    [
        ("cpu", "torch", "cpu"),
        ("gpu", "torch", "cuda"),
        ("cpu", "jax", "cpu"),
        ("gpu", "jax", "tpu"),
        ("cpu", "keras", "/job:localhost/replica:0/task:0/device:CPU:0"),
        ("gpu", "keras", "/job:localhost/replica:0/task:0/device:GPU:0"),
        ("gpu", "keras", "cuda:0"),
        ("cpu", "keras", "TFRT_CPU_0"),
    ],
)
def test_a_library_without_a_device_is_where_it_puts_its_arrays(monkeypatch, kind, library, device):
    monkeypatch.setitem(sys.modules, library, default_of(library, device))
    found = side(xp=library)
    assert (kind, library, True) == (found.kind, found.library, found.is_default)
    monkeypatch.setitem(sys.modules, library, ModuleType(library))
    assert "cpu" == side(xp=library).kind, "it cannot be asked"


@for_each(
    ("value", "shown"),
    [
        ("fftw", "'fftw'"),
        ("", "''"),
        ("torch-cpu", "'torch-cpu'"),
        ("numpy:readonly", "'numpy:readonly'"),
        ("cpu:gpu", "'cpu:gpu'"),
        (Named("dask"), "dask"),
        (Described("cupy"), "cupy"),
        (Described(None), "Described"),
        (object(), "object"),
        (Described("a\nb " * 1000), f"{'a b ' * 14}a..."),
        (Text.DASK, "'dask'"),
        (Engine.OWN, "Engine.OWN"),
        (torch_device("meta"), "meta"),
        (lambda: 0, "<lambda>"),
        (ModuleType("sparse"), "sparse"),
        (3, "3"),
        (("numpy", "cpu"), "('numpy', 'cpu')"),
    ],
)
def test_any_other_value_is_unknown_shown_in_one_short_line_and_mapped_by_what_is_shown(value, shown):
    with pytest.raises(UnknownDevice) as refused:
        side(nx=value)
    assert UnknownValue(parameter="nx", value=shown) == refused.value.value
    assert str(refused.value).startswith(f"nx={shown} is not a known device or array library; use a value ")
    mapped = DeviceParser(NAMES, (), {shown.strip("'"): "cupy"})
    assert CUPY == mapped.parse({"nx": value}).spec


def test_a_backend_that_raises_for_a_value_is_named_with_it():
    def recognizes(value):
        return value.lower()

    sides = DeviceParser(NAMES, [SimpleNamespace(name="mine", recognizes=recognizes)])
    with pytest.raises(ValueError, match=r"'mine' devices, raised AttributeError: .*'lower' for 3; it must"):
        sides.parse({"xp": 3})


def test_a_suite_maps_its_own_values_and_known_ones_to_devices_and_another_plugin_knows_its_own_first():
    mine = SimpleNamespace(name="mine", recognizes=lambda value: "gpu" if value in ("my gpu", "np") else None)
    devices = {"dask": "my gpu", "torch": "torch:cuda", "Described": "numpy"}
    sides = DeviceParser(NAMES, [mine], devices)
    for value, expected in [
        ("np", DeviceSpec(kind="gpu", library="mine")),
        ("dask", DeviceSpec(kind="gpu", library="mine")),
        (Named("dask"), DeviceSpec(kind="gpu", library="mine")),
        ("torch", DeviceSpec(kind="gpu", library="torch", selector="cuda")),
        (Described("of any text"), NUMPY),
        ("cupy", CUPY),
    ]:
        assert expected == sides.parse({"xp": value}).spec
    with pytest.raises(ValueError, match="'tpu1x' is not a known device"):
        DeviceParser(NAMES, (), {"mlx": "tpu1x"})
