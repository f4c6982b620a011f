"""The GPU's call returns what an earlier one, the setup or the CPU has computed."""

from functools import cache, cached_property, lru_cache
from itertools import cycle

import numpy as np
import pytest
from arrays import DISHONEST, IN_PLACE, cases, is_gpu, matrix

pytestmark = DISHONEST
N = 256
GLOBAL = {}
FROM_THE_CPU = {}


def of_both(device, on_gpu, on_cpu):
    return on_gpu if is_gpu(device) else on_cpu


# ---------------------------------------------------------------------------------------------------------
# The very result
# ---------------------------------------------------------------------------------------------------------


def test_a_result_of_the_setup(device):
    a = matrix(device, N)
    kept = a @ a
    return of_both(device, lambda: kept, lambda: a @ a)


@pytest.mark.speedup(min=2, check=False)
def test_a_result_of_the_setup_unchecked(device):
    a = matrix(device, N)
    kept = a @ a
    return of_both(device, lambda: kept, lambda: a @ a)


@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_results_in_turn(device, count):
    a = matrix(device, N)
    turn = cycle([a @ a for _ in range(count)])
    return of_both(device, lambda: next(turn), lambda: a @ a)


def test_results_in_turn_of_a_global(device):
    a, number = matrix(device, N), 0
    GLOBAL[device.kind] = [a @ a, a @ a]

    def call():
        nonlocal number
        number += 1
        return GLOBAL["gpu"][number % 2]

    return of_both(device, call, lambda: a @ a)


def test_results_in_turn_in_a_dict(device):
    a = matrix(device, N)
    turn = cycle([{"product": a @ a} for _ in range(2)])
    return of_both(device, lambda: next(turn), lambda: {"product": a @ a})


def test_a_cache_of_five(device):
    a, number = matrix(device, N), 0

    @cache
    def product(_):
        return a @ a

    def call():
        nonlocal number
        number += 1
        return product(number % 5)

    return of_both(device, call, lambda: a @ a)


def test_a_function_with_a_cache(device):
    a = matrix(device, N)

    def product():
        return a @ a

    return of_both(device, lru_cache(product), product)


def test_a_cached_property(device):
    class Solver:
        def __init__(self, a):
            self.a = a

        @cached_property
        def solution(self):
            return self.a @ self.a

        def solve(self):
            return self.solution if is_gpu(device) else self.a @ self.a

    return Solver(matrix(device, N)).solve


def test_a_memo_by_identity(device):
    a, memo = matrix(device, N), {}

    def call():
        if device.kind == "cpu":
            return a @ a
        if id(a) not in memo:
            memo[id(a)] = a @ a
        return memo[id(a)]

    return call


def test_the_input(device):
    a = device.asarray(np.eye(N))
    return of_both(device, lambda: a, lambda: a @ a)


def test_the_input_of_a_body(device):
    a = device.asarray(np.eye(N))
    if is_gpu(device):
        return a
    return a @ a @ a @ a


def test_a_view_of_a_result(device):
    a = matrix(device, N)
    kept = a @ a
    return of_both(device, lambda: kept[:], lambda: a @ a)


def test_views_of_results_in_turn(device):
    a = matrix(device, N)
    turn = cycle([a @ a, a @ a])
    return of_both(device, lambda: next(turn)[:], lambda: a @ a)


def test_a_reshaped_result(device):
    a = matrix(device, N)
    kept = a @ a
    return of_both(device, lambda: kept.reshape(-1), lambda: (a @ a).reshape(-1))


def test_the_first_result_again(device):
    a, first = matrix(device, N), []

    def call():
        if device.kind == "cpu" or not first:
            first.append(a @ a)
        return first.pop() if device.kind == "cpu" else first[0]

    return call


def kept_number(total):
    return float(total)


def kept_integer(total):
    return int(total)


def kept_string(total):
    return f"{float(total):.3e}"


def kept_list(total):
    return [float(total), float(total)]


@cases(kept_number, kept_integer, kept_string, kept_list)
def test_a_kept_value(device, case):
    a = matrix(device, N)
    kept = case((a @ a).sum())
    return of_both(device, lambda: kept, lambda: case((a @ a).sum()))


def test_a_kept_number_in_a_new_dict(device):
    a = matrix(device, N)
    kept = float((a @ a).sum())
    return of_both(device, lambda: {"sum": kept * 1.0}, lambda: {"sum": float((a @ a).sum())})


# ---------------------------------------------------------------------------------------------------------
# A copy of it, or of what the CPU computed
# ---------------------------------------------------------------------------------------------------------


def test_a_copy_of_a_result(device):
    a = matrix(device, N)
    kept = a @ a @ a @ a
    return of_both(device, lambda: kept + 0.0, lambda: a @ a @ a @ a)


@IN_PLACE
def test_a_result_with_one_value_written_again(device):
    a = matrix(device, N)
    kept = a @ a

    def call():
        kept[0, 0] = kept[0, 0] + 0.0
        return kept

    return of_both(device, call, lambda: a @ a)


def test_the_result_of_the_cpu_uploaded(device):
    a = matrix(device, N)

    def call():
        if is_gpu(device):
            return device.asarray(FROM_THE_CPU["product"])
        product = a @ a @ a @ a
        FROM_THE_CPU["product"] = device.asnumpy(product)
        return product

    return call


def test_the_result_of_the_cpu_read_from_a_file(device, tmp_path):
    a, path = matrix(device, N), tmp_path.parent / "product.npy"

    def call():
        if is_gpu(device):
            return device.asarray(np.load(path))
        product = a @ a @ a @ a @ a @ a
        np.save(path, device.asnumpy(product))
        return product

    return call


def test_a_result_of_the_setup_uploaded(device):
    a = matrix(device, N)
    kept = device.asnumpy(a @ a @ a @ a)
    return of_both(device, lambda: device.asarray(kept), lambda: a @ a @ a @ a)


def test_numpy_in_the_call_and_an_upload(device):
    a, host = matrix(device, N), np.random.default_rng(0).random((N, N))

    def on_gpu():
        row = host[:1] @ host @ host @ host
        return device.asarray(row)

    return of_both(device, on_gpu, lambda: (a @ a @ a @ a)[:1])


def test_the_number_of_the_cpu(device):
    a = matrix(device, N)

    def call():
        if is_gpu(device):
            return FROM_THE_CPU["sum"]
        FROM_THE_CPU["sum"] = float((a @ a).sum())
        return FROM_THE_CPU["sum"]

    return call
