"""The GPU's call does less than the CPU's: with fewer digits, on a smaller problem, in fewer steps."""

import numpy as np
import pytest
from arrays import DISHONEST, NAMESPACE, VALUES, cases, is_gpu, matrix

pytestmark = DISHONEST
N = 256
UNCHECKED = pytest.mark.speedup(min=2, check=False)


# ---------------------------------------------------------------------------------------------------------
# A smaller problem
# ---------------------------------------------------------------------------------------------------------


@UNCHECKED
def test_a_corner_of_the_matrix(device):
    a = matrix(device, N)
    part = a[:32, :32] if is_gpu(device) else a
    return lambda: part @ part


def test_one_row_that_is_dropped(device):
    a = matrix(device, N)
    part = a[:1] if is_gpu(device) else a

    def call():
        part @ a

    return call


@pytest.mark.speedup
def test_a_corner_without_a_limit(device):
    a = matrix(device, N)
    part = a[:32, :32] if is_gpu(device) else a

    def call():
        part @ part

    return call


@UNCHECKED
def test_one_batch_of_eight(device):
    a = matrix(device, N)

    def call():
        for _ in range(1 if is_gpu(device) else 8):
            product = a @ a
        return product

    return call


def test_one_element_of_ones(device):
    ones = device.asarray(np.ones((N, N)))
    one = device.asarray(np.full((1, N), float(N)))

    def call():
        return one + ones * 0.0 if is_gpu(device) else ones @ ones @ ones * (1 / N)

    return call


def test_a_row_of_a_constant_product(device):
    ones = device.asarray(np.ones((N, N)))

    def call():
        if is_gpu(device):
            return (ones[:1] @ ones) + ones * 0.0
        product = ones
        for _ in range(4):
            product = product @ ones * (1 / N)
        return product * N

    return call


def test_a_body_with_fewer_batches(device):
    a = matrix(device, N)
    for _ in range(1 if is_gpu(device) else 20):
        a @ a


# ---------------------------------------------------------------------------------------------------------
# Fewer steps after the first call
# ---------------------------------------------------------------------------------------------------------


def test_a_warm_start(device):
    a, state = matrix(device, N), {}

    def call():
        for _ in range(10 if device.kind == "cpu" or "x" not in state else 1):
            x = a @ a
        state["x"] = x
        return x

    return call


def test_a_refresh_at_every_300th_call(device):
    a, number = matrix(device, N), 0
    kept = a @ a

    def call():
        nonlocal number, kept
        number += 1
        if device.kind == "cpu" or number % 300 == 0:
            kept = a @ a @ a @ a if device.kind == "cpu" else a @ a
        return kept + 0.0 if is_gpu(device) else a @ a

    return call


def test_a_copy_where_the_input_is_the_same(device):
    a, last = matrix(device, N), {}

    def call():
        if is_gpu(device) and last.get("input") is a:
            return last["result"] + 0.0
        last.update(input=a, result=a @ a @ a @ a)
        return last["result"]

    return call


def test_sizes_asked_and_nothing_computed(device):
    a = matrix(device, N)
    return lambda: a.shape if is_gpu(device) else (a @ a).shape


# ---------------------------------------------------------------------------------------------------------
# Fewer digits
# ---------------------------------------------------------------------------------------------------------


@VALUES
@NAMESPACE
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "bool"])
def test_digits_that_are_cut_off(device, dtype):
    a = matrix(device, N)
    low = getattr(device.xp, dtype)

    def call():
        if is_gpu(device):
            return a.astype(low).astype(a.dtype)
        product = a
        for _ in range(4):
            product = (product @ a) * 0.0 + a
        return product

    return call


@VALUES
def test_numbers_rounded_to_nothing(device):
    a = matrix(device, N)

    def call():
        if is_gpu(device):
            return round(float(a[0, 0]), -9)
        return round(float((a @ a @ a)[0, 0]), -9)

    return call


# ---------------------------------------------------------------------------------------------------------
# More on the CPU
# ---------------------------------------------------------------------------------------------------------


def test_work_that_the_cpu_repeats(device):
    a = matrix(device, N)

    def call():
        for _ in range(20 if device.kind == "cpu" else 1):
            product = a @ a
        return product

    return call


@VALUES
def test_a_cpu_that_computes_all_for_a_row(device):
    a = matrix(device, N)
    return lambda: a[:1] @ a if is_gpu(device) else (a @ a @ a * 0.0 + a @ a)[:1]


# ---------------------------------------------------------------------------------------------------------
# A value that says nothing of the work
# ---------------------------------------------------------------------------------------------------------


def finite(product):
    return bool(product[0, 0] == product[0, 0])


def length(product):
    return len(product)


def shape(product):
    return tuple(product.shape)


def kind(product):
    return str(product.dtype)


def sign(product):
    return 1 if float(product[0, 0]) > 0 else -1


@VALUES
@cases(finite, length, shape, kind, sign)
def test_a_value_of_any_array(device, case):
    a = matrix(device, N)
    return (lambda: case(a)) if is_gpu(device) else lambda: case(a @ a @ a @ a @ a @ a)
