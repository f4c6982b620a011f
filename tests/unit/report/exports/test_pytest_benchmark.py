"""The export for pytest-benchmark, and pytest-benchmark itself on it."""

import csv
import sys
from pathlib import Path

import pytest
from factories import CPU, NODEID, measurement, record
from hypothesis import example, given
from hypothesis import strategies as st
from pytest_benchmark.cli import main
from pytest_benchmark.stats import Stats

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


def test_equal_samples_have_no_spread():
    found = spread([0.7519777602420576] * 3)  # three times this, divided by three, is another number
    assert (0.7519777602420576, 0.0, "0;0") == (found["mean"], found["stddev"], found["outliers"])


def test_pytest_benchmark_compares_our_file(written, tmp_path, monkeypatch, capsys):
    def compare(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["pytest-benchmark", "compare", *arguments])
        assert not main()
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    one, zero = record(f"{NODEID}[8::a/b]"), record("zero", cpu=measurement(CPU, 0.0))
    Path("old.json").write_text(written(FORMAT, record()), encoding="utf-8")
    Path("ours.json").write_text(written(FORMAT, one, zero), encoding="utf-8")
    columns = "--columns=min,max,mean,stddev,median,iqr,outliers,ops,rounds,iterations"
    assert f"benchmark '{NODEID}[8::a/b]': 2 tests" in compare("ours.json", "--csv=ours.csv", columns)
    with Path("ours.csv").open(newline="", encoding="utf-8") as file:
        medians = {row["name"]: float(row["median"]) for row in csv.DictReader(file)}
    assert {
        f"{NODEID}[8::a/b][cpu]": one.cpu.median,
        f"{NODEID}[8::a/b][gpu]": one.gpu.median,
        "zero[cpu]": 0.0,
        "zero[gpu]": zero.gpu.median,
    } == medians
    assert "benchmark 'device=gpu': 1 tests" in compare("old.json", "--group-by=param:device")
    assert "test_fft[gpu]" in compare("old.json", "ours.json", "--group-by=fullname")
