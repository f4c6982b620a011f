"""Scaling through JAX's mesh, for real, on two of its devices of the CPU."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
from plugins import skip_module

from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.errors import GpuPerfError, TooFewDevices

if find_spec("jax") is None:
    skip_module("JAX is not installed; CI's second environment has it")

import jax
import jax.numpy as jnp

jax.config.update("jax_num_cpu_devices", 2)


def test_an_array_is_sharded_along_an_axis_or_copied_to_each_device_and_too_few_name_the_setting_for_more():
    pair = Machine("jax:cpu").group(2)
    for shard, shape in ((0, (2, 6)), (-1, (4, 3)), (None, (4, 6))):
        host = np.arange(24.0).reshape(4, 6)
        array = pair.asarray(host, shard=shard)
        host += 1
        assert [part.data.shape for part in array.addressable_shards] == [shape] * 2
        assert len(array.devices()) == 2
        np.testing.assert_array_equal(host - 1, pair.asnumpy(array))
    with pytest.raises(GpuPerfError, match="2 devices cannot share 5 elements equally"):
        pair.asarray(np.zeros(5), shard=0)
    assert [96, 48] == [part.nbytes for part in pair.on_first([array, pair.asarray(host, shard=0)])]
    assert not Machine("jax:cpu").group(1).holds(array)
    with pytest.raises(TooFewDevices, match="3 devices are needed, and jax shows 2 devices; set JAX_NUM_CPU"):
        Machine("jax:cpu").group(3)


@pytest.mark.parametrize("wait_for", ["result", "nothing", "synchronize"])
def test_a_wait_lasts_until_both_devices_are_done(wait_for):
    pair = Machine("jax:cpu").group(2)
    for array in (pair.asarray(np.ones((256, 512)), shard=0), pair.all[1].asarray(np.ones((1024, 1024)))):
        step = jax.jit(lambda a: jnp.sin(a @ a.T).sum(axis=0))
        step(array).block_until_ready()
        result = step(array)
        if wait_for == "synchronize":
            pair.synchronize()
        else:
            pair.wait(result if wait_for == "result" else None)
        assert result.is_ready()
        assert pair.unfinished() == []


SUITE = """
import jax
import jax.numpy as jnp
import numpy as np
import pytest

def step(devices, rows):
    rng = np.random.default_rng(0)
    x = devices.asarray(rng.random((rows, 32), dtype=np.float32), shard=0)
    w = devices.asarray(rng.random((32, 16), dtype=np.float32))
    assert devices.mesh.shape["devices"] == devices.count
    gradient = jax.jit(jax.grad(lambda w, x: jnp.tanh(x @ w).mean()))
    return lambda: gradient(w, x)

@pytest.mark.scaling([1, 2])
def test_strong(devices):
    return step(devices, 64)

@pytest.mark.scaling([1, 2], mode="weak")
def test_weak(devices):
    return step(devices, 64 * devices.count)

@pytest.mark.scaling([1, 2], mode="weak")
def test_whole(devices):
    x = devices.asarray(np.ones(64))  # as large on two devices as on one, which have a copy each
    return lambda: x + x

@pytest.mark.scaling([1, 2])
def test_apart(devices):
    halves = np.split(np.arange(8.0), devices.count)
    parts = [device.asarray(half) for device, half in zip(devices.all, halves)]
    return lambda: [part + part for part in parts]

@pytest.mark.scaling([1, 2])
def test_on_one(devices):
    first = devices.all[0].asarray(np.ones(8, dtype=np.float32))
    return lambda: first + first

@pytest.mark.scaling([1, 2])
def test_constant(devices):
    table = devices.asarray(np.ones((64, 64), dtype=np.float32))
    return jax.jit(lambda: table @ table)
"""


def test_a_step_is_compared_with_itself_on_one_device_divided_grown_or_submitted_to_each(run, pytester):
    options = ("--gpuperf-json=report.json", "--gpuperf-max-time=3", "-Walways")
    run(SUITE, *options, gpu="jax:cpu").assert_outcomes(passed=8, skipped=4)
    report = json.loads((pytester.path / "report.json").read_text())
    ended = {record["nodeid"].partition("::test_")[2]: record for record in report["records"]}
    one, two = ended["strong[1device]"], ended["strong[2devices]"]
    assert (one["scaling"]["base"], one["scaling"]["efficiency"]) == (None, None)
    assert 0 < two["scaling"]["efficiency"]["value"] < 2
    assert two["gpu"]["device"] | {"name": "2 x jax on the CPU", "emulated": True} == two["gpu"]["device"]
    assert [point["count"] for point in report["scalings"][0]["points"]] == [1, 2]
    assert ended["weak[1device]"]["gpu"]["shapes"] != ended["weak[2devices]"]["gpu"]["shapes"]
    refused = "under weak scaling the problem grows with the devices, and that of 2 devices is too small"
    assert (ended["whole[1device]"]["status"], ended["whole[2devices]"]["status"]) == ("recorded", "error")
    assert ended["whole[2devices]"]["reason"].startswith(refused)
    assert "no input of the workload is on 1 of the 2 devices (1)" in ended["on_one[2devices]"]["reason"]
    assert (
        "computes from arrays that its compiled function closes over" in ended["constant[2devices]"]["reason"]
    )
    agreed = {name: ended[f"{name}[2devices]"]["check"]["agreed"] for name in ("strong", "weak", "apart")}
    assert agreed == {"strong": True, "weak": None, "apart": True}
