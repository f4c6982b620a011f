"""gpuperf merge: the files it reads and writes, its words and its exit codes."""

import json
from pathlib import Path

import pytest
from cases import for_each
from command import usage
from factories import ROUNDS
from published import JUDGE
from two_runs import ELSEWHERE, OTHER, TEST, report, side, size_group_of, whole

from pytest_gpuperf.model.record import Report
from pytest_gpuperf.report.json import document


def written(*reports: Report) -> list[str]:
    """Write reports where the command is called, and return their names."""
    for each in reports:
        Path(each.name).write_text(document.text(each.run), encoding="utf-8")
    return [each.name for each in reports]


def two_runs(*speedups: float, of_gpu=None, **changes) -> list[str]:
    """Write the reports of a CPU and a GPU run of tests with these speedups."""
    times = {"cpu": speedups, "gpu": [1.0] * len(speedups)}
    of = {"cpu": {}, "gpu": of_gpu or {}}
    return written(
        *(
            report(
                f"{kind}.json",
                *(side(kind, time, nodeid=f"a.py::test_{n}", **of[kind]) for n, time in enumerate(each)),
                **changes,
            )
            for kind, each in times.items()
        )
    )


def merged(call, *arguments) -> tuple[int, list[str], list[str]]:
    """Return the exit code, the statuses of the merged records, and what is printed."""
    code, lines, _ = call("merge", *arguments, "-o", "merged.json")
    content = json.loads(Path("merged.json").read_text(encoding="utf-8"))
    JUDGE.validate(content)
    return code, [record["status"] for record in content["records"]], lines


def test_a_merged_report_is_written_and_shown(call):
    cpu, gpu = two_runs(3.0, 1.0)
    there = [side("gpu", 1.0, nodeid=f"a.py::test_{n}") for n in range(2)]
    written(report(gpu, *there, environment=ELSEWHERE, complete=False))
    for names in ((cpu, gpu), (gpu, cpu)):  # the second replaces the report of the first
        code, statuses, lines = merged(call, *names)
        assert (1, ["passed", "failed"]) == (code, statuses)
        assert "CPU EPYC | GPU H200 through cupy" in lines
        assert "test_1: required at least 2x, speedup 1.00x [1.00, 1.00]" in lines
        assert any(line.startswith("the runs that were merged differ: host: ") for line in lines)
        assert lines[-2:] == [
            "gpu.json is incomplete: its run ended early",
            "merged.json: 2 records of 2 reports",
        ]


DOUBTS = [(2.0, {}), (10.0, {"dropped_rounds": ROUNDS})]


@for_each(("expected", "options"), [(0, []), (0, ["--fail=sure"]), (1, ["--fail=doubt"])])
@for_each(("speedup", "of_gpu"), DOUBTS)
def test_a_doubt_ends_as_was_chosen(call, expected, options, speedup, of_gpu):
    found = merged(call, *two_runs(speedup, of_gpu=of_gpu), *options)
    assert (expected, ["inconclusive"]) == found[:2]


def test_a_result_that_is_missing_fails_and_one_that_was_skipped_does_not(call):
    names = two_runs(3.0, 3.0)
    skipped = side("gpu", nodeid="a.py::test_1", status="skipped", reason="no room", gpu=None)
    written(report("gpu.json", side("gpu", 1.0, nodeid="a.py::test_0"), skipped))
    assert (0, ["passed", "skipped"]) == merged(call, *names)[:2]
    written(report("gpu.json", side("gpu", 1.0, nodeid="a.py::test_0")))
    assert (1, ["passed", "error"]) == merged(call, *names)[:2]


def test_a_threshold_that_failed_is_the_exit_code(call):
    cpu, gpu = zip(*size_group_of(0.5, 2.0, at_most=1), strict=True)
    code, statuses, _ = merged(call, *written(report("cpu.json", *cpu), report("gpu.json", *gpu)))
    assert (1, ["recorded", "recorded"]) == (code, statuses)


def test_shards_are_merged(call):
    names = written(report("one.json", whole(TEST)), report("two.json", whole(OTHER)))
    assert (0, ["passed", "passed"]) == merged(call, *names)[:2]


@for_each(
    ("said", "names"),
    [
        ("wrong.json: it is not JSON", ["cpu.json", "wrong.json"]),
        ("none.json", ["cpu.json", "gpu.json", "none.json"]),
        ("cpu.json and cpu.json both have a CPU result of a.py::test_0", ["cpu.json", "cpu.json"]),
        ("merging needs two reports or more", ["cpu.json"]),
        ("nothing to merge: no test has", ["cpu.json", "empty.json"]),
        ("link.json is an input of this command", ["cpu.json", "gpu.json", "-o", "link.json"]),
        ("notes.json exists and was not written by", ["cpu.json", "gpu.json", "-o", "notes.json"]),
        ("cpu.json is not a folder", ["cpu.json", "gpu.json", "-o", "cpu.json/merged.json"]),
    ],
)
def test_what_cannot_be_merged_or_written_is_refused_by_name(refused, said, names):
    two_runs(3.0)
    written(report("empty.json"))
    Path("link.json").unlink(missing_ok=True)
    Path("link.json").hardlink_to("gpu.json")
    for name in ("wrong.json", "notes.json"):
        Path(name).write_text("no report")
    assert said in refused("merge", "-o", "merged.json", *names)


@pytest.mark.parametrize("options", [["cpu.json", "gpu.json"], ["-o", "merged.json"], ["--fail=no"]])
def test_a_command_that_is_wrong_ends_as_such(capsys, options):
    assert "usage: " in usage(capsys, "merge", *options)
