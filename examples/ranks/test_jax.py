"""A training step on one mesh over several processes of JAX: each has rows of a batch, XLA sums gradients.

    pytest examples/ranks/test_jax.py --gpuperf-gpu=jax

starts the processes, with the variables that are read here.
"""

import os

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

ROWS, WIDTH = 4096, 1024


if "JAX_PROCESS_ID" in os.environ:  # not in a fixture: before those, each rank's device is looked for
    number, count = (int(os.environ[name]) for name in ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"))
    jax.config.update("jax_cpu_collectives_implementation", "gloo")  # without a GPU
    jax.distributed.initialize(num_processes=count, process_id=number, local_device_ids=number)


@pytest.mark.scaling([1, 2, 4], efficiency=0.6)
def test_training_step(ranks):
    if ranks.device.backend != "jax":
        pytest.skip("this is about JAX: pass --gpuperf-gpu=jax, or jax:cpu without a GPU")
    if jax.process_count() < ranks.count:
        pytest.skip("JAX knows this process only: plain pytest sets the variables that tell it of others")
    platform = ranks.device.native.platform
    first = [device for device in jax.devices(platform) if device.process_index < ranks.count]
    mesh = jax.make_mesh((ranks.count,), ("ranks",), devices=first)
    whole = jax.NamedSharding(mesh, jax.P())

    def on_mesh(host, *axes):
        own = ranks.asarray(host, shard=0 if axes else None)
        return jax.make_array_from_single_device_arrays(
            host.shape, jax.NamedSharding(mesh, jax.P(*axes)), [own]
        )

    rng = np.random.default_rng(0)
    x, target = (on_mesh(rng.random((ROWS, WIDTH), dtype=np.float32), "ranks") for _ in range(2))
    layers = [on_mesh(rng.standard_normal((WIDTH, WIDTH), dtype=np.float32) / WIDTH**0.5) for _ in range(2)]

    def loss(layers, x, target):
        return ((jax.numpy.maximum(x @ layers[0], 0) @ layers[1] - target) ** 2).mean()

    gradients = jax.jit(jax.grad(loss), out_shardings=whole)
    return lambda: [each.addressable_data(0) for each in gradients(layers, x, target)]  # this rank's copies
