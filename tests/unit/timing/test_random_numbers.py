"""Which random generators a test draws from, and what is said where its results differ for that."""

import random
import sys
from functools import partial
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from pytest_gpuperf.timing import random_numbers

OWN = np.random.default_rng(0)
HOLDER = SimpleNamespace(inner={"rng": random.Random(0)})  # noqa: S311 - a test
DRAWS = {
    "Python's generator": lambda: random.random(),  # noqa: S311 - a test
    "NumPy's generator": lambda: np.random.rand(),
    "a Generator that it refers to": lambda: OWN.random(),
    "a Random that it refers to": lambda: HOLDER.inner["rng"].random(),
    "a RandomState that it refers to": partial(np.random.RandomState(0).rand, 3),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_that_a_call_draws_from_is_named(name):
    call = DRAWS[name]
    before = random_numbers.states(call)
    assert random_numbers.changed(before, random_numbers.states(call)) == ()
    call()
    drawn = random_numbers.changed(before, random_numbers.states(call))
    assert drawn == (name,)
    expected = f"the call draws random numbers from {name}: draw them before, or seed it inside the call"
    assert expected == random_numbers.of_call(drawn, call)


def test_a_call_that_draws_none_needs_nothing():
    assert random_numbers.of_call((), int) is None


def test_setups_that_draw_from_other_states_are_named_and_no_others():
    cpu, gpu = {"a": b"1", "b": b"1"}, {"a": b"2", "b": b"1"}
    assert random_numbers.unseeded(("b",), cpu, gpu) is None  # seeded inside the test: the states are equal
    assert random_numbers.unseeded((), cpu, gpu) is None
    assert random_numbers.unseeded(("a", "b"), cpu, gpu) == (
        "the test draws other random numbers on each device, from a: seed it inside the test"
    )


def test_generators_without_a_state_and_libraries_without_one_are_left_alone(monkeypatch):
    system = random.SystemRandom()
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    found = random_numbers.states(lambda: system.random())
    assert found.keys() == {"Python's generator", "NumPy's generator"}
