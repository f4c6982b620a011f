"""Kept results: work of an earlier call is named or refused, honest work in one buffer is neither."""

import gc
from functools import cache, partial
from itertools import count

import array_api_strict
import numpy as np
import pytest
from cases import for_each
from walks import walked

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.simulated import Clock, SimulatedArray, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.testing import StandIn
from pytest_gpuperf.timing import first_call, kept_results
from pytest_gpuperf.timing.inputs import Fingerprint
from pytest_gpuperf.timing.workload import Workload

SIZE = 10**4
WRITE = 1e-4  # seconds to write a result, by the clocks of the devices here
SECONDS = {"impossible": 1e-9, "fast": 1e-7, "as long": WRITE, "slow": 1e5 * WRITE}  # of a call


class Immutable(StandIn):
    """A library whose arrays never change."""

    def gpu(self, selector):
        device = super().gpu(selector)
        device.is_immutable = lambda array: True
        return device


def ticking(device):
    """Return a device by whose clock a write takes as long as expected, however busy the machine is."""
    device.clock = count(0.0, 2 * WRITE).__next__
    return device


def host():
    return ticking(HostDevice("a processor"))


def stand_in():
    return ticking(StandIn("array_api_strict").gpu(""))


def immutable():
    return ticking(Immutable("array_api_strict").gpu(""))


def found(device, body, seconds) -> Note | None:
    """Return what is found of a test that was called four times and took so long."""
    workload, first = first_call.first_call(lambda seen: partial(body, seen), device)
    returned = kept_results.remember(first, device)
    del first
    for _ in range(3):
        result = workload.call()
    is_same = kept_results.are_same(returned, kept_results.remember(result, device))
    return kept_results.look_for_kept(workload, result, [seconds], is_same=is_same)


def outcomes(device, body) -> str:
    """Return whether a test is refused or noted, for each of the times of a call."""
    said = []
    for seconds in SECONDS.values():
        try:
            note = found(device(), body, seconds)
        except GpuPerfError:
            said.append("refused")
        else:
            said.append("noted" if note and note.code == "work_in_doubt" else "-")
    return " ".join(said)


def kept(device):
    return cache(lambda: device.xp.ones(SIZE) + 1)


def kept_in_containers(device):
    @cache
    def compute():
        return device.xp.ones(SIZE), [device.xp.zeros(SIZE)]

    return lambda: {"both": compute()}


def number_of_an_array(device, *, is_kept):
    a = device.asarray(np.ones(SIZE))
    total = cache(lambda: float(device.xp.sum(a)))
    return total if is_kept else total.__wrapped__


def filled(device, *, number=1):
    """Return one of so many buffers in turn, as each call fills it."""
    buffers, turns = [], count()

    def call():
        if len(buffers) < number:
            buffers.append(device.xp.zeros(SIZE))
        out = buffers[next(turns) % number]
        out[...] = 3.0
        return out

    return call


def view_of_a_buffer(device):
    call = filled(device)
    return lambda: call()[: SIZE // 2]


def flags_in_a_buffer(device):
    flags = []

    def call():
        flags[:] = flags or [device.xp.zeros(SIZE) > 0]
        flags[0][:9] = True
        return flags[0]

    return call


def in_the_input(device):
    a = device.asarray(np.ones(SIZE))

    def call():
        a[...] = 1.0
        return a

    return call


def view_of_the_input(device):
    a = device.asarray(np.ones(90_000))
    return lambda: a.reshape(300, 300).T


def new_beside_kept(device):
    compute, numbers = cache(lambda: device.xp.ones(3)), count()
    return lambda: (compute(), device.xp.ones(3), next(numbers))


BODIES = {
    "kept": ("refused refused noted -", kept),
    "kept in containers": ("refused refused noted -", kept_in_containers),
    "kept number of NumPy": ("noted noted noted noted", lambda device: cache(lambda: np.float64(3))),
    "kept number of Python": ("noted - - -", partial(number_of_an_array, is_kept=True)),
    "number of Python": ("- - - -", partial(number_of_an_array, is_kept=False)),
    "buffer": ("refused refused noted -", filled),
    "buffers in turn": ("refused refused noted -", partial(filled, number=3)),
    "flags in a buffer": ("refused refused noted -", flags_in_a_buffer),
    "in the input": ("- - - -", in_the_input),
    "new zeros": ("noted - - -", lambda device: lambda: device.xp.zeros(SIZE)),  # not written yet, perhaps
    "new": ("noted - - -", lambda device: lambda: device.xp.ones(SIZE) + 1),
    "new and kept": ("- - - -", new_beside_kept),
}


@pytest.mark.parametrize("name", BODIES)
def test_what_a_call_returns_is_refused_or_noted_by_the_time_that_it_takes_to_write_it(name):
    expected, body = BODIES[name]
    assert [expected] * 2 == [outcomes(device, body) for device in (host, stand_in)]


@for_each(
    ("expected", "device", "body"),
    [
        ("refused refused noted -", host, view_of_a_buffer),
        ("- - - -", host, view_of_the_input),
        # What no call can write again
        ("refused refused refused refused", immutable, kept),
        ("- - - -", immutable, in_the_input),
        ("noted - - -", immutable, lambda device: lambda: device.xp.ones(SIZE) + 1),
    ],
)
def test_views_and_arrays_that_never_change_are_known(expected, device, body):
    assert expected == outcomes(device, body)


@for_each("result", [None, 3, True, 1.0, np.nan, np.True_, np.ma.masked, "text", ["text", 2]])
def test_what_python_keeps_itself_is_not_kept(result):
    assert found(host(), lambda seen: lambda: result, SECONDS["fast"]) is None


def look(device, result, seconds, call=list):
    """Return what is found of a call that has returned the very result of the one before."""
    workload = Workload(device=device, call=call, scope="call")
    return kept_results.look_for_kept(workload, result, [seconds], is_same=True)


@for_each("device", [host, stand_in])
def test_a_kept_result_is_looked_at_and_neither_written_nor_called_for(device):
    on, calls = device(), count()
    result = on.asarray(np.arange(6.0))
    assert look(on, result, WRITE, lambda: next(calls)).code == "work_in_doubt"
    assert on.asnumpy(result).tolist() == [0, 1, 2, 3, 4, 5]
    assert next(calls) == 0


def test_a_result_that_cannot_be_read_is_refused_only_where_no_memory_is_so_fast():
    device = host()
    device.asnumpy = None  # raises when it is called
    assert look(device, np.ones(SIZE), SECONDS["fast"]).code == "work_in_doubt"
    with pytest.raises(GpuPerfError, match="was kept"):
        look(device, np.ones(SIZE), SECONDS["impossible"])


def test_an_array_that_allows_no_reference_to_it_is_not_known():
    assert kept_results.remember(np.ones(3), host()) != ()
    assert kept_results.remember(np.float64(1), host()) != ()
    assert kept_results.remember([1, array_api_strict.ones(3)], host()) == ()
    assert not kept_results.are_same((), ())


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
    memory, device = np.ones(6), host()
    device.holds = lambda value: isinstance(value, Unreferenced)
    one, other = Unreferenced(memory[:3]), Unreferenced(memory[:3])
    assert kept_results.remember(one, device) == ()
    before = kept_results.remember(one, device, keep=True)
    assert kept_results.are_same(before, kept_results.remember(other, device, keep=True))
    fresh = kept_results.remember(Unreferenced(np.ones(6)[:3]), device, keep=True)
    assert not kept_results.are_same(before, fresh)
    # A view of an input is not kept, though it names no base.
    read = Fingerprint(array=partial(Unreferenced, memory[:]), checksum=0)
    workload = Workload(device=device, call=list, scope="body", inputs=(read,))
    view = Unreferenced(memory[3:])
    assert kept_results.look_for_kept(workload, view, [1e-9], is_same=True) is None


def test_rows_of_one_array_are_not_the_same():
    rows, device = np.ones((2, 3)), host()
    one, other = (kept_results.remember(row, device) for row in rows)
    assert not kept_results.are_same(one, other)
    assert kept_results.are_same(one, kept_results.remember(rows[0], device))


def test_what_is_remembered_keeps_no_array_alive():
    (array,) = kept_results.remember(np.ones(3), host())
    assert array.owner() is None
    assert not kept_results.are_same((array,), (array,))


class Written(SimulatedArray):
    """An array that takes a millisecond to write."""

    def __setitem__(self, place, values):
        super().__setitem__(place, values)
        self.home.launch(1e-3)


class Writing(SimulatedDevice):
    def asarray(self, host):
        return super().asarray(host).view(Written)


def measured(body, demand, max_time=0.2):
    """Return the record of a test on simulated devices, where all but a write takes the time of launches."""
    clock, timing = Clock(), Timing(kernel=0.0)
    devices = (Writing(kind, clock=clock, timing=timing) for kind in ("cpu", "gpu"))
    return walked(body, *devices, demand, max_time=max_time)


@for_each(
    ("demand", "others"),  # seconds of a call on the other device, which may take all the time
    [(Demand(), 0.1), (Demand(max=1), 50e-6), (Demand(min=1), 50e-6)],
)
@for_each("kind", ["cpu", "gpu"])
def test_a_kept_result_is_an_error_on_either_side_of_any_demand(kind, others, demand):
    def body(device):
        compute = cache(lambda: device.xp.ones(3) + 1)

        def call():
            device.launch(50e-6 if device.kind == kind else others)
            return compute() if device.kind == kind else device.xp.ones(3) + 1

        return call

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
        calls, kept = count(), cache(lambda: device.xp.ones(3) + 1)

        def call():
            device.launch(50e-6)
            return device.xp.ones(3) + 1 if works(calls, kept) else kept()

        return call

    with pytest.raises(GpuPerfError, match="kept from an earlier call"):
        measured(body, Demand(max=1))


def test_a_buffer_that_calls_fill_is_measured():
    def body(device):
        fill = filled(device)
        return lambda: (device.launch(1e-3 if device.kind == "gpu" else 5e-3), fill())[1]

    record = measured(body, Demand(min=1), max_time=1.0)
    assert ("passed", {"work_in_doubt"}) == (record.status, {note.code for note in record.notes})
