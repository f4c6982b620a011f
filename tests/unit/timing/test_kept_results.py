"""Kept results: work of an earlier call is named or refused, honest work in one buffer is neither."""

import gc
from functools import cache, partial
from itertools import count
from time import sleep

import array_api_strict
import numpy as np
import pytest
from cases import for_each
from walks import bound, trial_of, walked

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.testing import StandIn
from pytest_gpuperf.timing import first_call, kept_results
from pytest_gpuperf.timing.inputs import Fingerprint
from pytest_gpuperf.timing.workload import Workload

SIZE = 10**5
# Seconds: less than it takes to write SIZE numbers, about as long (see `write_takes`), and far longer.
FAST, AS_LONG, SLOW = [1e-7], [1e-4], [10.0]
IMPOSSIBLE = [1e-9]  # with more bytes per second than any memory
SHORT = SamplingPlan(warmup_time=1e-3)

DEVICES = {
    "host": lambda: HostDevice("a processor"),
    "stand-in": lambda: StandIn("array_api_strict").gpu(""),
}


@pytest.fixture(params=DEVICES)
def device(request):
    return DEVICES[request.param]()


@pytest.fixture(autouse=True)
def _write_takes(monkeypatch):
    """Let the time to write a result be as expected, however busy the machine is; arrays are still made."""
    measure = kept_results._time_to_write
    expected = lambda arrays, device: 1e-4 if arrays and measure(arrays, device) else 0.0  # noqa: E731
    monkeypatch.setattr(kept_results, "_time_to_write", expected)


def found(device, body, samples, *, calls=3) -> Note | None:
    """Return what is found of a test that was called so often and took so long."""
    workload, first = first_call.first_call(lambda seen: partial(body, seen), device)
    returned = kept_results.remember(first, device)
    del first
    for _ in range(calls - 1):
        result = workload.call()
    is_same = kept_results.are_same(returned, kept_results.remember(result, device))
    return kept_results.look_for_kept(workload, result, samples, is_same=is_same)


def kept_in_a_closure(device):
    kept = []

    def call():
        if not kept:
            kept.append(device.xp.ones(SIZE) + 1)
        return kept[0]

    return call


def kept_by_a_global(device):
    table = {}

    @cache
    def compute(size):
        return device.xp.ones(size), [device.xp.zeros(size)]

    return lambda: {"both": compute(table.get("size", SIZE))}


@for_each("body", [kept_in_a_closure, kept_by_a_global])
def test_a_kept_result_is_refused_or_noted_by_the_time_that_it_takes_to_write_it(device, body):
    with pytest.raises(
        GpuPerfError, match=r"result on the [CG]PU was kept from an earlier call: .*time the comp"
    ):
        found(device, body, FAST)
    assert found(device, body, AS_LONG).code == "work_in_doubt"
    assert found(device, body, SLOW) is None


def test_a_kept_result_is_looked_at_and_neither_written_nor_called_for(device):
    kept, calls = device.asarray(np.arange(6.0)), count()
    workload = Workload(device=device, call=lambda: next(calls), scope="call")
    note = kept_results.look_for_kept(workload, kept, AS_LONG, is_same=True)
    assert note.code == "work_in_doubt"
    assert device.asnumpy(kept).tolist() == [0, 1, 2, 3, 4, 5]
    assert next(calls) == 0


def test_a_kept_number_of_numpy_is_a_note(device):
    assert found(device, lambda _: cache(lambda: np.float64(3)), FAST).code == "work_in_doubt"


def number_of_an_array(device, kept):
    a = device.asarray(np.ones(SIZE))
    total = cache(lambda: float(device.xp.sum(a)))
    return lambda: (total if kept else total.__wrapped__)()


@pytest.mark.parametrize(
    ("expected", "samples", "kept"),
    [("work_in_doubt", IMPOSSIBLE, True), (None, FAST, True), (None, IMPOSSIBLE, False)],
)
def test_a_kept_number_of_python_is_a_note_where_its_input_cannot_be_read_so_fast(
    device, expected, samples, kept
):
    noted = found(device, partial(number_of_an_array, kept=kept), samples)
    assert expected == (noted and noted.code)


def test_a_result_that_cannot_be_read_is_refused_only_where_no_memory_is_so_fast(monkeypatch):
    device = HostDevice("a processor")
    kept = kept_in_a_closure(device)

    def refuse(array):
        raise TypeError(f"{type(array).__name__} is sparse")

    def body(seen):
        return kept

    workload, result = first_call.first_call(body, device)
    monkeypatch.setattr(HostDevice, "asnumpy", lambda self, array: refuse(array))
    note = kept_results.look_for_kept(workload, result, FAST, is_same=True)
    assert note.code == "work_in_doubt"
    with pytest.raises(GpuPerfError, match="was kept"):
        kept_results.look_for_kept(workload, result, IMPOSSIBLE, is_same=True)


def in_place(device):
    state = {}

    def call():
        a = state.setdefault("a", device.xp.zeros(SIZE))
        a[...] = 0.0
        a += 1.0
        return a

    return call


def a_view_of_a_buffer(device):
    state = {}

    def call():
        a = state.setdefault("a", device.xp.zeros(2 * SIZE))
        a[:] = 3.0
        return a[:SIZE]

    return call


def one_element_of_a_buffer(device):
    state = {}

    def call():
        a = state.setdefault("a", device.xp.zeros(SIZE))
        a[0] = 7.0
        return a

    return call


def in_the_input(device):
    a = device.asarray(np.ones(SIZE))

    def call():
        a[...] = 1.0
        return a

    return call


def flags_in_a_buffer(device):
    flags = Buffers(device.xp.zeros(SIZE) > 0)

    def call():
        flags.all[0][:9] = True
        return flags.all[0]

    return call


class Buffers:
    def __init__(self, *arrays):
        self.all = list(arrays)


def buffers_in_turn(device, number):
    ring = Buffers(*(device.xp.zeros(SIZE) for _ in range(number)))
    turns = count()

    def call():
        out = ring.all[next(turns) % number]
        out[...] = 3.0
        return out

    return call


@for_each("body", [in_place, one_element_of_a_buffer, in_the_input, flags_in_a_buffer])
def test_work_that_writes_the_buffer_that_it_returns_is_a_note_at_most(device, body):
    expected = None if body is in_the_input else "work_in_doubt"
    noted = found(device, body, AS_LONG)
    assert expected == (noted and noted.code)
    assert found(device, body, SLOW) is None


@for_each("number", [1, 3])
def test_buffers_that_are_filled_in_turn_are_a_note_at_most(device, number):
    body = partial(buffers_in_turn, number=number)
    assert found(device, body, AS_LONG, calls=number + 1).code == "work_in_doubt"
    assert found(device, body, SLOW, calls=number + 1) is None


def test_a_view_of_a_buffer_is_a_note_at_most():
    assert found(HostDevice("a processor"), a_view_of_a_buffer, AS_LONG).code == "work_in_doubt"
    assert found(HostDevice("a processor"), a_view_of_a_buffer, SLOW) is None


def test_of_a_buffer_that_a_call_writes_in_part_only_that_part_may_be_returned(device):
    with pytest.raises(GpuPerfError, match="return only what it writes"):
        found(device, one_element_of_a_buffer, FAST)


def test_a_new_result_at_an_address_that_was_used_before_is_not_kept(device):
    assert found(device, lambda seen: lambda: seen.xp.ones(SIZE), SLOW) is None


class Immutable(StandIn):
    """A library whose arrays never change."""

    def gpu(self, selector):
        device = super().gpu(selector)
        device.is_immutable = lambda array: True
        return device


@for_each(
    ("device", "returned", "samples"),
    [
        (HostDevice("a processor"), lambda a: a.reshape(300, 300).T, FAST),
        (HostDevice("a processor"), lambda a: a.reshape(300, 300).T, IMPOSSIBLE),
        (Immutable("array_api_strict").gpu(""), lambda a: a, FAST),  # it cannot be written
    ],
)
def test_an_input_and_a_view_of_it_are_not_kept(device, returned, samples):
    def body(seen):
        a = seen.asarray(np.ones(90_000))
        return lambda: returned(a)

    assert found(device, body, samples) is None


def test_zeros_that_are_not_written_yet_are_a_note_at_most(device):
    noted = found(device, lambda seen: lambda: seen.xp.zeros(SIZE), IMPOSSIBLE)
    assert noted.code == "work_in_doubt"
    assert found(device, lambda seen: lambda: seen.xp.zeros(SIZE), FAST) is None


@for_each("result", [None, 3, True, 1.0, np.nan, np.True_, np.ma.masked, "text", ["text", 2]])
def test_what_python_keeps_itself_is_not_kept(device, result):
    assert found(device, lambda seen: lambda: result, FAST) is None


def test_a_new_part_makes_a_result_new(device):
    kept = cache(lambda: device.xp.ones(3))
    numbers = count()
    assert found(device, lambda seen: lambda: (kept(), seen.xp.ones(3), next(numbers)), FAST) is None


def test_an_array_that_allows_no_reference_to_it_is_not_known():
    value = array_api_strict.ones(3)
    host = HostDevice("a processor")
    assert kept_results.remember(np.ones(3), host) != ()
    assert kept_results.remember(np.float64(1), host) != ()
    assert kept_results.remember([1, value], host) == ()
    assert not kept_results.are_same((), ())


@for_each("samples", [FAST, SLOW])
def test_an_array_that_cannot_be_written_and_is_returned_again_is_an_error(samples):
    device = Immutable("array_api_strict").gpu("")
    with pytest.raises(GpuPerfError, match="was kept from an earlier call"):
        found(device, kept_in_a_closure, samples)
    assert found(device, lambda seen: lambda: seen.xp.ones(SIZE) + 1, samples) is None


class Unreferenced:
    """An array of a library that allows no reference to it and whose views name no base, like dpnp's."""

    __slots__ = ("values",)
    dtype = np.dtype(float)

    def __init__(self, values):
        self.values = values

    __sycl_usm_array_interface__ = property(
        lambda self: {"data": (self.values.base.ctypes.data, False), "offset": 0}
    )


def test_views_of_memory_that_was_kept_are_the_same_by_their_place():
    memory, host = np.ones(6), HostDevice("a processor")
    host.holds = lambda value: isinstance(value, Unreferenced)
    one, other = Unreferenced(memory[:3]), Unreferenced(memory[:3])
    assert kept_results.remember(one, host) == ()
    before = kept_results.remember(one, host, keep=True)
    assert kept_results.are_same(before, kept_results.remember(other, host, keep=True))
    fresh = kept_results.remember(Unreferenced(np.ones(6)[:3]), host, keep=True)
    assert not kept_results.are_same(before, fresh)
    # A view of an input is not kept, though it names no base.
    read = Fingerprint(array=partial(Unreferenced, memory[:]), checksum=0)
    workload = Workload(device=host, call=list, scope="body", inputs=(read,))
    view = Unreferenced(memory[3:])
    assert kept_results.look_for_kept(workload, view, IMPOSSIBLE, is_same=True) is None


def test_rows_of_one_array_are_not_the_same():
    rows, host = np.ones((2, 3)), HostDevice("a processor")
    one, other = (kept_results.remember(row, host) for row in rows)
    assert not kept_results.are_same(one, other)
    assert kept_results.are_same(one, kept_results.remember(rows[0], host))


def test_what_is_remembered_keeps_no_array_alive():
    host = HostDevice("a processor")
    (array,) = kept_results.remember(np.ones(3), host)
    assert array.owner() is None
    assert not kept_results.are_same((array,), (array,))


def measured(body, demand):
    """Return the record of a test on NumPy and on a stand-in for a GPU, by the real clock."""
    return walked(body, *(make() for make in DEVICES.values()), demand, sampling=SHORT, max_time=0.2)


@for_each("demand", [Demand(), Demand(max=1), Demand(min=1)])
@for_each("kind", ["cpu", "gpu"])
def test_a_kept_result_is_an_error_on_either_side_of_any_demand(kind, demand):
    def body(device):
        def compute():
            return device.xp.ones(SIZE) + 1

        return cache(compute) if device.kind == kind else compute

    with pytest.raises(GpuPerfError, match=f"result on the {kind.upper()} was kept from an earlier call"):
        measured(body, demand)


@for_each(
    "works",
    [
        lambda calls, kept: next(calls) == 0,  # kept from the second call on
        lambda calls, kept: gc.isenabled() and kept.cache_info().misses,  # by timed calls alone
    ],
)
def test_a_result_that_only_later_calls_keep_is_an_error(works):
    def body(device):
        calls, kept = count(), cache(lambda: device.xp.ones(SIZE) + 1)
        return lambda: device.xp.ones(SIZE) + 1 if works(calls, kept) else kept()

    with pytest.raises(GpuPerfError, match="kept from an earlier call"):
        measured(body, Demand(max=1))


@for_each("kind", ["cpu", "gpu"])
@for_each("library", ["numpy", "array_api_strict"])
def test_a_kept_result_is_an_error_though_the_other_device_took_all_the_time(library, kind):
    def body(device):
        def compute():
            sleep(0 if device.kind == kind else 0.1)
            return device.xp.ones(SIZE) + 1

        return cache(compute) if device.kind == kind else compute

    options = RunOptions(sampling=SHORT, max_time=0.2)
    devices = HostDevice("a processor"), StandIn(library, module=library).gpu("")
    with pytest.raises(GpuPerfError, match=f"result on the {kind.upper()} was kept from an earlier call"):
        trial_of(Demand(), options).compare(bound(body), *devices)


def test_a_buffer_that_calls_fill_is_measured():
    assert measured(in_place, Demand(min=1e-6)).status in ("passed", "inconclusive"), (
        "the machine may be busy"
    )
