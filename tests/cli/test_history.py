"""gpuperf history: each test's speedup over its runs, and where it changed, for people and for programs."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from command import record, skipped, usage
from factories import GPU, STEP, measured, run_of, speedup
from golden import assert_told
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.report.history_folder import add

KNOWN = Commit(id="known")  # of each day another
ANOTHER = measured(replace(GPU, name="another GPU"), 1e-3)


def remembered(folder="runs", commit=KNOWN, **tests) -> str:
    """Write a run a day with the speedups of tests, or their records; None is a skip. Return the folder."""
    for day, values in enumerate(zip(*tests.values(), strict=True), 1):
        records = [
            skipped(name) if each is None else record(name, each) if isinstance(each, float) else each
            for name, each in zip(tests, values, strict=True)
        ]
        began = datetime(2025, 12, 31, 12, tzinfo=UTC) + timedelta(days=day)
        known = Commit(id=f"{day:07x}{0:033}") if commit is KNOWN else commit
        add(Path(folder), run_of(*records, started=began.isoformat(), commit=known))
    return folder


def folders():
    """Yield what a history is of, and its folder."""
    Path("in full").mkdir()
    Path("in full/\x1b[1mwrong").touch()
    elsewhere = record("test_c", 2.0, gpu=ANOTHER, status="failed", reason="too slow")
    yield (
        "changes, and runs without a speedup",
        remembered(
            "in full", test_b=[None] * 13, test_a=[*STEP, None], test_c=[*[skipped("test_c")] * 12, elsewhere]
        ),
    )
    yield "commits that are not known", remembered("no commits", commit=None, test_a=STEP)
    yield (
        "files that differ from a commit",
        remembered("changed", commit=Commit(id="a" * 40, changed=True), test_a=[5.0]),
    )
    yield "an open range", remembered("open", test_a=[record("test_a", speedup=speedup(5.0, None, 6.0))])
    yield "no change", remembered("same", test_a=[5.0] * 12)
    yield "noise that looks like noise", remembered("noise", test_a=[5.0, 5.01] * 14)
    yield "more runs than columns", remembered("many", test_a=[*[5.0] * 60, *[6.0] * 40])
    yield (
        "a slow drift, with what it comes to in all",
        remembered("drift", test_a=[10 * 0.98**day for day in range(31)]),
    )


def test_a_history_tells_each_test_and_where_it_changed(call):
    """Read the titles above, and what stands below each in the file."""
    shown = {title: call("history", folder, "--last=3")[1] for title, folder in folders()}
    assert_told("history", ((title, "\n".join([*lines, ""])) for title, lines in shown.items()))


def test_only_the_tests_that_were_asked_for_are_shown(call):
    remembered(test_fft=[2.0], test_sort=[3.0])
    lines = call("history", "runs", "--only=fft")[1]
    assert ["test_fft"] == [line for line in lines if line.startswith("test_")]
    said = "1 run from 2026-01-01 to 2026-01-01, and no test in them whose name contains 'x'"
    assert [said] == call("history", "runs", "--only=x")[1]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_history_fits_its_width_and_names_tests_in_full(call, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    name, other = "test_" + "long_name_" * 30 + "end", "test_" + "untimed_" * 30
    level = [10.0 if run // 8 % 2 else 5.0 for run in range(64)]  # with as many changes as there can be
    remembered(**{name: level, other: [None] * 64})
    (Path("runs") / ("a" * 200)).write_text("not a report")
    lines = call("history", "runs")[1]
    assert [line for line in lines if len(line) > width] == []
    shown = "".join(line.strip() for line in lines)
    assert (1, True) == (shown.count(name), other in shown)


@pytest.mark.parametrize("hostile", ["\x1b[2J", "a\nb", "\r", "\u202e", "\ud800", "\x9b"])
def test_nothing_in_a_report_steers_the_terminal(call, hostile):
    device = measured(replace(GPU, name=hostile), 1e-3)
    remembered(commit=Commit(id=hostile), test_a=[record(hostile, gpu=device)])
    assert all(line.isprintable() for line in call("history", "runs")[1])


def test_programs_get_each_point_and_change(call):
    remembered(test_a=[*[10.0] * 8, *[5.0] * 8], other=[10.0] * 16)
    (Path("runs") / "\x1b[1mwrong.json").touch()
    found = json.loads("\n".join(call("history", "runs", "--json", "--only=test_a")[1]))
    assert ["\x1b[1mwrong.json"] == [*found["rejected"]]
    (one,) = found["series"]
    assert ("test_a", "CPU EPYC") == (one["nodeid"], one["fingerprint"][:8])
    assert {"started": "2026-01-09T12:00:00Z", "status": "recorded"}.items() <= one["points"][8].items()
    assert (5.0, f"0000009{0:033}") == (
        one["points"][8]["speedup"]["value"],
        one["points"][8]["commit"]["id"],
    )
    (change,) = one["changes"]
    assert (8, pytest.approx((10.0, 5.0))) == (change["index"], (change["before"], change["after"]))


def test_an_empty_history_is_no_error_and_one_that_is_not_there_is(call, refused):
    Path("empty").mkdir()
    assert (0, ["no runs yet: run pytest with --gpuperf-history=DIR"], "") == call("history", "empty")
    assert refused("history", "nowhere").startswith("nowhere is no folder")


@pytest.mark.parametrize("last", ["0", "-1", "x", "1.5", ""])
def test_a_number_of_runs_is_one(capsys, last):
    assert "is not a number of runs of at least 1" in usage(capsys, "history", "speedups", f"--last={last}")
