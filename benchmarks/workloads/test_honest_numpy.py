"""Honest work with NumPy's own functions on arrays of the device."""

from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from arrays import HONEST, IN_PLACE, cases, matrix, zeros

pytestmark = HONEST


def test_out_returned(device):
    a, out = matrix(device), zeros(device)
    return lambda: np.multiply(a, a, out=out)


def test_out(device):
    a, out = matrix(device), zeros(device)

    def call():
        np.multiply(a, a, out=out)

    return call


def test_out_as_a_tuple(device):
    a, out = matrix(device), zeros(device)

    def call():
        np.add(a, a, out=(out,))

    return call


def test_out_over_its_input(device):
    a = matrix(device)

    def call():
        np.multiply(a, 1.0, out=a)

    return call


def test_out_of_a_partial(device):
    a, out = matrix(device), zeros(device)
    return partial(np.add, a, a, out=out)


@IN_PLACE
def test_out_with_a_mask(device):
    a, out = matrix(device), zeros(device)
    mask = a > 0.5

    def call():
        np.add(a, a, out=out, where=mask)

    return call


@IN_PLACE
def test_out_with_a_mask_of_nothing(device):
    a, out = matrix(device), zeros(device)
    mask = a > 2.0

    def call():
        np.add(a, a, out=out, where=mask)

    return call


@IN_PLACE
def test_out_of_a_product(device):
    a, out = matrix(device), zeros(device)

    def call():
        np.matmul(a, a, out=out)

    return call


def test_sorting_what_is_sorted(device):
    a = device.asarray(np.arange(1000.0))

    def call():
        a.sort()

    return call


@IN_PLACE
def test_clipping_nothing(device):
    a = matrix(device)

    def call():
        np.clip(a, 0, 1, out=a)

    return call


@IN_PLACE
def test_filling(device):
    a = device.asarray(np.zeros(1000))

    def call():
        a.fill(0)

    return call


@IN_PLACE
@pytest.mark.parametrize("length", [1, 64, 4096])
def test_copying(device, length):
    a, out = device.asarray(np.ones(length)), device.asarray(np.ones(length))

    def call():
        np.copyto(out, a)

    return call


@IN_PLACE
def test_putting(device):
    a, places = matrix(device), np.arange(8)

    def call():
        np.put(a, places, 0.5)

    return call


@IN_PLACE
def test_adding_at_places(device):
    a, places = device.asarray(np.zeros(100)), np.arange(10)

    def call():
        a[...] = 0.0
        np.add.at(a, places, 1.0)

    return call


@IN_PLACE
def test_numbers_of_a_generator(device):
    generator, shape = np.random.default_rng(0), device.asarray(np.zeros(1000)).shape

    def call():
        generator.random(shape)

    return call


@IN_PLACE
def test_numbers_of_a_generator_that_is_made_anew(device):
    return lambda: device.asarray(np.random.default_rng(0).random(1000))


@IN_PLACE
def test_numbers_into_an_output(device):
    out = device.asarray(np.zeros(1000))

    def call():
        np.random.default_rng(0).random(out=out)

    return call


@IN_PLACE
def test_shuffling(device):
    a = device.asarray(np.arange(1000.0))

    def call():
        a[...] = np.arange(1000.0)
        np.random.default_rng(0).shuffle(a)

    return call


def a_reduction(a):
    return np.add.reduce(a)


def an_accumulation(a):
    return np.add.accumulate(a)


def an_outer_product(a):
    return np.multiply.outer(a[0], a[0])


def an_inner_product(a):
    return np.inner(a, a)


def an_einsum(a):
    return np.einsum("ij,jk->ik", a, a)


def a_comparison(a):
    return np.array_equal(a, a)


def an_unpacked_function(a):
    return np.modf(a)


def a_histogram(a):
    return np.histogram(a, bins=10)[0]


def unique_values(a):
    return np.unique(np.round(a, 1))


def an_interpolation(a):
    return np.interp(a[0], np.linspace(0, 1, 5), np.arange(5.0))


NUMPY = (
    a_reduction,
    an_accumulation,
    an_outer_product,
    an_inner_product,
    an_einsum,
    a_comparison,
    an_unpacked_function,
    a_histogram,
    unique_values,
    an_interpolation,
)


@IN_PLACE
@cases(*NUMPY)
def test_a_function_of_numpy(device, case):
    a = matrix(device)
    return lambda: case(a)


@IN_PLACE
@cases(*NUMPY)
def test_a_function_of_numpy_dropped(device, case):
    a = matrix(device)

    def call():
        case(a)

    return call


@IN_PLACE
def test_records(device):
    a = device.asarray(np.zeros(1000, dtype=[("x", "f8"), ("n", "i4")]))

    def call():
        a["x"] = 1.0
        a["n"] = 2

    return call


@IN_PLACE
def test_an_iterator_over_an_array(device):
    a, out = matrix(device, 8), zeros(device, 8)

    def call():
        with np.nditer([a, out], op_flags=[["readonly"], ["writeonly"]]) as pairs:
            for value, place in pairs:
                place[...] = value * 2

    return call


@IN_PLACE
def test_a_memory_view(device):
    out = device.asarray(np.zeros(64, dtype=np.uint8))
    view, values = memoryview(out), bytes(range(64))

    def call():
        view[:] = values

    return call


@IN_PLACE
def test_a_singular_matrix_that_is_expected(device):
    a = zeros(device)

    def call():
        with suppress(np.linalg.LinAlgError):
            np.linalg.inv(a)

    return call


@IN_PLACE
def test_an_own_ufunc(device):
    a = matrix(device, 8)
    double = np.frompyfunc(lambda value: value * 2, 1, 1)
    return lambda: double(a).astype(float)


@IN_PLACE
def test_a_vectorized_function(device):
    a = matrix(device, 8)
    return lambda: np.vectorize(lambda value: value * 2)(a)
