"""gpuperf baseline update."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command import NO_GPU, NONE, read, record, skipped, update, values, written
from factories import CPU, ELSEWHERE, GPU, HERE, comparison, gate_result, measured, speedup_within, within

from pytest_gpuperf.analysis.scaling import with_speedup
from pytest_gpuperf.model.demand import Pairing
from pytest_gpuperf.model.measurement import ResultCheck
from pytest_gpuperf.model.scaling import Scaling


def test_a_baseline_is_made_where_there_is_none(call):
    written("r.json", record(), record("test_a.py::test_2"), gate=None)
    told = ["base.json: 0 tests updated, 2 new, 0 kept as before"]
    assert (0, told) == update(call, "base.json", "r.json")
    assert read("base.json")["complete"] is True


def test_new_measurements_are_taken_and_the_others_stay_in_their_order(call):
    names = [f"test_a.py::test_{letter}" for letter in "abc"]
    written("base.json", *map(record, names))
    before = Path("base.json").read_text().splitlines()
    written("r.json", record("test_a.py::new", 3.0), record(names[1], 12.0))
    told = ["base.json: 1 test updated, 1 new, 2 kept as before", replaced(names[1], 10, 12)]
    assert (0, told) == update(call, "base.json", "r.json")
    found = {names[0]: 10.0, names[1]: 12.0, names[2]: 10.0, "test_a.py::new": 3.0}
    assert list(found.items()) == list(values("base.json").items())
    after = Path("base.json").read_text().splitlines()
    changed = [line for line in after if line not in before]
    assert sum('"nodeid":' in line for line in changed) <= 3, "a small change is a small diff"


def on_devices(count, value=None, **changes):
    """Return the record of a scaling test; an efficiency of `value` on two devices or more."""
    found = speedup_within(value * count, 0.02) if value else None
    known = Scaling(name="test_a.py::test", mode="strong", count=count, counts=(1, 2, 4))
    return record(
        f"test_a.py::test[{count}]",
        value=1.0,
        cpu=None,
        speedup=None,
        scaling=with_speedup(known, found, measured(GPU, 10e-3) if found else None),
        **changes,
    )


def test_the_efficiency_and_the_times_on_the_fewest_devices_are_kept_and_updated(call):
    written("r.json", on_devices(1), on_devices(2, 0.9), on_devices(4, 0.8))
    assert (0, ["base.json: 0 tests updated, 3 new, 0 kept as before"]) == update(call, "base.json", "r.json")
    written("later.json", on_devices(1), skipped("test_a.py::test[2]"), on_devices(4, 0.82))
    code, (counts, *told) = update(call, "base.json", "later.json")
    assert (0, "base.json: 2 tests updated, 0 new, 1 kept as before") == (code, counts)
    assert ["test_a.py::test[4]: parallel efficiency 0.80 [0.78, 0.82] replaced by 0.82 [0.80, 0.84]"] == told
    assert [2, 4] == [point["count"] for point in read("base.json")["scalings"][0]["points"]][1:]


def test_an_efficiency_that_was_not_measured_again_is_not_replaced_by_times(call):
    written("base.json", on_devices(4, 0.8))
    written("r.json", on_devices(1), on_devices(4))
    assert update(call, "base.json", "r.json")[0] == 0
    assert read("base.json")["records"][0]["scaling"]["efficiency"]["value"] == pytest.approx(0.8)


def test_an_efficiency_that_got_worse_is_refused_whatever_the_gate_was_about(call):
    written("base.json", on_devices(4, 0.8))
    written("r.json", on_devices(4, 0.6))
    code, (reason, _) = update(call, "base.json", "r.json")
    assert code == 1
    assert reason.startswith(
        "test_a.py::test[4]: parallel efficiency is inconclusive: 0.60 [0.59, 0.61], baseline"
    )


def replaced(nodeid, before, after) -> str:
    """Return the line on a value that another one replaced."""
    values = (f"{value:.1f}x [{value / 1.02:#.3g}, {value * 1.02:#.3g}]" for value in (before, after))
    return f"{nodeid}: speedup {' replaced by '.join(values)}"


def test_a_regression_is_refused_with_the_old_and_the_new_value_unless_it_is_accepted(call):
    names = [f"test_a.py::test_{letter}" for letter in "abc"]
    written("base.json", *map(record, names))
    before = Path("base.json").read_bytes()
    written("r.json", record(names[0], 8.0), record(names[1], 12.0), record(names[2], 9.8))
    code, (reason, refusal) = update(call, "base.json", "r.json")
    assert code == 1
    assert reason.startswith(f"{names[0]}: speedup got worse: 8.00x [7.84, 8.16], baseline 10.0x [9.80, ")
    assert refusal == (
        "base.json was not changed: 1 regression; --accept-regressions makes them what later runs are "
        "compared with"
    )
    assert before == Path("base.json").read_bytes()
    assert update(call, "base.json", "r.json", "--accept-regressions")[0] == 0
    assert values("base.json") == dict(zip(names, (8.0, 12.0, 9.8), strict=True))


def test_a_value_in_doubt_does_not_replace_a_better_one_that_was_certain(call):
    written("base.json", record())
    written("r.json", record(speedup=speedup_within(6.0, 0.9)))
    code, (reason, _) = update(call, "base.json", "r.json")
    assert code == 1
    assert "speedup is inconclusive: 6.00x [0.600, 11.4], baseline 10.0x" in reason
    assert update(call, "base.json", "r.json", "--accept-regressions")[0] == 0


def test_a_regression_is_one_by_the_tolerance_of_the_reports_own_gate(call):
    gate = gate_result(baseline=None, tolerances=(within(0.3),))
    written("base.json", record())
    written("r.json", record(value=8.0), gate=gate)
    assert update(call, "base.json", "r.json")[0] == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": ELSEWHERE},
        {"gate": gate_result(baseline=None, tolerances=(within(0.5, "cpu_time"),))},
    ],
    ids=["on another machine", "with a gate on another metric"],
)
def test_a_worse_speedup_is_refused_whatever_the_report_was_compared_with(call, changes):
    written("base.json", record())
    written("r.json", record(value=2.0), **changes)
    code, (reason, refusal) = update(call, "base.json", "r.json")
    assert code == 1
    assert "2.00x [1.96, 2.04], baseline 10.0x [9.80, 10.2]: -80.0 %" in reason
    assert refusal.startswith("base.json was not changed: 1 regression; --accept-regressions ")
    assert values("base.json") == {"test_a.py::test_1": 10.0}
    assert update(call, "base.json", "r.json", "--accept-regressions")[0] == 0


def test_why_a_worse_speedup_is_not_comparable_is_told(call):
    written("base.json", record())
    written("r.json", record(value=2.0), environment=ELSEWHERE)
    reason = update(call, "base.json", "r.json")[1][0]
    assert reason.endswith(
        "not comparable with the baseline base.json: CPU: EPYC in the baseline, another now"
    )


def test_a_regression_in_an_older_report_replaces_nothing_and_is_no_matter(call):
    written("base.json", record())
    written("old.json", record(value=3.0), record(OTHER), **OLD)
    assert update(call, "base.json", "old.json")[0] == 0


def test_of_many_replaced_values_fifty_are_told(call):
    names = [f"test_a.py::test_{number}" for number in range(52)]
    written("base.json", *map(record, names))
    written("r.json", *(record(name, 12.0) for name in names))
    code, lines = update(call, "base.json", "r.json")
    assert (0, 52, "and 2 more tests") == (code, len(lines), lines[-1])


def test_the_latest_report_wins_whatever_the_order_of_the_names(call):
    written("a.json", record(value=3.0), started="2026-01-01T12:00:00+00:00")
    written("b.json", record(value=5.0), started="2026-01-01T12:30:00+02:00")  # half past ten
    update(call, "base.json", "a.json", "b.json")
    update(call, "again.json", "b.json", "a.json")
    assert (3.0, 3.0) == (*values("base.json").values(), *values("again.json").values())


OLD = {"started": "2025-12-31T00:00:00+00:00"}

OTHER = "test_a.py::test_2"


def test_an_older_report_adds_what_is_missing_and_replaces_nothing(call):
    written("base.json", record(), skipped(OTHER), environment=replace(HERE, packages={"numpy": "2"}))
    written("old.json", record(value=3.0), record(OTHER, 4.0), record("test_a.py::test_3", 5.0), **OLD)
    told = [
        "base.json: 1 test updated, 1 new, 1 kept as before",
        "old.json was measured before the baseline: 1 test kept as it was",
    ]
    assert (0, told) == update(call, "base.json", "old.json")
    assert values("base.json") == {"test_a.py::test_1": 10.0, OTHER: 4.0, "test_a.py::test_3": 5.0}
    found = read("base.json")
    assert ("2026-01-01T00:00:00+00:00", {"numpy": "2"}) == (
        found["started"],
        found["environment"]["packages"],
    )


def test_an_older_report_replaces_nothing_beside_a_newer_one(call):
    written("base.json", record(), record(OTHER))
    written("old.json", record(value=3.0), record(OTHER, 4.0), record("test_a.py::test_3", 5.0), **OLD)
    written("new.json", record(OTHER, 12.0), started="2026-02-01T00:00:00+00:00")
    told = [
        "base.json: 1 test updated, 1 new, 1 kept as before",
        replaced(OTHER, 10, 12),
        "old.json was measured before the baseline: 1 test kept as it was",
    ]
    assert (0, told) == update(call, "base.json", "old.json", "new.json")
    assert values("base.json") == {"test_a.py::test_1": 10.0, OTHER: 12.0, "test_a.py::test_3": 5.0}
    assert read("base.json")["started"] == "2026-02-01T00:00:00+00:00"


def test_a_report_that_is_only_older_changes_nothing_and_is_called_so(refused):
    written("base.json", record(), record(OTHER))
    written("old.json", record(value=3.0), record(OTHER, status="skipped", reason=NONE), **OLD)
    said = "old.json is older than the baseline, which has all that it measured; run it again, or remove "
    assert refused("baseline", "update", "base.json", "old.json") == (
        f"{said}the baseline to create it from this report"
    )


def test_an_older_report_that_measured_nothing_is_no_matter_of_its_age(refused):
    written("base.json", record())
    written("old.json", skipped(), **OLD)
    said = "the reports measured nothing that a later run could be compared with"
    assert refused("baseline", "update", "base.json", "old.json") == said


def test_an_older_report_is_no_measure_of_what_to_take_out(refused):
    written("base.json", record(), record(OTHER))
    written("old.json", record(value=3.0), record("test_a.py::test_3"), **OLD)
    said = "old.json was measured before the baseline base.json; leave out --prune, or remove the baseline "
    assert refused("baseline", "update", "base.json", "old.json", "--prune") == f"{said}to recreate it"
    assert values("base.json") == {"test_a.py::test_1": 10.0, OTHER: 10.0}


def test_beside_a_newer_report_an_older_one_says_what_stays_and_replaces_nothing(call):
    written("base.json", record(), record(OTHER), record("test_a.py::gone"))
    written("old.json", record(value=3.0), record("test_a.py::test_3"), **OLD)
    written("new.json", record(OTHER, value=12.0), started="2026-02-01T00:00:00+00:00")
    code, lines = update(call, "base.json", "new.json", "old.json", "--prune")
    assert code == 0
    assert values("base.json") == {"test_a.py::test_1": 10.0, OTHER: 12.0, "test_a.py::test_3": 10.0}
    assert "old.json was measured before the baseline: 1 test kept as it was" in lines


def test_two_shards_make_a_baseline_anew_as_often_as_they_are_asked_to(call):
    written("one.json", record(), **OLD)
    written("two.json", record(OTHER))
    for _ in range(2):
        assert update(call, "base.json", "one.json", "two.json", "--prune")[0] == 0
        assert values("base.json") == {"test_a.py::test_1": 10.0, OTHER: 10.0}


def test_an_older_report_of_another_machine_is_not_told_to_take_out_what_is_newer(call):
    written("base.json", record())
    written("old.json", record(OTHER), environment=ELSEWHERE, **OLD)
    code, (line,) = update(call, "base.json", "old.json")
    assert (3, True) == (code, line.endswith("another; a folder holds a baseline of each machine"))


def test_a_baseline_that_measured_nothing_is_older_than_any_report(call):
    written("base.json", skipped(), environment=NO_GPU)
    written("old.json", record(), **OLD)
    assert (0, ["base.json: 1 test updated, 0 new, 0 kept as before"]) == update(
        call, "base.json", "old.json"
    )
    assert read("base.json")["started"] == OLD["started"]
    assert read("base.json")["environment"]["gpu"]


def test_the_same_report_twice_is_no_older_one(call):
    written("r.json", record(), record(OTHER))
    update(call, "base.json", "r.json")
    before = Path("base.json").read_bytes()
    assert (0, ["base.json: 2 tests updated, 0 new, 0 kept as before"]) == update(call, "base.json", "r.json")
    assert before == Path("base.json").read_bytes()


def test_a_folder_takes_no_report_that_is_older_than_its_nearest_baseline(call, refused):
    Path("folder").mkdir()
    written("folder/new.json", record())
    written("old.json", record(OTHER), **OLD)
    said = refused("baseline", "update", "folder", "old.json")
    assert said == (
        "old.json was measured before folder/new.json, and no run would choose the older of them; update "
        "that file, or move it out of the folder first"
    )
    assert said == refused("baseline", "update", "folder", "old.json", "--prune")
    assert update(call, "folder/new.json", "old.json")[0] == 0


def test_a_folder_takes_an_older_report_of_another_machine(call):
    Path("folder").mkdir()
    written("folder/new.json", record())
    written("old.json", record(), environment=ELSEWHERE, **OLD)
    assert update(call, "folder", "old.json")[0] == 0


WRONG = ResultCheck(agreed=False, error=1.0, tolerance=1e-3, reason="they differ")

LESS = {
    "skipped": skipped(),
    "skipped with its CPU": skipped(cpu=measured(CPU, 1.0), scope="call"),
    "error": record(value=99.0, status="error", reason="lost"),
    "wrong answer": record(value=99.0, status="failed", reason="they differ", check=WRONG),
    "one side": record(gpu=None, speedup=None, pairing=Pairing(kind="cpu", library="numpy")),
    "no speedup": record(speedup=None),
}


@pytest.mark.parametrize("less", LESS.values(), ids=LESS)
@pytest.mark.parametrize("also", [(), ("first.json",)], ids=["in the baseline", "in another report"])
def test_nothing_less_replaces_what_was_measured(call, less, also):
    written("base.json", record("test_a.py::other") if also else record())
    written("first.json", record(), started="2025-01-01T00:00:00+00:00")
    written("r.json", less, record("test_a.py::test_2"))
    assert update(call, "base.json", *also, "r.json")[0] == 0
    assert values("base.json")["test_a.py::test_1"] == 10.0


def test_a_failed_demand_was_measured_all_the_same(call):
    written("base.json", record())
    written("r.json", record(value=2.0, status="failed", reason="too slow"))
    update(call, "base.json", "r.json", "--accept-regressions")
    assert list(values("base.json").values()) == [2.0]


ALONE = skipped(cpu=measured(CPU, 1.0), scope="call", pairing=Pairing(kind="cpu", library="numpy"))


@pytest.mark.parametrize(
    "less", [LESS["skipped"], LESS["error"], LESS["wrong answer"], LESS["no speedup"], ALONE]
)
def test_reports_that_measured_nothing_change_no_baseline(refused, less):
    written("base.json", record())
    written("r.json", less)
    said = "the reports measured nothing that a later run could be compared with"
    assert refused("baseline", "update", "base.json", "r.json") == said
    assert refused("baseline", "update", "new.json", "r.json") == said


def test_tests_that_are_gone_are_taken_out_where_that_is_asked_for(call):
    written("base.json", record(), record("test_a.py::gone"), record("test_a.py::too"))
    written("r.json", record(value=11.0))
    told = [
        "base.json: 1 test updated, 0 new, 0 kept as before",
        "2 tests removed: test_a.py::gone, test_a.py::too",
        replaced("test_a.py::test_1", 10, 11),
    ]
    assert (0, told) == update(call, "base.json", "r.json", "--prune")
    assert values("base.json") == {"test_a.py::test_1": 11.0}


def test_what_was_measured_elsewhere_does_not_stand_beside_it(call):
    written("base.json", record(), record("test_a.py::test_2"))
    before = Path("base.json").read_bytes()
    written("r.json", record(), environment=ELSEWHERE)
    code, (line,) = update(call, "base.json", "r.json")
    assert code == 3
    assert line.startswith("base.json was not changed, because the runs differ: CPU: EPYC, another; --prune")
    assert before == Path("base.json").read_bytes()
    assert update(call, "base.json", "r.json", "--prune")[0] == 0


def test_a_baseline_of_which_all_is_measured_anew_may_be_of_another_machine(call):
    written("base.json", record(), skipped("test_a.py::test_2"))
    written("r.json", record(), environment=ELSEWHERE)
    assert update(call, "base.json", "r.json")[0] == 0
    assert read("base.json")["environment"]["cpu"]["name"] == "another"


def test_reports_of_several_machines_make_no_baseline(call):
    written("a.json", record())
    written("b.json", record("test_a.py::test_2"), environment=ELSEWHERE)
    for options in ([], ["--prune"]):
        code, (line,) = update(call, "base.json", "a.json", "b.json", *options)
        assert code == 3
        assert line.endswith("because the reports differ: CPU: EPYC, another; make a baseline of each")
    assert not Path("base.json").exists()


def test_a_folder_gets_a_file_of_its_own(call, refused):
    Path("folder").mkdir()
    written("folder/old.json", record(), record("test_a.py::test_2"), started="2025-01-01T00:00:00+00:00")
    written("folder/else.json", record(), environment=ELSEWHERE, started="2025-06-01T00:00:00+00:00")
    before = {path: path.read_bytes() for path in Path("folder").iterdir()}
    written("r.json", record(value=12.0), started="2026-01-01T01:00:00+01:00")
    told = [
        "folder/2026-01-01T000000.000Z.json: 1 test updated, 0 new, 1 kept as before",
        replaced("test_a.py::test_1", 10, 12),
    ]
    assert (0, told) == update(call, "folder", "r.json")
    assert values("folder/2026-01-01T000000.000Z.json") == {
        "test_a.py::test_1": 12.0,
        "test_a.py::test_2": 10.0,
    }
    assert before == {path: path.read_bytes() for path in before}
    said = refused("baseline", "update", "folder", "r.json")
    assert said.startswith("folder/2026-01-01T000000.000Z.json already exists")


def test_a_folder_gets_the_first_baseline_of_a_machine_beside_those_of_others(call):
    Path("folder").mkdir()
    written("folder/else.json", record(), record("test_a.py::test_2"), environment=ELSEWHERE)
    written("r.json", record(value=12.0), started="2026-02-01T00:00:00+00:00")
    told = ["folder/2026-02-01T000000.000Z.json: 0 tests updated, 1 new, 0 kept as before"]
    assert (0, told) == update(call, "folder", "r.json")


def test_a_folder_that_is_not_there_is_made_for_its_first_baseline(call):
    written("r.json", record())
    told = ["folder/2026-01-01T000000.000Z.json: 0 tests updated, 1 new, 0 kept as before"]
    assert (0, told) == update(call, "folder/", "r.json")
    assert values("folder/2026-01-01T000000.000Z.json") == {"test_a.py::test_1": 10.0}


def test_a_baseline_that_is_a_link_is_updated_where_the_gate_reads_it(call):
    Path("real").mkdir()
    written("real/base.json", record())
    Path("link.json").symlink_to("real/base.json")
    written("r.json", record(value=5.0))
    code, lines = update(call, "--accept-regressions", "link.json", "r.json")
    assert code == 0
    assert "link.json: 1 test updated, 0 new, 0 kept as before" in lines
    assert Path("link.json").is_symlink()
    assert values("real/base.json") == {"test_a.py::test_1": 5.0}


def test_a_baseline_that_is_a_link_to_nothing_is_refused(refused):
    Path("link.json").symlink_to("nothing.json")
    written("r.json", record())
    said = "link.json: it is a link that leads to no file"
    assert said == refused("baseline", "update", "link.json", "r.json")


def test_no_folder_is_made_for_a_baseline_that_cannot_be(refused):
    written("r.json", skipped())
    assert "measured nothing" in refused("baseline", "update", "folder", "r.json")
    written("r.json", record(), started="yesterday")
    assert "which is not a time with an offset" in refused("baseline", "update", "folder", "r.json")
    assert ["r.json"] == [path.name for path in Path().iterdir()]


def test_a_stray_file_in_a_folder_can_be_moved_out_of_it(refused):
    Path("folder").mkdir()
    written("folder/base.json", record())
    Path("folder/package.json").write_text("{}")
    written("r.json", record())
    for arguments in (["compare", "folder", "r.json"], ["baseline", "update", "folder", "r.json"]):
        said = refused(*arguments)
        assert said.startswith("folder/package.json: this is no report: ")
        assert said.endswith("; or move the file out of the folder")


@pytest.mark.parametrize("started", ["../outside", "/outside", "yesterday", "2026-01-01", "\0"])
def test_a_report_does_not_say_where_it_is_written(refused, started):
    Path("folder").mkdir()
    written("r.json", record(), started=started)
    assert "which is not a time with an offset" in refused("baseline", "update", "folder", "r.json")


@pytest.mark.parametrize("content", ["", "my notes", "{}"])
def test_what_is_no_baseline_is_not_overwritten(refused, content):
    Path("base.json").write_text(content)
    written("r.json", record())
    assert refused("baseline", "update", "base.json", "r.json").startswith("base.json")


def test_a_run_that_ended_early_adds_what_it_measured_and_makes_no_baseline(call, refused):
    written("base.json", record(), record("test_a.py::test_2"))
    written("r.json", record(value=12.0), complete=False)
    told = [
        "base.json: 1 test updated, 0 new, 1 kept as before",
        replaced("test_a.py::test_1", 10, 12),
        "r.json is incomplete: its run ended early",
    ]
    assert (0, told) == update(call, "base.json", "r.json")
    said = (
        "r.json is incomplete: its run ended early, and the baseline would look complete; run it again to "
        "its end, or"
    )
    assert refused("baseline", "update", "new.json", "r.json") == f"{said} update an existing baseline"
    assert refused("baseline", "update", "base.json", "r.json", "--prune") == f"{said} leave out --prune"


def test_a_baseline_holds_no_comparison_and_no_gate(call):
    written("base.json", record())
    compared = comparison("new")
    written("old.json", record(value=5.0, comparisons=(compared,)))
    update(call, "base.json", "old.json", "--accept-regressions")
    assert values("base.json") == {"test_a.py::test_1": 5.0}
    assert read("base.json")["gate"] is None
    assert [each["comparisons"] for each in read("base.json")["records"]] == [[]]


def test_two_runs_that_write_one_baseline_leave_a_whole_one(folder):
    written("a.json", record(value=3.0))
    written("b.json", record(value=5.0))
    program = "import sys; from pytest_gpuperf.cli import main; sys.exit(main())"
    update = ("baseline", "update", "--accept-regressions")  # of whichever writes first
    runs = [
        subprocess.Popen([sys.executable, "-c", program, *update, "base.json", name])
        for name in ("a.json", "b.json")
    ]
    assert [each.wait(60) for each in runs] == [0, 0]
    assert values("base.json").popitem()[1] in (3.0, 5.0)
    assert {path.name for path in folder.iterdir()} == {"a.json", "b.json", "base.json"}
