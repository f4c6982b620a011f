"""gpuperf merge: the files it reads and writes, its words and its exit codes."""

import json
from pathlib import Path

import pytest
from factories import ROUNDS
from msgspec.structs import replace
from two_runs import ELSEWHERE, HERE, OTHER, TEST, TWICE, report, side, size_group_of, whole

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.record import Report
from pytest_gpuperf.report.json import document


def written(*reports) -> list[str]:
    """Write reports where the command is called, and return their names."""
    for each in reports:
        Path(each.name).write_text(document.text(each.run), encoding="utf-8")
    return [each.name for each in reports]


def sides_of(*ratios, demand=TWICE, **changes) -> list[Report]:
    """Return the two reports of tests with these speedups."""
    return [
        report(
            f"{kind}.json",
            *(
                side(kind, ratio if kind == "cpu" else 1.0, nodeid=f"test_it.py::test_{n}", demand=demand)
                for n, ratio in enumerate(ratios)
            ),
            **changes,
        )
        for kind in ("cpu", "gpu")
    ]


def merged(*options) -> int:
    return main(["merge", *options, "-o", "merged.json"])


def statuses() -> list[str]:
    content = json.loads(Path("merged.json").read_text(encoding="utf-8"))
    document.validate(content)
    return [record["status"] for record in content["records"]]


def test_a_joined_report_is_written_and_told(folder, capsys):
    assert merged(*written(*sides_of(3.0, 10.0))) == 0
    assert statuses() == ["passed", "passed"]
    *_, last = lines = capsys.readouterr().out.splitlines()
    assert last == "2 tests joined, 0 failed; all on one host: here"
    assert "CPU EPYC | GPU H200 through cupy" in lines
    assert any(line.split()[:1] == ["test_0"] and line.endswith("passed") for line in lines)
    assert main(["validate", "merged.json"]) == 0


def test_a_node_id_that_cannot_be_printed_changes_no_exit_code(folder, capsys):
    kinds = {"cpu": 1.0, "gpu": 1.0}
    odd = [report(f"{kind}.json", side(kind, each, nodeid="\udcff::t")) for kind, each in kinds.items()]
    assert merged(*written(*odd)) == 1
    assert capsys.readouterr().out.startswith(r"\udcff::t: failed: required at least 2x, speedup 1.00x")


def test_the_order_of_the_reports_is_of_no_matter(folder):
    names = written(*sides_of(3.0, 1.0))
    assert (merged(*names), merged(*reversed(names))) == (1, 1)


def test_a_demand_that_failed_is_the_exit_code_and_a_line_of_its_own(folder, capsys):
    reports = sides_of(3.0, 1.0)
    reports[1] = replace(reports[1], run=replace(reports[1].run, environment=ELSEWHERE))
    assert merged(*written(*reports)) == 1
    assert statuses() == ["passed", "failed"]
    first, *_, before, last = capsys.readouterr().out.splitlines()
    assert first == "test_it.py::test_1: failed: required at least 2x, speedup 1.00x [1.00, 1.00]", (
        "the reason comes first"
    )
    assert before == "the runs differ: host: here, there"
    assert last == "2 tests joined, 1 failed; hosts differ: here, there"


@pytest.mark.parametrize(
    ("expected", "options"),
    [(0, []), (0, ["--fail=sure"]), (1, ["--fail=doubt"])],
)
def test_a_doubt_ends_as_was_chosen(folder, capsys, expected, options):
    assert expected == merged(*written(*sides_of(2.0)), *options)
    assert statuses() == ["inconclusive"]
    first, *others, last = capsys.readouterr().out.splitlines()
    assert first.startswith("test_it.py::test_0: inconclusive: required at least 2x, speedup 2.00x")
    assert first not in others
    assert last.startswith(f"1 test joined, {expected} failed;")


@pytest.mark.parametrize(("expected", "options"), [(0, []), (1, ["--fail=doubt"])])
def test_a_doubt_far_from_its_limit_passes_unless_doubts_fail(folder, expected, options):
    cpu, gpu = sides_of(10.0)
    slowed = replace(gpu.run.records[0], dropped_rounds=ROUNDS)
    gpu = replace(gpu, run=replace(gpu.run, records=(slowed,)))
    assert expected == merged(*written(cpu, gpu), *options)
    assert statuses() == ["inconclusive"]


def test_a_side_that_is_missing_fails_and_one_that_was_skipped_is_counted(folder, capsys):
    cpu, gpu = sides_of(3.0, 3.0)
    kept, skipped = gpu.run.records
    skipped = replace(skipped, status="skipped", reason="no room", gpu=None)
    gpu = replace(gpu, run=replace(gpu.run, records=(kept, skipped)))
    assert merged(*written(cpu, gpu)) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 test joined, 0 failed, 1 skipped;")
    gpu = replace(gpu, run=replace(gpu.run, records=(kept,)))
    assert merged(*written(cpu, gpu)) == 1
    assert "test_it.py::test_1: error: no report has its GPU result" in capsys.readouterr().out


def test_a_run_that_ended_early_makes_an_incomplete_report_and_says_so(folder, capsys):
    cpu, gpu = sides_of(3.0)
    gpu = replace(gpu, run=replace(gpu.run, complete=False))
    assert merged(*written(cpu, gpu)) == 0
    assert json.loads(Path("merged.json").read_text())["complete"] is False
    said = "gpu.json is incomplete, and so is the merged report: its run ended early"
    assert said in capsys.readouterr().out.splitlines()


def test_hosts_that_nobody_names_are_not_called_one(folder, capsys):
    unnamed = replace(HERE, host={"name": None})
    assert merged(*written(*sides_of(3.0, environment=unnamed))) == 0
    assert capsys.readouterr().out.endswith("0 failed; it is not known whether the hosts differ\n")


def test_a_threshold_that_failed_is_the_exit_code(folder, capsys):
    cpu, gpu = zip(*size_group_of(0.5, 2.0, at_most=1), strict=True)
    assert merged(*written(report("cpu.json", *cpu), report("gpu.json", *gpu))) == 1
    assert capsys.readouterr().out.startswith("threshold of test_n: failed: ")


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
    ("content", "said"),
    [
        ("no report", "wrong.json is not JSON"),
        ("[" * 100_000, "wrong.json is not JSON"),
        (
            "{}",
            "wrong.json: this is no report: it has no schema_version; name one that --gpuperf-json wrote",
        ),
        ('{"schema_version": "1.0"}', "wrong.json: it breaks its schema"),
        ('{"schema_version": "1.9"}', "wrong.json: its schema_version 1.9 is newer"),
        ("\udcff", "wrong.json is not JSON"),
        (None, "wrong.json"),
    ],
)
def test_a_file_that_is_no_report_is_named(folder, capsys, content, said):
    names = written(*sides_of(3.0))
    if content is not None:
        Path("wrong.json").write_text(content, encoding="utf-8", errors="surrogateescape")
    untouched(*names, "wrong.json", "-o", "merged.json", said=said, capsys=capsys)


def test_a_side_that_two_files_have_is_refused(folder, capsys):
    cpu, gpu = sides_of(3.0)
    names = written(cpu, gpu, replace(gpu, name="again.json"))
    said = "gpu.json and again.json both have a GPU result of test_it.py::test_0"
    untouched(*names, "-o", "merged.json", said=said, capsys=capsys)


def test_the_same_file_twice_is_refused(folder, capsys):
    name, _ = written(*sides_of(3.0))
    untouched(name, name, "-o", "merged.json", said="cpu.json and cpu.json both have", capsys=capsys)


def test_one_report_alone_is_refused(folder, capsys):
    name, _ = written(*sides_of(3.0))
    untouched(name, "-o", "merged.json", said="merging needs two reports or more", capsys=capsys)


def test_shards_are_joined_and_told(folder, capsys):
    names = written(report("one.json", whole(TEST)), report("two.json", whole(OTHER)))
    assert 0 == main(["merge", *names, "-o", "merged.json"])
    assert "2 tests from one report each" in capsys.readouterr().out


def test_nothing_joined_is_no_success(folder, capsys):
    names = written(report("one.json", side("cpu", 1.0)), report("two.json", side("gpu", 1.0, nodeid=OTHER)))
    untouched(*names, "-o", "merged.json", said="nothing to merge: no test has", capsys=capsys)


@pytest.mark.parametrize("output", ["cpu.json", "gpu.json", "./gpu.json", "link.json"])
def test_a_report_that_is_joined_is_not_overwritten(folder, capsys, output):
    names = written(*sides_of(3.0))
    Path("link.json").hardlink_to("gpu.json")
    untouched(*names, "-o", output, said="is an input of this command; choose another file", capsys=capsys)


@pytest.mark.parametrize("content", ["notes", "{}", '[{"schema_version": "1.0"}]'])
def test_a_file_that_is_no_report_is_not_overwritten(folder, capsys, content):
    names = written(*sides_of(3.0))
    Path("merged.json").write_text(content)
    untouched(*names, "-o", "merged.json", said="merged.json exists and is not a report", capsys=capsys)


def test_a_folder_is_not_overwritten(folder, capsys):
    names = written(*sides_of(3.0))
    Path("merged.json").mkdir()
    assert merged(*names) == 2
    assert "merged.json is a folder; choose a file in it" in capsys.readouterr().err
    assert Path("merged.json").is_dir()


def test_an_earlier_joined_report_is_replaced(folder):
    names = written(*sides_of(3.0))
    assert (merged(*names), merged(*names)) == (0, 0)
    names = written(*sides_of(1.0))
    assert merged(*names) == 1
    assert statuses() == ["failed"]
    assert sorted(path.name for path in folder.iterdir()) == ["cpu.json", "gpu.json", "merged.json"]


def test_a_place_where_nothing_can_be_written_is_named(folder, capsys):
    names = written(*sides_of(3.0))
    untouched(*names, "-o", "cpu.json/merged.json", said="cpu.json is not a folder", capsys=capsys)


@pytest.mark.parametrize("options", [["cpu.json", "gpu.json"], ["-o", "merged.json"], ["--fail=no"]])
def test_a_command_that_is_wrong_ends_as_such(folder, options):
    with pytest.raises(SystemExit) as end:
        main(["merge", *options])
    assert end.value.code == 2
