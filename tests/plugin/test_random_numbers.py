"""Results that differ because of random numbers are said to."""

import json

import pytest

TEST = """
import numpy as np, pytest, random

@pytest.mark.speedup(min=3)
def test_it(device):
    {setup}
    def call():
        device.launch(10e-3 if device.kind == "cpu" else 1e-3)
        return {result}
    return call
"""
CASES = {
    "on one device": (
        "",
        "np.random.rand() if device.kind == 'cpu' else 2.0",
        "from NumPy's generator: draw them",
    ),
    "in the call": ("", "np.random.rand()", "the call draws random numbers from NumPy's generator: "),
    "in the setup": (
        "x = np.random.rand()",
        "x",
        "each device, from NumPy's generator: seed it",
    ),
    "of its own": ("g = random.Random(1)", "g.random()", "from a Random that it refers to: draw them before"),
}


@pytest.fixture
def record(run, pytester):
    """Run one test on the simulated devices; return its record."""

    def call(setup, result):
        run(TEST.format(setup=setup, result=result), "--gpuperf-json=r.json")
        (found,) = json.loads((pytester.path / "r.json").read_text())["records"]
        return found

    return call


@pytest.mark.parametrize("name", CASES)
def test_the_generator_is_named(record, name):
    setup, result, expected = CASES[name]
    found = record(setup, result)
    assert found["status"] in ("failed", "error")
    assert expected in found["reason"]
    assert "make the same values on both devices" not in found["reason"]


def test_numbers_that_are_seeded_inside_the_test_are_compared(record):
    found = record("np.random.seed(0)", "np.random.rand() * 0")
    assert "passed" == found["status"]
    found = record("np.random.seed(0); x = np.random.rand()", "x")
    assert "passed" == found["status"]


def test_other_differences_are_not_blamed_on_them(record):
    found = record("np.random.seed(0); x = np.random.rand()", "x + (device.kind == 'gpu')")
    assert "random numbers" not in found["reason"]
    assert "make the same values on both devices" in found["reason"]
