"""Honest work with JAX itself: compiled functions, donated arrays, loops, gradients."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arrays import HONEST, cases, matrix

pytestmark = HONEST


def jitted(device, function, **options):
    """Return a function compiled where the arrays are JAX's."""
    return function if device.xp is np else jax.jit(function, **options)


def product(x):
    return x @ x


def test_a_compiled_product(device):
    a, function = matrix(device), jitted(device, product)
    return lambda: function(a)


def test_a_compiled_product_dropped(device):
    a, function = matrix(device), jitted(device, product)

    def call():
        function(a)

    return call


def test_a_compiled_product_kept(device):
    a, function, kept = matrix(device), jitted(device, product), {}

    def call():
        kept["product"] = function(a)

    return call


def test_a_compiled_product_of_a_partial(device):
    return partial(jitted(device, product), matrix(device))


def test_a_donated_array(device):
    state = {"x": matrix(device)}
    function = jitted(device, lambda x: x * 1.0, donate_argnums=0)

    def call():
        state["x"] = function(state["x"])

    return call


def test_a_compiled_body(device):
    a = device.xp.ones((64, 64))
    jitted(device, product)(a)


def test_a_result_that_is_waited_for(device):
    a = matrix(device)

    def call():
        jax.block_until_ready(a @ a)

    return call


def test_a_result_that_is_waited_for_and_returned(device):
    a = matrix(device)
    return lambda: jax.block_until_ready(a @ a)


def test_a_function_that_is_compiled_in_the_first_call(device):
    a, functions = matrix(device), {}

    def call():
        if "product" not in functions:
            functions["product"] = jitted(device, product)
        return functions["product"](a)

    return call


def test_an_update(device):
    a = matrix(device)
    function = jitted(device, lambda x: jnp.asarray(x).at[0].set(1.0))
    return lambda: function(a)


def test_an_update_that_changes_nothing(device):
    a = matrix(device)
    function = jitted(device, lambda x: jnp.asarray(x).at[0].multiply(1.0))

    def call():
        function(a)

    return call


def a_gradient(x):
    return jax.grad(lambda y: (y * y).sum())(jnp.asarray(x))


def a_vectorized_sum(x):
    return jax.vmap(jnp.sum)(jnp.asarray(x))


def a_loop(x):
    return jax.lax.fori_loop(0, 4, lambda _, y: y * 0.5, jnp.asarray(x))


def a_scan(x):
    return jax.lax.scan(lambda total, row: (total + row, total), jnp.zeros(64, x.dtype), jnp.asarray(x))


def a_condition(x):
    return jax.lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y * 3, jnp.asarray(x))


def numbers_of_a_key(x):
    return jax.random.normal(jax.random.key(0), x.shape) + x


def a_tree(x):
    return jax.tree.map(lambda y: y * 2, {"a": jnp.asarray(x), "b": [jnp.asarray(x)]})


def no_more_than_the_shape(x):
    return jnp.zeros(x.shape)


FUNCTIONS = (
    a_gradient,
    a_vectorized_sum,
    a_loop,
    a_scan,
    a_condition,
    numbers_of_a_key,
    a_tree,
    no_more_than_the_shape,
)


@cases(*FUNCTIONS)
def test_a_function(device, case):
    a = matrix(device)
    function = jax.jit(case)
    return lambda: function(a)


@cases(*FUNCTIONS)
def test_a_function_dropped(device, case):
    a = matrix(device)
    function = jax.jit(case)

    def call():
        function(a)

    return call


@cases(a_gradient, a_vectorized_sum, a_tree)
def test_a_function_that_is_not_compiled(device, case):
    a = matrix(device)

    def call():
        case(a)

    return call


@pytest.mark.parametrize("length", [1, 8])
def test_short_work(device, length):
    a, function = device.asarray(np.ones(length)), jitted(device, lambda x: x + x)

    def call():
        function(a)

    return call


def test_an_empty_array(device):
    a, function = device.asarray(np.ones((0, 4))), jitted(device, lambda x: x + x)

    def call():
        function(a)

    return call


def test_an_object_of_a_tree(device):
    @jax.tree_util.register_pytree_node_class
    class Pair:
        def __init__(self, first, second):
            self.first, self.second = first, second

        def tree_flatten(self):
            return (self.first, self.second), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

    a = matrix(device)
    return lambda: Pair(a + a, a * a)
