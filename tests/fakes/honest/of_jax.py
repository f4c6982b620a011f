"""Tests of JAX as its users write them, on its own CPU, which computes."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import sparse

pytestmark = pytest.mark.speedup(min=1e-7)
HOST = np.linspace(0, 1, 400, dtype=np.float32).reshape(20, 20)


@partial(jax.jit, static_argnames=("count",))
def powers(x, count):
    return sum(x**power for power in range(count))


def test_static_argument(device):
    x = jax.device_put(HOST, device.native)
    return lambda: powers(x, count=3)


def test_scan(device):
    x = jax.device_put(HOST, device.native)
    f = jax.jit(lambda x: lax.scan(lambda carry, row: (carry * 0.5 + row, carry.sum()), jnp.zeros(20), x))
    return lambda: f(x)


def test_vmap_of_grad(device):
    x = jax.device_put(HOST, device.native)
    f = jax.jit(jax.vmap(jax.grad(lambda row: (row**3).sum())))
    return lambda: f(x)


def test_donated_state_with_a_reset(device, gpuperf):
    x = jax.device_put(HOST, device.native)
    step = jax.jit(lambda w, x: (w - 0.01 * (x.T @ (x @ w)), (x @ w).sum()), donate_argnums=0)
    state = {}

    def call():
        state["w"], loss = step(state["w"], x)
        return loss

    def reset():
        state["w"] = jax.device_put(HOST, device.native)

    return gpuperf.workload(call, reset=reset)


def test_random_key(device):
    key = jax.device_put(jax.random.key(0), device.native)
    f = jax.jit(lambda key: jax.random.uniform(key, (1000,)))
    return lambda: f(key)


def test_callback(device):
    x = jax.device_put(HOST, device.native)
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    f = jax.jit(lambda x: jax.pure_callback(lambda a: np.asarray(a) * 2, shape, x))
    return lambda: f(x)


def test_compiled_ahead_of_time(device):
    x = jax.device_put(HOST, device.native)
    f = jax.jit(lambda x: jnp.sin(x) * 2).lower(x).compile()
    return lambda: f(x)


@jax.custom_vjp
def clip(x):
    return jnp.clip(x, 0, 0.5)


clip.defvjp(lambda x: (clip(x), x), lambda x, grad: (jnp.where(x < 0.5, grad, 0),))


def test_custom_gradient(device):
    x = jax.device_put(HOST, device.native)
    f = jax.jit(jax.grad(lambda x: clip(x).sum()))
    return lambda: f(x)


def test_fft(device):
    x = jax.device_put(HOST, device.native)
    return lambda: jnp.fft.irfft(jnp.fft.rfft(x, axis=1) * 2, axis=1)


def test_sparse_product(device):
    x = jax.device_put(HOST, device.native)
    indices = np.repeat(np.arange(20), 2).reshape(20, 2)
    matrix = jax.device_put(sparse.BCOO((np.ones(20, np.float32), indices), shape=(20, 20)), device.native)
    f = jax.jit(lambda matrix, x: matrix @ x)
    return lambda: f(matrix, x)


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    weights: jax.Array
    bias: jax.Array


def test_gradients_of_a_dataclass(device):
    x = jax.device_put(HOST, device.native)
    layer = Layer(x, x[0])
    f = jax.jit(jax.value_and_grad(lambda layer, x: ((x @ layer.weights + layer.bias) ** 2).mean()))
    return lambda: f(layer, x)


def test_batches_that_the_call_copies(device):
    add = jax.jit(lambda total, batch: total + batch.sum())

    def epoch():
        total = jax.device_put(np.float32(0), device.native)
        for batch in np.array_split(HOST, 4):
            total = add(total, jax.device_put(batch, device.native))
        return total

    return epoch


def test_result_as_numpy(device):
    x = jax.device_put(HOST, device.native)
    f = jax.jit(lambda x: x * 2)
    return lambda: np.asarray(f(x))


def test_value_that_is_read(device):
    x = jax.device_put(HOST, device.native)
    f = jax.jit(lambda x: {"sum": x.sum(), "parts": [x * 2, None]})

    def call():
        result = f(x)
        return float(result["sum"]), result["parts"][0].block_until_ready()

    return call
