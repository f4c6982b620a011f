"""What a workload raises ends its test as it was raised, whichever of its calls it is."""

import sys
import unittest
from contextlib import nullcontext
from dataclasses import replace
from itertools import cycle, product
from traceback import walk_stack

import numpy as np
import pytest
from cases import for_each
from walks import bound, simulated, trial_of

from pytest_gpuperf.devices.simulated import Clock, SimulatedOutOfMemory
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError, is_outcome
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.work.workload import ResettableCall, is_raised_by_reset

HOST = np.ones(10)
RAISED = (
    AssertionError("broken"),
    GpuPerfError("as our own"),
    MemoryError("of the host"),
    SimulatedOutOfMemory("of the device"),
    StopIteration(),
    pytest.exit.Exception("stop", 5),
    unittest.SkipTest("why"),
    pytest.skip.Exception("why"),
    pytest.fail.Exception("why"),
    pytest.xfail.Exception("why"),
    KeyboardInterrupt(),
)


def a_call(device, step):
    a = device.asarray(HOST)
    return lambda: (step(), a + 1)[1]


def a_body(device, step):
    step()
    return device.asarray(HOST) + 1


def a_call_that_shows_no_work(device, step):
    a = device.asarray(HOST)
    return lambda: (step(), device.clock.advance(1e-3), a)[1]


def a_call_after_a_reset(device, step):
    a = device.asarray(HOST)
    return ResettableCall(lambda: (step(), a + 1)[1], reset=lambda: None)


def a_reset(device, step):
    a = device.asarray(HOST)
    return ResettableCall(lambda: a + 1, reset=step)


def devices():
    """Return a CPU and a GPU, of which a block is some calls: single ones are sampled besides."""
    clock = Clock()
    return simulated("cpu", clock, kernel=4e-3), simulated("gpu", clock, kernel=0.4e-3)


def compared(trial, body):
    trial.compare(bound(body), *devices())


def in_turn(trial, body):
    """Time the CPU's variant, and then the GPU's with it."""
    cpu, gpu = devices()
    variant = trial_of()
    left = variant.time_alone(bound(body), cpu, 1.0)
    trial.compare_with(replace(left, work=variant.work_of_cpu()), bound(body), gpu)


class Calls:
    """The calls of one test: from one on they raise, or else it is noted where each was made."""

    def __init__(self, body, raises_from=None, error=None):
        self.body = lambda device: body(device, self.step)
        self.places = []
        self.left, self.error = raises_from, error

    def step(self):
        if self.left is None:
            frames = [
                each
                for each, _ in walk_stack(sys._getframe())
                if "pytest_gpuperf" in each.f_globals["__name__"]
            ]
            self.places.append(tuple(frame.f_code.co_name for frame in frames))
            return
        self.left -= 1
        if self.left <= 0:
            raise self.error


def walk(calls, measure, demand):
    measure(trial_of(demand, RunOptions(max_time=2.0)), calls.body)


CASES = [
    (a_call, Demand(min=3), {"probe_blocking", "per_call", "_sampled_transfers", "call_with_copies"}),
    (a_call, Demand(min=3, transfer="always"), {"probe_blocking", "demanded_loop"}),
    (a_call, Demand(min=3, latency=True), {"probe_blocking", "probe_and_sample"}),
    (a_call, Demand(), {"probe_blocking", "inspected_call"}),
    (a_body, Demand(min=3), {"probe_blocking", "per_call"}),
    (a_call_that_shows_no_work, Demand(min=0.1), {"require_work", "_activity", "_steps"}),
    (a_call_after_a_reset, Demand(min=3), {"probe_blocking", "_checked_last_results"}),
    (a_reset, Demand(min=3), {"probe_blocking", "_sampled_transfers"}),
]


def test_what_a_workload_raises_in_any_call_ends_its_test_as_it_is():
    errors, tried = cycle(RAISED), set()
    for (body, demand, looks), measure in product(CASES, (compared, in_turn)):
        calls = Calls(body)
        walk(calls, measure, demand)
        assert looks <= {name for place in calls.places for name in place}
        for place in [each for each in dict.fromkeys(calls.places) if each not in tried]:
            number, error = calls.places.index(place) + 1, next(errors)
            with pytest.raises(type(error)) as raised:
                walk(Calls(body, number, error), measure, demand)
            assert raised.value is error, f"call {number} of {len(calls.places)}, in {place}"
            assert getattr(error, "__notes__", []) == []
            assert is_raised_by_reset(error) == (body is a_reset)
            error.__traceback__ = None
        tried |= {*calls.places} if body is a_call else set()


def test_outcomes_are_what_ends_a_test_or_a_run_on_purpose():
    assert RAISED[5:] == tuple(filter(is_outcome, RAISED))


@for_each("error", [MemoryError("of its own"), SimulatedOutOfMemory(80)])
def test_a_call_without_room_beside_the_copies_is_the_tests_if_it_has_none_without_them_either(error):
    calls = Calls(a_call)
    walk(calls, compared, Demand(min=3))
    first = next(number for number, place in enumerate(calls.places, 1) if "call_with_copies" in place)
    with pytest.raises(MemoryError) as raised:
        walk(Calls(a_call, first, error), compared, Demand(min=3))
    assert raised.value is error


def failing_within(device, method, place, error):
    """Let a method of a device raise where a function of that name has called it."""
    own = getattr(device, method)

    def call(value):
        if any(frame.f_code.co_name == place for frame, _ in walk_stack(sys._getframe())):
            raise error
        return own(value)

    setattr(device, method, call)


@for_each(
    ("method", "place", "is_noted"),
    [
        ("asarray", "call_with_copies", True),
        ("asarray", "upload", True),
        ("asnumpy", "download", True),
        ("asnumpy", "call_with_copies", False),  # of a result, which may be what fails
    ],
)
def test_a_copy_that_the_plugin_adds_is_a_note_where_it_fails_unless_it_ends_the_run(method, place, is_noted):
    for error in (RuntimeError("no copy"), pytest.exit.Exception("stop")):
        cpu, gpu = devices()
        failing_within(gpu, method, place, error)
        trial = trial_of(Demand(min=3))
        if is_noted and not is_outcome(error):
            trial.compare(bound(lambda device: a_call(device, int)), cpu, gpu)
            noted = Note(code="aside_failed", text="timing the copies failed: RuntimeError: no copy")
            assert trial.notes == [noted]
        else:
            with pytest.raises(type(error)) as raised:
                trial.compare(bound(lambda device: a_call(device, int)), cpu, gpu)
            assert raised.value is error


@for_each(
    ("again", "error", "is_raised"),
    [
        ("call", ZeroDivisionError(), True),
        ("body", ZeroDivisionError(), False),  # the set-up of a test need not run twice for a device
        ("body", pytest.exit.Exception("stop"), True),
        ("body", unittest.SkipTest("why"), True),
    ],
)
def test_where_bodies_run_again_an_error_of_theirs_says_nothing_and_one_of_a_call_is_the_tests(
    again, error, is_raised
):
    ran = []

    def body(device):
        def step(name):
            if name == again and len(ran) > 2:
                raise error

        ran.append(device.kind)
        step("body")
        # As fast as the body that ran last has set it: so it is asked whether it follows the bodies.
        return lambda: (step("call"), device.launch(4e-3 if ran[-1] == "cpu" else 0.4e-3))

    with pytest.raises(type(error)) if is_raised else nullcontext():
        compared(trial_of(Demand()), body)
    assert len(ran) > 2
