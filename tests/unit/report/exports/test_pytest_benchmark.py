"""The export for pytest-benchmark, and pytest-benchmark itself on it."""

import csv
import sys
from pathlib import Path

import pytest
from factories import CPU, NODEID, measurement, record, scaled, skipped
from hypothesis import example, given
from hypothesis import strategies as st
from pytest_benchmark.cli import main
from pytest_benchmark.stats import Stats

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.report.exports.pytest_benchmark import spread

FORMAT = "pytest-benchmark"


@example([1.0, 2.0, 3.0, 4.0, 100.0])
@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40))
def test_the_spread_is_that_of_pytest_benchmark(samples):
    theirs = Stats()
    theirs.data = samples
    expected, found = theirs.as_dict(), spread(samples)
    assert {"total", "iqr_outliers", "stddev_outliers"} == {*expected} - {*found}, "which follow from others"
    exact, rounding = ("min", "max", "rounds", "ld15iqr", "hd15iqr"), 1e-12 * max(samples)
    assert {name: expected[name] for name in exact} == {name: found[name] for name in exact}
    for name in ("median", "q1", "q3", "iqr"):
        assert pytest.approx(expected[name], rel=1e-12, abs=rounding) == found[name]
    for name in ("mean", "stddev", "ops"):
        assert pytest.approx(expected[name], rel=1e-6, abs=rounding) == found[name]


@example(0.7519777602420576, 3)  # three times this, divided by three, is another number
@given(st.floats(1e-9, 1e3), st.integers(1, 60))
def test_equal_samples_have_no_spread(sample, rounds):
    found = spread([sample] * rounds)
    assert (sample, 0.0, "0;0") == (found["mean"], found["stddev"], found["outliers"])


def test_a_group_can_be_the_name_of_a_histograms_file(loaded):
    first, second = (f"test_a.py::test_a[{'x' * 300}{number}]" for number in range(2))
    groups = {each["group"] for each in loaded(FORMAT, record(first), record(second))["benchmarks"]}
    assert [True, True] == [len(group.encode()) <= 200 for group in groups]


def test_each_device_of_a_test_is_a_benchmark_with_its_result(loaded):
    commit = Commit(id="abc", branch="main", time="2026-11-21T10:54:31+00:00", changed=True)
    records = (record(f"{NODEID}[8::a/b]"), skipped("b", cpu=measurement(CPU)), scaled(4, 0.5))
    found = loaded(FORMAT, *records, commit=commit)
    cpu, gpu, efficiency = found["benchmarks"]
    assert [f"{NODEID}[8::a/b][cpu]", f"{NODEID}[8::a/b][gpu]"] == [cpu["fullname"], gpu["fullname"]]
    assert {
        "name": "test_fft[8::a/b][cpu]",
        "group": f"{NODEID}[8::a/b]",
        "param": "8::a/b-cpu",
        "params": {"device": "cpu"},
        "extra_info": {
            "device": "EPYC",
            "emulated": False,
            "status": "passed",
            "reason": None,
            "speedup": 10.0,
            "low": 9.0,
            "high": 11.0,
        },
    }.items() <= cpu.items()
    assert (0.02, 4, [0.02, 0.03, 0.01]) == tuple(cpu["stats"][n] for n in ("median", "iterations", "data"))
    assert (None, 0.5) == tuple(efficiency["extra_info"].get(name) for name in ("speedup", "efficiency"))
    assert {"id": "abc", "time": commit.time, "dirty": True} == found["commit_info"]


@pytest.fixture
def compare(tmp_path, monkeypatch, capsys):
    """Let pytest-benchmark compare files in an empty folder; return what it shows."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["pytest-benchmark", "compare", *arguments])
        assert not main()
        return capsys.readouterr().out

    return call


def test_pytest_benchmark_compares_our_file(compare, written):
    one, zero = record(f"{NODEID}[8]"), record("zero", cpu=measurement(CPU, 0.0))
    Path("ours.json").write_text(written(FORMAT, one, zero), encoding="utf-8")
    columns = "--columns=min,max,mean,stddev,median,iqr,outliers,ops,rounds,iterations"
    shown = compare("ours.json", "--csv=ours.csv", columns)
    assert f"benchmark '{NODEID}[8]': 2 tests" in shown
    with Path("ours.csv").open(newline="", encoding="utf-8") as file:
        medians = {row["name"]: float(row["median"]) for row in csv.DictReader(file)}
    assert {
        f"{NODEID}[8][cpu]": one.cpu.median,
        f"{NODEID}[8][gpu]": one.gpu.median,
        "zero[cpu]": 0.0,
        "zero[gpu]": zero.gpu.median,
    } == medians
    Path("old.json").write_text(written(FORMAT, record()), encoding="utf-8")
    assert "benchmark 'device=gpu': 1 tests" in compare("old.json", "--group-by=param:device")
    assert "test_fft[gpu]" in compare("old.json", "ours.json", "--group-by=fullname")
