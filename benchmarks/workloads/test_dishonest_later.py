"""The GPU's call leaves its work for later, or to somebody else, and nobody waits for it."""

import asyncio
import multiprocessing
import operator
import threading
from collections import UserDict
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from multiprocessing.pool import ThreadPool

import pytest
from arrays import DISHONEST, cases, is_gpu, matrix

pytestmark = DISHONEST
N = 256
UNCHECKED = pytest.mark.speedup(min=2, check=False)


@pytest.fixture
def pool():
    """Threads that leave undone, at the test's end, what thousands of calls have asked of them."""
    pool = ThreadPoolExecutor(1)
    yield pool
    pool.shutdown(cancel_futures=True)


# ---------------------------------------------------------------------------------------------------------
# A handle of it is the result
# ---------------------------------------------------------------------------------------------------------


def submitted(pool, work):
    return pool.submit(work)


def in_a_list(pool, work):
    return [pool.submit(work)]


def in_a_dict(pool, work):
    return {"product": pool.submit(work)}


def in_an_object(pool, work):
    return Handle(pool.submit(work))


class Handle:
    """A handle of an own kind, as schedulers have them."""

    def __init__(self, future):
        self.future = future

    def result(self):
        """Wait for it."""
        return self.future.result()


HANDLES = (submitted, in_a_list, in_a_dict, in_an_object)


@cases(*HANDLES)
def test_a_future_on_the_gpu(device, pool, case):
    a = matrix(device, N)
    return partial(case, pool, lambda: a @ a) if is_gpu(device) else lambda: a @ a


@UNCHECKED
@cases(*HANDLES)
def test_a_future_on_the_gpu_unchecked(device, pool, case):
    a = matrix(device, N)
    return partial(case, pool, lambda: a @ a) if is_gpu(device) else lambda: a @ a


def of_either(pool, work, *, device):
    """Return a future on both devices: on the CPU one whose work is done."""
    if is_gpu(device):
        return pool.submit(work)
    future = Future()
    future.set_result(work())
    return future


@UNCHECKED
def test_futures_on_both_sides(device, pool):
    a = matrix(device, N)
    return partial(of_either, pool, lambda: a @ a, device=device)


@pytest.mark.speedup
def test_futures_on_both_sides_without_a_limit(device, pool):
    a = matrix(device, N)
    return partial(of_either, pool, lambda: a @ a, device=device)


@UNCHECKED
def test_a_result_of_multiprocessing(device):
    a = matrix(device, N)
    with ThreadPool(1) as pool:
        pool.apply(bool)
    stopped = threading.Event()

    def work():
        return None if stopped.is_set() else a @ a

    def call():
        handle = pool.apply_async(work)
        if device.kind == "cpu":
            handle.wait()
        return handle

    pool = ThreadPool(1)
    FINALIZERS.append((stopped, pool))
    return call


@UNCHECKED
def test_a_future_of_asyncio(device):
    a, loop = matrix(device, N), asyncio.new_event_loop()
    FINALIZERS.append((None, loop))

    def call():
        future = loop.create_future()
        if device.kind == "cpu":
            future.set_result(a @ a)
        return future

    return call


@UNCHECKED
def test_a_future_that_nobody_fulfils(device):
    a = matrix(device, N)

    def call():
        future = Future()
        if device.kind == "cpu":
            future.set_result(a @ a)
        return future

    return call


@UNCHECKED
def test_a_thread_that_was_started(device):
    a = matrix(device, N)

    def call():
        thread = threading.Thread(target=operator.matmul, args=(a, a))
        thread.start()
        if device.kind == "cpu":
            thread.join()
        return thread

    return call


FINALIZERS = []


@pytest.fixture(autouse=True)
def _ended():
    """End what tests have opened once their calls are over, and not in their bodies."""
    yield
    while FINALIZERS:
        stopped, opened = FINALIZERS.pop()
        if stopped is not None:
            stopped.set()
        opened.close()


# ---------------------------------------------------------------------------------------------------------
# What would do it is the result
# ---------------------------------------------------------------------------------------------------------


class Deferred:
    """An object that computes where its values are asked for."""

    def __init__(self, work):
        self.work = work


class DeferredArray(Deferred):
    """One that looks like an array."""

    shape = (N, N)
    dtype = "float64"

    def __array__(self, dtype=None, copy=None):
        return self.work()


class DeferredDict(UserDict):
    """A dict that computes its values."""

    def __init__(self, work):
        super().__init__(product=work)

    def __getitem__(self, key):
        return self.data[key]()


def a_function(work):
    return lambda: work()


def a_partial(work):
    return partial(work)


def a_generator(work):
    return (work() for _ in range(1))


def a_map(work):
    return map(operator.call, [work])


def a_generator_in_a_dict(work):
    return {"products": (work() for _ in range(1))}


def a_list_of_functions(work):
    return [work, work]


LAZY = (
    a_function,
    a_partial,
    a_generator,
    a_map,
    a_generator_in_a_dict,
    a_list_of_functions,
    Deferred,
    DeferredArray,
    DeferredDict,
)


@cases(*LAZY)
def test_a_lazy_result(device, case):
    a = matrix(device, N)
    return (lambda: case(lambda: a @ a)) if is_gpu(device) else lambda: a @ a


@UNCHECKED
@cases(*LAZY)
def test_a_lazy_result_unchecked(device, case):
    a = matrix(device, N)
    return (lambda: case(lambda: a @ a)) if is_gpu(device) else lambda: a @ a


@UNCHECKED
def test_a_coroutine(device):
    a = matrix(device, N)

    async def product():
        return a @ a

    def call():
        if device.kind == "cpu":
            return a @ a
        coroutine = product()
        coroutine.close()  # else Python warns of each one
        return coroutine

    return call


# ---------------------------------------------------------------------------------------------------------
# Somebody else does it
# ---------------------------------------------------------------------------------------------------------


def test_a_thread_that_nobody_waits_for(device):
    a = matrix(device, N)
    asked, stopped = threading.Event(), threading.Event()

    def serve():
        while not stopped.is_set():
            if asked.wait(0.01):
                asked.clear()
                a @ a

    def call():
        if is_gpu(device):
            asked.set()
        else:
            a @ a

    if is_gpu(device):
        threading.Thread(target=serve, daemon=True).start()
        FINALIZERS.append((stopped, open("/dev/null")))  # noqa: PTH123, SIM115 - something to close
    return call


def serve_in_a_process(asked, ended):
    while not ended.is_set():
        if asked.wait(0.01):
            asked.clear()
            sum(range(10_000))


def test_a_process_that_nobody_waits_for(device):
    a, context = matrix(device, N), multiprocessing.get_context("spawn")
    asked, ended = context.Event(), context.Event()

    def call():
        if is_gpu(device):
            asked.set()
        else:
            a @ a @ a @ a

    if is_gpu(device):
        process = context.Process(target=serve_in_a_process, args=(asked, ended), daemon=True)
        process.start()
        FINALIZERS.append((ended, Joined(process)))
    return call


class Joined:
    """A process whose closing is to wait for its end."""

    def __init__(self, process):
        self.process = process

    def close(self):
        """Wait for it."""
        self.process.join(10)


def test_a_buffer_that_a_thread_fills_later(device, pool):
    a = matrix(device, N)
    kept = [a @ a @ a @ a]

    def refresh():
        kept[0] = a @ a @ a @ a

    def call():
        if device.kind == "cpu":
            return a @ a @ a @ a
        if not running or running[0].done():
            running[:] = [pool.submit(refresh)]
        return kept[0] + 0.0

    running = []
    return call
