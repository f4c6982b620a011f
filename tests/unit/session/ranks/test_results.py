"""Results of several ranks as one: what they have at the same places, of one shape, is a part of it."""

import numpy as np
import pytest

from pytest_gpuperf.devices.group import StackedParts
from pytest_gpuperf.session.ranks.results import gathered, packed, unpacked
from pytest_gpuperf.work.values import snapshot, values_of


def values(result):
    return snapshot(values_of(result, lambda _: False), lambda _: False, np.asarray)


def of_ranks(first, *others):
    return gathered(values(first), [unpacked(*packed(values(result))) for result in others])


@pytest.mark.parametrize(
    ("results", "shape"),
    [
        ([np.ones(3), np.ones(3), np.ones(3)], (3, 3)),
        ([np.ones(3), np.ones(3), None], (1, 3)),  # two of three parts are no whole
        ([np.ones(3), np.ones(3), np.ones(2)], (1, 3)),
        ([np.ones(3), [np.ones(3)], np.ones(3)], (1, 3)),  # at another place
        ([1.5, 2.5], (2,)),
    ],
)
def test_arrays_of_one_shape_at_one_place_are_parts(results, shape):
    (leaf,) = of_ranks(*results)
    assert isinstance(leaf.value, StackedParts)
    assert shape == leaf.value.shape


def test_each_value_keeps_its_numbers_and_its_dtype():
    first, other = {"a": np.arange(4, dtype="i2"), "b": 1 + 2j}, {"b": 3j, "a": -np.arange(4, dtype="i2")}
    found = {leaf.path: leaf.value for leaf in of_ranks(first, other)}
    assert [[0, 1, 2, 3], [0, -1, -2, -3]] == found["result['a']"].tolist()
    assert [1 + 2j, 3j] == found["result['b']"].tolist()
    assert np.int16 == found["result['a']"].dtype


def test_many_numbers_in_a_list_are_a_part_as_an_array_is():
    numbers = [float(number) for number in range(100)]
    (leaf,) = of_ranks(numbers, numbers)
    assert (2, 100) == leaf.value.shape
    assert leaf.cells is None


@pytest.mark.parametrize("result", ["a text", np.array(["a", "b"]), np.zeros(3, dtype="V1")])
def test_what_is_no_number_is_that_of_rank_0(result):
    assert all(not isinstance(leaf.value, StackedParts) for leaf in of_ranks(result, result))
