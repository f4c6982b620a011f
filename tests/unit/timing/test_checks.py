"""Result checks: what is found of the results of both devices, and what is said of it."""

from itertools import count

import numpy as np
import pytest
from cases import for_each
from walks import simulated

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.timing.checks import ResultChecks
from pytest_gpuperf.timing.leaves import Leaf

GATE, UNCHECKED = Demand(min=3), Demand(min=3, check=False)


def leaves_of(*values) -> list[Leaf]:
    return [Leaf(f"result[{index}]", np.array(value)) for index, value in enumerate(values)]


def compared(*pairs, demand=GATE, when="before") -> ResultChecks:
    """Return what was found of these pairs of values, of the CPU and the GPU, one pair after the other."""
    checks = ResultChecks(demand)
    for cpu, gpu in pairs:
        checks.compare(leaves_of(cpu), leaves_of(gpu), simulated(), when)
    return checks


@for_each("when", ["before", "after"])
def test_answers_that_differ_are_wrong_and_the_remedies_are_named(when):
    text = compared((1, 2), when=when).disagreement
    assert text.startswith(f"the devices disagree {when} timing: result[0]: 1 of 1 values differ; make ")
    assert "check=False" in text


@for_each(("named", "dtype"), [(True, "float32"), (False, "float64")])
def test_answers_that_differ_where_float32_is_rounded_more_name_the_setting(named, dtype):
    device = SimulatedDevice("gpu", clock=Clock(), reduced_precision="TF32 (allow_tf32)", reduced_eps=2**-10)
    checks = ResultChecks(GATE)
    first, close, wrong = (
        checks.copy_to_host(device.asarray(np.array([1.0, value], dtype)), device) for value in (1, 1.001, 2)
    )
    checks.compare(first, close, device, "before")
    assert checks.differ is not named
    checks.compare(first, wrong, device, "after")
    text = checks.disagreement
    assert named is ("more than the dtype says (TF32 (allow_tf32)): turn that off" in text)


@for_each(("runs_products", "differ"), [(None, False), (True, False), (False, True)])
def test_float32_has_the_tolerance_of_a_mode_only_where_products_may_have_run(runs_products, differ):
    cpu = simulated("cpu")
    device = SimulatedDevice("gpu", clock=Clock(), reduced_precision="TF32", reduced_eps=2**-10)
    checks, asked = ResultChecks(GATE), []
    checks.runs_products = lambda: asked.append(1) or runs_products
    expected, right, off = (
        checks.copy_to_host({"x": on.asarray(np.float32([value])), "y": 1.0}, on, ["float32"])
        for on, value in ((cpu, 1), (device, 1), (device, 1.02))
    )
    checks.compare(expected, right, device, "before")
    assert not asked  # full precision suffices, and nothing need be known
    assert checks.outcome.tolerance == pytest.approx(2**-11.5)
    checks.compare(expected, off, device, "after")
    assert asked
    assert checks.differ is differ


@for_each("pairs", [[(1, 2), (1, 1)], [(1, 1), (1, 2)], [(1, 2), (3, 3), (4, 4)]])
def test_of_two_findings_the_worse_stays(pairs):
    assert compared(*pairs).differ


def test_what_the_check_takes_is_told_altogether():
    device = simulated()
    checks = ResultChecks(GATE)
    slow = count(0.0, 0.25)
    device.clock = lambda: next(slow)
    for _ in range(3):
        checks.compare(leaves_of(1), leaves_of(1), device, "after")
    assert checks.elapsed == 0.75


@for_each(
    ("said", "value"),
    [
        ("zero", [0.0, 0.0]),
        ("NaN", np.full((2, 2), np.nan, "float32")),
        ("NaN", np.nan),
        (None, [0.0, 1.0]),
        (None, [np.nan, 0.0]),
        (None, [0.0, np.nan]),
        (None, [0.0]),
        (None, [0, 0]),
        (None, []),
        (None, "00"),
    ],
)
def test_answers_of_zeros_or_nan_alone_are_noted_and_agree(said, value):
    checks = compared((value, value))
    assert checks.outcome.agreed is True
    text = f"only zeros or only NaN on both devices: result[0] ({said}); check that the work is done"
    assert checks.notes == ((Note(code="degenerate_results", text=text),) if said else ())
    assert compared(([0.0, 0.0], [1.0, 1.0])).notes == (), "on one device"


def test_without_a_check_nothing_is_said_of_answers_that_differ():
    checks = compared((1, 2), demand=UNCHECKED)
    assert (None, False, ()) == (checks.outcome.agreed, checks.differ, checks.notes)
    assert checks.disagreement is None


def test_a_workload_that_returns_nothing_is_noted():
    checks = ResultChecks(GATE)
    checks.compare([], [], simulated(), "before")
    (note,) = checks.notes
    assert note.code == "results_not_compared"
    assert note.text == "the results were not compared: the workload returns nothing that could be compared"
