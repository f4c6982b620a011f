"""A stand-in: an array library on the CPU that is called a GPU, so that a suite can be tried without one."""

import json
import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import array_api_strict
import numpy as np
import pytest
from cases import for_each, unfolded

from pytest_gpuperf.devices.choice import Choice
from pytest_gpuperf.devices.device_parameter import DeviceParser, DeviceSpec
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable
from pytest_gpuperf.testing import StandIn

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "without-a-gpu.md"
STRICT, JAX, TORCH = StandIn("array_api_strict"), StandIn("jax", "jax.numpy"), StandIn("torch")


@for_each(
    ("stand_in", "means_it", "does_not"),
    [
        (STRICT, [array_api_strict, "array_api_strict"], [np, "numpy", "cpu", "array_api_strict:strictest"]),
        (STRICT, [], [3, None, array_api_strict.ones(1)]),
        (JAX, ["jax", "jax.numpy"], ["numpy", np]),
        (TORCH, [ModuleType("torch"), ModuleType("array_api_compat.torch")], [ModuleType("my.torch")]),
        (TORCH, [ModuleType("scipy._lib.array_api_compat.torch")], [ModuleType("torch.fft")]),
    ],
)
def test_its_module_its_name_and_a_wrapper_mean_it_and_nothing_else_does(stand_in, means_it, does_not):
    assert {"gpu"} >= {*map(stand_in.recognizes, means_it)}
    assert {None} >= {*map(stand_in.recognizes, does_not)}


@for_each(
    ("value", "kind", "library"),
    [
        ("jax", "gpu", "jax"),
        ("jnp", "gpu", "jax"),
        ("jax:gpu", "gpu", "jax"),
        ("jax:cpu", "cpu", "jax"),
        ("numpy", "cpu", "numpy"),
        ("torch", "cpu", "torch"),
    ],
)
def test_other_names_of_its_library_mean_it_too_unless_they_name_the_cpu(value, kind, library):
    parser = DeviceParser(["xp"], [StandIn("jax")])
    assert DeviceSpec(kind=kind, library=library) == parser.parse({"xp": value}).spec


def test_it_is_found_by_its_name_alone():
    assert Machine("array_api_strict", lambda: [STRICT]).gpu().info.emulated
    with pytest.raises(Unavailable):
        Machine("auto", lambda: [STRICT]).gpu()


@for_each(
    ("name", "module", "reason", "is_missing"),
    [
        ("mine", "no_such_library.numpy", "no_such_library, which emulates a GPU, is not installed", True),
        ("json", None, r"json cannot emulate a GPU: .*; name the module", False),
        ("__dask_graph__", "lazy", "its work is not done when a call returns", False),
        ("block_until_ready", "lazy", "its work is not done when a call returns", False),
    ],
)
def test_what_is_missing_or_no_array_library_or_works_on_after_its_calls_cannot_be_one(
    monkeypatch, name, module, reason, is_missing
):
    lazy = ModuleType("lazy")
    array = type("Array", (), {name: None})()
    lazy.__spec__, lazy.asarray = ModuleSpec("lazy", None), lambda _: array
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    with pytest.raises(Unavailable, match=reason) as caught:
        StandIn(name, module).gpu("")
    assert (is_missing, not is_missing) == (caught.value.missing, caught.value.broken)


class OldArray(np.ndarray):
    """An array whose `__array__` knows no `copy`, as torch's before 2.7."""

    def __array__(self, dtype=None):
        return np.ndarray.__array__(self)


def test_arrays_of_an_older_protocol_and_those_that_may_not_be_written_are_copied_without_a_warning():
    gpu, old, host = STRICT.gpu(""), np.ones(2).view(OldArray), np.ones(2)
    gpu.asnumpy(old)[:] = 5
    assert old.tolist() == [1, 1]
    host.flags.writeable = False
    there = gpu.asarray(host)
    there += 1
    assert gpu.asnumpy(there).tolist() == [2, 2]


def test_without_a_module_the_option_is_an_error_that_shows_how_to_give_one():
    for choice in ("standin", "standin:"):
        with pytest.raises(GpuPerfError, match=r"use standin:MODULE$"):
            Choice(choice).missing()


def test_arrays_on_any_of_the_librarys_devices_come_down():
    there = array_api_strict.ones(3, device=array_api_strict.Device("device1"))
    gpu = STRICT.gpu("")
    assert gpu.holds(there)
    assert gpu.asnumpy(there).tolist() == [1, 1, 1]


SUITE = """
    import array_api_strict, numpy, pytest

    @pytest.mark.speedup
    @pytest.mark.parametrize("xp", [numpy, array_api_strict])
    def test_sum(xp):
        array = xp.ones((10, 10), dtype=xp.float32)
        return lambda: xp.sum(array @ array)
"""


def test_a_suite_that_declares_it_as_its_page_does_is_timed_on_both_sides(pytester, run):
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (conftest,) = [snippet for snippet in snippets if "StandIn" in snippet]
    pytester.makeconftest(conftest)
    result = run(SUITE, "--gpuperf-json=r.json", "--gpuperf-max-time=2", gpu=None)
    result.assert_outcomes(passed=2)
    there = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["records"][1]
    assert there["gpu"]["device"]["emulated"]
    assert there["speedup"]["value"] > 0
    assert there["check"]["agreed"]
    assert ["float32"] == there["gpu"]["dtypes"]
    assert 4 == there["transfer"]["d2h"]["bytes"], "its arrays tell no bytes themselves"
    assert "| emulated: array_api_strict on the CPU, not a GPU" in unfolded(result)
