"""gpuperf compare: its exit codes, its table, and the files that it reads and writes.

What becomes of each state of a test with each option is in tests/decisions.py.
"""

from pathlib import Path

import pytest
from command import NO_GPU, record, skipped, usage, written
from factories import ELSEWHERE, HERE, LASTED, gate_result, scaled
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


@pytest.mark.parametrize(
    ("said", "options", "new", "changes"),
    [
        (f"{OTHER}: the regression check has no valid measurement: it broke", "", [record(), lost()], {}),
        ("1 test of the baseline did not run: test_a.py::test_2; renamed, ", "", [record()], {}),
        ("new.json is incomplete: its run ended early", "", other(), {"complete": False}),
    ],
)
def test_why_it_failed_is_the_last_line(call, said, options, new, changes):
    written("base.json", *other())
    written("new.json", *new, **changes)
    code, lines, _ = call("compare", "base.json", "new.json", *options.split())
    assert (1, f"FAILED: {said}") == (code, lines[-1][: len(f"FAILED: {said}")])


@pytest.mark.parametrize(
    ("older", "started"), [(True, "2025-12-31T23:59:59+00:00"), (False, "2026-01-02T00:00:00+00:00")]
)
def test_reports_in_the_wrong_order_are_noted(call, older, started):
    written("base.json", record())
    code, lines, _ = call("compare", "base.json", written("new.json", record(), started=started))
    note = "new.json is older than the baseline; the earlier report comes first"
    assert (0, older) == (code, note in lines)


@pytest.mark.parametrize(
    ("remedy", "new", "environment"),
    [
        ("pass --allow=missing, or", [record()], HERE),
        ("without a GPU pass --allow=no-gpu", [skipped()], NO_GPU),
    ],
)
def test_a_remedy_has_the_name_that_it_has_here(call, remedy, new, environment):
    written("base.json", *other())
    lines = call("compare", "base.json", written("new.json", *new, environment=environment))[1]
    assert any(remedy in line for line in lines[-2:])


def test_what_got_worse_is_a_row_the_gravest_first(call):
    written("base.json", *(record(f"test_a.py::test_{number}") for number in range(3)))
    new = [record("test_a.py::test_0", 9.1), record("test_a.py::test_1", 5.0), record("test_a.py::test_2")]
    lines = call("compare", "base.json", written("new.json", *new))[1]
    worse = "speedup got worse: 5.00x [4.90, 5.10], baseline 10.0x [9.80, 10.2]: -50.0 % [-52.0, -48.0]"
    assert lines[:4] == [
        "test     metric            baseline                 now                  change  outcome",
        "test_1  speedup  10.0x [9.80, 10.2]  5.00x [4.90, 5.10]  -50.0 % [-52.0, -48.0]  regressed",
        "test_0  speedup  10.0x [9.80, 10.2]  9.10x [8.92, 9.28]    -9.0 % [-12.6, -5.3]  inconclusive",
        "",
    ]
    assert lines[4].startswith("test_0: speedup is inconclusive: 9.10x")
    base = "baseline base.json of 2026-01-01 00:00 (tolerance: speedup 10 %, efficiency 10 %): "
    assert lines[-2:] == [
        f"{base}1 regressed, 1 inconclusive, 1 not regressed",
        f"FAILED: test_a.py::test_1: {worse}, 10 % less is allowed",
    ]


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
    ("said", "asked"),
    [
        ("--fail-on: 'warmth' is not a metric; expected one of speedup", "--fail-on=warmth:1%"),
        ("--allow: 'gpu' is not one of no-gpu, missing", "--allow=missing,gpu"),
    ],
)
def test_a_value_that_is_none_is_answered_with_what_is(capsys, said, asked):
    assert f"argument {said}" in usage(capsys, "compare", "a", "b", asked)


def test_a_metric_has_one_tolerance(refused):
    said = refused("compare", "a", "b", "--fail-on=gpu_time:1%", "--fail-on=gpu_time:2%")
    assert said == "gpu_time has two tolerances; keep one"


def test_of_a_folder_the_newest_of_this_machine_that_has_something_to_compare_is_the_baseline(call, refused):
    Path("folder").mkdir()
    written("now.json", record(), started="2026-01-05T00:00:00+00:00")
    assert refused("compare", "folder", "now.json") == "folder has no report to compare with"
    written("folder/old.json", record(value=20.0), started="2026-01-01T00:00:00+00:00")
    written("folder/new.json", record(value=10.0), started="2026-01-02T00:00:00+00:00")
    written("folder/else.json", record(), started="2026-01-03T00:00:00+00:00", environment=ELSEWHERE)
    written("folder/none.json", skipped(), started="2026-01-04T00:00:00+00:00")
    code, lines, _ = call("compare", "folder", "now.json")
    assert (0, True) == (code, lines[-1].startswith("baseline folder/new.json of 2026-01-02"))


def test_what_would_fail_is_shown_where_nothing_fails(call):
    written("base.json", record(), record(OTHER), record("test_a.py::gone"))
    written("new.json", record(value=5.0), lost(), complete=False)
    code, lines, _ = call("compare", "base.json", "new.json", "--fail=nothing", "--markdown=it.md")
    assert (0, True) == (code, lines[1].endswith("  regressed"))
    absent = "1 not measured (test_a.py::test_2), 1 missing (test_a.py::gone)"
    assert lines[-2:] == [
        f"regression check: 2 of 3 baseline tests were not compared: {absent}",
        "new.json is incomplete: its run ended early",
    ]
    assert "regression check failed" not in Path("it.md").read_text(encoding="utf-8")


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


def test_of_many_changes_the_gravest_have_rows_and_all_are_counted(call):
    names = [f"test_a.py::test_{number}" for number in range(60)]
    written("base.json", *map(record, names))
    written("new.json", *(record(name, 5.0 if number >= 30 else 20.0) for number, name in enumerate(names)))
    code, lines, _ = call("compare", "base.json", "new.json")
    assert code == 1
    assert [line.endswith("  regressed") for line in lines[1:51]] == [True] * 30 + [False] * 20
    assert lines[51] == "and 10 more tests: 10 improved"
    assert sum(line.startswith("FAILED: ") for line in lines) == 30
