"""The benchmark of verdicts: its worlds have the speedups that they should, and its tables count them."""

import os
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SHARED = ("common", "worlds", "cells")
CALLS = (30e-3, 10e-3)  # seconds on the CPU and on the GPU


@pytest.fixture
def cells(monkeypatch, tmp_path):
    """Import the script as it is run: from its own folder. It changes the folder and the environment."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name in SHARED:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield import_module("cells")
    for name in (*SHARED, "test_world"):
        sys.modules.pop(name, None)


def cell(cells, **values):
    return cells.Cell(name="still", **cells.sides(CALLS), **values)


@pytest.mark.parametrize(("expected", "factor"), [("passed", 3.0), ("failed", 1 / 3)])
def test_a_clear_speedup_is_the_true_one_and_decided(cells, expected, factor):
    found = cells.tally(cell(cells, factor=factor), runs=2, seed="a")
    assert {expected: 2} == found.statuses
    assert found.value == pytest.approx(1.0, rel=0.02)
    assert (0, 0, []) == (found.missed, found.count("wrong"), found.broken)
    assert 7 <= min(found.rounds)


@pytest.mark.parametrize("check", ["marker", "variants"])
@pytest.mark.parametrize(("expected", "loss"), [(0, 1.0), (2, 0.5)])
def test_a_check_finds_what_was_lost_and_nothing_else(cells, expected, loss, check):
    found = cells.tally(cell(cells, check=check, loss=loss), runs=2, seed="a")
    assert (2, expected, []) == (found.runs, found.regressed, found.broken)
    assert found.truth == pytest.approx(3.0 * loss)
    assert found.value == pytest.approx(1.0, rel=0.02)


def test_recorded_noise_is_replayed_by_turns(cells):
    traces = tuple(cells.Trace(name=name, logs=(level,) * 10) for name, level in (("one", 0.7), ("two", 0.0)))
    found = cells.tally(cell(cells, factor=9.0, traces=(traces, traces[::-1])), runs=2, seed="a")
    assert [3 * 2.0138, 3 / 2.0138] == pytest.approx(found.values, rel=0.01)


def test_a_share_misses_where_the_nearer_end_of_its_interval_does(cells):
    assert cells.wilson(8, 100) == pytest.approx((4.1, 15.0), abs=0.05)
    found = cells.Tally(cell=cell(cells), truth=3.0, runs=100)
    found.statuses.update({"failed": 8, "passed": 92})
    reached = [found.target(cells.Aim(what="failed", limit=limit), "group").reached for limit in (4, 4.2)]
    assert [False, True] == reached
    at_least = [cells.Aim(what="passed", limit=limit, at_least=True) for limit in (95.8, 96)]
    assert [True, False] == [found.target(aim, "group").reached for aim in at_least]


def test_the_command_prints_each_cell_and_the_missed_targets(cells, monkeypatch, capsys):
    def group(_):
        """Two cells."""
        yield cell(cells, factor=3.0, aims=(cells.WRONG, cells.Aim(what="decided", limit=1, at_least=True)))
        yield cell(cells, factor=3.0, aims=(cells.Aim(what="passed", limit=0),))

    here = nullcontext(SimpleNamespace(map=lambda call, tasks, chunksize: [call(each) for each in tasks]))
    context = SimpleNamespace(Pool=lambda *_, **__: here)  # a fork of pytest would warn
    monkeypatch.setattr(cells, "multiprocessing", SimpleNamespace(get_context=lambda _: context))
    monkeypatch.setattr(cells, "GROUPS", {"group": group})
    monkeypatch.setattr(sys, "argv", ["cells.py", "--runs=1"])
    assert cells.main() == 1
    shown = capsys.readouterr().out
    assert "group: Two cells. 1 runs a cell" in shown
    assert "4 targets, 1 missed" in shown
    assert shown.count("NO\n") == 1


def test_one_trace_is_no_pair(cells, tmp_path):
    (tmp_path / "one.csv").write_text("seconds_per_call\n0.001\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="two traces or more are needed"):
        cells.pairs(tmp_path)


def test_recorded_noise_has_to_be_named(cells, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["cells.py", "--only", "gate"])
    with pytest.raises(SystemExit):
        cells.main()
    assert "need --noise" in capsys.readouterr().err
