"""A suite that was written without this plugin: left alone as it is, and measured once it has markers."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.libraries  # the suite uses those that are there

EXAMPLE = Path(__file__).parents[2] / "examples" / "existing_suite"
GUIDE = (EXAMPLE / "README.md").read_text(encoding="utf-8")
DIFF = (EXAMPLE / "markers.diff").read_text(encoding="utf-8")
STAND_IN = """
    import functools, sys, types
    import numpy, pytest
    from pytest_gpuperf.devices.simulated import SimulatedArray, SimulatedBackend, Timing

    LINK = 1e15  # bytes per second: copies take no time
    BACKEND = SimulatedBackend(
        name="cupy",
        cpu=Timing(kernel=2e-3, bandwidth=LINK),
        gpu=Timing(kernel={kernel}, bandwidth=LINK),
    )
    CPU, GPU = BACKEND.cpu(), BACKEND.gpu("")

    cupy = types.ModuleType("cupy")
    cupy.__getattr__ = lambda name: getattr(GPU.xp, name)
    cupy.asarray = GPU.asarray
    cupy.asnumpy = lambda array: GPU.asnumpy(array) if GPU.holds(array) else numpy.asarray(array)
    cupy.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=lambda: 1))
    cupy.get_array_module = lambda *arrays: next(
        (array.home.xp for array in arrays if isinstance(array, SimulatedArray)), numpy
    )
    sys.modules["cupy"] = cupy

    def on_the_cpu(array):
        return array if isinstance(array, SimulatedArray) else CPU.place(array)

    def timed(function):
        return functools.wraps(function)(lambda *inputs: function(*map(on_the_cpu, inputs)))

    def pytest_configure():
        import ripple
        for name in ripple.__all__:
            setattr(ripple, name, timed(getattr(ripple, name)))

    @pytest.hookimpl(optionalhook=True)
    def pytest_gpuperf_devices():
        return [BACKEND]
"""

BARE = {
    "test_clusters.py::test_distances_are_symmetric",
    "test_clusters.py::test_every_point_is_nearest_to_itself",
    "test_clusters.py::test_a_centre_without_points_stays",
    "test_filters.py::test_a_polynomial_is_not_changed_by_smoothing",
    "test_spectra.py::test_white_noise_is_flat",
}
LIMITS = {
    "test_clusters.py::test_a_step_brings_centres_closer": 2,
    "test_filters.py::test_sums_multiply": 2,
    "test_images.py::BlurTest::test_blur_cupy": 2,
    "test_images.py::test_a_slope_has_one_gradient": 1,
    "test_spectra.py::TestPeriodogram::test_a_sine_has_its_power_at_its_frequency": 1,
    "test_spectra.py::TestPeriodogram::test_densities_add_up_to_the_variance": 1,
}
READ_ONLY = "test_spectra.py::TestPeriodogram::test_data_may_be_read_only"
NOTHING_TO_TIME = "test_filters.py::test_an_even_window_has_no_middle"
HOST_REFERENCES = {
    "test_filters.py::test_it_is_numpys_convolution",
    "test_spectra.py::test_one_segment_is_a_windowed_periodogram",
}
SLOPE = "test_images.py::test_a_slope_has_one_gradient"  # it has no variant where the suite has one module
MARKED = BARE | LIMITS.keys() | {READ_ONLY}
STEP = "test_clusters.py::test_a_step_brings_centres_closer[cuda]"
FAST, SLOW = 0.2e-3, 2e-3 / 1.25  # seconds that the simulated GPU takes for what takes the CPU 2 ms


def copy_to(folder):
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".*"))


SMALLER = [
    ("test_spectra.py", "1 << 17", "1 << 14"),
    ("test_filters.py", "linspace(-1, 1, 1 << 18)", "linspace(-1, 1, 1 << 12)"),
    ("test_filters.py", ".random(n)", ".random(min(n, 4096))"),
    ("test_clusters.py", "N, K = 10_000", "N, K = 500"),
    ("test_clusters.py", "points[:1000]", "points[:50]"),
    ("test_images.py", "(512, 512)", "(64, 64)"),
    ("test_images.py", "(512, 1)", "(8, 1)"),
    ("test_images.py", "(512, 510)", "(8, 510)"),
]


def make_smaller(folder):
    """Give the tests less data: the times that count here are simulated."""
    for name, size, smaller in SMALLER:
        path = folder / "tests" / name
        text = path.read_text(encoding="utf-8")
        assert size in text
        path.write_text(text.replace(size, smaller), encoding="utf-8")


def files_of(folder):
    paths = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {str(path) for path in paths if not {"__pycache__", "stand_in.py"} & {*path.parts}}


@pytest.fixture(scope="module")
def earlier_runs():
    return {}


@pytest.fixture
def run(pytester, monkeypatch, earlier_runs):
    """Run the suite in a copy, once in each way for all tests; return its records by node id below tests."""

    def call(*options, marked=False, kernel=None):
        way = (options, marked, kernel)
        if way not in earlier_runs:
            earlier_runs[way] = ran(pytester.mkdir(f"suite{len(earlier_runs)}"), options, marked, kernel)
        return earlier_runs[way]

    def ran(folder, options, marked, kernel):
        copy_to(folder)
        if marked:
            alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
            command = [shutil.which("git"), "apply", EXAMPLE / "markers.diff"]
            subprocess.run(command, cwd=folder, env=alone, check=True)
        make_smaller(folder)
        before, chosen = files_of(folder), list(options)
        if kernel is not None:
            (folder / "stand_in.py").write_text(dedent(STAND_IN.format(kernel=kernel)), encoding="utf-8")
            chosen += ["-p", "stand_in"]
        with monkeypatch.context() as here:
            here.chdir(folder)
            here.syspath_prepend(folder)
            here.setenv("COLUMNS", "80")
            here.setenv("CUDA_VISIBLE_DEVICES", "")
            shown = str(pytester.runpytest_inprocess("-v", "-p", "no:cacheprovider", *chosen).stdout)
        report = folder / "r.json"
        records = json.loads(report.read_text("utf-8"))["records"] if report.exists() else ()
        return SimpleNamespace(
            outcomes=dict(re.findall(r"^(tests/\S+) ([A-Z]+)", shown, flags=re.MULTILINE)),
            shown=shown,
            wrote=files_of(folder) - before,
            records={record["nodeid"].removeprefix("tests/"): record for record in records},
        )

    return call


@pytest.fixture
def measured(run):
    """Run the suite after the diff; where a kernel's time is given, with a simulated CuPy."""

    def call(kernel=None):
        device = ["--gpuperf-gpu=cupy", "--gpuperf-max-time=3"] if kernel else ["--gpuperf-max-time=0.1"]
        return run(*device, "--gpuperf-lock=none", "--gpuperf-json=r.json", marked=True, kernel=kernel)

    return call


def ends(records, side="gpu"):
    """Return how the variants on one side ended, by test without its parameters."""
    return {
        nodeid.partition("[")[0]: record["status"]
        for nodeid, record in records.items()
        if record["pairing"]["kind"] == side
    }


def test_without_markers_nothing_of_ours_happens(run):
    without, ours = run("-p", "no:gpuperf"), run()
    assert ours.outcomes == without.outcomes
    assert {"PASSED", "SKIPPED"} == set(ours.outcomes.values())
    assert "- gpuperf -" not in ours.shown
    assert not ours.wrote


def test_with_markers_it_runs_as_before_where_the_plugin_is_missing(run):
    without = run("-p", "no:gpuperf")
    assert "--strict-markers" in (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    assert without.outcomes == run("-p", "no:gpuperf", marked=True).outcomes
    assert without.outcomes


def test_the_suites_own_option_still_chooses_its_device(run):
    outcomes = run("--device=cpu", kernel=FAST).outcomes
    chosen = {
        nodeid: outcome for nodeid, outcome in outcomes.items() if re.search(r"\[(cupy|cuda)\b", nodeid)
    }
    assert {"SKIPPED"} == {chosen[nodeid] for nodeid in chosen if "slope" not in nodeid}


def test_the_diff_adds_markers_and_touches_no_body_and_is_in_the_readme():
    lines = [line[1:].strip() for line in DIFF.splitlines() if re.match(r"[-+](?![-+])", line)]
    parameters = '@pytest.mark.parametrize("n", [64, 1 << 18])'
    registered = '"speedup: timed on CPU and GPU by pytest-gpuperf, where it is installed",'
    assert registered in lines
    added = [line for line in lines if line and line not in (parameters, registered)]
    assert all(re.match(r"(@|pytestmark = )pytest\.mark\.(speedup|parametrize)\b", line) for line in added)
    assert len(added) == 9
    assert re.findall(r"```diff\n(.*?)```", GUIDE, flags=re.DOTALL) == [DIFF]


def test_without_a_gpu_every_marked_test_has_a_record_and_ends_as_before(run, measured):
    ran = measured()
    assert ran.outcomes == run().outcomes
    assert {"r.json"} == ran.wrote
    assert ends(ran.records, "cpu") == {
        name.replace("_blur_cupy", "_blur_numpy"): "recorded" for name in MARKED
    }
    assert ends(ran.records) == dict.fromkeys(MARKED - {SLOPE}, "skipped")
    gpus = [record for record in ran.records.values() if record["pairing"]["kind"] == "gpu"]
    assert all(record["reason"].startswith("CuPy cannot be used: ") for record in gpus)


@pytest.mark.parametrize(("kernel", "speedup", "lost"), [(FAST, 10, []), (SLOW, 1.25, [2])])
def test_with_a_gpu_the_verdicts_are_those_of_its_exact_times(measured, kernel, speedup, lost):
    ran = measured(kernel)
    expected = {name: "failed" if limit in lost else "passed" for name, limit in LIMITS.items()}
    assert ends(ran.records) == {**dict.fromkeys(BARE, "recorded"), **expected, READ_ONLY: "skipped"}
    assert ran.records[STEP]["speedup"]["value"] == pytest.approx(speedup, rel=1e-3)
    failed = {nodeid.partition("[")[0] for nodeid, outcome in ran.outcomes.items() if outcome == "FAILED"}
    assert {f"tests/{name}" for name, end in expected.items() if end == "failed"} == failed
    gpus = {name: record for name, record in ran.records.items() if record["pairing"]["kind"] == "gpu"}
    limits = {name.partition("[")[0]: record["demand"]["min"] for name, record in gpus.items()}
    assert limits == {**dict.fromkeys(BARE), **LIMITS, READ_ONLY: 1}
    partners = {name: record["pairing"]["partner"].removeprefix("tests/") for name, record in gpus.items()}
    cpus = {"[cupy": "[numpy", "[cuda]": "[cpu]", "blur_cupy": "blur_numpy"}
    assert partners == {
        nodeid: re.sub("|".join(map(re.escape, cpus)), lambda found: cpus[found[0]], nodeid)
        for nodeid in partners
    }
    sizes = {nodeid.partition("-")[2] for nodeid in ran.records if "sums_multiply" in nodeid}
    assert sizes == {"262144-float32]", "262144-float64]"}, "those that have a marker"


def test_all_of_its_variants_are_recorded_without_a_marker_and_no_outcome_changes(run):
    ran = run(
        "--gpuperf-all", "--gpuperf-lock=none", "--gpuperf-gpu=cupy", "--gpuperf-json=r.json", kernel=SLOW
    )
    assert ran.outcomes == run("-p", "no:gpuperf", kernel=SLOW).outcomes
    assert {"all"} == {record["source"] for record in ran.records.values()}
    found = ends(ran.records)
    in_one_test = MARKED - {"test_images.py::BlurTest::test_blur_cupy"}  # which is a test of its own
    assert found.keys() - in_one_test == {NOTHING_TO_TIME, *HOST_REFERENCES}
    assert {name for name in found if found[name] != "recorded"} == {NOTHING_TO_TIME, READ_ONLY}


def test_the_output_in_the_readme_is_that_of_the_simulated_device(measured):
    (block,) = re.findall(r"```text\n(.*?)```", GUIDE, flags=re.DOTALL)
    heading, *rows = (line for line in block.splitlines() if re.search(r"  (verdict|\w+ed)$", line))
    assert heading.split() == ["test", "CPU", "emulated", "speedup", "limit", "verdict"]
    sides = [record["pairing"]["kind"] for record in measured(FAST).records.values()]
    assert len(rows) == sides.count("gpu"), "which have the CPU's times, too"
    assert not set(rows) - set(measured(FAST).shown.splitlines())


def test_the_gallerys_run_leaves_it_alone(pytester):
    examples = pytester.path / "examples"
    copy_to(examples / "existing_suite")
    make_smaller(examples / "existing_suite")
    shutil.copy(EXAMPLE.parent / "conftest.py", examples)
    (examples / "test_one.py").write_text("def test_one(): pass\n", encoding="utf-8")
    pytester.makeini("[pytest]\n")
    pytester.runpytest_inprocess("examples", "-p", "no:randomly").assert_outcomes(passed=1)
    here = pytester.runpytest_inprocess("examples/existing_suite", "-p", "no:randomly")
    here.stdout.fnmatch_lines(["rootdir: *existing_suite"])
    assert here.ret == 0
