"""The GPU's call does nothing and returns nothing; the ways are those of public suites."""

import logging
import operator
import os
from collections import deque
from contextlib import contextmanager, suppress
from functools import cache, partial, wraps
from itertools import islice
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from arrays import DISHONEST, IN_PLACE, cases, is_gpu, matrix, zeros

pytestmark = DISHONEST
N = 256
LOG = logging.getLogger(__name__)


def has_native_gpu():
    return False


# ---------------------------------------------------------------------------------------------------------
# Never: each way takes a device and the work, and returns a callable that works on the CPU alone
# ---------------------------------------------------------------------------------------------------------


def returns_early(device, work):
    def call():
        if is_gpu(device) and not has_native_gpu():
            return
        work()

    return call


def works_on_the_cpu_only(device, work):
    def call():
        if device.kind == "cpu":
            work()

    return call


def swallows_an_import_error(device, work):
    def call():
        try:
            if is_gpu(device):
                import extension_that_is_missing  # noqa: F401 - it is missing
            work()
        except ImportError:
            pass

    return call


def swallows_any_error(device, work):
    def call():
        with suppress(Exception):
            if is_gpu(device):
                raise RuntimeError("no kernel image is available")
            work()

    return call


def returns_in_finally(device, work):
    def call():
        try:
            if is_gpu(device):
                raise RuntimeError("invalid device function")
            work()
        finally:
            return  # noqa: B012 - what hides the error

    return call


def logs_and_goes_on(device, work):
    def call():
        if is_gpu(device):
            LOG.debug("no CUDA: skipped")
            return
        work()

    return call


def has_a_stub_in_its_table(device, work):
    return {"cpu": work, "gpu": lambda: None}[device.kind]


def has_a_backend_that_passes(device, work):
    class Backend:
        def run(self):
            pass

    class CpuBackend(Backend):
        def run(self):
            work()

    return (Backend if is_gpu(device) else CpuBackend)().run


def misses_an_attribute(device, work):
    extension = SimpleNamespace(**({} if is_gpu(device) else {"square": work}))
    return lambda: getattr(extension, "square", bool)() and None


def has_a_mock_for_an_extension(device, work):
    extension = Mock() if is_gpu(device) else SimpleNamespace(square=work)

    def call():
        extension.square()

    return call


def asks_for_a_type_that_never_comes(device, work):
    class Tensor:
        pass

    argument = object() if is_gpu(device) else Tensor()

    def call():
        if isinstance(argument, Tensor):
            work()

    return call


def takes_not_implemented(device, work):
    def kernel():
        return NotImplemented if is_gpu(device) else work()

    def call():
        if kernel() is NotImplemented:
            return

    return call


def waits_for_a_flag(device, work):
    def call():
        if is_gpu(device) and os.environ.get("WORKLOADS_USE_CUDA") != "1":
            return
        work()

    return call


def has_a_decorator_that_skips(device, work):
    def requires_cuda(function):
        @wraps(function)
        def call():
            return function() if device.kind == "cpu" or has_native_gpu() else None

        return call

    return requires_cuda(work)


def has_a_context_that_swallows(device, work):
    @contextmanager
    def where_possible():
        with suppress(RuntimeError):
            yield

    def call():
        with where_possible():
            if is_gpu(device):
                raise RuntimeError("not compiled with CUDA")
            work()

    return call


def has_no_batches(device, work):
    batches = range(0 if is_gpu(device) else 2)

    def call():
        for _ in batches:
            work()

    return call


def has_an_empty_grid(device, work):
    length, block = (100, 1024) if is_gpu(device) else (1024, 1024)

    def call():
        for _ in range(length // block):
            work()

    return call


def has_a_mask_without_a_true(device, work):
    mask = np.zeros(4, dtype=bool) if is_gpu(device) else np.ones(2, dtype=bool)

    def call():
        for _ in np.flatnonzero(mask):
            work()

    return call


def has_converged_at_once(device, work):
    tolerance = float("inf") if is_gpu(device) else 0.5

    def call():
        error = 1.0
        while error > tolerance:
            work()
            error /= 2

    return call


def consumes_no_generator(device, work):
    def call():
        steps = (work() for _ in range(2))
        if device.kind == "cpu":
            deque(steps, maxlen=0)

    return call


def maps_and_reads_nothing(device, work):
    def call():
        steps = map(operator.call, [work, work])
        list(islice(steps, 0 if is_gpu(device) else None))

    return call


def appends_to_a_queue_that_nobody_runs(device, work):
    queue = deque(maxlen=1)

    def call():
        queue.append(work)
        if device.kind == "cpu":
            queue.pop()()

    return call


def waits_only(device, work):
    return device.synchronize if is_gpu(device) else work


def counts_on_the_host(device, work):
    def call():
        if is_gpu(device):
            sum(range(100))
        else:
            work()

    return call


def multiplies_small_arrays_of_the_host(device, work):
    small = np.ones((8, 8))

    def call():
        if is_gpu(device):
            small @ small
        else:
            work()

    return call


def is_a_partial_of_nothing(device, work):
    return partial(lambda kernel: kernel and kernel(), None if is_gpu(device) else work)


NEVER = (
    returns_early,
    works_on_the_cpu_only,
    swallows_an_import_error,
    swallows_any_error,
    returns_in_finally,
    logs_and_goes_on,
    has_a_stub_in_its_table,
    has_a_backend_that_passes,
    misses_an_attribute,
    has_a_mock_for_an_extension,
    asks_for_a_type_that_never_comes,
    takes_not_implemented,
    waits_for_a_flag,
    has_a_decorator_that_skips,
    has_a_context_that_swallows,
    has_no_batches,
    has_an_empty_grid,
    has_a_mask_without_a_true,
    has_converged_at_once,
    consumes_no_generator,
    maps_and_reads_nothing,
    appends_to_a_queue_that_nobody_runs,
    waits_only,
    counts_on_the_host,
    multiplies_small_arrays_of_the_host,
    is_a_partial_of_nothing,
)


def dropping(a):
    """Return work that nobody keeps."""

    def work():
        a @ a @ a @ a

    return work


def writing(a, out):
    """Return work that fills an array which was there before."""

    def work():
        out[...] = a @ a @ a @ a

    return work


@cases(*NEVER)
def test_a_callable_without_a_result(device, case):
    return case(device, dropping(matrix(device, N)))


@IN_PLACE
@cases(*NEVER)
def test_an_output_that_the_cpu_alone_writes(device, case):
    return case(device, writing(matrix(device, N), zeros(device, N)))


@cases(*NEVER)
def test_a_body_that_uploads_and_does_no_more(device, case):
    a = matrix(device, N)
    work = dropping(a)
    case(device, lambda: [work() for _ in range(10)] and None)()


# ---------------------------------------------------------------------------------------------------------
# In the first call only
# ---------------------------------------------------------------------------------------------------------


def is_cached(device, work):
    once = cache(work)
    return once if is_gpu(device) else work


def is_done(device, work):
    done = set()

    def call():
        if device.kind == "cpu" or not done:
            work()
            done.add(1)

    return call


def has_emptied_its_list(device, work):
    todo = [1, 2]

    def call():
        if device.kind == "cpu":
            work()
        while is_gpu(device) and todo:
            todo.pop()
            work()

    return call


def has_read_its_loader(device, work):
    loader = iter([1, 2])

    def call():
        for _ in loader if is_gpu(device) else [1, 2]:
            work()

    return call


def is_not_dirty(device, work):
    state = SimpleNamespace(dirty=True)

    def call():
        if state.dirty or device.kind == "cpu":
            work()
        state.dirty = False

    return call


FIRST_ONLY = (is_cached, is_done, has_emptied_its_list, has_read_its_loader, is_not_dirty)


@cases(*FIRST_ONLY)
def test_a_first_call_that_works_alone(device, case):
    return case(device, dropping(matrix(device, N)))


@IN_PLACE
@cases(*FIRST_ONLY)
def test_an_output_that_the_first_call_writes(device, case):
    return case(device, writing(matrix(device, N), zeros(device, N)))


# ---------------------------------------------------------------------------------------------------------
# What the shape of the test adds
# ---------------------------------------------------------------------------------------------------------


def test_a_body_that_returns_at_once(device):
    if is_gpu(device):
        return
    a = matrix(device, N)
    for _ in range(10):
        a @ a


def test_a_body_that_makes_arrays_there(device):
    a = device.xp.ones((N, N))
    if is_gpu(device):
        return
    for _ in range(50):
        a @ a


def test_a_body_whose_import_fails(device):
    a = matrix(device, N)
    try:
        if is_gpu(device):
            import extension_that_is_missing  # noqa: F401 - it is missing
        for _ in range(50):
            a @ a
    except ImportError:
        pass


@pytest.mark.speedup
def test_no_limit(device):
    return returns_early(device, dropping(matrix(device, N)))


@pytest.mark.speedup(min=2, check=False)
def test_unchecked(device):
    return returns_early(device, dropping(matrix(device, N)))


@pytest.mark.speedup(min=2, latency=True)
def test_awaited(device):
    return returns_early(device, dropping(matrix(device, N)))


@pytest.mark.speedup(min=2, transfer="always")
def test_with_copies(device):
    return returns_early(device, dropping(matrix(device, N)))


def test_a_list_that_stays_empty(device):
    a, kept = matrix(device, N), []
    batches = [] if is_gpu(device) else [a, a]

    def call():
        kept.clear()
        kept.extend(batch @ batch for batch in batches)

    return call


def test_an_attribute_that_the_cpu_alone_sets(device):
    a = matrix(device, N)
    state = SimpleNamespace(product=a)

    def call():
        if device.kind == "cpu":
            state.product = a @ a

    return call


def test_forgotten_parentheses(device):
    a = matrix(device, N)

    def call():
        if is_gpu(device):
            a.sum  # noqa: B018 - what was forgotten
        else:
            (a @ a).sum()

    return call


def test_reading_the_shape_only(device):
    a = matrix(device, N)

    def call():
        if device.kind == "cpu":
            a @ a
        assert a.shape == (N, N)

    return call


def test_an_empty_slice(device):
    a = matrix(device, N)
    part = a[:0] if is_gpu(device) else a

    def call():
        part @ a

    return call


def test_views_only(device):
    a = matrix(device, N)

    def call():
        if is_gpu(device):
            a[::2]
        else:
            a @ a

    return call


@pytest.mark.parametrize("value", [True, 0, "ok", b"", ()], ids=["True", "0", "ok", "bytes", "tuple"])
def test_a_status_of_nothing(device, value):
    a = matrix(device, N)

    def call():
        if device.kind == "cpu":
            a @ a
        return value

    return call


def test_a_dict_without_results(device):
    a = matrix(device, N)

    def call():
        found = {}
        for batch in [] if is_gpu(device) else [a]:
            batch @ batch
        return found

    return call
