"""gpuperf merge: reports of shards joined into one run, and its exit code."""

from pathlib import Path

import pytest
from command import inputs, written
from factories import ELSEWHERE, offload, record, recorded, scaled, skipped, speedup_within
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import Pairing, SizeGroup, UnknownValue
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.reader import load_report

ONE, TWO = record("a.py::test_one"), record("a.py::test_two")
LEFT_OUT = skipped(TWO.nodeid, "left out", reason_code="deselected")
BROKEN = skipped(TWO.nodeid, "no driver", status="error")
SLOW = replace(TWO, status="failed", reason="too slow")
DOUBT = replace(TWO, status="inconclusive", reason="too near")


def alone(kind, nodeid=ONE.nodeid) -> Record:
    """Return the record of a test that was measured on one device."""
    absent = {"gpu" if kind == "cpu" else "cpu": None, "speedup": None}
    return recorded(nodeid, pairing=Pairing(kind=kind, library="numpy"), **absent)


def two_shards(one, two, first=None, second=None) -> list[str]:
    """Write the reports of two shards; return the command that merges them."""
    names = written("one.json", *one, **first or {}), written("two.json", *two, **second or {})
    return ["merge", *names, "-o", "merged.json"]


@pytest.fixture
def merged(call):
    """Merge the reports of two shards; return the run that they make."""

    def run(*shards) -> Run:
        _, _, err = call(*two_shards(*shards))
        assert err == ""
        return load_report("merged.json")

    return run


def test_shards_are_merged_and_shown(call):
    for _ in range(2):  # the second replaces the report of the first
        code, lines, _ = call(*two_shards([ONE], [SLOW], {"complete": False}))
        assert (1, True) == (code, "test_two: too slow" in lines)
        assert lines[-2:] == [
            "one.json is incomplete: its run ended early",
            "merged.json: 2 records of 2 reports",
        ]


@pytest.mark.parametrize(
    ("expected", "one", "two"),
    [
        ((ONE, TWO), [ONE], [TWO]),
        ((ONE, TWO), [ONE, LEFT_OUT], [TWO]),
        ((ONE, TWO), [ONE, skipped(TWO.nodeid, "too few GPUs")], [TWO]),
        ((ONE, BROKEN), [ONE, skipped(TWO.nodeid, "a holiday")], [BROKEN]),
        ((ONE, BROKEN), [ONE, BROKEN], [TWO]),  # what failed in one shard is not hidden by another
        ((ONE, skipped(TWO.nodeid, "no GPU")), [ONE, LEFT_OUT], [skipped(TWO.nodeid, "no GPU")]),
        ((alone("cpu", "b"), TWO), [alone("cpu", "b")], [TWO]),
        ((scaled(1), scaled(2, 0.9)), [scaled(1)], [scaled(2, 0.9)]),
    ],
)
def test_each_test_stays_as_it_ended_in_the_shard_that_ran_it(merged, expected, one, two):
    assert expected == merged(one, two).records


def test_curves_are_those_of_all_shards(merged):
    run = merged([scaled(1), scaled(2, 0.9)], [scaled(4, 0.8)])
    assert [1, 2, 4] == [point.count for curve in run.scalings for point in curve.points]


IN_ONE_RUN = "a CPU and a GPU are compared in one run only, which measures both"
BOTH = f"one.json and two.json both have a result of a.py::test_one; leave one out; {IN_ONE_RUN}"
NOTHING = f"nothing to merge: no report has a test that was compared; {IN_ONE_RUN}"


@pytest.mark.parametrize(
    ("said", "one", "two", "changes"),
    [
        (NOTHING, [alone("cpu")], [alone("gpu")], {}),
        (NOTHING, [], [LEFT_OUT], {}),
        (BOTH, [ONE], [ONE], {}),
        (BOTH, [TWO, alone("cpu")], [alone("gpu")], {}),
        ("in different conditions (CPU: EPYC, another), and ", [ONE], [TWO], {"environment": ELSEWHERE}),
        ("in different conditions (cost ratio: none, 9), and ", [ONE], [TWO], {"cost_ratio": 9}),
        ("in different conditions (CPU", [ONE], [alone("cpu", "b")], {"environment": ELSEWHERE}),
    ],
)
def test_results_that_make_no_run_are_refused_with_the_cause(refused, said, one, two, changes):
    assert said in refused(*two_shards(one, two, {}, changes))


def test_a_shard_that_measured_nothing_may_be_of_anywhere(merged):
    assert ELSEWHERE != merged([LEFT_OUT], [ONE], {"environment": ELSEWHERE}).environment


def test_a_run_is_that_of_all_its_shards(merged):
    few, many = (UnknownValue(parameter="xp", value=value, tests=2) for value in ("'dask'", "'mlx'"))
    common = {"arguments": ("--gpuperf-all",), "cost_ratio": 2}
    first = {"started": "2", "unmarked": 1, "narrowed_by": ("-k", "paths"), "unknown_values": (many,)}
    second = {"started": "1", "unmarked": 2, "narrowed_by": ("-m", "-k"), "unknown_values": (few, many)}
    run = merged([ONE], [TWO], first | common, second | common | {"complete": False})
    assert ("-k", "paths", "-m") == run.narrowed_by, "`baseline update --prune` refuses a part of the suite"
    assert ("1", False, 3, 2) == (run.started, run.complete, run.unmarked, run.cost_ratio)
    assert ((many, few), ("--gpuperf-all",)) == (run.unknown_values, run.arguments)
    assert () == merged([ONE], [TWO], common, {"cost_ratio": 2}).arguments


@pytest.mark.parametrize(("expected", "second"), [(Commit(id="a"), "a"), (None, "b")])
def test_shards_of_one_commit_are_a_run_of_it(merged, expected, second):
    assert expected == merged([ONE], [TWO], *({"commit": Commit(id=each)} for each in ("a", second))).commit


def sizes(at_most: float) -> list[Record]:
    """Return a test of two sizes, of which the GPU wins the larger."""
    asked = SizeGroup(name="t", parameter="n", size=1, sizes=(1, 2), at_most=at_most)
    return [
        recorded(
            f"t[{size}]",
            size_group=replace(asked, size=size),
            speedup=speedup_within(ratio, 0.0),
            offload=offload(worth=ratio > 1),
        )
        for size, ratio in ((1, 0.5), (2, 2.0))
    ]


@pytest.mark.parametrize(
    ("expected", "second", "options"),
    [
        (0, [TWO], []),
        (1, [SLOW], ["--fail=sure"]),
        (0, [DOUBT], []),
        (1, [DOUBT], ["--fail=doubt"]),
        (0, sizes(2), []),
        (1, sizes(1), []),
    ],
)
def test_a_failed_test_or_threshold_is_the_exit_code(call, expected, second, options):
    assert expected == call(*two_shards([ONE], second), *options)[0]


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("none.json", ["one.json", "two.json", "none.json"]),
        ("merging needs two reports or more", ["one.json"]),
        ("link.json is an input of this command", ["one.json", "two.json", "-o", "link.json"]),
        ("wrong.json exists and was not written by", ["one.json", "two.json", "-o", "wrong.json"]),
    ],
)
def test_what_cannot_be_merged_or_written_is_refused_by_name(refused, said, names):
    inputs()
    Path("link.json").hardlink_to("two.json")
    Path("wrong.json").write_text("no report")
    assert said in refused("merge", "-o", "merged.json", *names)
