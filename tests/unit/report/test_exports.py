"""Exports: the shapes that other tools publish, and pytest-benchmark itself on what we write for it."""

import csv
import io
import json
import subprocess
import sys
from array import array
from dataclasses import replace
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pytest_benchmark.stats import Stats

from pytest_gpuperf.model.comparison import METRICS, Commit, Comparison
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Copies, DeviceInfo, Estimate, Memory, Transfer
from pytest_gpuperf.model.offload import BreakEven, Offload, Price
from pytest_gpuperf.model.record import Environment, Record
from pytest_gpuperf.report import exports, paths
from pytest_gpuperf.report.escape import distinct, printable
from pytest_gpuperf.report.exports.pytest_benchmark import spread

GPU = DeviceInfo(kind="gpu", backend="cupy", name="H200", library="cupy 13")
CPU = DeviceInfo(kind="cpu", backend="numpy", name="EPYC", library="numpy 2")
EMULATED = replace(GPU, name="a CPU", emulated=True)
NODEID = "tests/test_fft.py::test_fft"
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
HARD = st.sampled_from((*FORMULAS, *",;\"'[]:\x1b\ud800\ud801\\x\u202e"))
HOSTILE = st.lists(HARD | st.characters(), max_size=60).map("".join)

# https://bencher.dev/docs/reference/bencher-metric-format, with the lengths that its text gives
BENCHER = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "propertyNames": {"maxLength": 64, "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "number"},
                        "lower_value": {"type": "number"},
                        "upper_value": {"type": "number"},
                    },
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
        }
    },
}
# BenchmarkResult in benchmark-action/github-action-benchmark, src/extract.ts
GITHUB_ACTION_BENCHMARK = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "unit": {"const": "x"},
            "value": {"type": "number"},
            "range": {"type": "string"},
            "extra": {"type": "string"},
        },
        "required": ["name", "value", "unit"],
        "additionalProperties": False,
    },
}


@pytest.fixture(scope="module")
def full(record, speedup) -> Record:
    """Return a record in which nothing is missing."""
    estimate = Estimate(value=2.0, low=1.5, high=3.0)
    copies = Copies(bytes=8, arrays=1, samples=array("d", [0.001]))
    return record(
        status="failed",
        reason="too slow",
        demand=Demand(min=3, max=9),
        transfer=Transfer(h2d=copies, d2h=copies),
        memory=Memory(peak=4096),
        offload=Offload(
            worth=False,
            reason="it does not pay",
            regime="never",
            by_latency=False,
            price=Price(ratio=2.5, needed=2.5, saves=True, saving_percent=None),
            always=speedup(2.0, 1.5, 3.0),
            once=speedup(4.0, 3.5, 5.0),
            latency=speedup(6.0, 5.5, 7.0),
            break_even_calls=BreakEven(transfer=None, first_call=None, both=estimate, reason=None),
        ),
        comparisons=tuple(
            Comparison(
                metric=metric,
                tolerance=0.1,
                outcome="regressed",
                reason="slower",
                baseline=estimate,
                found=estimate,
                ratio=Estimate(value=0.75, low=0.5, high=1.25),
            )
            for metric in METRICS
        ),
    )


@pytest.fixture(scope="module")
def loaded(run_of):
    """Return what a reader of JSON makes of the file of a format."""

    def call(format: str, *records: Record):
        return json.loads(exports.text(format, run_of(*records)))

    return call


@pytest.fixture(scope="module")
def rows(run_of):
    """Return what a reader of CSV makes of our file."""

    def call(*records: Record) -> list[dict[str, str]]:
        file = io.StringIO(exports.text("csv", run_of(*records)), newline="")
        return list(csv.DictReader(file, strict=True))

    return call


def test_the_formats_are_named_where_there_is_none_of_a_name(run_of):
    assert ["pytest-benchmark", "github-action-benchmark", "bencher", "csv"] == list(paths.EXPORTS)
    with pytest.raises(
        GpuPerfError,
        match=r"'xml' is not an export format; choose one of pytest-benchmark, github.*, bencher, csv",
    ):
        exports.text("xml", run_of())


def test_a_format_is_loaded_when_it_is_asked_for():
    program = "import sys; from pytest_gpuperf.report import exports; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert "pytest_gpuperf.report.exports " in f"{modules.strip()} "
    assert "pytest_gpuperf.report.exports." not in modules


@pytest.mark.parametrize("format", paths.EXPORTS)
@settings(max_examples=60, deadline=None)
@given(anything=HOSTILE)
def test_every_format_can_be_encoded_whatever_a_test_is_called(run_of, record, measurement, format, anything):
    device = replace(GPU, name=anything, backend=anything)
    environment = Environment(
        host={"name": anything},
        cpu={"name": anything},
        gpu=device,
        gpu_reason=None,
        python=anything,
        packages={},
    )
    hostile = record(anything, reason=anything, gpu=measurement(device, 0.1))
    run = run_of(hostile, environment=environment, commit=Commit(id=anything, branch=anything))
    content = exports.text(format, run)
    if format != "csv":
        content = json.dumps(json.loads(content), ensure_ascii=False)  # what a reader has after decoding
    assert content.encode().decode() == content


@pytest.mark.parametrize("format", ["pytest-benchmark", "github-action-benchmark", "bencher"])
def test_a_number_that_json_has_not_is_an_error(run_of, record, speedup, format):
    endless = record(speedup=speedup(value=inf))
    with pytest.raises(GpuPerfError, match="not finite"):
        exports.text(format, run_of(endless))


@given(st.text(st.characters()))
def test_text_is_made_printable(anything):
    assert printable(anything).isprintable()
    assert printable(anything) == anything or not anything.isprintable()


@pytest.mark.parametrize(
    ("expected", "anything"),
    [("a\\x1bb", "a\x1bb"), ("\\udc80", "\udc80"), ("a\\nb", "a\nb"), ("\\u202e", "\u202e"), ("é |", "é |")],
)
def test_what_cannot_be_shown_is_written_out(expected, anything):
    assert expected == printable(anything)


@given(st.lists(HOSTILE, unique=True), st.sampled_from([None, 40]))
def test_names_stay_different_and_short(names, longest):
    found = [distinct(name, longest) for name in names]
    assert len(set(found)) == len(names)
    assert all(found)
    assert all(longest is None or len(name.encode()) <= longest for name in found)


def test_a_name_that_needs_no_change_stays():
    assert distinct(NODEID, 1024) == NODEID


def test_github_action_benchmark_gets_its_published_fields(loaded, full, record, skipped, speedup):
    found = loaded("github-action-benchmark", full, record("b", speedup=speedup(low=None)), skipped("c"))
    Draft202012Validator(GITHUB_ACTION_BENCHMARK).validate(found)
    assert {
        "name": NODEID,
        "unit": "x",
        "value": 10.0,
        "range": "[9.00, 11.0]",
        "extra": "CPU: 20.0 ms on EPYC\nGPU: 1.75 ms on H200\nfailed, 12 rounds, 95% interval",
    } == found[0]


def test_github_action_benchmark_gets_no_test_without_a_speedup(loaded, record, skipped):
    assert ["a"] == [entry["name"] for entry in loaded("github-action-benchmark", record("a"), skipped("b"))]


def test_an_emulated_speedup_is_charted_apart(loaded, record, measurement):
    (found,) = loaded("github-action-benchmark", record("a", gpu=measurement(EMULATED, 0.001)))
    assert found["name"] == "a (emulated)"
    assert found["extra"].endswith("emulated: not a GPU's speedup")


def test_bencher_gets_its_published_metrics(loaded, full, record, skipped, speedup):
    found = loaded("bencher", full, record("b", speedup=speedup(high=None)), skipped("c"))
    Draft202012Validator(BENCHER).validate(found)
    assert {"value": 10.0, "lower_value": 9.0, "upper_value": 11.0} == found[NODEID]["speedup"]
    assert {"value": 10.0, "lower_value": 9.0} == found["b"]["speedup"]
    assert {"value": pytest.approx(2e7)} == found[NODEID]["cpu-ns"]
    assert {"value": pytest.approx(1.75e6)} == found[NODEID]["gpu-ns"]


def test_bencher_gets_no_test_that_was_not_measured(loaded, record, skipped, measurement):
    assert ["a"] == list(loaded("bencher", record("a"), skipped("b"), skipped("c", cpu=measurement(CPU))))


def test_bencher_gets_the_cpu_where_there_was_no_gpu(loaded, skipped, measurement):
    found = loaded("bencher", skipped("a", cpu=measurement(CPU, 0.02)))
    assert {"a": {"cpu-ns": {"value": pytest.approx(2e7)}}} == found


def test_bencher_has_measures_of_its_own_for_an_emulated_device(loaded, record, measurement):
    found = loaded("bencher", record("a", gpu=measurement(EMULATED, 0.001)))
    assert {"emulated-speedup", "cpu-ns", "emulated-gpu-ns"} == set(found["a"])


def test_names_that_cannot_be_kept_stay_different_everywhere(loaded, record):
    written_out, literal = record("test[\x1b]"), record("test[\\x1b]")
    assert len(loaded("bencher", written_out, literal)) == 2
    charted = loaded("github-action-benchmark", written_out, literal)
    assert len({entry["name"] for entry in charted}) == 2
    groups = {each["group"] for each in loaded("pytest-benchmark", written_out, literal)["benchmarks"]}
    assert len(groups) == 2
    assert all(name.isprintable() for name in groups)


def test_names_that_are_too_long_for_bencher_stay_different(loaded, record):
    long = f"test[{'é' * 600}"  # 1,205 bytes
    found = list(loaded("bencher", record(f"{long}1]"), record(f"{long}2]")))
    assert len(found) == 2
    assert all(len(name.encode()) <= 1024 for name in found)


def test_csv_has_a_column_for_each_number(rows, full):
    (found,) = rows(full)
    assert [] == [name for name, cell in found.items() if cell == ""]
    expected = {
        "test": NODEID,
        "status": "failed",
        "reason": "too slow",
        "gpu_emulated": "false",
        "cpu_median_s": "0.02",
        "gpu_median_s": "0.00175",
        "speedup_x": "10.0",
        "speedup_low_x": "9.0",
        "speedup_high_x": "11.0",
        "wanted_min_x": "3",
        "with_copies_x": "2.0",
        "by_latency_high_x": "7.0",
        "transfer_bytes": "16",
        "worth": "false",
        "saves_money": "true",
        "break_even_low_calls": "1.5",
        "memory_peak_bytes": "4096",
        "speedup_baseline_x": "2.0",
        "gpu_baseline_s": "2.0",
        "speedup_change_percent": "-25.0",
        "speedup_change_low_percent": "-50.0",
        "speedup_change_high_percent": "25.0",
        "cpu_outcome": "regressed",
    }
    assert expected == {name: found[name] for name in expected}


def test_csv_has_the_same_columns_and_a_row_for_every_test(rows, full, record, skipped, speedup):
    found = rows(full, skipped("b"), record("c", speedup=speedup(high=None)))
    assert ["failed", "skipped", "passed"] == [row["status"] for row in found]
    assert found[1]["speedup_x"] == found[2]["speedup_high_x"] == ""
    assert list(found[0]) == list(rows(skipped("b"))[0])


def test_csv_has_the_line_ends_of_its_standard(run_of, record):
    assert exports.text("csv", run_of(record())).count("\r\n") == 2


@settings(deadline=None)
@given(HOSTILE)
def test_no_cell_of_text_is_a_formula(rows, record, anything):
    (found,) = rows(record(anything, reason=anything))
    for cell in (found["test"], found["reason"]):
        assert not cell.startswith(
            ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
        )
        assert printable(anything) == cell or f"'{printable(anything)}" == cell


@pytest.mark.parametrize("begin", FORMULAS)
def test_text_that_begins_like_a_formula_is_marked_as_text(rows, record, begin):
    (found,) = rows(record(f"{begin}1+1"))
    assert found["test"][0] in ("'", "\\")


def test_a_negative_number_is_no_formula(rows, full):
    assert rows(full)[0]["speedup_change_percent"] == "-25.0"


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40))
def test_the_spread_is_that_of_pytest_benchmark(samples):
    theirs = Stats()
    theirs.data = samples
    expected, found = theirs.as_dict(), spread(samples)
    exact = ("min", "max", "median", "rounds", "q1", "q3", "iqr", "ld15iqr", "iqr_outliers")
    assert {name: expected[name] for name in exact} == {name: found[name] for name in exact}
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


@pytest.fixture
def theirs(pytester, monkeypatch):
    """Return the content of a file that pytest-benchmark wrote."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):  # of a run of our own tests
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile("def test_it(benchmark): benchmark(sum, [1])")
    pytester.runpytest_subprocess(
        "-p", "no:gpuperf", "--benchmark-json=theirs.json", "--benchmark-min-rounds=3"
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


def test_pytest_benchmark_gets_one_benchmark_for_each_device(loaded, record, skipped, measurement):
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


def test_pytest_benchmark_gets_the_commit(run_of, record):
    commit = Commit(id="abc", branch="main", time="2026-11-21T10:54:31+00:00", changed=True)
    found = json.loads(exports.text("pytest-benchmark", run_of(record(), commit=commit)))["commit_info"]
    assert ("abc", "main", "2026-11-21T10:54:31+00:00", True) == tuple(
        found[name] for name in ("id", "branch", "time", "dirty")
    )


def compare(pytester, *arguments: str) -> str:
    program = "import sys; from pytest_benchmark.cli import main; sys.exit(main())"
    done = pytester.run(sys.executable, "-c", program, "compare", *arguments)
    assert done.ret == 0
    return done.stdout.str()


def test_pytest_benchmark_compares_our_file(run_of, record, measurement, pytester):
    one, zero = record(f"{NODEID}[8]"), record("zero", cpu=measurement(CPU, 0.0))
    content = exports.text("pytest-benchmark", run_of(one, zero))
    (pytester.path / "ours.json").write_text(content, encoding="utf-8")
    shown = compare(pytester, "ours.json", "--csv=ours.csv", "--columns=median,rounds,ops,outliers")
    assert f"benchmark '{NODEID}[8]': 2 tests" in shown
    with (pytester.path / "ours.csv").open(newline="", encoding="utf-8") as file:
        medians = {row["name"]: float(row["median"]) for row in csv.DictReader(file)}
    assert {
        f"{NODEID}[8][cpu]": one.cpu.median,
        f"{NODEID}[8][gpu]": one.gpu.median,
        "zero[cpu]": 0.0,
        "zero[gpu]": zero.gpu.median,
    } == medians


def test_pytest_benchmark_groups_our_file_by_device_and_between_runs(run_of, record, pytester):
    for name in ("old.json", "new.json"):
        content = exports.text("pytest-benchmark", run_of(record()))
        (pytester.path / name).write_text(content, encoding="utf-8")
    assert "benchmark 'device=gpu': 1 tests" in compare(pytester, "old.json", "--group-by=param:device")
    assert "test_fft[gpu]" in compare(pytester, "old.json", "new.json", "--group-by=fullname")
