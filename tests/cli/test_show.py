"""gpuperf show and gpuperf validate."""

import pytest
from command import record, skipped, written
from factories import HERE, gate_result
from msgspec.structs import replace

NO_TESTS = "no test with a speedup marker ran"


def test_show_prints_the_table_and_the_reasons(call):
    written("r.json", record(), record("test_a.py::test_2", status="failed", reason="too slow"))
    code, lines, _ = call("show", "r.json")
    assert code == 0
    assert lines[0] == "CPU EPYC | GPU H200 through cupy"
    assert any(line.split()[:1] == ["test_1"] and line.endswith("recorded") for line in lines)
    assert "test_2: too slow" in lines


@pytest.mark.parametrize(
    ("expected", "records", "changes"),
    [
        ([NO_TESTS], [], {}),
        ([NO_TESTS], [skipped(reason_code="deselected")], {}),
        (["", "the run ended early: this is not all of it"], [record()], {"complete": False}),
        (["", "FAILED: nothing was compared"], [record()], {"gate": gate_result("nothing was compared")}),
    ],
)
def test_what_show_says_last(call, expected, records, changes):
    assert expected == call("show", written("r.json", *records, **changes))[1][-len(expected) :]


def test_show_of_a_machine_that_is_not_named(call):
    written("r.json", record(), environment=replace(HERE, cpu={}))
    assert call("show", "r.json")[1][0] == "CPU unknown | GPU H200 through cupy"


@pytest.mark.parametrize(("expected", "count"), [("0 records", 0), ("1 record", 1), ("2 records", 2)])
def test_validate_counts_the_records(call, expected, count):
    written("r.json", *(record(f"test_a.py::test_{number}") for number in range(count)))
    assert (0, [f"r.json: valid, {expected}"], "") == call("validate", "r.json")
