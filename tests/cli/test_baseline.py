"""gpuperf baseline update."""

import subprocess
import sys
from pathlib import Path

import pytest
from command import read, record, skipped, update, values, written
from factories import ELSEWHERE, gate_result, within

OLD = {"started": "2025-12-31T00:00:00+00:00"}
OTHER = "test_a.py::test_2"


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


def test_green_updates_do_not_let_a_baseline_drift_down(call):
    written("base.json", record(value=9.95))
    gate = gate_result(tolerances=(within(),))
    codes = []
    lines = []
    for value in (9.30, 8.73, 8.16, 7.60, 7.11, 6.64):
        written("r.json", record(value=value), gate=gate)
        code, said = update(call, "base.json", "r.json")
        codes.append(code)
        lines += said
    assert ([0, 0, 1, 1, 1, 1], {"test_a.py::test_1": 9.95}) == (codes, values("base.json"))
    assert lines[:2] == [
        "base.json: 0 tests updated, 0 new, 1 kept as before (1 for better values)",
        "test_a.py::test_1: speedup 9.95x [9.75, 10.1] kept instead of 9.30x [9.11, 9.49]",
    ]


def test_of_many_replaced_values_fifty_are_listed(call):
    names = [f"test_a.py::test_{number}" for number in range(52)]
    written("base.json", *map(record, names))
    written("r.json", *(record(name, 12.0) for name in names))
    code, lines = update(call, "base.json", "r.json")
    assert (0, 52, "and 2 more values") == (code, len(lines), lines[-1])


def test_the_latest_report_wins_whatever_the_order_of_the_names(call):
    written("a.json", record(value=3.0), started="2026-01-01T12:00:00+00:00")
    written("b.json", record(value=5.0), started="2026-01-01T12:30:00+02:00")  # half past ten
    update(call, "base.json", "a.json", "b.json")
    update(call, "again.json", "b.json", "a.json")
    assert (3.0, 3.0) == (*values("base.json").values(), *values("again.json").values())


def test_the_same_report_twice_is_no_older_one(call):
    written("r.json", record(), record(OTHER))
    update(call, "base.json", "r.json")
    before = Path("base.json").read_bytes()
    assert (0, ["base.json: 2 tests updated, 0 new, 0 kept as before"]) == update(call, "base.json", "r.json")
    assert before == Path("base.json").read_bytes()


@pytest.mark.parametrize(("base", "name"), [("base.json", "base.json"), ("folder", "folder/base.json")])
def test_a_report_that_is_older_than_the_baseline_is_refused(refused, base, name):
    Path("folder").mkdir()
    written(name, record())
    written("old.json", record(value=3.0), record(OTHER), **OLD)
    written("new.json", record(OTHER), started="2026-02-01T00:00:00+00:00")
    said = f"old.json is of a run that began before that of the baseline {name}; measure it again, or "
    assert refused("baseline", "update", base, "new.json", "old.json").startswith(said)


def test_reports_that_measured_nothing_change_no_baseline(refused):
    written("base.json", record())
    written("r.json", skipped())
    said = "the reports measured nothing that a later run could be compared with"
    assert refused("baseline", "update", "base.json", "r.json") == said
    assert refused("baseline", "update", "new.json", "r.json") == said


def test_what_was_measured_elsewhere_does_not_stand_beside_it(call):
    written("base.json", record(), record("test_a.py::test_2"))
    before = Path("base.json").read_bytes()
    written("r.json", record(), environment=ELSEWHERE)
    code, (line,) = update(call, "base.json", "r.json")
    assert code == 3
    assert line.startswith("base.json was not changed, because the runs differ: CPU: EPYC, another; a folder")
    assert before == Path("base.json").read_bytes()
    assert update(call, "base.json", "r.json", "--prune")[0] == 0


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
    assert said.startswith("folder/2026-01-01T000000.000Z.json already exists, of a run that began at")


def test_a_folder_gets_the_first_baseline_of_a_machine_beside_those_of_others(call):
    Path("folder").mkdir()
    written("folder/else.json", record(), record("test_a.py::test_2"), environment=ELSEWHERE)
    written("r.json", record(value=12.0), **OLD)
    told = ["folder/2025-12-31T000000.000Z.json: 0 tests updated, 1 new, 0 kept as before"]
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
    said = "r.json is incomplete: its run ended early, and the baseline would look complete; run it again"
    assert refused("baseline", "update", "new.json", "r.json").startswith(said)


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
