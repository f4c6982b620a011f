"""gpuperf history."""

import json
from pathlib import Path

import pytest
from command import record, usage
from factories import run_of

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.report.history import add


def remembered(*speedups) -> str:
    for number, value in enumerate(speedups):
        began, commit = f"2026-01-{number + 1:02}T00:00:00+00:00", Commit(id=f"{number:040x}")
        run = run_of(record(value=value), record("test_b.py::other"), started=began, commit=commit)
        add(Path("speedups"), run)
    return "speedups"


def test_history_tells_each_test_and_where_it_changed(call):
    code, lines, _ = call("history", remembered(*[10.0] * 8, *[5.0] * 8))
    assert (0, "16 runs from 2026-01-01 to 2026-01-16, 2 tests") == (code, lines[0])
    assert {"  from 10.0x to 5.00x (-50 %) at 0000000 of 2026-01-09", "  ... 6 earlier"} <= {*lines}
    lines = call("history", "speedups", "--only=other", "--last=2")[1]
    assert (True, 1) == (lines[0].endswith("1 test"), lines.count("  ... 14 earlier"))


def test_history_for_programs(call):
    folder = remembered(*[10.0] * 8, *[5.0] * 8)
    Path(folder, "wrong.json").touch()
    found = json.loads("\n".join(call("history", folder, "--json", "--only=test_1")[1]))
    assert ["wrong.json"] == [*found["rejected"]]
    (one,) = found["series"]
    assert ("test_a.py::test_1", "CPU EPYC") == (one["nodeid"], one["fingerprint"][:8])
    assert {"started": "2026-01-09T00:00:00Z", "status": "recorded"}.items() <= one["points"][8].items()
    assert (5.0, f"{8:040x}") == (one["points"][8]["speedup"]["value"], one["points"][8]["commit"]["id"])
    (change,) = one["changes"]
    assert (8, 10.0, 5.0) == (change["index"], round(change["before"], 6), round(change["after"], 6))


def test_an_empty_history_is_no_error_and_one_that_is_not_there_is(call, refused):
    Path("empty").mkdir()
    assert (0, ["no runs yet: run pytest with --gpuperf-history=DIR"], "") == call("history", "empty")
    assert refused("history", "nowhere").startswith("nowhere is no folder")


def test_a_file_that_is_no_entry_is_named_and_left_out(call):
    Path(remembered(10.0), "\x1b[1mwrong.json").touch()
    code, lines, _ = call("history", "speedups")
    assert (0, 1) == (code, sum(line.startswith(r"  \x1b[1mwrong.json: it is not JSON") for line in lines))


@pytest.mark.parametrize("last", ["0", "-1", "x", "1.5", ""])
def test_a_number_of_runs_is_one(capsys, last):
    assert "is not a number of runs of at least 1" in usage(capsys, "history", "speedups", f"--last={last}")
