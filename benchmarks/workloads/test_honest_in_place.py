"""Honest work that writes into arrays: outputs, buffers in turn, and calls that change nothing twice."""

from collections import deque
from functools import partial
from itertools import cycle
from types import SimpleNamespace

import numpy as np
import pytest
from arrays import HONEST, IN_PLACE, cases, matrix, zeros

pytestmark = [HONEST, IN_PLACE]
GLOBAL = {}


def test_an_output(device):
    a, out = matrix(device), zeros(device)

    def call():
        out[...] = a @ a

    return call


def test_an_output_that_is_returned(device):
    a, out = matrix(device), zeros(device)

    def call():
        out[...] = a @ a
        return out

    return call


def test_an_output_that_was_right_before(device):
    a = matrix(device)
    out = a @ a

    def call():
        out[...] = a @ a

    return call


def test_an_output_that_was_right_before_and_is_returned(device):
    a = matrix(device)
    out = a + a

    def call():
        out[...] = a + a
        return out

    return call


def test_a_copy_changed_in_place(device):
    a = matrix(device)

    def call():
        b = a + 0.0
        b += 1.0

    return call


def test_a_copy_changed_in_place_and_returned(device):
    a = matrix(device)

    def call():
        b = a + 0.0
        b *= 2.0
        return b

    return call


def test_zeros_over_zeros(device):
    a = zeros(device)

    def call():
        a[...] = 0.0

    return call


def test_the_same_over_the_same(device):
    a, b = matrix(device), matrix(device)

    def call():
        b[...] = a

    return call


def test_times_one(device):
    a = matrix(device)

    def call():
        nonlocal a
        a *= 1.0

    return call


def test_plus_zero(device):
    a, nothing = matrix(device), zeros(device)

    def call():
        nonlocal a
        a += nothing

    return call


def test_an_output_of_a_global(device):
    GLOBAL[device.kind] = matrix(device), zeros(device)

    def call():
        a, out = GLOBAL[device.kind]
        out[...] = a @ a

    return call


def test_an_output_of_an_object(device):
    state = SimpleNamespace(a=matrix(device), out=zeros(device))

    def call():
        state.out[...] = state.a @ state.a

    return call


def test_an_output_of_self(device):
    class Model:
        def __init__(self):
            self.a, self.out = matrix(device), zeros(device)

        def step(self):
            self.out[...] = self.a @ self.a

    return Model().step


def test_an_output_of_a_partial(device):
    def square(a, out):
        out[...] = a @ a

    return partial(square, matrix(device), out=zeros(device))


@pytest.mark.parametrize("count", [2, 4])
def test_outputs_in_turn(device, count):
    a, outputs = matrix(device), cycle([zeros(device) for _ in range(count)])

    def call():
        out = next(outputs)
        out[...] = a @ a
        return out

    return call


@pytest.mark.parametrize("count", [2, 4])
def test_outputs_in_turn_dropped(device, count):
    a, outputs = matrix(device), cycle([zeros(device) for _ in range(count)])

    def call():
        next(outputs)[...] = a @ a

    return call


def test_a_ring_of_buffers(device):
    a, ring = matrix(device), deque(maxlen=4)
    ring.extend(zeros(device) for _ in range(4))

    def call():
        out = ring.popleft()
        out[...] = a * 2.0
        ring.append(out)

    return call


def test_two_states_in_turn(device):
    a, b = matrix(device), matrix(device)

    def call():
        nonlocal a, b
        b[...] = a * 1.0
        a, b = b, a

    return call


def test_scratch_memory(device):
    a, scratch = matrix(device), zeros(device)

    def call():
        scratch[...] = a @ a
        return scratch + 1.0

    return call


def test_rows_one_by_one(device):
    a, out = matrix(device), zeros(device)

    def call():
        for row in range(4):
            out[row] = a[row] * 2.0

    return call


def test_one_element(device):
    a, out = matrix(device), zeros(device)

    def call():
        out[0, 0] = a[0, 0]

    return call


def test_four_elements(device):
    out = device.asarray(np.zeros(4))

    def call():
        out[:] = 1.0

    return call


def test_a_view_of_an_output(device):
    a, out = matrix(device), zeros(device)
    part = out[:2]

    def call():
        part[...] = a[:2] @ a

    return call


def test_a_transposed_output(device):
    a, out = matrix(device), zeros(device)

    def call():
        out.T[...] = a

    return call


def test_a_mask(device):
    a = matrix(device)
    out = a + 0.0

    def call():
        out[a > 0.5] = 1.0

    return call


def test_a_mask_of_nothing(device):
    a = matrix(device)

    def call():
        a[a > 2.0] = 0.0

    return call


def test_an_empty_output(device):
    out = device.asarray(np.zeros((0, 4)))

    def call():
        out[...] = 1.0

    return call


def test_an_output_of_integers(device):
    out = device.asarray(np.zeros(1000, dtype=np.int64))

    def call():
        out[...] = 3

    return call


def test_an_output_of_nan(device):
    a, out = matrix(device), device.asarray(np.full((64, 64), np.nan))

    def call():
        out[...] = a + a
        return out

    return call


def test_an_output_that_is_cleared_first(device):
    a, out = matrix(device), zeros(device)

    def call():
        out[...] = 0.0
        out[...] = a @ a

    return call


def test_a_total_that_is_cleared_first(device):
    a, total = matrix(device), zeros(device)

    def call():
        nonlocal total
        total[...] = 0.0
        for _ in range(3):
            total += a

    return call


def test_an_input_that_is_filled_again(device):
    host, a, out = np.ones((64, 64)), zeros(device), zeros(device)
    fresh = device.asarray(host)

    def call():
        a[...] = fresh
        out[...] = a @ a

    return call


def test_a_state_with_a_reset(device, gpuperf):
    start, state = matrix(device), matrix(device)

    def step():
        state[...] = state * 0.5
        return state

    def reset():
        state[...] = start

    return gpuperf.workload(step, reset=reset)


def test_a_state_with_a_reset_that_returns_nothing(device, gpuperf):
    start, state = matrix(device), matrix(device)

    def step():
        state[...] = state * 0.5

    def reset():
        state[...] = start

    return gpuperf.workload(step, reset=reset)


def test_a_body_in_place(device):
    a = matrix(device)
    for _ in range(5):
        a *= 1.0


def test_a_body_with_an_output(device):
    a, out = matrix(device), zeros(device)
    out[...] = a @ a


def test_a_body_that_fills(device):
    a = zeros(device)
    a[...] = 1.0


def plus(a):
    a += 0.0


def times(a):
    a *= 1.0


def minus(a):
    a -= 0.0


def divided(a):
    a /= 1.0


def a_power(a):
    a **= 1.0


@cases(plus, times, minus, divided, a_power)
def test_an_operator_in_place_that_changes_nothing(device, case):
    a = matrix(device)
    return lambda: case(a)


@pytest.mark.parametrize("length", [1, 4, 64])
def test_short_writes(device, length):
    a, out = device.asarray(np.ones(length)), device.asarray(np.zeros(length))

    def call():
        out[...] = a * 2.0

    return call
