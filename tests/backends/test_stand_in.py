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
from cases import for_each

from pytest_gpuperf.devices.device_parameter import DeviceParser, DeviceSpec
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.stand_in import chosen_stand_in
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable
from pytest_gpuperf.testing import StandIn
from pytest_gpuperf.timing.any_array import bytes_of, dtype_of

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "without-a-gpu.md"
STRICT = StandIn("array_api_strict")


JAX, TORCH = StandIn("jax", "jax.numpy"), StandIn("torch")


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


@pytest.mark.parametrize(
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


def test_an_array_of_an_older_protocol_comes_down_without_a_warning():
    there = np.ones(2).view(OldArray)
    host = STRICT.gpu("").asnumpy(there)
    host[:] = 5
    assert there.tolist() == [1, 1]


def test_a_host_array_that_may_not_be_written_goes_up_as_one_that_may():
    host = np.ones(2)
    host.flags.writeable = False
    there = STRICT.gpu("").asarray(host)
    there += 1
    assert STRICT.gpu("").asnumpy(there).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("expected", "choice"),
    [
        (("jax", "jax.numpy"), "jax:cpu"),
        (("jax", "jax.numpy"), "standin:jax"),
        (("jax", "jax.numpy"), "standin:jax.numpy"),
        (("mlx", "mlx.core"), "mlx:cpu"),
        (("torch", "torch"), "torch:cpu"),
        (("my.xp", "my.xp"), "standin:my.xp"),
        (None, "standin:"),
        (None, "jax"),
        (None, "sycl:cpu"),
    ],
)
def test_an_option_chooses_one(expected, choice):
    found = chosen_stand_in(choice)
    assert expected == (found and (found.name, found.module))


def test_without_a_module_the_option_is_an_error_that_shows_how_to_give_one():
    for choice in ("standin", "standin:"):
        with pytest.raises(GpuPerfError, match=r"use standin:MODULE$"):
            Machine(choice).missing()


def test_arrays_on_any_of_the_librarys_devices_come_down():
    there = array_api_strict.ones(3, device=array_api_strict.Device("device1"))
    gpu = STRICT.gpu("")
    assert gpu.holds(there)
    assert gpu.asnumpy(there).tolist() == [1, 1, 1]


def test_an_array_that_tells_neither_its_bytes_nor_numpys_dtype_has_both():
    array = array_api_strict.ones((2, 3), dtype=array_api_strict.float32)
    assert not hasattr(array, "nbytes"), "the case is still one"
    assert bytes_of(array) == 24
    assert dtype_of(array) == "float32"
    assert dtype_of(np.zeros(1, dtype=[("a.b", "f4")])) == "[('a.b', '<f4')]"


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
    assert there["gpu"]["dtypes"] == ["float32"]
    result.stdout.fnmatch_lines(["*| emulated: array_api_strict on the CPU, not a GPU"])
