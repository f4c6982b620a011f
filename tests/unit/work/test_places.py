"""Which values of two results are in the same place: by equal keys and by position, never by their text."""

from enum import Enum

import numpy as np
import pytest
from cases import for_each
from walks import simulated

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.work.checks import ResultChecks
from pytest_gpuperf.work.places import RESULT, Place
from pytest_gpuperf.work.values import leaves

ONES, ZEROS = np.ones(3), np.zeros(3)
NAN = float("nan")
LONG = "k" * 1200


class K:
    """A key that is equal to itself alone."""

    def __repr__(self):
        return "K"


class Sign(Enum):
    PLUS = 1
    MINUS = 2


class Strange(K):
    """A key that cannot be compared."""

    __hash__ = K.__hash__

    def __eq__(self, other):
        raise RuntimeError


def compared(cpu, gpu):
    checks, device = ResultChecks(Demand()), simulated()
    checks.compare(*(checks.copy_to_host(result, device) for result in (cpu, gpu)), device, "before")
    return checks.outcome


FIRST, SECOND = K(), K()


@for_each(
    ("agree", "cpu", "gpu"),
    [
        # Keys that read alike hide nothing from each other.
        (False, {FIRST: ONES, SECOND: ONES}, {FIRST: ZEROS, SECOND: ONES}),
        (False, {LONG + "a": ONES, LONG + "b": ONES}, {LONG + "a": ZEROS, LONG + "b": ONES}),
        (False, {1: ONES, np.str_("1"): ONES}, {1: ZEROS, np.str_("1"): ONES}),
        # In any order
        (True, {"a": ONES, "b": ZEROS}, {"b": ZEROS, "a": ONES}),
        (True, {FIRST: ONES, SECOND: ZEROS}, {SECOND: ZEROS, FIRST: ONES}),
        (True, {"x": {"a": ONES, "b": ZEROS}}, {"x": {"b": ZEROS, "a": ONES}}),
        (True, {len: ONES, abs: ZEROS}, {abs: ZEROS, len: ONES}),
        # Each device has made keys of its own, which equal no others.
        (True, {K(): ONES, K(): ZEROS}, {K(): ONES, K(): ZEROS}),
        (False, {K(): ONES, K(): ZEROS}, {K(): ZEROS, K(): ONES}),
        (True, {(K(), "a"): ONES}, {(K(), "a"): ONES}),
        (True, {"a": ZEROS, K(): ONES}, {K(): ONES, "a": ZEROS}),
        (True, {Strange(): ONES}, {Strange(): ONES}),
        (True, {float("nan"): ONES, 1.0: ZEROS}, {1.0: ZEROS, float("nan"): ONES}),
        (True, {NAN: ONES}, {NAN: ONES}),
        # What is equal to another one is not taken for its neighbour.
        (False, {"a": ONES}, {"b": ONES}),
        (False, {Sign.PLUS: ONES}, {Sign.MINUS: ONES}),
        (False, {int: ONES}, {float: ONES}),
        (False, [ONES, ZEROS], [ZEROS, ONES]),
        (False, {FIRST: ONES}, {K(): ONES, SECOND: ZEROS}),
    ],
)
def test_values_are_those_of_equal_keys_or_of_the_same_position(agree, cpu, gpu):
    assert agree is compared(cpu, gpu).agreed


def test_a_path_reads_as_python_would_and_is_not_too_long():
    place = Place(Place(Place(RESULT, "x"), 0), "total", "attribute")
    assert "result['x'][0].total" == place.path
    for _ in range(3000):
        place = Place(place, 1)
    assert len(place.path.encode()) <= 2000


def cyclic():
    node = {"x": ONES, "others": []}
    node["others"] += [node, {"parent": node}]
    return node


def deep():
    link = ()
    for number in range(5000):
        link = (number, link)
    return link


@pytest.mark.parametrize("make", [cyclic, deep])
def test_containers_may_be_cyclic_or_deep(make):
    assert compared(make(), make()).agreed
    assert [*leaves(make())]
    array = np.empty(2, object)
    array[:] = [array, 1.0]
    assert compared(array, array).agreed


def test_a_container_that_is_there_twice_has_its_values_twice():
    shared = [1.0]
    assert ["result[0][0]", "result[1][0]"] == [leaf.path for leaf in leaves([shared, shared])]
