"""The benchmark of the gate: its replay has the changes that it says, and its tables count them."""

import sys
from contextlib import nullcontext
from random import Random
from types import SimpleNamespace

import pytest


@pytest.fixture
def gate(script):
    return script("gate")


def trace(gate, name, seed, spread=0.02, blocks=700):
    """Return the block times of a workload that takes about a millisecond."""
    chance = Random(seed)  # noqa: S311 - noise, not a secret
    times = tuple(1e-3 * chance.lognormvariate(0.0, spread) for _ in range(blocks))
    return gate.Trace(name=name, times=times, median=sorted(times)[blocks // 2])


def task(gate, marker, factor, runs=5):
    cpu, gpu = trace(gate, "one", 1), trace(gate, "other", 2)
    return gate.Task(cpu=cpu, gpu=gpu, marker=marker, factor=factor, runs=runs, seed=1)


@pytest.mark.parametrize("marker", ["bare", "min=3", "bare, 50 ms"])
@pytest.mark.parametrize(("expected", "factor"), [(0.0, 1.0), (100.0, 0.8), (0.0, 1.2)])
def test_on_steady_noise_the_gate_finds_what_was_lost_and_nothing_else(gate, expected, marker, factor):
    found = gate.tally(task(gate, marker, factor))
    assert (expected, 0.0, 100.0 - expected) == (found.regressed, found.inconclusive, found.fine)
    assert 7 <= found.rounds <= 1.1 * found.baseline_rounds, "a baseline takes all of the time"


def test_at_the_limit_itself_nothing_is_decided(gate):
    found = gate.tally(task(gate, "min=3", 0.9, runs=3))
    assert (0.0, 100.0) == (found.regressed, found.inconclusive)


def test_the_tables_and_the_targets_are_those_of_the_outcomes(gate, monkeypatch, tmp_path, capsys):
    for name, seed in (("one", 1), ("other", 2)):
        lines = [str(seconds) for seconds in trace(gate, name, seed).times]
        (tmp_path / f"{name}.csv").write_text("\n".join(["seconds_per_call", *lines]), encoding="utf-8")
    here = SimpleNamespace(map=lambda call, tasks, chunksize: [call(each) for each in tasks])
    monkeypatch.setattr(gate, "Pool", lambda processes: nullcontext(here))  # a fork of pytest would warn
    monkeypatch.setattr(sys, "argv", ["gate.py", f"--noise={tmp_path}", "--runs=2", "--seed=1"])
    assert gate.main() == 0
    shown = capsys.readouterr().out
    assert "one / other" in shown
    assert "other / one" in shown
    assert shown.count("yes\n") == 6
