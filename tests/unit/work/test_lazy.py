"""Results whose work is not done: handles of it, calls that nobody makes, arrays still to be computed."""

import asyncio
import concurrent.futures
import functools
import multiprocessing.pool
import operator
import subprocess
import sys
import threading
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from cases import for_each
from walks import prepared, simulated

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.work.checks import ResultChecks

DEMANDS = (Demand(), Demand(min=3), Demand(min=3, check=False), Demand(min=3, transfer="always"))
NOT_WAITED_FOR = "the workload returns {}, whose work is not waited for: {}"
LAZY = "which is lazy, or may be"


def refusal(result, demand=None) -> str:
    """Return what is said of a result of a call, which every marker says."""
    with pytest.raises(GpuPerfError) as refused:
        prepared(simulated(), lambda device: lambda: result)
    for each in DEMANDS:
        with pytest.raises(GpuPerfError) as again:
            ResultChecks(each).copy_to_host(result, simulated())
        assert str(again.value) == str(refused.value)
    return str(refused.value)


class Work:
    """As that of torch.distributed."""

    def wait(self):
        return True

    def is_completed(self):
        return False


class TorchFuture:
    """As that of torch.futures."""

    def wait(self):
        return 1.0

    def done(self):
        return False

    def then(self, call):
        return self


class DistributedFuture(concurrent.futures.Future):
    """As that of dask.distributed, which can be awaited, too."""

    def __await__(self):
        return iter(())


class Request:
    """As that of mpi4py."""

    def wait(self):
        return 1.0

    def test(self):
        return False


def async_result():
    with multiprocessing.pool.ThreadPool(1) as pool:
        return pool.apply_async(len, ("text",))


def process():
    found = subprocess.Popen([sys.executable, "-c", ""])
    found.wait()
    return found


def of_a_loop(make):
    async def found():
        return make()

    return asyncio.run(found())


async def coroutine():
    return 1.0


@for_each(
    ("kind", "remedy", "make"),
    [
        ("a Future", "return future.result()", concurrent.futures.Future),
        ("a DistributedFuture", "return future.result()", DistributedFuture),
        ("an ApplyResult", "return result.get()", async_result),
        ("a TorchFuture", "return future.wait()", TorchFuture),
        ("a Work", "call work.wait(), and return the tensors", Work),
        ("a Request", "return request.wait()", Request),
        ("a Thread", "call thread.join(), and return what it computes", threading.Thread),
        ("a Popen", "call popen.wait(), and return what it computes", process),
        (
            "a Future",
            "run its loop until it is done, and return what it gives",
            lambda: of_a_loop(lambda: asyncio.get_running_loop().create_future()),
        ),
    ],
)
def test_a_handle_of_work_is_refused_by_any_marker_with_what_to_return_instead(kind, remedy, make):
    assert refusal(make()) == NOT_WAITED_FOR.format(kind, remedy)
    nested = refusal({"x": [np.ones(3), make()]})
    assert nested.startswith("result['x'][1] is of type ")
    assert nested.endswith(f"whose work is not waited for: {remedy}")
    assert "check=False" not in nested


def test_a_coroutine_is_refused_wherever_it_is_and_closed():
    with warnings.catch_warnings(action="error"), pytest.raises(GpuPerfError) as refused:
        prepared(simulated(), lambda device: lambda: [coroutine()])
    assert str(refused.value).startswith("result[0] is awaitable: the workload is async and would never run")


def test_a_handle_is_refused_before_the_call_is_made_again():
    made = []

    def call():
        made.append(concurrent.futures.Future())
        return made[-1]

    with pytest.raises(GpuPerfError):
        prepared(simulated(), lambda device: call)
    assert len(made) == 1


class Step(NamedTuple):
    """A result with fields that are called as methods of a handle are."""

    result: float
    done: bool
    wait: float = 0.0
    get: float = 0.0
    ready: bool = True


class Event:
    """An object that says whether it is done, and waits for nothing."""

    done = True

    def result(self):
        return 1.0


class Worker:
    """An object with arrays that has a thread for its own use."""

    def __init__(self):
        self.weights = np.ones(2)
        self.thread = threading.Thread()


@for_each("result", [Step(1.0, done=True), Worker(), {"result": 1.0, "done": 2.0}, [Event()]])
def test_fields_named_as_methods_are_and_objects_with_a_thread_are_no_handles(result):
    assert ResultChecks(Demand()).copy_to_host(result, simulated())


def model(x):
    return x


class Model:
    """Can be called, and has no name."""

    def __call__(self):
        return 1.0


@for_each("function", [len, model, np.exp, int, functools.partial(model)])
def test_a_call_that_joblib_has_still_to_make_is_refused(function):
    said = refusal((function, (np.ones(2),), {}))
    assert said.startswith(
        "the workload returns a tuple, of a function with its arguments, which nobody calls"
    )
    assert refusal([(function, (), {"x": 1.0})]).startswith("result[0] is of type tuple, of a function")


@for_each("result", [(Model(), (np.ones(2),), {}), (1.0, (2.0,), {"loss": 1.0}), (np.ones(2), (1.0,), {})])
def test_an_answer_of_three_parts_is_no_call(result):
    assert ResultChecks(Demand()).copy_to_host(result, simulated())


class Dask:
    """A collection of dask, or of a library that wraps any arrays, as xarray's and pint's are."""

    def __init__(self, graph):
        self.graph = graph

    def __dask_graph__(self):
        return self.graph()


@for_each(
    ("lazy", "graph"), [(True, dict), (True, lambda: {"x": 1}), (True, lambda: 1 / 0), (False, lambda: None)]
)
def test_a_graph_that_is_none_is_no_work_to_do(lazy, graph):
    checks, value = ResultChecks(Demand()), Dask(graph)
    if lazy:
        assert refusal_of_copies(value).startswith(f"result is of type Dask, {LAZY}")
    else:
        assert checks.copy_to_host(value, simulated())


def refusal_of_copies(result) -> str:
    with pytest.raises(GpuPerfError) as refused:
        ResultChecks(Demand(min=3, check=False)).copy_to_host(result, simulated())
    return str(refused.value)


# Objects that say that they are arrays.


class Product:
    """Computes its values when it is converted."""

    dtype, shape = np.dtype("float64"), (3,)

    def __init__(self, *factors):
        self.factors = factors

    def __array__(self, dtype=None, copy=None):
        return functools.reduce(operator.mul, self.factors)


class Deferred(Product):
    def __init__(self, call):
        self.call = call

    def __array__(self, dtype=None, copy=None):
        return self.call()


class Compressed(Product):
    """A sparse array: its values are in new arrays of other shapes."""

    def __init__(self, values):
        self.values, self.places = values, np.flatnonzero(values)


@for_each(
    "lazy",
    [
        lambda a: Product(a, a),
        lambda a: Product(a.reshape(1, 3), a),  # views of its inputs
        lambda a: Product(a, np.float64(2)),
        lambda a: Product(Product(a, a), a),
        lambda a: Deferred(lambda: a * a),
        lambda a: Deferred(functools.partial(operator.mul, a, a)),
    ],
)
def test_an_array_of_nothing_but_inputs_and_functions_has_its_work_still_to_do(lazy):
    def body(device, beside):
        a = device.asarray(np.arange(3.0))
        return lambda: {"x": lazy(a), "y": a + 1 if beside else None}

    for beside in (False, True):
        with pytest.raises(
            GpuPerfError,
            match=f"result\\['x'\\] is of type {lazy(1.0 * np.ones(3)).__class__.__name__}, {LAZY}",
        ):
            prepared(simulated(), lambda device, beside=beside: body(device, beside))


@for_each(
    "make",
    [Compressed, Product, lambda a: np.ma.masked_array(a), lambda a: np.asarray(a)[::-1], lambda a: a[:0]],
)
def test_an_array_with_new_arrays_in_it_has_done_its_work(make):
    def body(device):
        a = device.asarray(np.arange(3.0))
        return lambda: make(a * 2)

    assert prepared(simulated(), body)
