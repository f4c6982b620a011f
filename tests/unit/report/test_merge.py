"""Reports of shards joined into one run."""

import pytest
from cases import for_each
from factories import CPU, ELSEWHERE, base_of, measured, record, recorded, scaled, skipped
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import Pairing, UnknownValue
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record, Report
from pytest_gpuperf.report.json import document
from pytest_gpuperf.report.merge import merge

ONE, TWO = record("a.py::test_one"), record("a.py::test_two")
LEFT_OUT = skipped("a.py::test_two", "left out", reason_code="deselected")
BROKEN = skipped("a.py::test_two", "no driver", status="error")


def report(name: str, *records: Record, **changes) -> Report:
    return base_of(*records, name=f"{name}.json", **changes)


def alone(kind, **changes) -> Record:
    """Return the record of a test that was measured on one device."""
    absent = {"gpu" if kind == "cpu" else "cpu": None, "speedup": None}
    return recorded(ONE.nodeid, pairing=Pairing(kind=kind, library="numpy"), **absent, **changes)


def refused(*reports: Report) -> str:
    with pytest.raises(GpuPerfError) as refusal:
        merge(reports)
    return str(refusal.value)


@for_each(
    ("expected", "one", "two"),
    [
        ((ONE, TWO), [ONE], [TWO]),
        ((ONE, TWO), [ONE, LEFT_OUT], [TWO]),
        ((ONE, TWO), [ONE, skipped(TWO.nodeid, "too few GPUs")], [TWO]),
        ((ONE, BROKEN), [ONE, skipped(TWO.nodeid, "a holiday")], [BROKEN]),
        ((ONE, BROKEN), [ONE, BROKEN], [TWO]),  # what failed in one shard is not hidden by another
        ((ONE, skipped(TWO.nodeid, "no GPU")), [ONE, LEFT_OUT], [skipped(TWO.nodeid, "no GPU")]),
        ((scaled(1), scaled(2, 0.9)), [scaled(1)], [scaled(2, 0.9)]),
    ],
)
def test_each_test_stays_as_it_ended_in_the_shard_that_ran_it(expected, one, two):
    run = merge([report("one", *one), report("two", *two)])
    assert expected == run.records
    assert document.parse(document.text(run).encode()) == run


def test_curves_and_thresholds_are_those_of_all_shards():
    run = merge([report("one", scaled(1), scaled(2, 0.9)), report("two", scaled(4, 0.8))])
    assert [1, 2, 4] == [point.count for curve in run.scalings for point in curve.points]


IN_ONE_RUN = "a CPU and a GPU are compared in one run only, which measures both"


@for_each(
    ("said", "one", "two"),
    [
        ("nothing to merge: no report has a test that was compared; ", [alone("cpu")], [alone("gpu")]),
        ("nothing to merge: no report has a test that was compared; ", [], [LEFT_OUT]),
        ("one.json and two.json both have a result of a.py::test_one; leave one out; ", [ONE], [ONE]),
        (
            "one.json and two.json both have a result of a.py::test_one; leave one out; ",
            [TWO, alone("cpu")],
            [alone("gpu")],
        ),
    ],
)
def test_two_results_of_a_test_are_refused_with_the_remedy(said, one, two):
    assert f"{said}{IN_ONE_RUN}" == refused(report("one", *one), report("two", *two))


@for_each(
    ("said", "changes"),
    [
        ("CPU: EPYC, another", {"environment": ELSEWHERE}),
        ("cost ratio: none, 9", {"cost_ratio": 9}),
    ],
)
def test_shards_in_different_conditions_are_refused_with_what_differs(said, changes):
    on_cpu = replace(alone("cpu"), nodeid="a.py::test_cpu")
    for second in (TWO, on_cpu):
        found = refused(report("one", ONE), report("two", second, **changes))
        assert found.startswith(f"one.json and two.json were measured in different conditions ({said}), and ")
    assert merge([report("two", LEFT_OUT, **changes), report("one", ONE)]).environment != ELSEWHERE


def test_a_run_is_that_of_all_its_shards():
    few, many = (UnknownValue(parameter="xp", value=value, tests=2) for value in ("'dask'", "'mlx'"))
    common = {"arguments": ("--gpuperf-all",), "cost_ratio": 2}
    first = {"started": "2", "unmarked": 1, "narrowed_by": ("-k", "paths"), "unknown_values": (many,)}
    second = {"started": "1", "unmarked": 2, "narrowed_by": ("-m", "-k"), "unknown_values": (few, many)}
    one = report("one", ONE, **common, **first)
    run = merge([one, report("two", TWO, **common, **second, complete=False)])
    assert ("-k", "paths", "-m") == run.narrowed_by, "`baseline update --prune` refuses a part of the suite"
    assert ("1", False, 3, 2) == (run.started, run.complete, run.unmarked, run.cost_ratio)
    assert ((many, few), ("--gpuperf-all",)) == (run.unknown_values, run.arguments)
    assert () == merge([one, report("two", TWO, cost_ratio=2)]).arguments


@for_each(("expected", "second"), [(Commit(id="a"), "a"), (None, "b")])
def test_shards_of_one_commit_are_a_run_of_it(expected, second):
    one, two = (report(name, test, commit=Commit(id=name)) for name, test in (("a", ONE), (second, TWO)))
    assert expected == merge([one, two]).commit


def test_what_was_measured_on_the_cpu_alone_is_kept():
    cpu = replace(alone("cpu"), cpu=measured(CPU, 0.02))
    assert (cpu, TWO) == merge([report("one", cpu), report("two", TWO)]).records
