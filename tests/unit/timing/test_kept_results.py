"""Kept results: work of an earlier call is named or refused, honest work in one buffer is neither."""

import gc
import sys
from collections import Counter
from functools import cache, partial
from itertools import chain, count, cycle, repeat
from math import inf
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from cases import for_each
from factories import NOUNS
from walks import bound, system, trial_of, walked

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.simulated import Clock, SimulatedArray, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.testing import StandIn
from pytest_gpuperf.work import any_array
from pytest_gpuperf.work.returned import are_same, remember
from pytest_gpuperf.work.values import values_of

SIZE = 10**4
WRITE = 1e-3  # seconds to write a result
SECONDS = {"impossible": 1e-9, "fast": 1e-7, "as long": WRITE, "slow": 1e4 * WRITE}  # of a call


class Written(SimulatedArray):
    """An array that takes time to write."""

    def __setitem__(self, place, values):
        super().__setitem__(place, values)
        self.home.launch(next(self.home.writes))


class Writing(SimulatedDevice):
    """A device on which all but a write takes the time of launches; `writes` are the seconds of each."""

    def __init__(self, kind, clock, writes=None):
        super().__init__(kind, clock=clock, timing=Timing(kernel=0.0, bandwidth=inf))
        self.writes = writes or repeat(WRITE)

    def asarray(self, host):
        return super().asarray(host).view(Written)


def simulated():
    return Writing("cpu", Clock())


def immutable():
    """Return a device whose arrays never change."""
    device = simulated()
    device.is_immutable = lambda array: True
    return device


def on_clock(device):
    """Return a device by whose clock a write takes no time."""
    device.kind, device.clock = "cpu", Clock()  # of a GPU many more calls are made
    device.launch = device.clock.advance
    return device


def host():
    return on_clock(HostDevice("a processor"))


def stand_in():
    """Return a device whose arrays allow no weak references."""
    return on_clock(StandIn("array_api_strict").gpu(""))


class Unreferenced:
    """An array of a library that allows no reference to it and whose views name no base, like dpnp's."""

    __slots__ = ("values",)
    dtype = np.dtype(float)
    shape = (SIZE,)

    def __init__(self, values):
        self.values = values

    def __getitem__(self, place):
        return Unreferenced(self.values[place])

    __sycl_usm_array_interface__ = property(
        lambda self: {"data": (self.values.base.ctypes.data, False), "offset": 0}
    )


def unreferenced():
    device = host()
    device.holds = lambda value: isinstance(value, Unreferenced)
    device.asnumpy = lambda array: array.values.copy()
    device.asarray = lambda host: Unreferenced(np.array(host)[:])
    return device


def found(body, seconds, device) -> str:
    """Return whether a test whose calls take so long is refused, noted, or neither."""

    def timed(device):
        call = body(device)
        return lambda: (device.launch(seconds), call())[1]

    return found_in(timed, seconds, device)


def found_in(timed, seconds, device):
    """Return the same of a test whose calls take that time by themselves."""
    plan = SamplingPlan(block_time=4 * seconds, warmup_time=20 * seconds, may_restart=False)
    trial = trial_of(Demand(check=False), RunOptions(max_time=1e6, sampling=plan))
    try:
        trial.time_alone(bound(timed), device, seconds=0.0)
    except GpuPerfError as error:
        is_kept = f"the result on the {device.info.noun} was kept from an earlier call" in str(error)
        return "refused" if is_kept else str(error)
    return "noted" if "work_in_doubt" in [note.code for note in trial.notes] else "-"


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


def filled(device):
    buffers = []

    def call():
        buffers[:] = buffers or [device.xp.zeros(SIZE)]
        buffers[0][...] = 3.0
        return buffers[0]

    return call


def kept_where_it_was(device):
    """Return a call that computes once, into an array which it can reach."""
    kept = []

    def call():
        kept[:] = kept or [device.xp.ones(SIZE) + 1]
        return kept[0]

    return call


class Holding:
    """A call that returns an array of its own, which the first so many calls fill."""

    def __init__(self, out, fills=0):
        self.out, self.fills = out, fills

    def __call__(self):
        if self.fills:
            self.out[...] = self.fills
            self.fills -= 1
        return self.out


Filling = partial(Holding, fills=10**9)  # with another number each


class Stamping(Holding):
    """A call that writes only a small part of an array of its own, in no time, with the next of `numbers`."""

    def __init__(self, out, numbers):
        super().__init__(out)
        self.numbers = numbers

    def __call__(self):
        self.out.view(np.ndarray)[0] = next(self.numbers)
        return self.out


def view_of_a_buffer(device):
    call = filled(device)
    return lambda: call()[: SIZE // 2]


def rows_in_turn(device):
    rows, turns = device.xp.ones((1000, 9)), count()
    return lambda: rows[next(turns) % 1000]


def kept_in_turn(device, results=2):
    kept, turns = [device.xp.ones(SIZE) + 1 for _ in range(results)], count()
    return lambda: kept[next(turns) % results]


def filled_in_turn(device):
    buffers, turns = [device.xp.zeros(SIZE) for _ in range(4)], count()

    def call():
        buffer = buffers[next(turns) % 4]
        buffer[...] = 3.0
        return buffer

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
    "kept in a list": ("refused refused noted -", kept_where_it_was),
    "part of a buffer": ("- - - -", lambda device: Stamping(device.xp.zeros(SIZE), count())),
    "part of a buffer, with the same number": (
        "noted noted - -",
        lambda device: Stamping(device.xp.zeros(SIZE), repeat(1.0)),
    ),
    "kept in an object": ("noted noted - -", lambda device: Holding(device.xp.zeros(SIZE))),
    "kept from the set-up": ("noted noted - -", lambda device: Holding(device.xp.ones(SIZE) + 1)),
    "kept on the host": ("refused noted noted noted", lambda _: Holding(np.ones(SIZE))),
    "buffer": ("refused refused noted -", filled),
    "buffer of an object": ("- - - -", lambda device: Filling(device.xp.zeros(SIZE))),
    "buffer of an object, filled with one number": (
        "noted noted - -",
        lambda device: Holding(device.xp.zeros(SIZE), fills=inf),
    ),
    "buffer of an object that the first call filled": (
        "noted noted - -",
        lambda device: Holding(device.xp.zeros(SIZE), fills=1),
    ),
    "view of a buffer": ("refused refused noted -", view_of_a_buffer),
    "two kept in turn": ("refused refused noted -", kept_in_turn),
    "seven kept in turn": ("refused refused - -", partial(kept_in_turn, results=7)),
    "four buffers in turn": ("refused refused - -", filled_in_turn),
    "rows of one array": ("- - - -", rows_in_turn),
    "in the input": ("- - - -", in_the_input),
    "view of the input": ("- - - -", view_of_the_input),
    "new zeros": ("noted - - -", lambda device: lambda: device.xp.zeros(SIZE)),  # not written yet, perhaps
    "new": ("noted - - -", lambda device: lambda: device.xp.ones(SIZE) + 1),
    "new and kept": ("- - - -", new_beside_kept),
    **{
        f"kept by Python: {result}": ("- - - -", lambda device, result=result: lambda: result)
        for result in (None, 3, True, 1.0, np.True_, np.ma.masked, "text", ("text", 2))
    },
}


@pytest.mark.parametrize("name", BODIES)
def test_what_a_call_returns_is_refused_or_noted_by_the_time_that_it_takes_to_write_it(name):
    expected, body = BODIES[name]
    assert expected == " ".join(found(body, seconds, simulated()) for seconds in SECONDS.values())


class Stepping(Holding):
    """One whose method is the call, which takes no time unless it says so."""

    def __init__(self, out, fills=0, seconds=50e-9):
        super().__init__(out, fills)
        self.seconds = seconds

    def step(self):
        self.out.home.launch(self.seconds)
        return self()


def closed_over(device, out, **given):
    holding = Stepping(out, **given)
    return lambda: (holding.step(), out)[1]


@for_each(
    ("expected", "body"),
    [
        ("noted", lambda device: Stepping(device.xp.ones(SIZE) + 1).step),
        ("noted", lambda device: Stepping(device.xp.ones(SIZE) + 1, fills=1).step),
        ("-", lambda device: Stepping(device.xp.ones(SIZE) + 1, seconds=200e-9).step),
        ("-", lambda device: Stepping(device.asarray(np.ones(SIZE))).step),
        ("noted", lambda device: closed_over(device, device.xp.ones(SIZE) + 1)),
        ("noted", lambda device: closed_over(device, device.xp.ones(SIZE) + 1, fills=1)),
        ("noted", lambda device: closed_over(device, device.xp.ones(SIZE) + 1, fills=inf)),  # one number
        ("-", lambda device: closed_over(device, device.xp.ones(SIZE) + 1, seconds=200e-9)),
        ("-", lambda device: closed_over(device, device.asarray(np.ones(SIZE)))),
    ],
)
def test_an_input_that_the_set_up_computed_is_no_result_of_a_call_without_work(expected, body):
    """That the first call wrote it is no sign of what later calls do."""
    assert expected == found_in(body, 50e-9, simulated())


IN_MODULE = SimpleNamespace()


def test_a_buffer_of_a_module_is_one_as_that_of_an_object_is():
    def body(device):
        IN_MODULE.out = device.xp.zeros(SIZE)

        def call():
            IN_MODULE.out[...] = 3.0
            device.launch(WRITE)
            return IN_MODULE.out

        return call

    assert "-" == found_in(body, WRITE, simulated())


def test_a_function_that_the_library_runs_as_a_graph_returns_its_one_buffer_without_a_note():
    for expected, ability in (("-", "reuses_results"), ("noted", "holds_work")):  # as a stream does
        device = simulated()
        setattr(device, ability, lambda value: getattr(value, "__name__", "") == "call")
        assert expected == found(kept_where_it_was, SECONDS["as long"], device)


@for_each(("expected", "kind", "fills"), [("-", "gpu", inf), ("refused", "gpu", 0), ("refused", "cpu", inf)])
def test_an_array_on_the_host_that_a_gpu_copies_to_may_be_filled_faster_than_the_host_writes(
    expected, kind, fills
):
    device = Writing(kind, Clock())
    assert expected == found(lambda _: Holding(np.zeros(SIZE), fills), SECONDS["impossible"], device)


@for_each(
    ("expected", "writes"),
    [
        ("refused", repeat(WRITE)),
        ("noted", chain(repeat(WRITE, 10), repeat(WRITE / 1e4))),  # the machine stood still
        ("noted", cycle([*repeat(WRITE, 10), *repeat(WRITE / 1e4, 2)])),
    ],
)
def test_writes_that_were_slow_for_a_moment_prove_nothing(expected, writes):
    assert expected == found(kept, SECONDS["fast"], Writing("cpu", Clock(), writes))


@for_each(
    ("expected", "disturbed"),
    [
        ("refused refused", ()),
        ("refused noted", ("call",)),
        ("refused noted", ("write",)),
        ("refused noted", ("call", "write")),
    ],
)
@for_each("body", [kept, kept_in_turn])
def test_on_a_busy_machine_only_what_no_memory_can_do_is_refused(expected, disturbed, body):
    """Of what is disturbed threads have waited half of the time."""
    seen = []
    for name in ("impossible", "fast"):
        waited = {"1": 0.0}

        def lost(seconds, of, waited=waited):
            waited["1"] += seconds / 2 * (of in disturbed)
            return seconds

        device = Writing("cpu", Clock(), (lost(WRITE, "write") for _ in count()))

        def calls(device, lost=lost, seconds=SECONDS[name]):
            call = body(device)
            return lambda: (lost(seconds, "call"), call())[1]

        with system(device.clock, waits=waited.copy):
            seen.append(found(calls, SECONDS[name], device))
    assert expected == " ".join(seen)


@for_each(
    ("expected", "device", "body"),
    [
        # What no call can write again
        ("refused refused", immutable, kept),
        ("refused refused", immutable, partial(kept_in_turn, results=5)),
        ("- -", immutable, in_the_input),
        ("noted -", immutable, lambda device: lambda: device.xp.ones(SIZE) + 1),
        # By their clocks a write takes no time.
        ("refused noted", host, kept),
        ("refused noted", host, kept_in_containers),
        ("refused noted", host, filled),
        ("- -", host, in_the_input),
        ("noted -", host, lambda device: lambda: device.xp.ones(SIZE) + 1),
        ("refused noted", stand_in, kept_in_containers),
        ("refused noted", stand_in, filled),
        ("- -", stand_in, new_beside_kept),
        # Views of one memory, which name no base
        ("refused noted", unreferenced, lambda device: partial(Unreferenced, np.ones(SIZE)[:])),
        ("noted -", unreferenced, lambda device: lambda: Unreferenced(np.ones(SIZE)[:])),
        ("- -", unreferenced, lambda device: (lambda a: lambda: a[3:])(device.asarray(np.ones(SIZE)))),
    ],
)
def test_arrays_that_never_change_and_those_of_any_library_are_known(expected, device, body):
    seen = (found(body, SECONDS[name], device()) for name in ("impossible", "as long"))
    assert expected == " ".join(seen)


def measured(body, demand):
    clock = Clock()
    return walked(body, Writing("cpu", clock), Writing("gpu", clock), demand, max_time=0.2)


@for_each(
    ("demand", "others"),  # seconds of a call on the other device, which may take all the time
    [(Demand(), 0.1), (Demand(max=1), 50e-6), (Demand(min=1), 50e-6)],
)
@for_each("kind", ["cpu", "gpu"])
def test_a_kept_result_is_an_error_on_either_side_of_any_demand(kind, others, demand):
    made = []

    def body(device):
        compute = cache(lambda: made.append(device.xp.ones(3) + 1) or made[0])

        def call():
            device.launch(50e-6 if device.kind == kind else others)
            return compute() if device.kind == kind else device.xp.ones(3) + 1

        return call

    with pytest.raises(GpuPerfError, match=f"result on the {NOUNS[kind]} was kept from an earlier call"):
        measured(body, demand)
    assert [2.0] * 3 == made[0].tolist(), "nobody wrote it"


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


class OnCuda:
    """An array at an address of a GPU, until it is donated."""

    def __init__(self, address):
        self.address = address

    @property
    def __cuda_array_interface__(self):
        if self.address is None:
            raise RuntimeError("the array has been deleted")
        return {"data": (self.address, False)}


@for_each(("expected", "is_donated"), [(True, False), (False, True)])
def test_a_result_where_a_donated_one_was_is_a_new_one(expected, is_donated):
    device = SimpleNamespace(holds=lambda value: isinstance(value, OnCuda))
    before, now = OnCuda(4096), OnCuda(4096)
    first = remember(values_of(before, device.holds), device, keep=True)
    if is_donated:
        before.address = None
    assert expected == are_same(first, remember(values_of(now, device.holds), device, keep=True))


def remembered(result):
    device = host()
    return remember(values_of(result, device.holds), device)


def test_whole_numbers_are_no_sign_of_a_kept_result_for_python_keeps_them_itself():
    assert () == remembered([number % 7 for number in range(1000)])
    assert () == remembered([number > 7 for number in range(1000)])


def test_many_numbers_are_the_very_result_only_if_each_of_them_is():
    numbers = [float(number) for number in range(1000)]
    before = remembered({"x": numbers})
    assert are_same(before, remembered({"x": tuple(numbers)}))
    assert not are_same(before, remembered({"x": [number + 0 for number in numbers]}))
    numbers[5] += 1
    assert not are_same(before, remembered({"x": numbers}))


class Walked(list):
    """A result that counts how often it is walked through; `made` are all of them."""

    made: ClassVar = []

    def __init__(self, values):
        super().__init__(values)
        self.times = 0
        self.made.append(self)

    def __iter__(self):
        self.times += 1
        return super().__iter__()


def measured_on_both(body):
    clock = Clock()
    return walked(body, SimulatedDevice("cpu", clock=clock), SimulatedDevice("gpu", clock=clock))


def test_a_result_is_walked_once_however_often_its_values_are_looked_at(monkeypatch):
    by_itself = Walked([1.0])
    list(values_of(by_itself, host().holds))
    monkeypatch.setattr(Walked, "made", [])

    def body(device):
        array = device.asarray(np.ones(3))
        return lambda: Walked([array + 1])

    measured_on_both(body)
    first, *_ = walks = [result.times / by_itself.times for result in Walked.made]
    assert 2 == first, "once for handles of work that nobody has waited for"
    assert [0, 1] == sorted({*walks} - {first})


def test_the_looks_at_one_array_are_as_many_however_many_there_are():
    few, many = (looks_at(arrays) for arrays in (10, 100))
    assert 12 * few > many


def looks_at(arrays):
    """Return how often arrays are asked for their memory in a test with so many inputs and results."""
    counted = Counter()

    def count_call(frame, event, argument):
        counted[event] += frame.f_code in (any_array.place.__code__, any_array.root.__code__)

    def body(device):
        inputs = [device.asarray(np.ones(3)) for _ in range(arrays)]
        return lambda: [array + 1 for array in inputs]

    sys.setprofile(count_call)
    try:
        measured_on_both(body)
    finally:
        sys.setprofile(None)
    return counted["call"]
