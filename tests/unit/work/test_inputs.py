"""Inputs: what a workload reads is found in it, and one change shows what calls go on to change."""

from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import replace
from functools import partial, wraps
from itertools import count

import numpy as np
import pytest
from cases import for_each
from walks import prepared, simulated

from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.work.checks import ResultChecks
from pytest_gpuperf.work.inputs import UploadTracker
from pytest_gpuperf.work.workload import ResettableCall


def host():
    return HostDevice("a processor")


def changes_of(workload, calls=1, **options) -> list[str]:
    """Return which inputs further calls go on to change (`refused`) or changed once (`noted`)."""
    for _ in range(calls):
        workload.call()
    try:
        notes = ResultChecks(Demand()).require_same_inputs(workload, workload.after_reset(), **options)
    except GpuPerfError as error:
        return [f"refused: {error}"]
    return [f"noted: {note.text}" for note in notes]


class Model:
    def __init__(self, weights):
        self.weights = weights

    def __call__(self):
        return self.weights.sum()

    def step(self):
        self.weights += 1

    def read(self):
        return len(self.weights)


class WithSlots:
    __slots__ = ("empty", "weights")

    def __init__(self, weights):
        self.weights = weights

    def step(self):
        self.weights += 1


def zeros(device):
    return device.xp.zeros(3, dtype=np.float32)


def add_one(a):
    a += 1


def decorated(function):
    """Return a function around another one, as `torch.inference_mode()` makes it."""

    @wraps(function)
    def call(*arguments):
        return function(*arguments)

    return call


CARRIED = {
    "uploaded, in a container": lambda device: (lambda keep: lambda: add_one(keep["deep"][0]))(
        {"deep": [device.asarray(np.zeros(3, np.float32))]}
    ),
    "closed over": lambda device: (lambda a: lambda: add_one(a))(zeros(device)),
    "closed over in a partial": lambda device: (lambda a: partial(lambda b: a.__iadd__(b), 1))(zeros(device)),
    "closed over in what a decorator has wrapped": lambda device: (
        lambda a: decorated(lambda: a.__iadd__(1))
    )(zeros(device)),
    "bound method": lambda device: partial(zeros(device).__iadd__, 1),
    "method of an object": lambda device: Model(zeros(device)).step,
    "default argument": lambda device: lambda a=zeros(device): add_one(a),  # noqa: B008 - the idiom under test
    "keyword-only default": lambda device: lambda *, a=zeros(device): add_one(a),  # noqa: B008 - as above
    "argument of a partial": lambda device: partial(add_one, zeros(device)),
    "keyword of a partial": lambda device: partial(add_one, a=zeros(device)),
}


@for_each("device", [simulated, host])
@for_each("name", CARRIED)
def test_an_input_that_the_workload_changes_is_seen(name, device):
    (change,) = changes_of(prepared(device(), CARRIED[name]))
    assert change.startswith("refused: the workload modifies its input (float32 array of shape (3,)), so")


def test_looking_for_changes_calls_once_more_and_writes_nothing():
    calls, kept = count(), []

    def body(device):
        kept.append(device.asarray(np.array([3.0, 2.0, 1.0])))
        return lambda: (next(calls), kept[0].sort())

    workload = prepared(simulated(), body)
    assert next(calls) == 1
    changes_of(workload, calls=0)
    assert next(calls) == 3
    assert kept[0].tolist() == [1.0, 2.0, 3.0]


# What is an input, and what is state.


@for_each("device", [simulated, host])
def test_inputs_that_stay_as_they_were_are_fine(device):
    def body(seen):
        a, b = seen.asarray(np.ones((2, 3))), seen.xp.ones((3, 2))
        return lambda: a @ b

    workload = prepared(device(), body)
    assert len(workload.inputs) == 2
    assert changes_of(workload) == []


@for_each(
    "body",
    [
        lambda seen: add_one(seen.asarray(np.zeros(3))),  # a whole body makes them afresh
        lambda seen: float(seen.asarray(np.ones(1000)).sum()),
        lambda seen: partial(float, float(seen.asarray(np.ones(1000)).sum())),
        lambda seen: lambda: seen.asarray(np.ones(1000)),
    ],
)
def test_what_the_workload_does_not_keep_is_no_input_and_is_not_kept_alive(body):
    device = simulated()
    workload = prepared(device, body)
    assert changes_of(workload) == []
    assert ([], 0) == (workload.arrays, device.live_bytes)


@for_each(
    "call_of",
    [
        Model,
        lambda array: partial(partial(Model(array))),
        lambda array: WithSlots(array).step,
        lambda array: Model([WithSlots(array)]).read,
    ],
)
def test_arrays_in_a_callable_object_are_its_state(call_of):
    array = np.ones(3)
    (state,) = prepared(host(), lambda _: call_of(array)).state
    assert state.array() is array


@for_each("shape", [((1 << 23) + 2,), (2, (1 << 22) + 2)])
def test_of_more_than_64_mib_in_objects_a_sample_is_copied_and_a_change_is_seen_in_it(shape):
    device, sizes = host(), []
    asnumpy = device.asnumpy
    device.asnumpy = lambda array: (sizes.append(array.nbytes), asnumpy(array))[1]
    weights, scalar = np.zeros(shape), np.array(3.0)
    weights[..., 0] = 5
    model = Model([weights, scalar])

    def call():
        model.weights[0][..., 0] = 77

    (change,) = changes_of(prepared(device, lambda _: call), calls=0)
    assert f"changed an array (float64 array of shape {shape})" in change
    assert max(sizes) <= 1 << 26


def test_arrays_that_the_first_call_changed_are_one_note():
    arrays = [np.arange(float(size)) for size in range(2, 7)]

    def call():
        for array in arrays:
            array[...] = 7

    (note,) = changes_of(prepared(host(), lambda _: call), calls=0)
    assert note.startswith("noted: the first call on the CPU changed an array (float64 array of shape (2,), ")
    assert "shape (4,) and 2 more), and later ones left it as it was" in note


# Outputs: new buffers that calls write.


def filled(device, values):
    a, out = device.asarray(values), device.asarray(np.full(3, 7.0))
    return lambda: np.add(a, a, out=out)


def rows_of_a_cache(device):
    cache, row = device.asarray(np.full((8, 3), 7.0)), device.asarray(np.arange(3.0))
    return lambda: cache.__setitem__(5, row)


def values_that_are_not_numbers(device):
    out = device.asarray(np.zeros(3))
    return lambda: out.__setitem__(slice(2), np.nan)


def in_turn(device, number):
    buffers, turns = [device.asarray(np.zeros(3)) for _ in range(number)], count(1)
    return lambda: buffers[next(turns) % number].__setitem__(..., (3.0, 0.0, 1.0))


def refilled_and_swapped(device):
    """Each call does the same work, though each buffer gets its values in every second one only."""
    a = device.asarray(np.arange(3.0))
    buffers = [device.asarray(np.array([5.0, 6.0, 7.0])) for _ in range(2)]

    def call():
        buffers[0][...] = a
        buffers[0] += 1
        buffers[0], buffers[1] = buffers[1], buffers[0]

    return call


def clips(a):
    np.maximum(a, 0, out=a)


def fills(a):
    a[a < 0.1] = 0


def negates(a):
    np.negative(a, out=a)


def flips(a):
    np.copyto(a, a == 0)


def sorts_once(a):
    if a[0] > a[1]:
        a.sort()


def sets_one(place):
    return lambda a: a.__setitem__(place, 77.0)


GRID = np.arange(20.0).reshape(5, 4)


def changing(change, *values):
    """Return bodies whose calls change an input of these values."""

    def body(device, start):
        a = device.asarray(np.array(start))
        return lambda: change(a.view(np.ndarray))

    return [partial(body, start=start) for start in values]


SOME = [3.0, -1.0, 0.0, 1.0, 0.05], [2.0, -3.0, 5.0]
KINDS = [np.eye(2, dtype=kind) for kind in ("int8", "uint32", "bool", "float16", "complex128")]


@for_each(
    ("expected", "calls", "body"),
    [
        # New buffers that calls write are outputs.
        *((None, 4, partial(filled, values=values)) for values in (np.zeros(3), np.ones(3), np.arange(3.0))),
        (None, 4, rows_of_a_cache),
        (None, 4, values_that_are_not_numbers),
        (None, 4, partial(in_turn, number=3)),
        ("noted", 4, refilled_and_swapped),
        # What is changed once, or goes on to be
        *(
            (expected, 0, body)
            for expected, bodies in (
                ("noted", changing(clips, *SOME)),
                ("noted", changing(fills, *SOME)),
                ("noted", changing(sorts_once, *SOME)),
                ("noted", changing(np.ndarray.sort, *SOME)),
                ("refused", changing(add_one, *SOME)),
                ("refused", changing(negates, *SOME)),
                (None, changing(np.ndarray.sort, [1.0, 2.0, 3.0])),
                (None, changing(clips, [1.0, 2.0])),
                ("refused", changing(flips, *KINDS)),
                *(("noted", changing(sets_one(place), GRID)) for place in ((0, 0), (2, 1), (-1, -1))),
                ("refused", changing(lambda a: add_one(a[:, ::2]), GRID)),
            )
            for body in bodies
        ),
    ],
)
def test_what_calls_change_once_is_told_from_what_they_go_on_to_change_and_from_outputs(
    expected, calls, body
):
    found = changes_of(prepared(simulated(), body), calls)
    assert expected == next((each.partition(":")[0] for each in found), None)


def of_which_the_body_makes(values, again):
    """Return a body whose calls fill an array: of these values, and of others when the body runs again."""
    made = iter((values, again))

    def body(device):
        out, nine = next(made), device.asarray(np.array([9.0]))
        out = device.asarray(np.array(out)) if isinstance(out, list) else out()
        return lambda: out.__setitem__(..., nine)

    return body


FIXTURES = np.array([5.0, 6.0, 7.0])


@for_each(
    ("expected", "values", "again"),
    [
        ([], [5.0, 6.0, 7.0], [8.0, 6.0, 7.0]),  # `empty` has what was in its memory
        ([], [5.0, 6.0, 7.0], [0.0, 0.0, 0.0]),
        (["noted"], [5.0, 6.0, 7.0], [5.0, 6.0, 7.0]),  # an input
        (["noted"], lambda: FIXTURES, lambda: FIXTURES),
        (["noted"], [5.0, 6.0, 7.0], [8.0]),  # it made no such array again
        (["noted"], [5.0, 6.0, 7.0], lambda: 1 / 0),
    ],
)
def test_a_buffer_that_was_never_written_is_told_from_an_input_by_what_the_body_makes_again(
    expected, values, again
):
    FIXTURES[:] = 5.0, 6.0, 7.0
    workload = prepared(host(), of_which_the_body_makes(values, again))
    assert expected == [each.partition(":")[0] for each in changes_of(workload)]


def test_a_set_up_that_took_long_does_not_run_again():
    workload = prepared(host(), of_which_the_body_makes([5.0, 6.0, 7.0], lambda: pytest.fail("it ran again")))
    assert ["noted"] == [each.partition(":")[0] for each in changes_of(replace(workload, setup=2.0))]


def test_the_body_runs_again_only_while_there_is_time_and_it_may_end_the_run():
    def ended():
        runs.append("again")
        pytest.exit("not twice")

    runs = []
    workload = prepared(host(), of_which_the_body_makes([5.0, 6.0, 7.0], ended))
    with suppress(pytest.exit.Exception):
        changes_of(workload, has_time=lambda: False)
    assert runs == []
    with pytest.raises(pytest.exit.Exception, match="not twice"):
        changes_of(workload)


def noise(device):
    """Return an array as `empty` may: of what the memory had before."""
    return device.asarray(np.array([0.3, 7.0, -2.0, 5.0, 1e9]))


def all_nan(device):
    return device.asarray(np.full(5, np.nan))


def halves(weights, out):
    weights *= 0.5
    out[...] = weights + 1


def doubles_in_a_buffer(weights, out):
    out[...] = 2 * weights.max() - weights.max()


def adds_up(weights, out):
    weights *= 0.5
    out += weights


def negates_a_buffer(weights, out):
    out *= -1


def turns(weights, out):
    out[...] = np.roll(out, 1)


@for_each(
    ("expected", "buffer", "step"),
    [
        (None, noise, halves),
        (None, all_nan, halves),
        ("noted: the first call", noise, doubles_in_a_buffer),
        (None, all_nan, doubles_in_a_buffer),
        ("refused: the workload's reset does not restore what calls change (float64 array", noise, adds_up),
        ("refused: the workload's reset does not restore what calls change (float64 array", noise, turns),
    ],
)
@for_each("calls", (0, 1, 2, 3))
def test_a_reset_need_not_restore_what_calls_overwrite_whatever_was_in_it(expected, buffer, step, calls):
    def body(device):
        start = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
        weights, out = device.asarray(start), buffer(device)

        def reset():
            weights[...] = start

        return ResettableCall(lambda: step(weights, out), reset)

    found = changes_of(prepared(host(), body), calls=calls)
    assert len(found) == (expected is not None)
    assert all(said.startswith(expected) for said in found)


NOT_KNOWN = "noted: time was up before it was known whether calls on the CPU overwrite"
NOT_RESTORED = "refused: the workload's reset does not restore what calls change (float64 array"


@for_each(
    ("expected", "called", "step"),
    [
        *((NOT_KNOWN, called, halves) for called in range(4)),
        *((NOT_KNOWN, called, step) for called in range(3) for step in (adds_up, negates_a_buffer)),
        (NOT_RESTORED, 3, adds_up),
        (NOT_KNOWN, 3, negates_a_buffer),
        (NOT_RESTORED, 4, negates_a_buffer),
    ],
)
def test_a_reset_is_followed_by_no_call_for_which_there_is_no_time_and_what_is_known_then_is_said(
    expected, called, step
):
    calls = []

    def body(device):
        start = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
        weights, out = device.asarray(start), noise(device)

        def call():
            calls.append(device)
            step(weights, out)

        def reset():
            weights[...] = start

        return ResettableCall(call, reset)

    found = changes_of(prepared(host(), body), calls=0, has_time=lambda: len(calls) <= called)
    assert [True] == [said.startswith(expected) for said in found]
    assert called == len(calls) - 1  # without the first call of all


def test_a_reset_must_restore_what_a_later_call_reads_though_the_first_ones_leave_it_as_it_is():
    def body(device):
        seen, state = device.asarray(np.zeros(1)), noise(device)

        def step():
            seen[...] += 1
            state[...] = seen + (1 if state[0] in (0.3, 2) else 2)

        return ResettableCall(step, lambda: seen.fill(0))

    assert [True] == [said.startswith("refused") for said in changes_of(prepared(host(), body), calls=0)]


@for_each("duplicate", (copy, deepcopy))
def test_a_copy_of_a_device_is_that_device_wherever_a_test_has_it_from(duplicate):
    group = DeviceGroup([simulated(), simulated()])
    for device in (host(), simulated(), group, UploadTracker(simulated()), UploadTracker(group)):
        assert device is duplicate([device])[0]
        assert device is duplicate(device)


def test_a_tracker_that_is_not_made_yet_says_that_it_has_no_attribute():
    with pytest.raises(AttributeError, match="_device"):
        UploadTracker.__new__(UploadTracker).asarray  # noqa: B018 - it raises
