"""Changed inputs: what calls change and read is told from what they only write."""

from functools import partial
from itertools import count

import numpy as np
import pytest

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.timing import any_array, input_changes, untimed_calls
from pytest_gpuperf.timing.workload import Workload


def simulated() -> SimulatedDevice:
    return SimulatedDevice("gpu", clock=Clock())


def prepared(device, body) -> Workload:
    """Prepare a body that takes the device."""
    return untimed_calls.first_call(lambda seen: partial(body, seen), device)[0]


def changed(workload):
    changes = input_changes.changes_of(workload.inputs, workload.call, workload.device)
    return next((change.described for change in changes), None)


@pytest.mark.parametrize("values", [np.zeros(3), np.ones(3), np.arange(3.0)])
def test_an_array_that_is_only_written_to_is_an_output_and_keeps_its_values(values):
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


def marks(device):
    marked = device.asarray(np.zeros(9, dtype=bool))

    def call():
        marked[3:5] = True

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


def rows_in_turn(device):
    rows, turns = device.asarray(np.zeros((4, 3))), count()

    def call():
        rows[next(turns) % 4] = (3.0, 0.0, 1.0)

    return call


OUTPUTS = [
    rows_in_turn,
    rows_of_a_cache,
    marks,
    values_that_are_not_numbers,
    *(partial(in_turn, number=n) for n in (2, 3, 4)),
]


@pytest.mark.parametrize("body", OUTPUTS)
def test_arrays_that_are_written_in_part_or_in_turn_are_outputs(body):
    workload = prepared(simulated(), body)
    for _ in range(4):
        workload.call()
    before = [entry.array().tolist() for entry in workload.inputs]
    changes = input_changes.changes_of(workload.inputs, workload.call, workload.device)
    assert all(change.may_be_output for change in changes)
    assert str([entry.array().tolist() for entry in workload.inputs]) == str(before)


def clips(a):
    np.maximum(a, 0, out=a)


def fills(a):
    a[a < 0.1] = 0


def adds(a):
    a += 1


def scales(a):
    a *= 2


def negates(a):
    np.negative(a, out=a)


def takes_roots(a):
    np.sqrt(np.abs(a), out=a)


def sorts_once(a):
    if a[0] > a[1]:
        a.sort()


CHANGES = [clips, fills, adds, scales, negates, takes_roots, sorts_once, np.ndarray.sort]


@pytest.mark.parametrize("values", [[3.0, -1.0, 0.0, 1.0, 0.05], [2.0, -3.0, 5.0], [1.0, 1.0]], ids=str)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_calls_read_is_no_output_though_they_write_it(change, values):
    def body(seen):
        a = seen.asarray(np.array(values))
        return lambda: change(a.view(np.ndarray))

    workload = prepared(simulated(), body)
    (entry,) = workload.inputs
    was_changed = any_array.checksum(np.array(entry.array())) != entry.checksum
    changes = input_changes.changes_of(workload.inputs, workload.call, workload.device)
    assert [change.may_be_output for change in changes] == [False] * was_changed


def test_an_array_of_which_calls_write_a_part_is_told_from_one_that_they_write():
    parts, wholes = (prepared(simulated(), body) for body in (rows_of_a_cache, OUTPUTS[-1]))
    (change,) = input_changes.changes_of(parts.inputs, parts.call, parts.device)
    assert change.may_be_output
    assert input_changes.changes_of(wholes.inputs, wholes.call, wholes.device) == ()


def test_sorting_in_place_is_a_change_though_it_gives_the_same_each_time():
    workload = prepared(simulated(), lambda seen: seen.asarray([3.0, 1.0, 2.0]).sort)
    assert "shape (3,)" in changed(workload)


@pytest.mark.parametrize("kind", ["int8", "uint32", "bool", "float16", "complex128"])
def test_inputs_of_every_kind_of_number_are_watched(kind):
    def body(seen):
        a = seen.asarray(np.eye(2, dtype=kind))
        return lambda: np.copyto(a.view(np.ndarray), a.view(np.ndarray) == 0)

    assert changed(prepared(simulated(), body)) == f"{kind} array of shape (2, 2)"


@pytest.mark.parametrize("place", [(0, 0), (2, 1), (-1, -1)])
def test_a_change_of_one_value_is_seen(place):
    def body(seen):
        a = seen.asarray(np.zeros((5, 4)))
        return lambda: a.__setitem__(place, 1.0)

    workload = prepared(simulated(), body)
    assert changed(workload) == "float64 array of shape (5, 4)"


def test_every_other_column_of_an_array_is_watched_too():
    def body(seen):
        a = seen.asarray(np.zeros((4, 4)))[:, ::2]
        return lambda: a.__iadd__(1)

    assert changed(prepared(simulated(), body)) is not None
