"""gpuperf history."""

import json
from pathlib import Path

import pytest
from command import record, usage
from factories import run_of

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.report.history import add


def remembered(*speedups, folder="speedups") -> str:
    for number, value in enumerate(speedups):
        began = f"2026-01-{number + 1:02}T00:00:00+00:00"
        commit = Commit(id=f"{number:040x}", branch=None, time=None, changed=False)
        run = run_of(record(value=value), record("test_b.py::other"), started=began, commit=commit)
        add(Path(folder), run)
    return folder


def test_history_tells_each_test_and_where_it_changed(call):
    code, lines, _ = call("history", remembered(*[10.0] * 8, *[5.0] * 8))
    assert code == 0
    assert lines[0] == "16 runs from 2026-01-01 to 2026-01-16, 2 tests"
    assert "  from 10.0x to 5.00x (-50 %) at 0000000 of 2026-01-09" in lines
    assert "  ... 6 earlier" in lines


def test_history_shows_what_is_asked_for(call):
    lines = call("history", remembered(*[10.0] * 5), "--only=other", "--last=2")[1]
    assert lines[0].endswith("1 test")
    assert "  ... 3 earlier" in lines
    assert not any("test_1" in line for line in lines)


def test_history_for_programs(call):
    found = json.loads("\n".join(call("history", remembered(10.0, 11.0), "--json", "--only=test_1")[1]))
    assert (2, ["test_a.py::test_1"]) == (found["runs"], [each["nodeid"] for each in found["series"]])


def test_an_empty_history_is_no_error_and_one_that_is_not_there_is(call, refused):
    Path("empty").mkdir()
    assert (0, ["no runs yet: run pytest with --gpuperf-history=DIR"], "") == call("history", "empty")
    assert refused("history", "nowhere").startswith("nowhere is no folder")


def test_a_file_that_is_no_entry_is_named_and_left_out(call):
    Path(remembered(10.0), "\x1b[1mwrong.json").write_text("no entry")
    code, lines, _ = call("history", "speedups")
    assert code == 0
    assert any(line.startswith(r"  \x1b[1mwrong.json: it is not JSON") for line in lines)


@pytest.mark.parametrize("last", ["0", "-1", "x", "1.5", ""])
def test_a_number_of_runs_is_one(capsys, last):
    assert "is not a number of runs of at least 1" in usage(capsys, "history", "speedups", f"--last={last}")
