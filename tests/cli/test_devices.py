"""gpuperf devices."""

import json

import pytest
from msgspec.structs import replace

from pytest_gpuperf.devices.accelerators.base import Accelerator
from pytest_gpuperf.devices.simulated import SimulatedBackend
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.testing import StandIn

pytestmark = pytest.mark.libraries


class Backend(SimulatedBackend):
    """A backend whose GPU is there, missing, or broken."""

    def __init__(self, name, found=None, *, automatic=False, count=1):
        super().__init__(name=name)
        self.found, self.automatic, self.counted = found, automatic, count

    def gpu(self, selector):
        if isinstance(self.found, Exception):
            raise self.found
        return super().gpu("")

    def count(self):
        return self.counted


@pytest.fixture
def offering(monkeypatch):
    def call(*offered):
        named = {backend.name: backend for backend in offered}
        monkeypatch.setattr("pytest_gpuperf.devices.machine.backends", lambda: named)

    return call


def test_what_is_there_and_what_is_missing_is_listed_with_its_remedy_for_programs_too(call, offering):
    missing = Backend("missing", Unavailable("it is not installed;\ninstall it"))
    broken = Backend("broken", RuntimeError("CUDA error:\n\x1b[1mout of luck"))
    offering(missing, broken, Backend("works", automatic=True), Backend("two", count=2))
    code, lines, err = call("devices")
    assert (0, "") == (code, err)
    assert lines[0].startswith("CPU  ")
    assert lines[2] == "-    missing  it is not installed; install it"
    assert lines[3] == r"-    broken   it cannot be used: RuntimeError: CUDA error: \x1b[1mout of luck"
    assert lines[4].startswith("GPU  works    simulated GPU, numpy")
    assert lines[4].endswith("chosen by auto")
    assert [line.split()[1] for line in lines[5:7]] == ["two:0", "two:1"]
    assert not any("chosen by auto" in line for line in lines[5:7])
    found = json.loads("\n".join(call("devices", "--json")[1]))
    assert ("works", True) == (found["auto"], found["cpu"]["usable"] > 0)
    keys = ("usable", "reason", "name", "taken_by_auto")
    gone, _, works, *_ = [[each[key] for key in keys] for each in found["gpus"]]
    assert [[False, "it is not installed; install it", None, False], [True, None, "simulated GPU", True]] == [
        gone,
        works,
    ]


class Sycl(Backend):
    """A backend without a GPU, whose CPU stands for one."""

    def gpu(self, selector):
        if not selector:
            raise Unavailable("SYCL sees no Intel GPU")
        return super().gpu(selector)


@pytest.mark.parametrize(
    ("usable", "offered"),
    [
        ({"sycl": False, "sycl:cpu": True}, Sycl("sycl", automatic=True)),
        ({"jax": False, "jax:cpu": True}, Backend("jax", Unavailable("JAX sees no GPU"))),
        ({"broken": False}, Backend("broken", ImportError("half of it"), automatic=True)),
    ],
)
def test_auto_takes_only_a_gpu_that_can_be_used(call, offering, monkeypatch, usable, offered):
    monkeypatch.setattr(StandIn, "gpu", lambda self, selector: SimulatedBackend(name=self.name).gpu(selector))
    offering(offered)
    found = json.loads("\n".join(call("devices", "--json")[1]))
    assert (None, usable) == (found["auto"], {each["choice"]: each["usable"] for each in found["gpus"]})


def test_accelerators_are_listed_and_one_that_works_on_the_cpu_is_called_no_gpu(call, offering, monkeypatch):
    def opened(backend, selector):
        if backend.name != "accelerator:sklearnex":
            raise Unavailable("it is not installed")
        device = SimulatedBackend().gpu(selector)
        device.info = replace(device.info, name="scikit-learn, faster")
        return device

    monkeypatch.setattr(Accelerator, "gpu", opened)
    offering(Backend("works"))
    lines = call("devices")[1]
    assert "-    accelerator:polars             it is not installed" in lines
    assert any(
        line.startswith("CPU  accelerator:sklearnex          scikit-learn, faster, ") for line in lines
    )
    assert not any("accelerator:" in line and "for trying things out" in line for line in lines)
    found = json.loads("\n".join(call("devices", "--json")[1]))["accelerators"]
    assert ["accelerator:sklearnex"] == [each["choice"] for each in found if each["usable"]]


def test_devices_of_this_machine(call):
    code, lines, _ = call("devices")
    assert code == 0
    listed = {line.split()[1] for line in lines if line}
    assert {"cupy", "sycl", "torch", "jax", "keras", "mlx", "simulated", "accelerator:polars"} <= listed
