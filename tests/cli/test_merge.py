"""gpuperf merge: the files it reads and writes, its words and its exit codes."""

from pathlib import Path

import pytest
from command import inputs, read, record, usage, written
from factories import offload, speedup
from msgspec.structs import replace

from pytest_gpuperf.model.demand import Demand, SizeGroup

TWO = record("test_a.py::test_2", status="passed", demand=Demand(min=2))
SLOW = replace(TWO, status="failed", reason="too slow")
DOUBT = replace(TWO, status="inconclusive", reason="too near")


def merged(call, second, *options) -> tuple[int, list[str]]:
    """Merge a report of one test with one of these; return the exit code, and what was printed."""
    code, lines, err = call(
        "merge", written("one.json", record()), written("two.json", *second), "-o", "merged.json", *options
    )
    assert err == ""
    assert len(second) + 1 == len(read("merged.json")["records"])
    return code, lines


def test_shards_are_merged_and_shown(call):
    for _ in range(2):  # the second replaces the report of the first
        code, lines = merged(call, [SLOW])
        assert code == 1
        assert "test_2: too slow" in lines
        assert lines[-1] == "merged.json: 2 records of 2 reports"
    written("one.json", record(), complete=False)
    assert call("merge", "two.json", "one.json", "-o", "merged.json")[1][-2:] == [
        "one.json is incomplete: its run ended early",
        "merged.json: 2 records of 2 reports",
    ]


def group(at_most: float) -> list:
    """Return a test of two sizes, of which the GPU wins the larger."""
    for size, value in ((1, 0.5), (2, 2.0)):
        asked = SizeGroup(name="t", parameter="n", size=size, sizes=(1, 2), at_most=at_most)
        found = {"speedup": speedup(value, value, value), "offload": offload(worth=value > 1)}
        yield record(f"t[{size}]", size_group=asked, **found)


@pytest.mark.parametrize(
    ("expected", "second", "options"),
    [
        (0, [TWO], []),
        (1, [SLOW], ["--fail=sure"]),
        (0, [DOUBT], []),
        (1, [DOUBT], ["--fail=doubt"]),
        (0, [*group(2)], []),
        (1, [*group(1)], []),
    ],
)
def test_a_failed_test_or_threshold_is_the_exit_code(call, expected, second, options):
    assert expected == merged(call, second, *options)[0]


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("wrong.json: it is not JSON", ["one.json", "wrong.json"]),
        ("none.json", ["one.json", "two.json", "none.json"]),
        ("one.json and one.json both have a result of test_a.py::test_1", ["one.json", "one.json"]),
        ("merging needs two reports or more", ["one.json"]),
        ("nothing to merge: no report has a test that was compared", ["empty.json", "empty.json"]),
        ("link.json is an input of this command", ["one.json", "two.json", "-o", "link.json"]),
        ("wrong.json exists and was not written by", ["one.json", "two.json", "-o", "wrong.json"]),
        ("one.json is not a folder", ["one.json", "two.json", "-o", "one.json/merged.json"]),
    ],
)
def test_what_cannot_be_merged_or_written_is_refused_by_name(refused, said, names):
    inputs()
    written("empty.json")
    Path("link.json").unlink(missing_ok=True)
    Path("link.json").hardlink_to("two.json")
    Path("wrong.json").write_text("no report")
    assert said in refused("merge", "-o", "merged.json", *names)


@pytest.mark.parametrize("options", [["one.json", "two.json"], ["-o", "merged.json"], ["--fail=no"]])
def test_a_command_that_is_wrong_ends_as_such(capsys, options):
    assert "usage: " in usage(capsys, "merge", *options)
