"""Honest work that any library does: what calls look like, what they return, and what they leave behind."""

import io
import operator
from collections import OrderedDict, defaultdict, deque, namedtuple
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, cached_property, partial, reduce
from itertools import cycle
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from arrays import HONEST, NAMESPACE, VALUES, cases, matrix, zeros

pytestmark = HONEST
GLOBAL = {}


# ---------------------------------------------------------------------------------------------------------
# What a callable looks like, and what becomes of its result
# ---------------------------------------------------------------------------------------------------------


def a_lambda(work):
    return lambda: work()


def a_function(work):
    def call():
        return work()

    return call


def a_partial(work):
    return partial(operator.call, work)


def a_bound_method(work):
    class Solver:
        def solve(self):
            return work()

    return Solver().solve


def a_callable_object(work):
    class Kernel:
        def __call__(self):
            return work()

    return Kernel()


def a_static_method(work):
    class Solver:
        @staticmethod
        def solve():
            return work()

    return Solver.solve


def a_decorated_function(work):
    def logged(function):
        def call(*inputs):
            return function(*inputs)

        return call

    return logged(work)


def one_that_reads_a_global(work):
    GLOBAL[id(work)] = work
    return lambda: GLOBAL[id(work)]()


def one_with_a_default(work):
    return lambda run=work: run()


def one_from_a_table(work):
    return {"work": work}["work"]


FORMS = (
    a_lambda,
    a_function,
    a_partial,
    a_bound_method,
    a_callable_object,
    a_static_method,
    a_decorated_function,
    one_that_reads_a_global,
    one_with_a_default,
    one_from_a_table,
)


@cases(*FORMS)
def test_a_product_is_returned(device, case):
    a = matrix(device)
    return case(lambda: a @ a)


@cases(*FORMS)
def test_a_product_is_dropped(device, case):
    a = matrix(device)

    def work():
        a @ a

    return case(work)


@cases(*FORMS)
def test_a_product_is_kept(device, case):
    a, kept = matrix(device), {}
    return case(lambda: kept.update(product=a @ a))


# ---------------------------------------------------------------------------------------------------------
# What a call returns
# ---------------------------------------------------------------------------------------------------------


@dataclass
class Pair:
    """Two results."""

    first: Any
    second: Any


@dataclass(frozen=True, slots=True)
class FrozenPair:
    """Two results that cannot be changed."""

    first: Any
    second: Any


class TypedPair(NamedTuple):
    """Two results by name."""

    first: Any
    second: Any


UntypedPair = namedtuple("UntypedPair", ["first", "second"])


def a_tuple(a):
    return a + a, a * a


def a_list(a):
    return [a + a, a * a]


def a_deque(a):
    return deque([a + a, a * a])


def a_dict(a):
    return {"sum": a + a, "product": a * a}


def a_dict_of_numbers(a):
    return {0: a + a, 1.5: a * a}


def an_ordered_dict(a):
    return OrderedDict(sum=a + a, product=a * a)


def a_default_dict(a):
    found = defaultdict(list)
    found["all"].append(a + a)
    return found


def a_mapping_proxy(a):
    return MappingProxyType({"sum": a + a})


def nested_results(a):
    return {"layers": [{"sum": a + a}, (a * a, [a - 2.0])]}


def a_dataclass(a):
    return Pair(a + a, a * a)


def a_frozen_dataclass(a):
    return FrozenPair(a + a, a * a)


def a_typed_tuple(a):
    return TypedPair(a + a, a * a)


def an_untyped_tuple(a):
    return UntypedPair(a + a, a * a)


def a_namespace(a):
    return {"found": vars(SimpleNamespace(sum=a + a, product=a * a))}


def one_beside_none(a):
    return a + a, None


def one_beside_an_input(a):
    return a + a, a


def one_twice(a):
    product = a @ a
    return product, product


def one_and_a_view_of_it(a):
    product = a @ a
    return product, product[:2]


def one_beside_a_name(a):
    return "product", a @ a


@cases(
    a_tuple,
    a_list,
    a_deque,
    a_dict,
    a_dict_of_numbers,
    an_ordered_dict,
    a_default_dict,
    a_mapping_proxy,
    nested_results,
    a_dataclass,
    a_frozen_dataclass,
    a_typed_tuple,
    an_untyped_tuple,
    a_namespace,
    one_beside_none,
    one_beside_an_input,
    one_twice,
    one_and_a_view_of_it,
    one_beside_a_name,
)
def test_results_in_a_container(device, case):
    a = matrix(device)
    return lambda: case(a)


def a_float(a):
    return float(a.sum())


def an_int(a):
    return int((a > 0.5).sum())


def a_bool(a):
    return bool((a > 2).any())


def a_complex(a):
    return complex(float(a.sum()), 1.0)


def a_string(a):
    return f"{float(a.sum()):.3f}"


def some_bytes(a):
    return f"{float(a.sum()):.3f}".encode()


def a_fraction(a):
    return str(Fraction(int((a > 0.5).sum()), 7))


def a_decimal(a):
    return str(Decimal(int((a > 0.5).sum())))


class Answer(Enum):
    """What a workload may answer."""

    SMALL = 1
    LARGE = 2


def an_enum(a):
    return (Answer.LARGE if float(a.sum()) > 10 else Answer.SMALL).name


def a_shape(a):
    return tuple((a @ a).shape)


def a_length(a):
    return len(a @ a)


def the_value_true(a):
    a @ a
    return True


def the_value_zero(a):
    a @ a
    return 0


def an_empty_string(a):
    a @ a
    return ""


def an_empty_dict(a):
    a @ a
    return {}


def an_empty_tuple(a):
    a @ a
    return ()


def a_list_of_floats(a):
    return [float(a[row, 0]) for row in range(4)]


def a_set_of_ints(a):
    return sorted({int(a[row, 0] * 10) for row in range(4)})


@VALUES
@cases(
    a_float,
    an_int,
    a_bool,
    a_complex,
    a_string,
    some_bytes,
    a_fraction,
    a_decimal,
    an_enum,
    a_shape,
    a_length,
    the_value_true,
    the_value_zero,
    an_empty_string,
    an_empty_dict,
    an_empty_tuple,
    a_list_of_floats,
    a_set_of_ints,
)
def test_a_value_of_python(device, case):
    a = matrix(device)
    return lambda: case(a)


def test_a_zero_dimensional_array(device):
    a = matrix(device)
    return lambda: a.sum()


def test_one_element_of_many(device):
    a = matrix(device)
    return lambda: a[0, 0] * 2.0


def test_a_copy_on_the_host(device):
    a = matrix(device)
    return lambda: device.asnumpy(a @ a)


# ---------------------------------------------------------------------------------------------------------
# Inputs that give little to do
# ---------------------------------------------------------------------------------------------------------


EMPTY = (0, 4)


def test_empty_input(device):
    a = device.asarray(np.ones(EMPTY))
    return lambda: a + a


def test_empty_input_dropped(device):
    a = device.asarray(np.ones(EMPTY))

    def call():
        a + a

    return call


def test_empty_input_in_a_body(device):
    a = device.asarray(np.ones(EMPTY))
    a + a


def test_a_sum_of_nothing(device):
    a = device.asarray(np.ones(EMPTY))
    return lambda: float(a.sum())


def test_an_empty_part(device):
    a = matrix(device)
    return lambda: a[:0] * 2.0


def test_an_empty_loop_on_both_sides(device):
    a, steps = matrix(device), 0

    def call():
        total = a + 0.0
        for _ in range(steps):
            total = total + a
        return total

    return call


@pytest.mark.parametrize("length", [1, 2, 8])
def test_very_short_work(device, length):
    a = device.asarray(np.ones(length))
    return lambda: a + a


@pytest.mark.parametrize("length", [1, 2, 8])
def test_very_short_work_dropped(device, length):
    a = device.asarray(np.ones(length))

    def call():
        a + a

    return call


def test_zeros_of_zeros(device):
    a = zeros(device)
    return lambda: a * a


def test_nan_of_nan(device):
    a = device.asarray(np.full((64, 64), np.nan))
    return lambda: a * a


def test_a_scalar_input(device):
    a = device.asarray(np.float64(3.0))
    return lambda: a * a


# ---------------------------------------------------------------------------------------------------------
# Views and copies
# ---------------------------------------------------------------------------------------------------------


def test_a_view(device):
    a = matrix(device, 512)
    return lambda: a[::2]


def test_a_transpose(device):
    a = matrix(device, 512)
    return lambda: a.T


def test_a_reshape(device):
    a = matrix(device)
    return lambda: a.reshape(-1)


def test_a_view_of_a_result(device):
    a = matrix(device)
    return lambda: (a @ a)[::2]


def test_parts_of_views_dropped(device):
    a = matrix(device)

    def call():
        for row in range(4):
            a[row] + a[row]

    return call


def test_an_upload(device):
    host = np.ones((64, 64))
    return lambda: device.asarray(host)


def test_an_upload_dropped(device):
    host = np.ones((64, 64))

    def call():
        device.asarray(host)

    return call


def test_an_upload_in_a_body(device):
    device.asarray(np.ones((64, 64)))


def test_a_download(device):
    a = matrix(device)
    return lambda: device.asnumpy(a)


def test_a_download_dropped(device):
    a = matrix(device)

    def call():
        device.asnumpy(a)

    return call


def test_there_and_back(device):
    host = np.random.default_rng(0).random((64, 64))

    def call():
        a = device.asarray(host)
        return device.asnumpy(a @ a)

    return call


# ---------------------------------------------------------------------------------------------------------
# What calls leave behind, where they return nothing
# ---------------------------------------------------------------------------------------------------------


def test_a_list_replaced(device):
    a, kept = matrix(device), []

    def call():
        kept[:] = [a @ a]

    return call


def test_a_bounded_list(device):
    a, kept = matrix(device), deque(maxlen=3)

    def call():
        kept.append(a @ a)

    return call


def test_an_attribute(device):
    a = matrix(device)
    state = SimpleNamespace(product=None)

    def call():
        state.product = a @ a

    return call


def test_an_attribute_of_self(device):
    class Model:
        def __init__(self, a):
            self.a, self.product = a, None

        def step(self):
            self.product = self.a @ self.a

    return Model(matrix(device)).step


def test_a_nonlocal_name(device):
    a, product = matrix(device), None

    def call():
        nonlocal product
        product = a @ a

    return call


def test_a_global_dict(device):
    a = matrix(device)

    def call():
        GLOBAL[device.kind] = a @ a

    return call


def test_numbers_in_a_list(device):
    a, kept = matrix(device), deque(maxlen=1)

    def call():
        kept.append(float(a.sum()))

    return call


@VALUES
def test_an_assertion(device):
    a = matrix(device)

    def call():
        assert float((a + a).sum()) > 0

    return call


def test_a_file(device, tmp_path):
    a, path = matrix(device), tmp_path / "sum.npy"

    def call():
        np.save(path, device.asnumpy(a + a))

    return call


def test_a_stream(device):
    a, stream = matrix(device), io.BytesIO()

    def call():
        stream.seek(0)
        stream.write(device.asnumpy(a + a).tobytes())

    return call


def test_an_array_of_the_host(device):
    a, host = matrix(device), np.zeros((64, 64))

    def call():
        host[:] = device.asnumpy(a @ a)

    return call


def test_an_array_of_the_host_that_stays_the_same(device):
    a, host = zeros(device), np.zeros((64, 64))

    def call():
        host[:] = device.asnumpy(a + a)

    return call


def test_a_callback(device):
    a, seen = matrix(device), deque(maxlen=1)

    def solve(on_step):
        on_step(a @ a)

    return lambda: solve(seen.append)


def test_an_error_that_is_expected(device):
    a = matrix(device)

    def call():
        a @ a
        with suppress(KeyError):
            {}["missing"]

    return call


# ---------------------------------------------------------------------------------------------------------
# Bodies that are the workload
# ---------------------------------------------------------------------------------------------------------


def test_a_body_that_drops(device):
    a = matrix(device)
    a @ a


def test_a_body_that_returns(device):
    a = matrix(device)
    return a @ a


@VALUES
def test_a_body_that_asserts(device):
    a = matrix(device)
    assert float((a + a).sum()) > 0


def test_a_body_with_arrays_of_the_library(device):
    a = device.xp.ones((64, 64))
    product = a @ a
    assert tuple(product.shape) == (64, 64)


def test_a_body_that_drops_arrays_of_the_library(device):
    a = device.xp.ones((64, 64))
    a @ a


def test_a_body_that_only_makes_arrays(device):
    device.xp.ones((64, 64))


def test_a_body_with_a_loop(device):
    a = matrix(device)
    for _ in range(5):
        a = a * 1.0


def test_a_body_with_xp(xp):
    a = xp.ones((64, 64))
    return a @ a


# ---------------------------------------------------------------------------------------------------------
# Shapes of tests
# ---------------------------------------------------------------------------------------------------------


def test_both(gpuperf):
    def product(device):
        a = matrix(device)
        return lambda: a @ a

    on_cpu, on_gpu = gpuperf.both(product)
    assert on_cpu.shape == on_gpu.shape


def test_both_of_a_body(gpuperf):
    gpuperf.both(lambda device: matrix(device) @ matrix(device))


def test_a_workload_with_a_reset(device, gpuperf):
    a, state = matrix(device), {}

    def call():
        state["sum"] = a + a
        return state["sum"]

    return gpuperf.workload(call, reset=state.clear)


def test_a_workload_with_a_reset_that_returns_nothing(device, gpuperf):
    a, state = matrix(device), {}

    def call():
        state["sum"] = a + a

    return gpuperf.workload(call, reset=state.clear)


@pytest.fixture
def prepared(device):
    return matrix(device)


def test_an_array_of_a_fixture(prepared):
    return lambda: prepared @ prepared


def test_an_array_of_a_fixture_dropped(prepared):
    def call():
        prepared @ prepared

    return call


class TestInAClass:
    """Tests as methods."""

    factor = 2.0

    def test_a_method(self, device):
        """Return the workload."""
        a = matrix(device)
        return lambda: a * self.factor

    def test_a_method_that_is_a_body(self, device):
        """Be the workload."""
        matrix(device) * self.factor


@pytest.mark.parametrize("n", [4, 64])
@pytest.mark.parametrize("repeats", [1, 3])
def test_parameters(device, n, repeats):
    a = matrix(device, n)
    return lambda: reduce(operator.matmul, [a] * (repeats + 1))


@pytest.mark.speedup(min=1e-4, check=False)
def test_an_unchecked_product(device):
    a = matrix(device)
    return lambda: a @ a


@pytest.mark.speedup(min=1e-4, check=False)
def test_an_unchecked_product_dropped(device):
    a = matrix(device)

    def call():
        a @ a

    return call


@pytest.mark.speedup(min=1e-4, latency=True)
def test_an_awaited_product(device):
    a = matrix(device)

    def call():
        a @ a

    return call


@pytest.mark.speedup(min=1e-6, transfer="always")
def test_a_product_with_copies(device):
    a = matrix(device)
    return lambda: a @ a


@pytest.mark.speedup
def test_a_product_without_a_limit(device):
    a = matrix(device)

    def call():
        a @ a

    return call


@VALUES
@pytest.mark.speedup
def test_a_returned_product_without_a_limit(device):
    a = matrix(device)
    return lambda: a @ a


@pytest.mark.speedup(max=1e5)
def test_an_upper_limit(device):
    a = matrix(device)

    def call():
        a @ a

    return call


# ---------------------------------------------------------------------------------------------------------
# What is made once, and used by each call
# ---------------------------------------------------------------------------------------------------------


def test_a_plan_of_the_first_call(device):
    a, plans = matrix(device), {}

    def call():
        if "factor" not in plans:
            plans["factor"] = a * 2.0
        return a @ plans["factor"]

    return call


def test_a_cached_plan(device):
    a = matrix(device)

    @cache
    def factor(n):
        return a * float(n)

    return lambda: a @ factor(2)


def test_a_cached_plan_dropped(device):
    a = matrix(device)

    @cache
    def factor(n):
        return a * float(n)

    def call():
        a @ factor(2)

    return call


def test_a_cached_property(device):
    class Model:
        def __init__(self, a):
            self.a = a

        @cached_property
        def factor(self):
            return self.a * 2.0

        def step(self):
            return self.a @ self.factor

    return Model(matrix(device)).step


def test_inputs_in_turn(device):
    inputs = cycle([matrix(device) for _ in range(3)])
    return lambda: next(inputs) * 2.0


def test_inputs_in_turn_dropped(device):
    inputs = cycle([matrix(device) for _ in range(3)])

    def call():
        next(inputs) * 2.0

    return call


def test_a_counter(device):
    a, count = matrix(device), {"calls": 0}

    def call():
        count["calls"] += 1
        a + a

    return call


def test_a_generator_that_is_read(device):
    a = matrix(device)
    return lambda: sum((a * factor for factor in (1.0, 2.0)), start=a)


def test_a_map_that_is_read(device):
    a = matrix(device)

    def call():
        deque(map(operator.mul, [a, a], [1.0, 2.0]), maxlen=0)

    return call


def test_recursion(device):
    a = matrix(device)

    def power(n):
        return a if n == 0 else power(n - 1) @ a * 0.1

    return lambda: power(4)


def test_a_branch_by_value_of_the_device(device):
    a = matrix(device)
    fused = device.kind == "gpu"

    def call():
        return a * 3.0 if fused else a * 2.0 + a

    return call


def test_other_code_on_each_device(device):
    a = matrix(device)

    def on_cpu():
        return a + a + a

    def on_gpu():
        return a * 3.0

    return on_gpu if device.kind == "gpu" else on_cpu


def test_other_code_on_each_device_dropped(device):
    a = matrix(device)

    def on_cpu():
        a + a + a

    def on_gpu():
        a * 3.0

    return on_gpu if device.kind == "gpu" else on_cpu


def test_a_wait_in_the_call(device):
    a = matrix(device)

    def call():
        a @ a
        device.synchronize()

    return call


def test_a_skip_on_neither_device(device):
    a = matrix(device)

    def call():
        if device.kind not in ("cpu", "gpu"):
            return
        a @ a

    return call


# ---------------------------------------------------------------------------------------------------------
# Functions of the namespace
# ---------------------------------------------------------------------------------------------------------


def a_square_root(xp, a):
    return xp.sqrt(a)


def a_running_sum(xp, a):
    return xp.cumulative_sum(a, axis=0) if hasattr(xp, "cumulative_sum") else xp.cumsum(a, axis=0)


def a_sorted_array(xp, a):
    return xp.sort(a, axis=0)


def an_index_of_the_largest(xp, a):
    return xp.argmax(a)


def arrays_one_after_another(xp, a):
    return xp.concatenate([a, a])


def a_stack(xp, a):
    return xp.stack([a, a])


def a_choice(xp, a):
    return xp.where(a > 0.5, a, 0.0)


def a_choice_of_nothing(xp, a):
    return xp.where(a > 2.0, a, 0.0)


def a_mean(xp, a):
    return xp.mean(a)


def a_norm(xp, a):
    return xp.linalg.norm(a)


def a_solution(xp, a):
    return xp.linalg.solve(a + 64.0 * xp.eye(64), a)


def a_transform(xp, a):
    return abs(xp.fft.fft(a))


def a_tensor_product(xp, a):
    return xp.tensordot(a, a, axes=1)


def new_zeros(xp, a):
    return xp.zeros((64, 64)) + a


def a_broadcast(xp, a):
    return xp.broadcast_to(a[0], (64, 64)) + a


def a_rounded_array(xp, a):
    return xp.round(a)


FUNCTIONS = (
    a_square_root,
    a_running_sum,
    a_sorted_array,
    an_index_of_the_largest,
    arrays_one_after_another,
    a_stack,
    a_choice,
    a_choice_of_nothing,
    a_mean,
    a_norm,
    a_transform,
    a_tensor_product,
    new_zeros,
    a_broadcast,
    a_rounded_array,
)


@NAMESPACE
@cases(*FUNCTIONS)
def test_a_function_of_the_namespace(device, case):
    a, xp = matrix(device), device.xp
    return lambda: case(xp, a)


@NAMESPACE
@cases(*FUNCTIONS)
def test_a_function_of_the_namespace_dropped(device, case):
    a, xp = matrix(device), device.xp

    def call():
        case(xp, a)

    return call


@VALUES
@NAMESPACE
@cases(a_solution)
def test_a_function_of_a_solver(device, case):
    a, xp = matrix(device), device.xp
    return lambda: case(xp, a)


@VALUES
@NAMESPACE
@cases(a_solution)
def test_a_function_of_a_solver_dropped(device, case):
    a, xp = matrix(device), device.xp

    def call():
        case(xp, a)

    return call


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "bool", "complex64", "uint8"])
def test_a_dtype(device, dtype):
    a = device.asarray(np.ones((64, 64), dtype=dtype))
    return lambda: a | a if dtype == "bool" else a + a


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "bool", "complex64", "uint8"])
def test_a_dtype_dropped(device, dtype):
    a = device.asarray(np.ones((64, 64), dtype=dtype))

    def call():
        if dtype == "bool":
            a | a
        else:
            a + a

    return call
