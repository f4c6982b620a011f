"""A GPU's call that does nothing is refused where the CPU's works, and never passes elsewhere."""

import json
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from traceback import format_exc
from types import SimpleNamespace

import numpy as np
import pytest
from cases import for_each
from walks import bound, observing, prepared, simulated, trial_of

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.testing import StandIn
from pytest_gpuperf.work import device_work

SIZE = 200  # a side: NumPy recycles the memory of much smaller arrays
CHANGED = "the call changed an array on the CPU and none on the emulated device"
SEEN_ON_CPU = "was seen to work on the CPU, and did nothing on the emulated device"
ONLY_COPIES = "the call computes on the CPU, and only copies on the emulated device"


def numpy_pair():
    return HostDevice("a processor"), StandIn("numpy").gpu("")


def simulated_pair():
    clock = Clock()
    return simulated("cpu", clock, kernel=10e-3), simulated("gpu", clock)


def sight(body, pair=numpy_pair, *, are_compared=False):
    """Return what is known of the GPU's call after the first calls of a body."""
    on_cpu, on_gpu = (prepared(device, body) for device in pair())
    return device_work.require_work(on_gpu, lambda: device_work.of_cpu(on_cpu), are_compared=are_compared)


def array(device, size=SIZE):
    return device.asarray(np.random.default_rng(0).random((size, size)))


def returned(device):
    a = array(device)
    return lambda: a @ a


def a_view_of_the_product_that_it_returns(device):
    a = array(device)
    return lambda: (a @ a)[::2]


def dropped(device):
    a = array(device)
    return lambda: (a @ a, None)[1]


def written(device):
    a, out = array(device), array(device)
    return lambda: np.multiply(a, a, out=out)


def left_in_a_list(device):
    a, results = array(device), []
    return lambda: results.__setitem__(slice(None), [a + a])


def left_in_an_attribute(device):
    a, holder = array(device), SimpleNamespace(result=None)
    return lambda: setattr(holder, "result", a + a)


def by_a_function(device):
    a, out = array(device), array(device)
    out[...] = a
    return lambda: np.sum(a, out=np.empty(())) and None


def whole_body(device):
    device.xp.linalg.norm(array(device))


@for_each(
    "body",
    [
        returned,
        a_view_of_the_product_that_it_returns,
        dropped,
        written,
        left_in_a_list,
        left_in_an_attribute,
        by_a_function,
        whole_body,
    ],
)
def test_what_a_call_returns_changes_leaves_or_is_seen_to_run_is_its_work(body):
    assert "seen" == sight(body)


def zeros_again(device):
    a = device.asarray(np.zeros((SIZE, SIZE)))

    def call():
        a[...] = 0.0

    return call


def small_product(device):
    a = array(device, size=4)
    return lambda: (a @ a, None)[1]


def in_another_thread(device):
    a, pool = array(device, size=1000), ThreadPoolExecutor(1)

    def call():
        pool.submit(np.multiply, a, 1.0, out=a).result()

    return call


@for_each("body", [zeros_again, small_product, in_another_thread])
def test_work_that_nobody_can_see_is_taken_for_work_where_both_devices_run_the_same_instructions(body):
    assert "alike" == sight(body)


def test_of_a_function_in_c_the_same_name_is_the_same_work():
    assert "alike" == sight(lambda device: partial(sorted, []), blind_pair)
    other = {"cpu": partial(sorted, []), "gpu": partial(sum, [])}
    assert "differs" == sight(lambda device: other[device.kind], blind_pair)


def test_work_of_another_thread_is_not_taken_for_none():
    def body(device):
        a, pool = array(device, size=1000), ThreadPoolExecutor(1)
        again = partial(np.multiply, a, 1.0, out=a)

        def call():
            if device.kind == "cpu":
                a @ a
            else:
                pool.submit(again).result()

        return call

    assert "differs" == sight(body)


def test_a_short_call_is_looked_at_until_the_device_sees_it():
    looks = count()
    cpu, gpu = simulated_pair()
    observing(gpu, lambda seen: setattr(seen, "worked", next(looks) >= 9))
    gpu.activity = lambda call, smallest: None
    assert "seen" == sight(lambda device: (lambda a: lambda: len(a))(array(device, 4)), lambda: (cpu, gpu))


@for_each(("known", "can_be_occupied"), [("seen", True), ("alike", False)])
def test_work_that_is_too_short_to_be_seen_shows_behind_other_work(known, can_be_occupied):
    def pair():
        cpu, gpu = simulated_pair()
        observing(gpu, lambda seen: setattr(seen, "worked", False))
        gpu.activity = lambda call, smallest: None
        gpu.occupy = gpu.occupy if can_be_occupied else lambda seconds: False
        return cpu, gpu

    def in_place(device):
        a = array(device, size=4)
        return lambda: (device.launch(1e-6), len(a))[1] and None

    assert known == sight(in_place, pair)


def warmed_up_on_the_gpu(device):
    a, out = array(device), array(device)

    def call():
        np.multiply(a, a, out=out)

    if device.kind == "gpu":
        call()
    return call


def test_a_call_that_writes_the_same_again_on_the_gpu_is_held_against_the_instructions_of_the_cpus():
    assert "alike" == sight(warmed_up_on_the_gpu)


def a_swallowed_import(device):
    a = array(device, size=32)

    def call():
        with suppress(ImportError):
            if device.kind == "gpu":
                import a_module_that_is_not_there  # noqa: F401
            a @ a

    return call


def a_formatted_error(device):
    a = array(device, size=50)

    def call():
        try:
            if device.kind == "gpu":
                raise RuntimeError  # noqa: TRY301 - as a test of a user does it
            a @ a
        except RuntimeError:
            format_exc()

    return call


@for_each("body", [a_swallowed_import, a_formatted_error])
def test_what_python_allocates_for_itself_is_no_work(body):
    assert "differs" == sight(body)


@for_each(
    ("is_of_test", "file"),
    [
        (True, "/home/me/suite/tests/test_a.py"),
        (True, f"{sysconfig.get_path('stdlib')}_suite/test_a.py"),
        (True, "<string>"),
        (False, device_work.__file__),
        (False, "<frozen importlib._bootstrap>"),
        (False, json.__file__),
        (False, "/home/me/.local/lib/python3.13/site-packages/numpy/core.py"),
        (False, "/usr/lib/python3/dist-packages/numpy/core.py"),
    ],
)
def test_instructions_are_those_of_the_test_and_of_no_installed_package(is_of_test, file):
    code = compile("def call(): return 1", file, "exec")
    names = {}
    exec(code, names)  # noqa: S102 - code of another file
    steps = device_work.of_cpu(prepared(HostDevice("a processor"), lambda device: names["call"])).steps
    assert is_of_test == (steps is not None)


def only_on_the_cpu(device, do):
    """Return a call that returns early on the GPU."""

    def call():
        if device.kind == "gpu":
            return
        do()

    return call


def returns_early(device):
    a, out = array(device), array(device)
    return only_on_the_cpu(device, lambda: np.multiply(a, a, out=out))


def swallows_what_is_missing(device):
    a, out = array(device), array(device)

    def call():
        with suppress(ImportError):
            if device.kind == "gpu":
                import a_module_that_is_not_there  # noqa: F401
            np.multiply(a, a, out=out)

    return call


@for_each("body", [returns_early, swallows_what_is_missing])
def test_a_call_that_changes_an_array_on_the_cpu_alone_is_refused(body):
    with pytest.raises(GpuPerfError, match=CHANGED):
        sight(body)


def stub(device):
    a = array(device)
    return {"cpu": lambda: (a @ a, None)[1], "gpu": lambda: None}[device.kind]


def no_batches(device):
    a = array(device)
    batches = [a] * 3 if device.kind == "cpu" else []

    def call():
        for batch in batches:
            batch @ a

    return call


def body_that_returns_early(device):
    if device.kind == "cpu":
        device.xp.linalg.norm(array(device))


def returns_its_input(device):
    a = device.asarray(np.eye(SIZE))
    return (lambda: a) if device.kind == "gpu" else (lambda: a @ a)


def returns_a_status(device):
    a = array(device)

    def call():
        if device.kind == "cpu":
            a @ a
        return True

    return call


def swallows_its_own_error(device):
    a = array(device)

    def call():
        with suppress(RuntimeError):
            if device.kind == "gpu":
                raise RuntimeError
            a @ a

    return call


DISHONEST = [stub, no_batches, body_that_returns_early, returns_a_status, swallows_its_own_error]


@for_each("body", [*DISHONEST, returns_its_input])
@for_each("pair", [numpy_pair, simulated_pair])
def test_a_call_that_is_seen_to_work_on_the_cpu_and_does_nothing_on_the_gpu_is_refused(pair, body):
    with pytest.raises(GpuPerfError, match=SEEN_ON_CPU):
        sight(body, pair)


def uploads_a_result_of_the_cpu(device):
    a = array(device)
    results = {}

    def call():
        if device.kind == "cpu":
            results["now"] = a @ a
            return results["now"]
        return device.asarray(np.ones((SIZE, SIZE)))

    return call


def downloads_and_returns_nothing(device):
    a = array(device)

    def call():
        device.asnumpy(a)
        if device.kind == "cpu":
            a @ a

    return call


@for_each("body", [uploads_a_result_of_the_cpu, downloads_and_returns_nothing])
def test_a_call_that_only_copies_on_the_gpu_what_it_computes_on_the_cpu_is_refused(body):
    with pytest.raises(GpuPerfError, match=ONLY_COPIES):
        trial_of(Demand(min=2, check=False)).compare(bound(body), *simulated_pair())


@for_each(("known", "pair"), [("alike", numpy_pair), ("seen", simulated_pair)])
def test_a_copy_is_the_work_of_a_call_that_only_copies_on_both_devices(known, pair):
    def up(device):
        host = np.ones((SIZE, SIZE))
        return lambda: (device.asarray(host), None)[1]

    def down(device):
        a = array(device)
        return lambda: (device.asnumpy(a), None)[1]

    assert [known, known] == [sight(up, pair), sight(down, pair)]


HOST = np.ones((SIZE, SIZE))


def uploads_and_returns_early(device):
    a = device.asarray(HOST)
    if device.kind == "cpu":
        a @ a


def uploads_and_multiplies(device):
    a = device.asarray(HOST)
    a @ a


def test_where_only_copies_are_seen_the_rest_of_a_body_must_run_the_same_instructions():
    assert "differs" == sight(uploads_and_returns_early)
    assert "alike" == sight(uploads_and_multiplies)


def unseen_stub(device):
    """Return a call that does nothing on the GPU, and on the CPU what cannot be seen."""
    a = array(device, size=4)

    def call():
        return (a @ a, None)[1] if device.kind == "cpu" else None

    return call


def test_of_a_call_that_neither_device_is_seen_to_run_nothing_is_known_but_by_its_results():
    assert "differs" == sight(unseen_stub), "one line is not the same instructions"
    assert "alike" == sight(unseen_stub, are_compared=True)


def test_a_tracer_of_the_user_goes_on_after_a_call_was_followed():
    seen = []

    def tracer(frame, event, argument):
        seen.append(frame.f_code.co_name)
        return tracer

    def traced():
        pass

    outer = sys.gettrace()
    sys.settrace(tracer)
    try:
        found = sight(zeros_again)
        del seen[:]
        traced()
    finally:
        sys.settrace(outer)
    assert ("alike", ["traced"]) == (found, seen[:1])


def blind_pair():
    """Return devices that take every call for work, and whose libraries show nothing."""
    cpu, gpu = simulated_pair()
    for device in (cpu, gpu):
        observing(device, lambda seen: setattr(seen, "worked", True))
        device.activity = lambda call, smallest: (call(), None)[1]
    return cpu, gpu


def nothing_on_the_gpu(device):
    """Return a call that returns nothing, and launches a kernel on the CPU alone."""
    other = device.launch if device.kind == "cpu" else partial(device.pause, 1e-5)
    return lambda: (other(), None)[1]


def record_of(demand, body, pair=blind_pair):
    trial = trial_of(demand)
    return trial.record(trial.compare(bound(body), *pair()))


@for_each("check", [True, False])
def test_a_speedup_of_work_that_nobody_saw_is_inconclusive_and_a_note_without_a_limit(check):
    judged = record_of(Demand(min=3, check=check), nothing_on_the_gpu)
    assert ("inconclusive", "work_not_seen") == (judged.status, judged.reason_code)
    assert device_work.doubt("differs", "emulated device") in judged.reason
    recorded = record_of(Demand(), nothing_on_the_gpu)
    assert ("recorded", None) == (recorded.status, recorded.reason)
    assert device_work.doubt("differs", "emulated device") in [note.text for note in recorded.notes]
    failed = record_of(Demand(min=3, max=10), nothing_on_the_gpu)
    assert "failed" == failed.status, "a red needs no work that was seen"


def first_call_only(seconds):
    """Return a body whose call works on the GPU the first time, and later takes so many seconds."""

    def body(device):
        results = []

        def call():
            if device.kind == "cpu" or not results:
                results[:] = [device.xp.ones(4)]
            else:
                device.pause(seconds)

        return call

    return body


@for_each(("status", "seconds"), [("inconclusive", 1e-5), ("passed", 1e-3)])
def test_beyond_fifty_times_the_last_call_must_be_seen_or_compared(status, seconds):
    found = record_of(Demand(min=3), first_call_only(seconds))
    assert status == found.status
    noted = device_work.doubt("stopped", "emulated device") in [note.text for note in found.notes]
    assert noted == (status == "passed"), "up to fifty times it is said, too"


def test_beyond_fifty_times_arrays_that_were_compared_are_enough():
    def body(device):
        a, results = array(device, size=4), []

        def call():
            if device.kind == "cpu" or not results:
                results[:] = [a + a]
            else:
                device.pause(1e-5)
            return a

        return call

    assert ["passed", "inconclusive"] == [
        record_of(Demand(min=3, check=check), body).status for check in (True, False)
    ]


def test_the_last_call_of_a_library_that_shows_all_must_do_what_the_first_did():
    said = "the last call submitted no work to simulated GPU, although the first one did"
    with pytest.raises(GpuPerfError, match=said):
        record_of(Demand(min=3), first_call_only(1e-3), simulated_pair)


@for_each("body", [no_batches, returns_its_input])
def test_a_cpu_variant_leaves_what_its_calls_did_for_its_gpu_variant(body):
    cpu, gpu = simulated_pair()
    of_cpu, of_gpu = trial_of(Demand()), trial_of(Demand(min=3))
    left = of_cpu.time_alone(bound(body), cpu, seconds=0.1)
    did = of_cpu.work_of_cpu()
    of_cpu.release()
    assert did.activity.computed
    with pytest.raises(GpuPerfError, match=SEEN_ON_CPU):
        of_gpu.compare_with(replace(left, work=did), bound(body), gpu)
