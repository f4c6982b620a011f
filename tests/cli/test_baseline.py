"""gpuperf baseline: exit codes, what is printed, and the files that are read and written.

What takes the place of what is in tests/unit/gate/test_update.py.
"""

from pathlib import Path

import pytest
from command import read, record, skipped, update, values, written
from factories import ELSEWHERE

TEST, OTHER = "test_a.py::test_1", "test_a.py::test_2"


def replaced(nodeid, before, after) -> str:
    """Return the line on a value that another one replaced."""
    values = (f"{value:.1f}x [{value / 1.02:#.3g}, {value * 1.02:#.3g}]" for value in (before, after))
    return f"{nodeid}: speedup {' replaced by '.join(values)}"


def test_a_baseline_is_made_where_there_is_none_and_the_same_report_is_no_older_one(call):
    written("r.json", record(), record(OTHER), gate=None)
    assert (0, ["base.json: 0 tests updated, 2 new, 0 kept as before"]) == update(call, "base.json", "r.json")
    before = Path("base.json").read_bytes()
    assert (0, ["base.json: 2 tests updated, 0 new, 0 kept as before"]) == update(call, "base.json", "r.json")
    assert (True, before) == (read("base.json")["complete"], Path("base.json").read_bytes())


def test_new_measurements_are_taken_those_of_a_run_that_ended_early_too(call):
    names = [f"test_a.py::test_{letter}" for letter in "abc"]
    written("base.json", *map(record, names))
    before = Path("base.json").read_text().splitlines()
    written("r.json", record("test_a.py::new", 3.0), record(names[1], 12.0), complete=False)
    told = [
        replaced(names[1], 10, 12),
        "r.json is incomplete: its run ended early",
        "base.json: 1 test updated, 1 new, 2 kept as before",
    ]
    assert (0, told) == update(call, "base.json", "r.json")
    found = {names[0]: 10.0, names[1]: 12.0, names[2]: 10.0, "test_a.py::new": 3.0}
    assert list(found.items()) == list(values("base.json").items())
    after = Path("base.json").read_text().splitlines()
    changed = [line for line in after if line not in before]
    assert sum('"nodeid":' in line for line in changed) <= 3, "a small change is a small diff"


def test_a_regression_is_refused_with_the_old_and_the_new_value_unless_it_is_accepted(call):
    names = [f"test_a.py::test_{letter}" for letter in "abc"]
    written("base.json", *map(record, names))
    before = Path("base.json").read_bytes()
    written("r.json", record(names[0], 8.0), record(names[1], 12.0), record(names[2], 9.8))
    code, (reason, refusal) = update(call, "base.json", "r.json")
    assert code == 1
    assert reason.startswith(f"{names[0]}: speedup got worse: 8.00x [7.84, 8.16], baseline 10.0x [9.80, ")
    remedy = "--accept-regressions makes them what later runs are compared with"
    assert refusal == f"base.json was not changed: 1 regression; {remedy}"
    assert before == Path("base.json").read_bytes()
    assert update(call, "base.json", "r.json", "--accept-regressions")[0] == 0
    assert values("base.json") == dict(zip(names, (8.0, 12.0, 9.8), strict=True))


def test_what_was_measured_elsewhere_does_not_stand_beside_it(call):
    written("base.json", record(), record(OTHER))
    before = Path("base.json").read_bytes()
    written("r.json", record(), environment=ELSEWHERE)
    code, (line,) = update(call, "base.json", "r.json")
    assert code == 3
    assert line.startswith("base.json was not changed, because the runs differ: CPU: EPYC, another; a folder")
    assert before == Path("base.json").read_bytes()
    assert update(call, "base.json", "r.json", "--prune")[0] == 0


def test_the_latest_report_wins_whatever_the_order_of_the_names(call):
    written("a.json", record(value=3.0), started="2026-01-01T12:00:00+00:00")
    written("b.json", record(value=5.0), started="2026-01-01T12:30:00+02:00")  # half past ten
    update(call, "base.json", "a.json", "b.json")
    update(call, "again.json", "b.json", "a.json")
    assert (3.0, 3.0) == (*values("base.json").values(), *values("again.json").values())


def test_a_folder_gets_a_file_of_its_own(call, refused):
    written("r.json", record(), started="2026-01-01T00:00:00+00:00")
    name = "folder/2026-01-01T000000.000Z.json"
    assert (0, [f"{name}: 0 tests updated, 1 new, 0 kept as before"]) == update(call, "folder/", "r.json")
    written("folder/else.json", record(), environment=ELSEWHERE, started="2026-06-01T00:00:00+00:00")
    before = {path: path.read_bytes() for path in Path("folder").iterdir()}
    written("r.json", record(value=12.0), record(OTHER), started="2026-02-01T01:00:00+01:00")
    newer = "folder/2026-02-01T000000.000Z.json"
    told = [replaced(TEST, 10, 12), f"{newer}: 1 test updated, 1 new, 0 kept as before"]
    assert (0, told) == update(call, "folder", "r.json")
    assert {TEST: 12.0, OTHER: 10.0} == values(newer)
    assert before == {path: path.read_bytes() for path in before}
    said = f"{newer} already exists, of a run that began at"
    assert refused("baseline", "update", "folder", "r.json").startswith(said)


def test_a_baseline_that_is_a_link_is_updated_where_the_gate_reads_it(call, refused):
    Path("real").mkdir()
    written("real/base.json", record())
    Path("link.json").symlink_to("real/base.json")
    Path("lost.json").symlink_to("nothing.json")
    written("r.json", record(value=5.0))
    code, lines = update(call, "--accept-regressions", "link.json", "r.json")
    assert (0, "link.json: 1 test updated, 0 new, 0 kept as before") == (code, lines[-1])
    assert Path("link.json").is_symlink()
    assert values("real/base.json") == {TEST: 5.0}
    said = "lost.json: it is a link that leads to no file"
    assert said == refused("baseline", "update", "lost.json", "r.json")


OLDER = "old.json is of a run that began before that of the baseline {}; measure it again, or "
NO_TIME = "which is not a time with an offset"


@pytest.mark.parametrize(
    ("said", "base", "reports"),
    [
        (OLDER.format("base.json"), "base.json", "new.json old.json"),
        (OLDER.format("folder/base.json"), "folder", "new.json old.json"),
        ("the reports measured nothing that a later run", "base.json", "none.json"),
        ("the reports measured nothing that a later run", "made/", "none.json"),
        ("notes.json: it is not JSON", "notes.json", "new.json"),
        ("early.json is incomplete: its run ended early, and the baseline", "made.json", "early.json"),
        *((NO_TIME, "folder", f"{name}.json") for name in ("yesterday", "outside", "nul")),
        (NO_TIME, "made/", "outside.json"),
    ],
)
def test_what_cannot_be_updated_is_refused_and_nothing_is_made(refused, said, base, reports):
    Path("folder").mkdir(exist_ok=True)
    for name in ("base.json", "folder/base.json"):
        written(name, record())
    written("old.json", record(value=3.0), record(OTHER), started="2025-12-31T00:00:00+00:00")
    written("new.json", record(OTHER), started="2026-02-01T00:00:00+00:00")
    written("none.json", skipped())
    written("early.json", record(), complete=False)
    for name, started in {"yesterday": "yesterday", "outside": "../outside", "nul": "\0"}.items():
        written(f"{name}.json", record(), started=started)
    Path("notes.json").write_text("my notes")
    assert said in refused("baseline", "update", base, *reports.split())
    assert not Path("made").exists()
