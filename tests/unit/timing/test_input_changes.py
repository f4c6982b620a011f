"""Changed inputs: what calls go on to change is told from what they change once, by reading alone."""

from functools import partial
from itertools import count

import numpy as np
import pytest
from walks import prepared, simulated

from pytest_gpuperf.timing import inputs


def changes_of(workload):
    return inputs.changes_of(workload.inputs, workload.call, workload.device)


def changed(workload):
    return next((change.described for change in changes_of(workload)), None)


@pytest.mark.parametrize("values", [np.zeros(3), np.ones(3), np.arange(3.0)])
def test_a_new_buffer_that_calls_fill_is_no_changed_input(values):
    kept = []

    def body(seen):
        a, out = seen.asarray(values), seen.asarray(np.full(3, 7.0))
        kept.append(out)
        return lambda: np.add(a, a, out=out)

    workload = prepared(simulated(), body)
    assert changed(workload) is None
    assert kept[0].tolist() == (2 * values).tolist()


def rows_of_a_cache(device):
    cache, row = device.asarray(np.full((8, 3), 7.0)), device.asarray(np.arange(3.0))

    def call():
        cache[5] = row
        return cache

    return call


def values_that_are_not_numbers(device):
    out = device.asarray(np.zeros(3))

    def call():
        out[:2] = np.nan

    return call


def in_turn(device, number):
    buffers, turns = [device.asarray(np.zeros(3)) for _ in range(number)], count(1)

    def call():
        buffers[next(turns) % number][...] = (3.0, 0.0, 1.0)

    return call


@pytest.mark.parametrize(
    "body", [rows_of_a_cache, values_that_are_not_numbers, *(partial(in_turn, number=n) for n in (2, 3))]
)
def test_new_buffers_that_are_written_in_part_or_in_turn_are_outputs(body):
    workload = prepared(simulated(), body)
    for _ in range(4):
        workload.call()
    before = [entry.array().tolist() for entry in workload.inputs]
    assert changes_of(workload) == ()
    assert str([entry.array().tolist() for entry in workload.inputs]) == str(before)


def refilled_and_swapped(device):
    """Each call does the same work, though each buffer gets its values in every second one only."""
    a = device.asarray(np.arange(3.0))
    buffers = [device.asarray(np.array([5.0, 6.0, 7.0])) for _ in range(2)]

    def call():
        buffers[0][...] = a
        buffers[0] += 1
        buffers[0], buffers[1] = buffers[1], buffers[0]

    return call


def test_buffers_that_are_refilled_and_swapped_do_not_go_on_to_change():
    workload = prepared(simulated(), refilled_and_swapped)
    for _ in range(3):
        workload.call()
    assert [change.goes_on for change in changes_of(workload)] == [False, False]


def clips(a):
    np.maximum(a, 0, out=a)


def fills(a):
    a[a < 0.1] = 0


def adds(a):
    a += 1


def negates(a):
    np.negative(a, out=a)


def sorts_once(a):
    if a[0] > a[1]:
        a.sort()


ONCE, EACH_TIME = [clips, fills, sorts_once, np.ndarray.sort], [adds, negates]


def goes_on(change, values):
    """Return of each array that a change in place changed, whether later calls do so again."""

    def body(seen):
        a = seen.asarray(np.array(values))
        return lambda: change(a.view(np.ndarray))

    return [found.goes_on for found in changes_of(prepared(simulated(), body))]


@pytest.mark.parametrize("values", [[3.0, -1.0, 0.0, 1.0, 0.05], [2.0, -3.0, 5.0]], ids=str)
@pytest.mark.parametrize("change", ONCE + EACH_TIME, ids=lambda change: change.__name__)
def test_what_calls_change_once_is_told_from_what_they_go_on_to_change(change, values):
    if change is fills and values == [2.0, -3.0, 5.0]:
        values = [2.0, 0.05, 5.0]
    assert goes_on(change, values) == [change in EACH_TIME]


def test_an_array_that_no_call_changes_is_not_mentioned():
    assert goes_on(np.ndarray.sort, [1.0, 2.0, 3.0]) == []
    assert goes_on(clips, [1.0, 2.0]) == []


def test_looking_for_changes_calls_once_more_and_writes_nothing():
    calls = count()
    workload = prepared(
        simulated(), lambda seen: partial(lambda a: (next(calls), a.sort()), descending(seen))
    )
    (array,) = (entry.array() for entry in workload.inputs)
    assert next(calls) == 1
    changes_of(workload)
    assert next(calls) == 3
    assert array.tolist() == [1.0, 2.0, 3.0]


def descending(device):
    return device.asarray(np.array([3.0, 2.0, 1.0]))


@pytest.mark.parametrize("kind", ["int8", "uint32", "bool", "float16", "complex128"])
def test_inputs_of_every_kind_of_number_are_watched(kind):
    def body(seen):
        a = seen.asarray(np.eye(2, dtype=kind))
        return lambda: np.copyto(a.view(np.ndarray), a.view(np.ndarray) == 0)

    assert changed(prepared(simulated(), body)) == f"{kind} array of shape (2, 2)"


@pytest.mark.parametrize("place", [(0, 0), (2, 1), (-1, -1)])
def test_a_change_of_one_value_is_seen(place):
    def body(seen):
        a = seen.asarray(np.arange(20.0).reshape(5, 4))
        return lambda: a.__setitem__(place, 77.0)

    workload = prepared(simulated(), body)
    assert changed(workload) == "float64 array of shape (5, 4)"


def test_every_other_column_of_an_array_is_watched_too():
    def body(seen):
        a = seen.asarray(np.zeros((4, 4)))[:, ::2]
        return lambda: a.__iadd__(1)

    assert changed(prepared(simulated(), body)) is not None
