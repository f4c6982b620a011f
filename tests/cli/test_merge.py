"""gpuperf merge: the files it reads and writes, its words and its exit codes."""

import json
from pathlib import Path

import pytest
from factories import ROUNDS
from msgspec.structs import replace
from published import JUDGE
from two_runs import ELSEWHERE, HERE, OTHER, TEST, report, side, size_group_of, whole

from pytest_gpuperf.cli import main
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


def merged(*options) -> int:
    return main(["merge", *options, "-o", "merged.json"])


def statuses() -> list[str]:
    content = json.loads(Path("merged.json").read_text(encoding="utf-8"))
    JUDGE.validate(content)
    return [record["status"] for record in content["records"]]


def test_a_joined_report_is_written_and_told(folder, capsys):
    assert merged(*two_runs(3.0, 10.0)) == 0
    assert statuses() == ["passed", "passed"]
    *_, last = lines = capsys.readouterr().out.splitlines()
    assert last == "2 tests joined, 0 failed; all on one host: here"
    assert "CPU EPYC | GPU H200 through cupy" in lines
    assert any(line.split()[:1] == ["test_0"] and line.endswith("passed") for line in lines)


@pytest.mark.parametrize("order", [1, -1])
def test_a_missed_limit_is_the_exit_code_and_comes_first(folder, capsys, order):
    names = two_runs(3.0, 1.0)
    gpu = report(
        "gpu.json", *(side("gpu", 1.0, nodeid=f"a.py::test_{n}") for n in range(2)), environment=ELSEWHERE
    )
    written(gpu)
    assert merged(*names[::order]) == 1
    assert statuses() == ["passed", "failed"]
    first, *rest, last = capsys.readouterr().out.splitlines()
    assert first == "a.py::test_1: failed: required at least 2x, speedup 1.00x [1.00, 1.00]"
    assert any(line.startswith("the runs that were merged differ: host: ") for line in rest)
    assert last.startswith("2 tests joined, 1 failed; hosts differ: ")


@pytest.mark.parametrize(("expected", "options"), [(0, []), (0, ["--fail=sure"]), (1, ["--fail=doubt"])])
@pytest.mark.parametrize(("speedup", "of_gpu"), [(2.0, {}), (10.0, {"dropped_rounds": ROUNDS})])
def test_a_doubt_ends_as_was_chosen(folder, capsys, expected, options, speedup, of_gpu):
    assert expected == merged(*two_runs(speedup, of_gpu=of_gpu), *options)
    assert statuses() == ["inconclusive"]
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("a.py::test_0: inconclusive: ")
    assert last.startswith(f"1 test joined, {expected} failed;")


def test_a_result_that_is_missing_fails_and_one_that_was_skipped_is_counted(folder, capsys):
    on_cpu = [side("cpu", 3.0, nodeid=f"a.py::test_{n}") for n in range(3)]
    skipped = side("gpu", nodeid="a.py::test_1", status="skipped", reason="no room", gpu=None)
    reports = [
        report("cpu.json", *on_cpu),
        report("gpu.json", side("gpu", 1.0, nodeid="a.py::test_0"), skipped),
    ]
    assert merged(*written(*reports)) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("a.py::test_2: error: no report has its GPU result")
    assert last.startswith("1 test joined, 1 failed, 1 skipped;")


def test_a_threshold_that_failed_is_the_exit_code(folder, capsys):
    cpu, gpu = zip(*size_group_of(0.5, 2.0, at_most=1), strict=True)
    assert merged(*written(report("cpu.json", *cpu), report("gpu.json", *gpu))) == 1
    assert capsys.readouterr().out.startswith("threshold of test_n: failed: ")


def test_runs_that_ended_early_and_machines_without_names_are_told(folder, capsys):
    assert merged(*two_runs(3.0, complete=False, environment=replace(HERE, host={"name": None}))) == 0
    assert json.loads(Path("merged.json").read_text())["complete"] is False
    shown = capsys.readouterr().out
    assert "gpu.json is incomplete, and so is the merged report: its run ended early" in shown
    assert shown.endswith("0 failed; it is not known whether the hosts differ\n")


def test_shards_are_joined_and_told(folder, capsys):
    assert 0 == merged(*written(report("one.json", whole(TEST)), report("two.json", whole(OTHER))))
    assert "0 tests joined, 0 failed, 2 tests from one report each;" in capsys.readouterr().out


def untouched(*options, said, capsys) -> None:
    """Check that a command is refused, and that no file is another, or new."""
    before = {path: path.read_bytes() for path in Path().iterdir()}
    assert main(["merge", *options]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("gpuperf: ")
    assert said in told.err
    assert before == {path: path.read_bytes() for path in Path().iterdir()}


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("wrong.json: it is not JSON", ["cpu.json", "wrong.json"]),
        ("none.json", ["cpu.json", "gpu.json", "none.json"]),
        ("cpu.json and cpu.json both have a CPU result of a.py::test_0", ["cpu.json", "cpu.json"]),
        ("merging needs two reports or more", ["cpu.json"]),
        ("nothing to merge: no test has", ["cpu.json", "empty.json"]),
    ],
)
def test_what_cannot_be_merged_is_refused_by_name(folder, capsys, said, names):
    two_runs(3.0)
    written(report("empty.json"))
    Path("wrong.json").write_text("no report")
    untouched(*names, "-o", "merged.json", said=said, capsys=capsys)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("gpu.json", "is an input of this command; choose another file"),
        ("link.json", "is an input of this command; choose another file"),
        ("notes.json", "notes.json exists and was not written by pytest-gpuperf as a report"),
        ("cpu.json/merged.json", "cpu.json is not a folder"),
    ],
)
def test_nothing_but_an_earlier_report_is_overwritten(folder, capsys, output, said):
    names = two_runs(3.0)
    assert (0, 0) == (merged(*names), merged(*names))
    Path("link.json").hardlink_to("gpu.json")
    Path("notes.json").write_text("notes")
    capsys.readouterr()
    untouched(*names, "-o", output, said=said, capsys=capsys)


@pytest.mark.parametrize("options", [["cpu.json", "gpu.json"], ["-o", "merged.json"], ["--fail=no"]])
def test_a_command_that_is_wrong_ends_as_such(folder, options):
    with pytest.raises(SystemExit) as end:
        main(["merge", *options])
    assert end.value.code == 2
