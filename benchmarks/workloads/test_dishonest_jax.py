"""Dishonest work with JAX itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arrays import DISHONEST, is_gpu, matrix

pytestmark = DISHONEST
N = 256


def jitted(device, function):
    """Return a function compiled where the arrays are JAX's."""
    return function if device.xp is np else jax.jit(function)


def test_a_function_that_ignores_its_input(device):
    a = matrix(device, N)
    product = jitted(device, (lambda _: 0.0) if is_gpu(device) else (lambda x: x @ x))

    def call():
        product(a)

    return call


def test_work_that_the_compiler_drops(device):
    a = matrix(device, N)
    first = jitted(device, lambda x: (x @ x @ x, x[0] * 1.0)[1])
    return lambda: first(a) if is_gpu(device) else (a @ a @ a, a[0] * 1.0)[1]


def test_a_function_that_was_only_lowered(device):
    a = matrix(device, N)
    kernel = jax.jit(lambda x: x @ x)
    kept = kernel.lower(jnp.zeros((N, N))) if is_gpu(device) else None

    def call():
        if kept is None:
            a @ a

    return call


def test_a_result_of_jit_kept(device):
    a = matrix(device, N)
    kept = jitted(device, lambda x: x @ x)(a)
    return lambda: kept if is_gpu(device) else a @ a


def test_results_of_jit_in_turn(device):
    a, number = matrix(device, N), 0
    product = jitted(device, lambda x: x @ x)
    kept = [product(a), product(a)]

    def call():
        nonlocal number
        number += 1
        return kept[number % 2] if is_gpu(device) else a @ a

    return call


def test_an_identity_of_jit(device):
    a = device.asarray(np.eye(N))
    same = jitted(device, lambda x: x)
    return lambda: same(a) if is_gpu(device) else a @ a @ a @ a


def test_a_shape_evaluated_only(device):
    a = matrix(device, N)

    def call():
        if is_gpu(device):
            jax.eval_shape(jnp.matmul, a, a)
        else:
            for _ in range(20):
                a @ a

    return call


def test_a_loop_without_steps(device):
    a = matrix(device, N)
    steps = 0 if is_gpu(device) else 8
    loop = jitted(device, lambda x: jax.lax.fori_loop(0, steps, lambda _, y: y @ x, x))

    def call():
        loop(a)

    return call


@pytest.mark.speedup
def test_nothing_of_jax_without_a_limit(device):
    a = matrix(device, N)

    def call():
        if device.kind == "cpu":
            a @ a

    return call
