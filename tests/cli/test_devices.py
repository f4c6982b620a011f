"""gpuperf devices."""

import json
from contextlib import nullcontext
from unittest.mock import MagicMock

import pytest

pytestmark = pytest.mark.libraries


def devices(call, *options):
    code, lines, err = call("devices", *options)
    assert (0, "") == (code, err)
    return lines


def test_what_is_there_and_what_is_missing_is_listed_with_its_remedy_for_programs_too(
    call, installed, with_cupy, system_files
):
    own = {"/proc/cpuinfo": "model name\t: A CPU", "/proc/self/cgroup": "0::/"}
    system_files({**own, "/sys/fs/cgroup/cpu.max": "50000 100000"})
    installed(**dict.fromkeys(("dpnp", "torch", "jax", "keras", "mlx", "cudf_polars")))
    functions = {"Config": lambda **_: nullcontext(), "LazyFrame": MagicMock(), "col": MagicMock()}
    installed(polars={"__version__": "2.0", **functions})
    with_cupy(2)
    lines = devices(call)
    assert lines[0] == "CPU  A CPU, 0.5 processors"
    assert lines[2] == "GPU       cupy:0     GPU 0, cupy 1.0, CUDA 12.9, driver for 12.4, chosen by auto"
    assert lines[3] == "GPU       cupy:1     GPU 1, cupy 1.0, CUDA 12.9, driver for 12.4"
    assert lines[4].startswith("-         sycl       dpnp is not installed; install pytest-gpuperf[sycl], ")
    assert ["emulated"] == [line.split()[0] for line in lines if "  simulated GPU, numpy" in line]
    (said,) = [line for line in lines if line.startswith("emulated: no GPU; ")]
    assert "the fixture `gpu` and the GPU of speedup tests are that device" in said
    (polars,) = [line for line in lines if "accelerator:polars " in line]
    assert polars.startswith("-    accelerator:polars             cudf_polars is not installed; install ")
    on_cpu = "CPU  accelerator:polars:streaming   polars with its streaming engine on the CPU, polars 2.0"
    assert on_cpu in lines
    found = json.loads("\n".join(devices(call, "--json")))
    assert ("cupy:0", {"name": "A CPU", "usable": 0.5}) == (found["auto"], found["cpu"])
    keys = ("choice", "usable", "name", "taken_by_auto")
    first, second, missing, *_ = [[each[key] for key in keys] for each in found["gpus"]]
    assert [["cupy:0", True, "GPU 0", True], ["cupy:1", True, "GPU 1", False]] == [first, second]
    assert ["sycl", False, None, False] == missing
    assert found["gpus"][2]["reason"] == lines[4][21:]
    usable = {each["choice"]: each["usable"] for each in found["accelerators"]}
    assert (False, True) == (usable["accelerator:polars"], usable["accelerator:polars:streaming"])


def test_each_device_of_this_machine_is_listed_though_one_fails_and_auto_takes_no_cpu_for_a_gpu(
    call, installed
):
    def fail(name):
        raise RuntimeError("CUDA error:\n\x1b[1mout of luck")

    installed(cupy={"__getattr__": fail})
    lines = devices(call)
    assert lines[2] == r"-         cupy       it cannot be used: RuntimeError: CUDA error: \x1b[1mout of luck"
    listed = {line.split()[1] for line in lines if line}
    assert {"sycl", "torch", "jax", "keras", "mlx", "simulated", "accelerator:polars"} <= listed
    found = json.loads("\n".join(devices(call, "--json")))
    assert ["cupy", "sycl"] == [each["choice"] for each in found["gpus"] if each["automatic"]]
    assert found["auto"] in (None, "sycl")
