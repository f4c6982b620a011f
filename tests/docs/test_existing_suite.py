"""A suite that was written without this plugin: left alone as it is, and measured once it has markers."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

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

NOT_OURS = ("__pycache__", "stand_in.py")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run of the suite came to; its records by node id below tests."""

    outcomes: dict
    shown: str
    wrote: set
    records: dict


def applied(text, diff):
    """Return a file's lines after its part of a unified diff, as `patch` would, without fuzz."""
    old, new = text.splitlines(keepends=True), []
    at = 0
    for hunk in re.split(r"^@@ -(?=\d)", diff, flags=re.MULTILINE)[1:]:
        heading, *lines = hunk.splitlines(keepends=True)
        start = int(heading.partition(",")[0]) - 1
        new += old[at:start]
        at = start
        for line in lines:
            if line[0] in " -":
                assert old[at] == line[1:], f"the diff does not fit line {at + 1}"
                at += 1
            if line[0] in " +":
                new.append(line[1:])
    return "".join(new + old[at:])


def add_markers(folder, diff=DIFF):
    for part in re.split(r"^--- a/", diff, flags=re.MULTILINE)[1:]:
        path = folder / part.partition("\n")[0]
        path.write_text(applied(path.read_text(encoding="utf-8"), part), encoding="utf-8")


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
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in paths
        if not any(part in NOT_OURS for part in path.parts)
    }


@pytest.fixture(scope="module")
def earlier_runs():
    return {}


@pytest.fixture
def run(pytester, monkeypatch, earlier_runs):
    """Run the suite in a copy, once in each way for all tests; return what came of it."""

    def call(*options, marked=False, kernel=None):
        way = (options, marked, kernel)
        if way not in earlier_runs:
            earlier_runs[way] = ran(pytester.mkdir(f"suite{len(earlier_runs)}"), options, marked, kernel)
        return earlier_runs[way]

    def ran(folder, options, marked, kernel):
        copy_to(folder)
        if marked:
            add_markers(folder)
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
        return Ran(
            outcomes=dict(re.findall(r"^(tests/\S+) ([A-Z]+)", shown, flags=re.MULTILINE)),
            shown=shown,
            wrote=files_of(folder).keys() - before.keys(),
            records={
                record["nodeid"].removeprefix("tests/"): record
                for record in (json.loads(report.read_text("utf-8"))["records"] if report.exists() else ())
            },
        )

    return call


@pytest.fixture
def measured(run):
    """Run the suite after the diff; where a kernel's time is given, with a simulated CuPy."""

    def call(kernel=None):
        device = ["--gpuperf-gpu=cupy", "--gpuperf-max-time=3"] if kernel else ["--gpuperf-max-time=0.1"]
        return run(
            *device,
            "--gpuperf-lock=none",
            "--gpuperf-json=r.json",
            marked=True,
            kernel=kernel,
        )

    return call


def asked_of(records):
    """Return the GPU variants' limits, by test without its parameters."""
    return {
        nodeid.partition("[")[0]: record["demand"]["min"]
        for nodeid, record in records.items()
        if record["pairing"]["kind"] == "gpu" and record["demand"]["min"] is not None
    }


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


def test_the_diff_adds_markers_and_touches_no_body():
    lines = [line[1:].strip() for line in DIFF.splitlines() if re.match(r"[-+](?![-+])", line)]
    parameters = '@pytest.mark.parametrize("n", [64, 1 << 18])'
    registered = '"speedup: timed on CPU and GPU by pytest-gpuperf, where it is installed",'
    assert registered in lines
    added = [line for line in lines if line and line not in (parameters, registered)]
    assert all(re.match(r"(@|pytestmark = )pytest\.mark\.(speedup|parametrize)\b", line) for line in added)
    assert len(added) == 9


@pytest.mark.parametrize(
    "command", [each for each in ("git apply", "patch -p1 -i") if shutil.which(each.split()[0])]
)
def test_the_diff_applies_with_the_tools_that_people_have(command, tmp_path):
    for folder in ("ours", "theirs"):
        copy_to(tmp_path / folder)
    add_markers(tmp_path / "ours")
    alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    subprocess.run(
        [*command.split(), str(EXAMPLE / "markers.diff")], cwd=tmp_path / "theirs", env=alone, check=True
    )
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs")
    assert files_of(tmp_path / "ours") != files_of(EXAMPLE)


def test_the_readme_shows_the_diff_and_the_files_in_it_are_there():
    assert re.findall(r"```diff\n(.*?)```", GUIDE, flags=re.DOTALL) == [DIFF]
    assert all(
        (EXAMPLE / name).is_file() for name in re.findall(r"^\+\+\+ b/(.+)$", DIFF, flags=re.MULTILINE)
    )


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
    assert asked_of(ran.records) == {**LIMITS, READ_ONLY: 1}
    assert ran.records[STEP]["speedup"]["value"] == pytest.approx(speedup, rel=1e-3)
    failed = {nodeid.partition("[")[0] for nodeid, outcome in ran.outcomes.items() if outcome == "FAILED"}
    assert {f"tests/{name}" for name, end in expected.items() if end == "failed"} == failed


def test_with_a_gpu_each_variant_names_its_partner(measured):
    records = measured(FAST).records
    partners = {
        nodeid: record["pairing"]["partner"].removeprefix("tests/")
        for nodeid, record in records.items()
        if record["pairing"]["kind"] == "gpu"
    }
    blur = "test_images.py::BlurTest::test_blur_"
    assert partners.pop(f"{blur}cupy") == f"{blur}numpy"
    assert partners == {
        nodeid: nodeid.replace("[cupy", "[numpy").replace("[cuda]", "[cpu]") for nodeid in partners
    }


def test_a_marker_on_one_size_leaves_the_others_alone(measured):
    sizes = {nodeid.partition("-")[2] for nodeid in measured(FAST).records if "sums_multiply" in nodeid}
    assert sizes == {"262144-float32]", "262144-float64]"}


def test_all_of_its_variants_are_recorded_without_a_marker_and_no_outcome_changes(run):
    ran = run(
        "--gpuperf-all", "--gpuperf-lock=none", "--gpuperf-gpu=cupy", "--gpuperf-json=r.json", kernel=FAST
    )
    assert ran.outcomes == run("-p", "no:gpuperf", kernel=FAST).outcomes
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
    assert len(rows) == sides.count("gpu") + 1, "and the CPU's where the GPU's is skipped"
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
