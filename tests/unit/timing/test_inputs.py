"""Inputs: what a workload reads is found in it, and one change shows what calls go on to change."""

from functools import partial
from itertools import count

import numpy as np
from cases import for_each
from walks import prepared, simulated

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.timing import inputs
from pytest_gpuperf.timing.checks import ResultChecks


def host():
    return HostDevice("a processor")


def changes_of(workload) -> list[str]:
    """Return which inputs calls go on to change (`refused`) or changed once (`noted`), and what they are."""
    try:
        notes = ResultChecks(Demand()).require_same_inputs(workload)
    except GpuPerfError as error:
        return [f"refused: {error}"]
    return [f"noted: {note.text}" for note in notes]


def found(body, device=None, *, calls=1) -> str | None:
    """Return what was found of a body whose callable was called so often since its first call."""
    workload = prepared(device or simulated(), body)
    for _ in range(calls):
        workload.call()
    return next((each.partition(":")[0] for each in changes_of(workload)), None)


class Model:
    def __init__(self, weights):
        self.weights = weights

    def __call__(self):
        return self.weights.sum()

    def step(self):
        self.weights += 1


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


CARRIED = {
    "uploaded, in a container": lambda device: (lambda keep: lambda: add_one(keep["deep"][0]))(
        {"deep": [device.asarray(np.zeros(3, np.float32))]}
    ),
    "closed over": lambda device: (lambda a: lambda: add_one(a))(zeros(device)),
    "closed over in a partial": lambda device: (lambda a: partial(lambda b: a.__iadd__(b), 1))(zeros(device)),
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
    workload = prepared(device(), CARRIED[name])
    workload.call()
    (change,) = changes_of(workload)
    assert change.startswith("refused: the workload modifies its input (float32 array of shape (3,)), so")


def descending(device):
    return device.asarray(np.array([3.0, 2.0, 1.0]))


def test_looking_for_changes_calls_once_more_and_writes_nothing():
    calls, kept = count(), []

    def body(device):
        kept.append(descending(device))
        return lambda: (next(calls), kept[0].sort())

    workload = prepared(simulated(), body)
    assert next(calls) == 1
    changes_of(workload)
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
    workload.call()
    assert not [array for array in workload.arrays if array is not None]
    assert device.live_bytes == 0
    assert changes_of(workload) == []


@for_each(
    "call_of",
    [
        Model,
        lambda array: partial(partial(Model(array))),
        lambda array: WithSlots(array).step,
        lambda array: Model([WithSlots(array)]).step,
    ],
)
def test_arrays_in_a_callable_object_are_its_state(call_of):
    device = simulated()
    array = device.xp.ones(3)
    (state,) = inputs.state_of(call_of(array), device, ())
    assert state.array() is array


def test_an_array_in_an_object_without_values_is_left_alone():
    device = simulated()
    model = Model(device.xp.ones(3))
    before = inputs.state_of(lambda: model, device, ())
    assert len(before) == 1
    device.asnumpy = None  # raises when it is called
    assert inputs.state_of(lambda: model, device, ()) == ()
    assert inputs.changed(before, device) == []


def test_of_large_arrays_in_objects_a_part_is_read():
    model = Model(np.broadcast_to(np.ones(1, complex), (1 << 22) + 1))
    (state,) = inputs.state_of(lambda: model, host(), ())
    assert state.step == 2


@for_each("shape", [(1000,), (2, 500), (1, 10, 100)])
def test_of_large_inputs_a_sample_is_copied_and_a_change_is_seen_in_it(shape):
    device, sizes = simulated(), []
    asnumpy = device.asnumpy
    device.asnumpy = lambda array: (sizes.append(array.nbytes), asnumpy(array))[1]
    weights, small = device.asarray(np.arange(1000.0).reshape(shape)), device.asarray(np.float64(3))
    known = inputs.fingerprints([weights, small], device, most=800)
    assert sum(sizes) <= 2 * 800
    assert [8, 8000] == sorted(entry.bytes for entry in known)
    assert inputs.changes_of(known, lambda: None, device) == ()
    weights += 1
    (change,) = inputs.changes_of(known, lambda: weights.__iadd__(1), device)
    assert (change.described, change.goes_on) == (f"float64 array of shape {shape}", True)


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


@for_each(
    ("expected", "body"),
    [
        *((None, partial(filled, values=values)) for values in (np.zeros(3), np.ones(3), np.arange(3.0))),
        (None, rows_of_a_cache),
        (None, values_that_are_not_numbers),
        (None, partial(in_turn, number=3)),
        ("noted", refilled_and_swapped),
    ],
)
def test_new_buffers_that_calls_write_are_outputs(expected, body):
    assert expected == found(body, calls=4)


# Changes in place.


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


@for_each(
    ("expected", "change", "values"),
    [
        *(
            (expected, change, values)
            for expected, change in (
                ("noted", clips),
                ("noted", fills),
                ("noted", sorts_once),
                ("noted", np.ndarray.sort),
                ("refused", add_one),
                ("refused", negates),
            )
            for values in ([3.0, -1.0, 0.0, 1.0, 0.05], [2.0, -3.0, 5.0])
        ),
        (None, np.ndarray.sort, [1.0, 2.0, 3.0]),
        (None, clips, [1.0, 2.0]),
        *(
            ("refused", flips, np.eye(2, dtype=kind))
            for kind in ("int8", "uint32", "bool", "float16", "complex128")
        ),
        *(("noted", sets_one(place), GRID) for place in ((0, 0), (2, 1), (-1, -1))),
        ("refused", lambda a: add_one(a[:, ::2]), GRID),
    ],
)
def test_what_calls_change_once_is_told_from_what_they_go_on_to_change(expected, change, values):
    def body(device):
        a = device.asarray(np.array(values))
        return lambda: change(a.view(np.ndarray))

    assert expected == found(body, calls=0)
