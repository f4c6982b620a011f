"""gpuperf compare."""

from pathlib import Path

import pytest
from command import NO_GPU, read, record, skipped, usage, written
from factories import ELSEWHERE, GPU, HERE, estimate_within, gate_result, measured, speedup_within
from msgspec.structs import replace

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.comparison import Absent
from pytest_gpuperf.model.scaling import Scaling

MORE_TIME = "more time (max_time) or a quieter machine would decide it"
GATED = "measure it with --gpuperf-baseline: other runs stop at their verdict"


def test_nothing_got_worse(call):
    written("base.json", record(), record("test_a.py::test_2"))
    written("new.json", record(value=10.1), record("test_a.py::test_2"))
    told = "baseline base.json of 2026-01-01 00:00 (tolerance: speedup 10 %): 2 not regressed"
    assert (0, [told], "") == call("compare", "base.json", "new.json")


def scaled(efficiency):
    """Return a record of four devices with such an efficiency, known to one percent."""
    its = Scaling(
        name="test_b",
        mode="strong",
        count=4,
        counts=(1, 4),
        efficiency=estimate_within(efficiency, 0.01),
        speedup=speedup_within(4 * efficiency, 0.01),
    )
    return record("test_b.py::test_1[4devices]", cpu=None, speedup=None, scaling=its)


def test_a_lost_efficiency_is_found_without_being_asked_for(call):
    written("base.json", record(), scaled(0.9))
    written("new.json", record(), scaled(0.4))
    code, lines, _ = call("compare", "base.json", "new.json")
    assert code == 1
    assert any("parallel efficiency got worse: 0.40 [0.40, 0.40], baseline 0.90" in line for line in lines)


def test_what_got_worse_is_a_row_the_gravest_first_and_the_exit_code(call):
    written("base.json", *(record(f"test_a.py::test_{number}") for number in range(3)))
    new = [record("test_a.py::test_0", 9.1), record("test_a.py::test_1", 5.0), record("test_a.py::test_2")]
    written("new.json", *new)
    code, lines, _ = call("compare", "base.json", "new.json")
    worse = (
        "speedup got worse: 5.00x [4.90, 5.10], baseline 10.0x [9.80, 10.2]: -50.0 % [-52.0, -48.0], "
        "10 % less is allowed"
    )
    assert code == 1
    assert lines[:3] == [
        "test     metric            baseline                 now                  change  outcome",
        "test_1  speedup  10.0x [9.80, 10.2]  5.00x [4.90, 5.10]  -50.0 % [-52.0, -48.0]  regressed",
        "test_0  speedup  10.0x [9.80, 10.2]  9.10x [8.92, 9.28]    -9.0 % [-12.6, -5.3]  inconclusive",
    ]
    assert "" == lines[3]
    assert lines[4].startswith("test_0: speedup is inconclusive: 9.10x")
    assert lines[-2].endswith("1 regressed, 1 inconclusive, 1 not regressed")
    assert lines[-1] == f"FAILED: test_a.py::test_1: {worse}"


def test_on_a_narrow_terminal_names_stay_whole_and_values_stand_below(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    name = "test_a.py::test_of_a_name_with_forty_characters_in[64]"
    written("base.json", record(name))
    lines = call("compare", "base.json", written("new.json", record(name, 5.0)))[1]
    assert lines[:5] == [
        "test     metric                  change  outcome",
        "test_of_a_name_with_forty_characters_in",
        "  [64]  speedup  -50.0 % [-52.0, -48.0]  regressed",
        "    baseline 10.0x [9.80, 10.2], now 5.00x [4.90, 5.10]",
        "",
    ]


def test_metrics_of_one_test_stand_together(call):
    written("base.json", record())
    written("new.json", record(value=5.0))
    lines = call("compare", "base.json", "new.json", "--fail-on=speedup:10%", "--fail-on=gpu_time:10%")[1]
    rows = [line for line in lines if line.endswith("  regressed")]
    assert ["test_1   speedup", "        GPU time"] == [row[:16] for row in rows]


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        (1, ["--fail-on=speedup:10%"]),
        (0, ["--fail-on=speedup:60%"]),
        (1, ["--fail-on=gpu_time:10%"]),
        (0, ["--fail-on=cpu_time:10%"]),
        (1, ["--fail-on=cpu_time:10%", "--fail-on=gpu_time:10%"]),
        (0, ["--fail-on=cpu_time:10%", "--fail-on=improvement"]),
    ],
)
def test_what_may_not_get_worse_is_chosen(call, expected, options):
    written("base.json", record())
    written("new.json", record(value=5.0))
    assert expected == call("compare", "base.json", "new.json", *options)[0]


@pytest.mark.parametrize(
    ("expected", "options"),
    [(0, []), (1, ["--fail-on=improvement", "--fail-on=speedup:10%"]), (2, ["--fail-on=improvement"])],
)
def test_what_got_better_fails_only_where_that_is_asked_for(call, expected, options):
    written("base.json", record())
    written("new.json", record(value=20.0))
    assert expected == call("compare", "base.json", "new.json", *options)[0]


@pytest.mark.parametrize(("expected", "option"), [(0, "sure"), (1, "doubt"), (0, "nothing")])
def test_doubt_ends_as_was_chosen(call, expected, option):
    written("base.json", record())
    written("new.json", record(value=9.1))
    assert expected == call("compare", "base.json", "new.json", f"--fail={option}")[0]


@pytest.mark.parametrize(
    ("expected", "gate"),
    [
        (MORE_TIME, gate_result()),
        (MORE_TIME, gate_result(tolerances=())),
        (GATED, None),
    ],
    ids=["a gate", "a baseline alone", "neither"],
)
def test_what_would_decide_a_doubt_depends_on_how_the_new_run_was_measured(call, expected, gate):
    written("base.json", record())
    written("new.json", record(value=9.0, speedup=speedup_within(9.0, 0.1)), gate=gate)
    code, lines, _ = call("compare", "base.json", "new.json", "--fail=doubt")
    assert code == 1
    assert 2 == " ".join(" ".join(lines).split()).count(expected), "below the table, and where it fails"


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("--fail-on: 'warmth' is not a metric; expected one of speedup", "--fail-on=warmth:1%"),
        ("--fail-on: 'speedup': expected METRIC:PERCENT", "--fail-on=speedup"),
        ("--fail-on: 'speedup:-1%': expected METRIC:PERCENT", "--fail-on=speedup:-1%"),
        ("--fail-on: 'speedup:nan%': expected METRIC:PERCENT", "--fail-on=speedup:nan%"),
        ("--fail-on: 'speedup:100%' is a check that hardly anything fails", "--fail-on=speedup:100%"),
        ("--allow: 'gpu' is not one of no-gpu, missing", "--allow=missing,gpu"),
    ],
)
def test_a_value_that_is_none_is_answered_with_what_is(capsys, said, asked):
    assert f"argument {said}" in usage(capsys, "compare", "a", "b", asked)


def test_a_metric_has_one_tolerance(refused):
    said = refused("compare", "a", "b", "--fail-on=gpu_time:1%", "--fail-on=gpu_time:2%")
    assert said == "gpu_time has two tolerances; keep one"


def test_a_lost_measurement_fails_as_it_does_in_pytest(call):
    """A failed measurement is never a green one: the rule of the gate, for bare markers, too."""
    lost = record("test_a.py::test_2", status="error", reason="the GPU was lost", speedup=None)
    written("base.json", record(), record("test_a.py::test_2"))
    written("new.json", record(), lost)
    code, lines, _ = call("compare", "base.json", "new.json")
    said = "FAILED: test_a.py::test_2: the regression check has no valid measurement: the GPU was lost"
    assert (1, said) == (code, lines[-1])


def test_an_unmarked_test_that_never_had_a_measurement_fails_here_no_more_than_in_pytest(call):
    absent = dict.fromkeys(("cpu", "gpu", "speedup"))
    never = record("test_a.py::test_2", status="error", reason="it raised", source="all", **absent)
    written("base.json", record(), never)
    written("new.json", record(), never)
    assert 0 == call("compare", "base.json", "new.json")[0]


def test_an_unmarked_test_that_lost_its_measurement_fails_as_it_does_in_pytest(call):
    lost = record("test_a.py::test_2", status="error", reason="it raised", source="all", speedup=None)
    written("base.json", record(), record("test_a.py::test_2", source="all"))
    written("new.json", record(), lost)
    code, lines, _ = call("compare", "base.json", "new.json")
    said = "no valid measurement: this run has no speedup of it, as the baseline has: it raised"
    assert (1, True) == (code, lines[-1].endswith(said))


def deselected(nodeid):
    return skipped(nodeid, reason_code="deselected")


@pytest.mark.parametrize(("expected", "options"), [(1, []), (0, ["--allow=missing"])])
def test_a_test_of_the_baseline_that_did_not_run_fails(call, expected, options):
    written("base.json", record(), record("test_a.py::test_2"), record("test_b.py::test_3"))
    written("new.json", record())
    code, lines, _ = call("compare", "base.json", "new.json", *options)
    assert expected == code
    told = "FAILED: 2 tests of the baseline did not run: test_a.py::test_2, test_b.py::test_3; renamed, "
    assert expected == sum(line.startswith(told) for line in lines)
    assert not expected or "pass --allow=missing, or" in lines[-1], "the name that it has here"


@pytest.mark.parametrize(
    ("new", "environment"),
    [
        ([record()], ELSEWHERE),
        ([record("test_a.py::new")], HERE),
        ([], HERE),
        ([skipped()], NO_GPU),
    ],
    ids=["another machine", "other tests", "no test", "no GPU"],
)
def test_where_nothing_can_be_compared_the_exit_code_says_so(call, new, environment):
    written("base.json", record())
    written("new.json", *new, environment=environment)
    assert call("compare", "base.json", "new.json", "--allow=missing")[0] == 3
    assert call("compare", "base.json", "new.json", "--strict")[0] == 3


def test_a_baseline_that_measured_nothing_compares_nothing(call):
    written("base.json", skipped(), environment=NO_GPU)
    written("new.json", record())
    assert call("compare", "base.json", "new.json")[0] == 3


@pytest.mark.parametrize(("expected", "environment"), [(0, NO_GPU), (3, HERE)])
def test_a_runner_without_a_gpu_may_be_excused(call, expected, environment):
    written("base.json", record())
    written("new.json", skipped(), environment=environment)
    assert expected == call("compare", "base.json", "new.json", "--allow=no-gpu")[0]
    assert call("compare", "base.json", "new.json")[0] == 3


def test_the_remedy_for_no_gpu_has_the_name_that_it_has_here(call):
    written("base.json", record())
    written("new.json", skipped(), environment=NO_GPU)
    assert call("compare", "base.json", "new.json")[1][-1].endswith("without a GPU pass --allow=no-gpu")


@pytest.mark.parametrize(("expected", "options"), [(0, []), (1, ["--strict"])])
def test_one_test_that_cannot_be_compared_fails_where_that_is_asked_for(call, expected, options):
    another = measured(replace(GPU, name="another GPU"), 1e-3)
    written("base.json", record(), record("test_a.py::test_2"))
    written("new.json", record(), record("test_a.py::test_2", gpu=another))
    assert expected == call("compare", "base.json", "new.json", *options)[0]


def test_of_a_folder_the_newest_of_this_machine_is_compared_with(call):
    Path("folder").mkdir()
    written("folder/old.json", record(value=20.0), started="2026-01-01T00:00:00+00:00")
    written("folder/new.json", record(value=10.0), started="2026-01-02T00:00:00+00:00")
    written("folder/else.json", record(), started="2026-01-03T00:00:00+00:00", environment=ELSEWHERE)
    written("folder/none.json", skipped(), started="2026-01-04T00:00:00+00:00", environment=NO_GPU)
    code, lines, _ = call("compare", "folder", written("now.json", record()))
    assert code == 0
    assert lines[-1].startswith("baseline folder/new.json of 2026-01-02")


def test_an_empty_folder_has_nothing_to_compare_with(refused):
    Path("folder").mkdir()
    written("new.json", record())
    assert refused("compare", "folder", "new.json") == "folder has no report to compare with"


def test_a_report_of_a_run_that_ended_early_fails(call):
    written("base.json", record())
    written("new.json", record(), complete=False)
    code, lines, _ = call("compare", "base.json", "new.json")
    assert (1, "FAILED: new.json is incomplete: its run ended early") == (code, lines[-1])


def test_what_would_fail_is_reported_where_nothing_fails(call):
    lost = record("test_a.py::lost", status="error", reason="the GPU was lost", speedup=None)
    written("base.json", record(), record("test_a.py::lost"), record("test_a.py::gone"))
    written("new.json", record(value=5.0), lost, complete=False)
    options = ("--strict", "--fail=nothing", "--markdown=it.md")
    code, lines, _ = call("compare", "base.json", "new.json", *options)
    found = ["test_a.py::test_1: speedup got worse: 5.00x", "test_a.py::lost: the regression check has no"]
    found += ["1 test of the baseline did not run: test_a.py::gone", "new.json is incomplete"]
    assert 0 == code
    for line, said in zip(lines[-4:], found, strict=True):
        assert line.startswith(f"not enforced: {said}")
    assert "regression check failed" not in Path("it.md").read_text(encoding="utf-8")


def test_a_baseline_of_a_run_that_ended_early_is_called_so(call):
    written("base.json", record(), complete=False)
    code, lines, _ = call("compare", "base.json", written("new.json", record()))
    said = "the run of the baseline base.json ended early: tests that it did not reach count as new"
    assert (0, 1) == (code, sum(said in line for line in lines))


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ("narrowed", "the command line (-k) left out 1 test"),
        ("hidden", "configuration left out 1 test"),
        ("skipped", "1 test of the baseline skipped: test_a.py::x"),
        (None, "1 test of the baseline did not run: test_a.py::x"),
    ],
)
@pytest.mark.parametrize("records", [[], [deselected("test_a.py::x")]], ids=["no record", "deselected"])
def test_why_a_test_is_absent_is_what_the_check_of_its_run_said(call, expected, said, records):
    """What was typed excuses no test by itself: it may have left out others."""
    absent = [Absent(name="test_a.py::x", metric="speedup", cause=expected, reason=None)] if expected else []
    written("base.json", record(), record("test_a.py::x"))
    gate = gate_result(absent=tuple(absent))
    written("new.json", record(), *records, narrowed_by=("-k",), gate=gate)
    assert call("compare", "base.json", "new.json")[0] == (0 if expected == "narrowed" else 1)
    code, lines, _ = call("compare", "base.json", "new.json", "--strict")
    assert (1, True) == (code, lines[-1].startswith(f"FAILED: {said}"))


def test_of_many_changes_the_gravest_have_rows_and_all_are_counted(call):
    names = [f"test_a.py::test_{number}" for number in range(60)]
    written("base.json", *map(record, names))
    written("new.json", *(record(name, 5.0 if number >= 30 else 20.0) for number, name in enumerate(names)))
    code, lines, _ = call("compare", "base.json", "new.json")
    assert code == 1
    assert [line.endswith("  regressed") for line in lines[1:51]] == [True] * 30 + [False] * 20
    assert [line.endswith("  improved") for line in lines[1:51]] == [False] * 30 + [True] * 20
    assert lines[51] == "and 10 more tests: 10 improved"
    assert sum(line.startswith("FAILED: ") for line in lines) == 30


def test_a_summary_is_written_over_its_like_only(refused, call):
    written("base.json", record())
    said = "base.json is an input of this command; choose another file to write"
    assert refused("compare", "base.json", "base.json", "--markdown=base.json") == said
    Path("notes.md").write_text("what I think of it", encoding="utf-8")
    said = "notes.md exists and was not written by pytest-gpuperf as markdown; choose another file"
    assert refused("compare", "base.json", "base.json", "--markdown=notes.md") == said
    assert [call("compare", "base.json", "base.json", "--markdown=s.md")[0] for _ in range(2)] == [0, 0]
    assert Path("s.md").read_text(encoding="utf-8").startswith("<!-- pytest-gpuperf -->\n### Speedups")


@pytest.mark.parametrize("name", ["it", "./it", "link"])
def test_a_summary_and_a_page_are_two_files(refused, name):
    written("base.json", record())
    Path("it").touch()
    Path("link").symlink_to("it")
    said = refused("compare", "base.json", "base.json", "--markdown=it", f"--html={name}")
    assert f"--html: --markdown writes {Path(name)} too; choose another file" == said


SUITE = """
import pytest

@pytest.mark.speedup
@pytest.mark.parametrize("n", range(4))
def test_fast(device, n):
    gpu = {gpu}[n]
    if gpu is None and device.kind == "gpu":
        raise ValueError("lost")
    return lambda: device.launch(10e-3 if device.kind == "cpu" else gpu)
"""


def test_compare_says_what_pytest_says_of_the_same_two_reports(pytester, capsys):
    """Worse, better, the same, and lost: outcomes, reasons, notes and failures are those of the gate."""
    common = (
        "-p",
        "no:randomly",
        "-W",
        "default",
        "--gpuperf-gpu=simulated",
        "--gpuperf-fail-on=speedup:10%",
    )
    common = (*common, "--gpuperf-baseline=base.json")
    pytester.makepyfile(test_it=SUITE.format(gpu=[1e-3, 1e-3, 1e-3, 1e-3]))
    made = pytester.runpytest_inprocess(*common, "--gpuperf-baseline-missing=create")
    assert made.ret == 0
    pytester.makepyfile(test_it=SUITE.format(gpu=[1e-3, 2e-3, 0.4e-3, None]))
    ran = pytester.runpytest_inprocess(*common, "--gpuperf-json=new.json")
    failed = ran.ret
    capsys.readouterr()
    code = main(["compare", "base.json", "new.json"])
    lines = capsys.readouterr().out.splitlines()
    report = read("new.json")
    found = {
        each["nodeid"].rpartition("::")[2]: comparison
        for each in report["records"]
        for comparison in each["comparisons"]
        if comparison["reason"]
    }
    assert (failed, 1, 2) == (1, code, len(found))
    for name, comparison in found.items():
        (row,) = [line for line in lines if line.startswith(f"{name} ")]
        change = 100 * (comparison["ratio"]["value"] - 1)
        assert f" {change:+.1f} %" in row or f" {change:+.0f} %" in row
        assert row.endswith(f"  {comparison['outcome']}")
        assert comparison["outcome"] == "improved" or any(comparison["reason"] in line for line in lines)
    assert report["gate"]["notes"]
    assert [note for note in report["gate"]["notes"] if note["text"] not in lines] == []
    assert {line.split(": ")[1] for line in lines if line.startswith("FAILED")} == {
        "test_it.py::test_fast[1]",
        "test_it.py::test_fast[3]",
    }
    ran.assert_outcomes(failed=2, passed=2)
