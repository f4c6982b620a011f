"""Result checks: which results can be compared, and whether the timed work was the requested work."""

from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import count
from typing import Any

import numpy as np
import pytest

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.timing import untimed_calls
from pytest_gpuperf.timing.checks import ResultChecks
from pytest_gpuperf.timing.parity import Leaf

BARE, GATE, UNCHECKED = Demand(), Demand(min=3), Demand(min=3, parity=False)
COPIED = Demand(min=3, parity=False, transfer="always")
DEMANDS = [BARE, GATE, UNCHECKED, COPIED]


class Model:
    """An object that nobody can compare."""


@dataclass
class Pair:
    first: Any
    second: Any


def simulated() -> SimulatedDevice:
    return SimulatedDevice("gpu", clock=Clock())


def copied_to_host(result, demand) -> list[Leaf]:
    return ResultChecks(demand).copy_to_host(result, simulated())


def refusal(result, demand) -> str:
    with pytest.raises(GpuPerfError) as refused:
        copied_to_host(result, demand)
    return str(refused.value)


def leaves_of(*values) -> list[Leaf]:
    return [Leaf(f"result[{index}]", np.array(value)) for index, value in enumerate(values)]


def compared(*pairs, demand=GATE, when="before") -> ResultChecks:
    """Return what was found of these pairs of values, of the CPU and the GPU, one pair after the other."""
    checks = ResultChecks(demand)
    for cpu, gpu in pairs:
        checks.compare(leaves_of(cpu), leaves_of(gpu), simulated(), when)
    return checks


def prepared(body):
    """Prepare a body that takes the device."""
    return untimed_calls.first_call(lambda seen: partial(body, seen), simulated())[0]


def lazily():
    yield 1.0


LAZY = [
    ("generator", lazily),
    ("map", lambda: map(float, [1])),
    ("zip", lambda: zip([1], [2], strict=True)),
    ("list_iterator", lambda: iter([1.0])),
    ("count", count),
]


@pytest.mark.parametrize("demand", DEMANDS, ids=["bare", "gate", "unchecked", "copied"])
@pytest.mark.parametrize(("name", "make"), LAZY, ids=[name for name, _ in LAZY])
def test_a_result_whose_work_is_still_to_be_done_is_refused_by_any_marker(name, make, demand):
    expected = (
        f"result is of type {name}, which is lazy: its work would run after the timed call; "
        "return the values that it yields"
    )
    assert expected == refusal(make(), demand)


@pytest.mark.parametrize("demand", DEMANDS, ids=["bare", "gate", "unchecked", "copied"])
def test_a_generator_deep_in_a_result_is_refused_with_its_place(demand):
    text = refusal({"kept": [1.0, Pair(2.0, lazily())]}, demand)
    assert text.startswith("result['kept'][1].second is of type generator, which is lazy: its work would run")


STRANGE = [
    ("set", lambda path: {1, 2}),
    ("Model", lambda path: Model()),
    ("bytes", lambda path: b"bytes"),
    ("BytesIO", lambda path: BytesIO()),
]


@pytest.fixture(params=["TextIOWrapper", *(name for name, _ in STRANGE)])
def strange(request, tmp_path):
    """Return a value that nobody can compare, and the name of its type: a file, a set, an object."""
    path = tmp_path / "a_file"
    path.touch()
    make = {"TextIOWrapper": lambda path: path.open(encoding="utf-8"), **dict(STRANGE)}[request.param]
    value = make(path)
    yield value, request.param
    getattr(value, "close", lambda: None)()


def test_what_can_be_neither_compared_nor_copied_is_refused_with_its_type_and_place(strange):
    value, name = strange
    expected = (
        f"result[1]['deep'] is of type {name}, which can be neither compared nor copied; "
        "return arrays, numbers or text, in tuples, lists, dicts or dataclasses or pass parity=False"
    )
    assert expected == refusal((1.0, {"deep": value}), GATE)


def test_where_results_are_copied_parity_is_no_way_out(strange):
    value, name = strange
    text = refusal(value, COPIED)
    assert text.startswith(f"result is of type {name}, which can be neither compared nor copied")
    assert "parity=False" not in text
    assert text == refusal(value, Demand(min=3, transfer="once", calls=10))


def test_without_parity_and_copies_anything_may_be_returned(strange):
    value, _ = strange
    assert [Leaf("result", value)] == copied_to_host(value, UNCHECKED)


def test_under_a_bare_marker_it_is_noted_only(strange):
    value, name = strange
    checks = ResultChecks(BARE)
    leaf = checks.copy_to_host([value], simulated())
    checks.require_same_result(leaf, leaf)
    checks.compare(leaf, leaf, simulated(), "before")
    assert not checks.differ
    said = f"parity was not checked: result[0] is a {name}, which cannot be compared"
    assert checks.notes == (Note(code="parity_not_checked", text=said),)


def test_a_result_that_can_be_compared_is_on_the_host():
    device = simulated()
    found = ResultChecks(GATE).copy_to_host(
        (device.asarray([1.0, 2.0]), 3, "text", True, None, np.float32(4)), device
    )
    assert [[1.0, 2.0], 3, "text", True, 4] == [leaf.value.tolist() for leaf in found]
    assert {np.ndarray} == {type(leaf.value) for leaf in found}


def test_before_anything_was_compared_nothing_differs():
    checks = ResultChecks(GATE)
    assert (None, None, False, ()) == (checks.parity, checks.elapsed, checks.differ, checks.notes)
    assert checks.disagreement is None


def test_answers_that_agree_are_not_wrong():
    checks = compared((1.0, 1.0))
    assert (True, False, ()) == (checks.parity.agreed, checks.differ, checks.notes)
    assert checks.disagreement is None


@pytest.mark.parametrize("when", ["before", "after"])
def test_answers_that_differ_are_wrong_and_the_remedies_are_named(when):
    text = compared((1, 2), when=when).disagreement
    assert text.startswith(f"the devices disagree {when} timing: result[0]: 1 of 1 values differ; seed ")
    assert "parity=False" in text


@pytest.mark.parametrize("pairs", [[(1, 2), (1, 1)], [(1, 1), (1, 2)], [(1, 2), (3, 3), (4, 4)]])
def test_of_two_findings_the_worse_stays(pairs):
    assert compared(*pairs).differ


def test_of_two_findings_that_are_alike_the_first_stays():
    checks = compared((1.0, 1.0), (1.0, 1.0 + 1e-9))
    assert checks.parity.error == 0


def test_what_parity_takes_is_told_altogether():
    device = simulated()
    checks = ResultChecks(GATE)
    slow = count(0.0, 0.25)
    device.clock = lambda: next(slow)
    for _ in range(3):
        checks.compare(leaves_of(1), leaves_of(1), device, "after")
    assert checks.elapsed == 0.75


def test_parity_that_was_turned_off_is_not_worth_a_note():
    checks = compared((1, 2), demand=UNCHECKED)
    assert (None, False, ()) == (checks.parity.agreed, checks.differ, checks.notes)


def test_a_workload_that_returns_nothing_is_noted():
    checks = ResultChecks(GATE)
    checks.compare([], [], simulated(), "before")
    (note,) = checks.notes
    assert note.code == "parity_not_checked"
    assert note.text == "parity was not checked: the workload returns nothing that could be compared"


def test_a_result_that_changes_from_call_to_call_is_other_work():
    with pytest.raises(GpuPerfError, match=r"changes from call to call.*or pass parity=False"):
        ResultChecks(GATE).require_same_result(leaves_of(1), leaves_of(2))


@pytest.mark.parametrize(("demand", "after"), [(GATE, 1), (UNCHECKED, 2), (Demand(min=3, atol=2), 2)])
def test_a_result_that_stays_or_need_not_is_the_same_work(demand, after):
    ResultChecks(demand).require_same_result(leaves_of(1), leaves_of(after))


def test_a_gpu_that_was_idle_did_not_do_the_work():
    with pytest.raises(GpuPerfError, match="no work reached simulated GPU"):
        ResultChecks(GATE).require_device_work(prepared(lambda seen: lambda: np.ones(3)))
    ResultChecks(GATE).require_device_work(prepared(lambda seen: lambda: seen.xp.ones(3)))


@pytest.mark.parametrize("demand", DEMANDS, ids=["bare", "gate", "unchecked", "copied"])
def test_a_changed_input_is_refused_by_any_marker(demand):
    def body(seen):
        a = seen.asarray(np.zeros((2, 3), np.float32))
        return lambda: a.__iadd__(1)

    workload = prepared(body)
    workload.call()
    with pytest.raises(GpuPerfError, match=r"modifies its input \(float32 array of shape \(2, 3\)\)"):
        ResultChecks(demand).require_same_inputs(workload)
