"""The export for pytest-benchmark, and pytest-benchmark itself on it."""

import csv
import json
import sys

import pytest
from factories import CPU, NODEID, measurement, record, run_of, scaled, skipped
from hypothesis import example, given
from hypothesis import strategies as st
from pytest_benchmark.cli import main
from pytest_benchmark.stats import Stats

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.report import exports
from pytest_gpuperf.report.exports.pytest_benchmark import spread


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40))
def test_the_spread_is_that_of_pytest_benchmark(samples):
    theirs = Stats()
    theirs.data = samples
    expected, found = theirs.as_dict(), spread(samples)
    exact = ("min", "max", "rounds", "ld15iqr", "iqr_outliers")
    assert {name: expected[name] for name in exact} == {name: found[name] for name in exact}
    for name in ("median", "q1", "q3", "iqr"):
        assert pytest.approx(expected[name], rel=1e-12, abs=1e-12 * max(samples)) == found[name]
    for name in ("mean", "stddev", "ops", "total"):
        assert pytest.approx(expected[name], rel=1e-6, abs=1e-12 * max(samples)) == found[name]
    assert list(expected) == list(found)


def test_a_worked_spread():
    found = spread([1.0, 2.0, 3.0, 4.0, 100.0])
    assert {"mean": 22.0, "median": 3.0, "q1": 1.75, "q3": 28.0} == {
        name: found[name] for name in ("mean", "median", "q1", "q3")
    }
    assert (4.0, "1;1", 5 / 110) == (found["hd15iqr"], found["outliers"], found["ops"])


@example(0.7519777602420576, 3)  # three times this, divided by three, is another number
@given(st.floats(1e-9, 1e3), st.integers(1, 60))
def test_equal_samples_have_no_spread(sample, rounds):
    found = spread([sample] * rounds)
    assert (sample, 0.0, "0;0") == (found["mean"], found["stddev"], found["outliers"])


def test_a_group_can_be_the_name_of_a_histograms_file(loaded):
    first, second = (f"test_a.py::test_a[{'x' * 300}{number}]" for number in range(2))
    groups = [
        each["group"] for each in loaded("pytest-benchmark", record(first), record(second))["benchmarks"]
    ]
    assert len(set(groups)) == 2
    assert all(len(group.encode()) <= 200 for group in groups)


@pytest.fixture
def theirs(pytester, monkeypatch):
    """Return the content of a file that pytest-benchmark wrote."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):  # of a run of our own tests
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile("def test_it(benchmark): benchmark(sum, [1])")
    pytester.runpytest_subprocess(
        "-p", "no:gpuperf", "--benchmark-json=theirs.json", "--benchmark-max-time=0.01"
    )
    return json.loads((pytester.path / "theirs.json").read_text(encoding="utf-8"))


def test_our_file_has_every_field_of_pytest_benchmarks_own(loaded, full, theirs):
    ours = loaded("pytest-benchmark", full)
    assert list(theirs) == list(ours)
    assert set(theirs["commit_info"]) == set(ours["commit_info"])
    assert set(theirs["machine_info"]) <= set(ours["machine_info"])
    (their_benchmark,), our_benchmark = theirs["benchmarks"], ours["benchmarks"][0]
    assert list(their_benchmark) == list(our_benchmark)
    assert set(their_benchmark["stats"]) == set(our_benchmark["stats"])
    assert set(their_benchmark["options"]) == set(our_benchmark["options"])


def test_pytest_benchmark_gets_one_benchmark_for_each_device(loaded):
    found = loaded("pytest-benchmark", record(f"{NODEID}[8::a/b]"), skipped("b", cpu=measurement(CPU)))
    assert [f"{NODEID}[8::a/b][cpu]", f"{NODEID}[8::a/b][gpu]"] == [
        b["fullname"] for b in found["benchmarks"]
    ]
    cpu = found["benchmarks"][0]
    assert ("test_fft[8::a/b][cpu]", f"{NODEID}[8::a/b]", "8::a/b-cpu", {"device": "cpu"}) == (
        cpu["name"],
        cpu["group"],
        cpu["param"],
        cpu["params"],
    )
    assert {"speedup": 10.0, "speedup_low": 9.0, "status": "passed", "emulated": False} == {
        name: cpu["extra_info"][name] for name in ("speedup", "speedup_low", "status", "emulated")
    }
    assert (0.02, 4, [0.02, 0.03, 0.01]) == tuple(cpu["stats"][n] for n in ("median", "iterations", "data"))


def test_pytest_benchmark_gets_the_commit():
    commit = Commit(id="abc", branch="main", time="2026-11-21T10:54:31+00:00", changed=True)
    found = json.loads(exports.text("pytest-benchmark", run_of(record(), commit=commit)))["commit_info"]
    assert ("abc", "main", "2026-11-21T10:54:31+00:00", True) == tuple(
        found[name] for name in ("id", "branch", "time", "dirty")
    )


@pytest.fixture
def compare(tmp_path, monkeypatch, capsys):
    """Let pytest-benchmark compare files in an empty folder; return what it shows."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["pytest-benchmark", "compare", *arguments])
        assert not main()
        return capsys.readouterr().out

    return call


def test_pytest_benchmark_compares_our_file(compare, tmp_path):
    one, zero = record(f"{NODEID}[8]"), record("zero", cpu=measurement(CPU, 0.0))
    content = exports.text("pytest-benchmark", run_of(one, zero))
    (tmp_path / "ours.json").write_text(content, encoding="utf-8")
    shown = compare("ours.json", "--csv=ours.csv", "--columns=median,rounds,ops,outliers")
    assert f"benchmark '{NODEID}[8]': 2 tests" in shown
    with (tmp_path / "ours.csv").open(newline="", encoding="utf-8") as file:
        medians = {row["name"]: float(row["median"]) for row in csv.DictReader(file)}
    assert {
        f"{NODEID}[8][cpu]": one.cpu.median,
        f"{NODEID}[8][gpu]": one.gpu.median,
        "zero[cpu]": 0.0,
        "zero[gpu]": zero.gpu.median,
    } == medians


def test_pytest_benchmark_groups_our_file_by_device_and_between_runs(compare, tmp_path):
    for name in ("old.json", "new.json"):
        content = exports.text("pytest-benchmark", run_of(record()))
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert "benchmark 'device=gpu': 1 tests" in compare("old.json", "--group-by=param:device")
    assert "test_fft[gpu]" in compare("old.json", "new.json", "--group-by=fullname")


def test_the_efficiency_of_a_scaling_test_is_beside_its_times(loaded):
    found = loaded("pytest-benchmark", scaled(1), scaled(4, 0.5))["benchmarks"]
    names = ("speedup", "efficiency", "efficiency_low", "efficiency_high")
    assert [
        (None, None, None, None),
        (None, 0.5, pytest.approx(0.45), pytest.approx(0.55)),
    ] == [tuple(each["extra_info"][name] for name in names) for each in found]
