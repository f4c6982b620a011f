"""gpuperf compare: its exit codes, its table, and the files that it reads and writes.

What becomes of each state of a test with each option is in tests/plugin/test_decisions.py.
"""

import json
from pathlib import Path

import pytest
from cases import for_each
from command import NO_GPU, read, record, skipped, usage, written
from factories import ELSEWHERE, GPU, LASTED, gate_result, measured, scaled
from golden import assert_told
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Absent

OTHER = "test_a.py::test_2"


def scaling(efficiency):
    return replace(scaled(4, efficiency), rounds_elapsed=LASTED)


def lost(**changes):
    return record(OTHER, status="error", reason="it broke", speedup=None, **changes)


def other(**changes):
    return [record(), record(OTHER, **changes)]


NEVER = lost(source="all", cpu=None, gpu=None)


@pytest.mark.parametrize(
    ("code", "options", "base", "new", "changes"),
    [
        (0, "--fail-on=speedup:60%", [record()], [record(value=5.0)], {}),
        (0, "--fail-on=speedup:90%", [record()], [record(value=1.1)], {}),
        (1, "--fail-on=gpu_time:900%", [record()], [record(value=0.9)], {}),
        (0, "--fail-on=cpu_time:10%", [record()], [record(value=5.0)], {}),
        (1, "--fail-on=cpu_time:10% --fail-on=gpu_time:10%", [record()], [record(value=5.0)], {}),
        (1, "", [record(), scaling(0.9)], [record(), scaling(0.4)], {}),
        # An unmarked test fails for its baseline alone.
        (0, "", [record(), NEVER], [record(), NEVER], {}),
        (1, "", other(source="all"), [record(), lost(source="all")], {}),
        # Nothing can be compared.
        (3, "--allow=missing", [record()], [record("test_a.py::new")], {}),
        (3, "--strict", [record()], [], {}),
        (3, "", [skipped()], [record()], {}),
        (3, "--allow=no-gpu", [record()], [skipped()], {}),
        (3, "--allow=missing", [record()], [record()], {"environment": ELSEWHERE}),
        (3, "", [record()], [skipped()], {"environment": NO_GPU}),
        (0, "--allow=no-gpu", [record()], [skipped()], {"environment": NO_GPU}),
        # A run that ended early has not said all.
        (1, "", [record()], [record()], {"complete": False}),
        (0, "--fail=nothing", [record()], [record()], {"complete": False}),
    ],
)
def test_the_exit_code(call, code, options, base, new, changes):
    written("base.json", *base)
    written("new.json", *new, **changes)
    assert code == call("compare", "base.json", "new.json", *options.split())[0]


LATER, EARLIER = ({"started": f"{day}T23:59:59+00:00"} for day in ("2026-01-02", "2025-12-31"))
NAMES = [f"test_a.py::test_{number}" for number in range(60)]
LONG = "test_a.py::test_of_a_name_with_forty_characters_in[64]"
SAID = {  # what is compared, with which options, and the columns of the terminal
    "what got worse, the gravest first": (
        [*map(record, NAMES[:3])],
        [record(NAMES[0], 9.1), record(NAMES[1], 5.0), record(NAMES[2])],
    ),
    "metrics of one test together": (
        [record()],
        [record(value=5.0)],
        "--fail-on=speedup:10% --fail-on=gpu_time:10%",
    ),
    "a long name": ([record(LONG)], [record(LONG, 5.0)]),
    "a long name on a narrow terminal": ([record(LONG)], [record(LONG, 5.0)], "", {}, 60),
    "of many changes the gravest": (
        [*map(record, NAMES)],
        [record(name, 5.0 if number >= 30 else 20.0) for number, name in enumerate(NAMES)],
    ),
    "no valid measurement": (other(), [record(), lost()]),
    "a test that did not run, and the remedy by its name here": (other(), [record()]),
    "no GPU, and the remedy by its name here": (other(), [skipped()], "", {"environment": NO_GPU}),
    "a run that ended early": (other(), other(), "", {"complete": False}),
    "what would fail where nothing fails": (
        [*other(), record("test_a.py::gone")],
        [record(value=5.0), lost()],
        "--fail=nothing",
        {"complete": False},
    ),
    "an older report than the baseline": ([record()], [record()], "", EARLIER),
    "a later report than the baseline": ([record()], [record()], "", LATER),
}


def test_what_changed_is_a_table_and_why_it_failed_is_last(call, monkeypatch):
    """Read the titles above, and what stands below each in the file."""
    said = []
    for title, (base, new, *rest) in SAID.items():
        options, changes, columns = [*rest, *("", {}, 100)[len(rest) :]]
        monkeypatch.setenv("COLUMNS", str(columns))
        written("base.json", *base)
        written("new.json", *new, **changes)
        code, lines, _ = call("compare", "base.json", "new.json", *options.split())
        said.append((title, "\n".join([*lines, f"exit code {code}", ""])))
    assert_told("compare", said)


def test_a_summary_of_what_nothing_fails_says_of_no_failure(call):
    written("base.json", *other())
    written("new.json", record())
    for options, fails in (("", True), ("--fail=nothing", False)):
        call("compare", "base.json", "new.json", "--markdown=it.md", *options.split())
        assert fails == ("regression check failed" in Path("it.md").read_text(encoding="utf-8"))


PERCENT = "expected METRIC:PERCENT with a percentage of 0 or more, e.g. speedup:10%"


@for_each(
    ("said", "asked"),
    [
        ("--fail-on: 'warmth' is not a metric; expected one of speedup", "--fail-on=warmth:1%"),
        (f"--fail-on: 'speedup': {PERCENT}", "--fail-on=speedup"),
        (f"--fail-on: 'gpu_time:-1%': {PERCENT}", "--fail-on=gpu_time:-1%"),
        (f"--fail-on: 'gpu_time:inf%': {PERCENT}", "--fail-on=gpu_time:inf%"),
        ("a tolerance of speedup is at most 90 %; pass less, as in speedup:10%", "--fail-on=speedup:100%"),
        ("'efficiency:90.1%' is a check that hardly anything fails: a", "--fail-on=efficiency:90.1%"),
        ("a tolerance of gpu_time is at most 900 %; pass less", "--fail-on=gpu_time:901%"),
        ("'speedup:10' has no unit: write speedup:10% for 10 percent", "--fail-on=speedup:10"),
        ("'gpu_time: .1 ' has no unit: write gpu_time:.1% for .1 percent", "--fail-on=gpu_time: .1 "),
        ("or improvement without a percentage", "--fail-on=improvement:5%"),
        ("--allow: 'gpu' is not one of no-gpu, missing", "--allow=missing,gpu"),
    ],
)
def test_a_value_that_is_none_is_answered_with_what_is(capsys, said, asked):
    assert said in usage(capsys, "compare", "a", "b", asked)


def test_a_first_call_is_compared_over_pairs_of_processes_alone(refused):
    of_pairs = (
        "first_call is compared over pairs of processes: gpuperf against REF, or gpuperf compare BASE/ HEAD/"
    )
    reports = written("a.json", record()), written("b.json", record())
    assert of_pairs == refused("compare", *reports, "--fail-on=first_call:20%")


def test_a_metric_has_one_tolerance_and_an_improvement_one_to_be_beyond(refused):
    said = refused("compare", "a", "b", "--fail-on=gpu_time:1%", "--fail-on=gpu_time:2%")
    assert said == "gpu_time has two tolerances; keep one"
    said = refused("compare", "a", "b", "--fail-on=improvement")
    assert said == "improvement needs a tolerance to be beyond; add one, as in speedup:10%"


def test_of_a_folder_the_newest_of_this_machine_that_has_something_to_compare_is_the_baseline(call, refused):
    Path("folder").mkdir()
    written("now.json", record(), started="2026-01-05T00:00:00+00:00")
    assert refused("compare", "folder", "now.json") == "folder has no report to compare with"
    written("folder/old.json", record(value=20.0), started="2026-01-01T00:00:00+00:00")
    written("folder/new.json", record(value=10.0), started="2026-01-02T00:00:00+00:00")
    written("folder/else.json", record(), started="2026-01-03T00:00:00+00:00", environment=ELSEWHERE)
    written("folder/none.json", skipped(), started="2026-01-04T00:00:00+00:00")
    code, lines, _ = call("compare", "folder", "now.json")
    assert (0, True) == (code, lines[-2].startswith("baseline folder/new.json of 2026-01-02"))


def test_six_reports_of_a_folder_decide_together(call):
    Path("folder").mkdir()
    for day, value in enumerate((10.0, 10.1, 9.9, 10.2, 9.95, 9.8), 1):
        written(f"folder/{day}.json", record(value=value), started=f"2026-01-{day:02}T00:00:00+00:00")
    written("now.json", record(value=7.5), started="2026-01-08T00:00:00+00:00")
    code, lines, _ = call("compare", "folder", "now.json", "--json=it.json")
    assert 1 == code
    assert lines[-1].endswith("-24.8 % [-29.4, -20.3] over 6 earlier runs, 10 % less is allowed")
    assert any(
        line.startswith("baseline of 6 runs, the newest folder/6.json of 2026-01-06") for line in lines
    )
    assert (6, "folder/6.json") == tuple(read("it.json")["gate"][name] for name in ("runs", "baseline"))
    written("folder/7.json", record(value=7.5), started="2026-01-07T00:00:00+00:00")  # hides such losses
    assert 0 == call("compare", "folder", "now.json")[0]


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ("narrowed", "the command line (-k) left out 1 test"),
        ("skipped", "1 test of the baseline skipped: test_a.py::test_2"),
        (None, "1 test of the baseline did not run: test_a.py::test_2"),
    ],
)
@pytest.mark.parametrize("records", [[], [skipped(OTHER, reason_code="deselected")]])
def test_why_a_test_is_absent_is_what_the_check_of_its_run_said(call, expected, said, records):
    """What was typed excuses no test by itself: it may have left out others."""
    absent = [Absent(name=OTHER, metric="speedup", cause=expected, reason=None)] if expected else []
    written("base.json", *other())
    gate = gate_result(absent=tuple(absent))
    written("new.json", record(), *records, narrowed_by=("-k",), gate=gate)
    assert call("compare", "base.json", "new.json")[0] == (0 if expected == "narrowed" else 1)
    code, lines, _ = call("compare", "base.json", "new.json", "--strict")
    assert (1, True) == (code, lines[-1].startswith(f"FAILED: {said}"))


def processes(folder, *seconds, **changes):
    """Write the reports of processes in which a test took so long on the GPU, and return their folder."""
    Path(folder).mkdir()
    for number, each in enumerate(seconds):
        started = f"2026-01-01T00:00:{2 * number + (folder == 'head'):02}+00:00"
        test = record(gpu=measured(GPU, each), **changes)
        written(f"{folder}/{100 - number}.json", test, started=started)
    return folder


STEADY = [1.0, 1.01, 0.99, 1.02, 1.0, 0.98]


def test_folders_are_processes_in_pairs_by_their_start_and_decide_together(call):
    base = processes("base", *STEADY)
    head = processes("head", *(1.08 * each for each in STEADY))
    code, lines, _ = call("compare", base, head, "--markdown=it.md", "--json=it.json")
    said = "GPU time got worse: 1.08 s [1.06 s, 1.10 s], baseline 1.00 s [980 ms, 1.02 s]: +8.0 %"
    assert (1, f"FAILED: test_a.py::test_1: {said} over 6 pairs of processes, 5 % more is allowed") == (
        code,
        lines[-1],
    )
    assert "(tolerance: gpu_time 5 %, cpu_time 5 %, memory 5 %): 1 regressed, 1 not regressed" in "\n".join(
        lines
    )
    assert "from process to process the values of a test differ by" in "\n".join(lines)
    assert "+8.0 %" in Path("it.md").read_text(encoding="utf-8")
    (test,) = read("it.json")["records"]
    assert ["regressed", "not_regressed"] == [each["outcome"] for each in test["comparisons"]]


def test_identical_processes_are_not_regressed_and_fail_nothing(call):
    code, lines, _ = call("compare", processes("base", *STEADY), processes("head", *STEADY[::-1]))
    assert (0, True) == (code, any("2 not regressed" in line for line in lines))


def test_what_head_alone_measures_is_new_once_and_what_base_alone_measures_fails(call):
    base, head = processes("base", *STEADY), processes("head", *STEADY)
    for path in Path("base").iterdir():
        started = json.loads(path.read_text())["started"]
        written(path, record("test_a.py::gone"), record("test_a.py::kept"), started=started)
    for path in Path("head").iterdir():
        started = json.loads(path.read_text())["started"]
        written(path, record("test_a.py::kept"), record("test_a.py::new"), started=started)
    code, lines, _ = call("compare", base, head)
    assert 1 == code
    assert 1 == sum("test_a.py::new" in line or line.startswith("new ") for line in lines)
    assert "FAILED: head did not run 1 test that base measures: test_a.py::gone; run them, or" in lines[-1]


def test_folders_that_make_no_pairs_are_refused(refused):
    assert refused("compare", processes("base", *STEADY[:5]), processes("head", *STEADY)) == (
        "BASE has 5 reports and NEW has 6; to compare folders, each needs as many as the other, and 6 or "
        "more, one of each process"
    )
