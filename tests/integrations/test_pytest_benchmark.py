"""pytest-benchmark: a marked test's workload is taken from its fixture, and its files are those it reads."""

import json

import pytest
from plugins import needed

pytestmark = pytest.mark.all_plugins

BENCHMARKS = """
@pytest.mark.speedup(min=3)
def test_slot(benchmark, device):
    assert benchmark(device.xp.ones, 3).shape == (3,)

@pytest.mark.speedup(min=3)
def test_variant(benchmark, xp):
    benchmark.extra_info["n"] = 3
    assert benchmark.pedantic(xp.ones, args=(3,), rounds=7, iterations=2).shape == (3,)

@pytest.mark.speedup(min=3)
def test_decorated(benchmark, xp):
    @benchmark
    def result():
        return xp.ones(3)

@pytest.fixture
def timed(benchmark):
    benchmark.group = "all"
    return benchmark

@pytest.mark.speedup(min=3)
def test_through_a_fixture(timed, xp):
    timed(xp.ones, 3)

@pytest.mark.speedup(min=3)
def test_beside_a_fixture(benchmark, timed, xp):
    benchmark(xp.ones, 3)

def test_unmarked(benchmark):
    benchmark.pedantic(sum, args=([1, 2],), rounds=5)
"""

OURS = {
    "test_slot": "passed",
    **{
        f"test_{name}[{library}]": status
        for name in ("variant", "decorated", "through_a_fixture", "beside_a_fixture")
        for library, status in (("numpy", "recorded"), ("cupy", "passed"))
    },
}


def test_what_a_marked_test_hands_to_benchmark_is_the_workload_and_benchmark_times_nothing_of_it(suite):
    needed("pytest_benchmark", "pytest-benchmark")
    found = suite(BENCHMARKS, "--benchmark-json=b.json", "-Werror")
    found.ended(passed=10)
    assert OURS == found.statuses
    assert {"call"} == {record["scope"] for record in found.records.values()}
    assert 10 == found.speedup("test_slot")
    assert 10 == found.speedup("test_through_a_fixture[cupy]")
    timed = json.loads((found.path / "b.json").read_text(encoding="utf-8"))["benchmarks"]
    assert [("test_unmarked", 5)] == [(each["name"], each["stats"]["rounds"]) for each in timed]
    found.result.stdout.no_fnmatch_line("*warnings*")


@pytest.mark.parametrize(
    ("option", "outcomes", "status"),
    [
        ("--benchmark-disable", {"passed": 10}, OURS),
        ("--benchmark-only", {"passed": 10}, OURS),
        ("--benchmark-skip", {"skipped": 10}, dict.fromkeys(OURS, "skipped")),
    ],
)
def test_the_switches_of_benchmark_keep_their_meaning(suite, option, outcomes, status):
    needed("pytest_benchmark", "pytest-benchmark")
    found = suite(BENCHMARKS, option)
    found.ended(**outcomes)
    assert status == found.statuses


def test_a_use_of_benchmark_that_names_no_single_workload_or_needs_a_timing_is_an_error_that_says_so(suite):
    needed("pytest_benchmark", "pytest-benchmark")
    found = suite(
        """
@pytest.mark.speedup(min=3)
def test_setup(benchmark, device):
    benchmark.pedantic(device.xp.ones, setup=lambda: ((3,), {}), rounds=2)

@pytest.mark.speedup(min=3)
def test_teardown(benchmark, device):
    benchmark.pedantic(device.xp.ones, args=(3,), teardown=print)

@pytest.mark.speedup(min=3)
def test_twice(benchmark, device):
    benchmark(device.xp.ones, 3)
    benchmark(device.xp.ones, 4)

@pytest.fixture
def run(benchmark):
    return lambda workload: benchmark(workload)

@pytest.mark.speedup(min=3)
def test_hidden(run, device):
    run(lambda: device.xp.ones(3))

@pytest.mark.speedup(min=3)
@pytest.mark.parametrize(
    "use", [lambda of: of.stats["mean"], lambda of: of.stats.stats.mean, lambda of: of.weave(sum)]
)
def test_timing(benchmark, device, use):
    benchmark(device.xp.ones, 3)
    assert not benchmark.stats, "which is how a suite asks whether there is one"
    use(benchmark)
""",
        "-Werror",
    )
    found.ended(failed=7)
    assert {"error"} == {*found.statuses.values()}
    found.says(
        "benchmark.pedantic has a setup for each call, which would be timed too*",
        "benchmark.pedantic has a teardown for each call*",
        "benchmark was called twice in one test; a speedup test has one workload",
        "another fixture calls benchmark, so the workload is unknown; request benchmark itself*",
        "benchmark.stats needs a timing, and only pytest-gpuperf times*require a speedup with min= or max=",
        "benchmark.stats needs a timing*",
        "benchmark.weave needs a timing*",
    )


BESIDE = """
def test_benchmark(benchmark):
    benchmark.pedantic(sum, args=([1, 2],))

@pytest.mark.speedup
def test_speedup(device):
    return lambda: device.xp.ones(3)

@pytest.mark.speedup
def test_handed_on(benchmark, device):
    benchmark(device.xp.ones, 3)
"""


def test_a_line_says_that_files_and_comparisons_of_benchmark_lack_speedup_tests(suite):
    needed("pytest_benchmark", "pytest-benchmark")
    said = "pytest-benchmark has no times of 1 speedup test; --gpuperf-baseline and --gpuperf-fail-on compare"
    for option in ("--benchmark-save=before", "--benchmark-autosave", "--benchmark-json=b.json"):
        suite(BESIDE, option).says(said)
    apart = suite(BESIDE, "--benchmark-json=b.json", "-k", "not handed_on")
    assert apart.records
    apart.result.stdout.no_fnmatch_line("*pytest-benchmark has no times*")


def test_a_fixture_called_benchmark_that_is_the_suites_own_is_left_alone(suite):
    found = suite(
        """
@pytest.fixture
def benchmark():
    return "mine"

@pytest.mark.speedup(min=3)
def test_own(benchmark, device):
    assert benchmark == "mine"
    return lambda: device.xp.ones(3)
""",
        "-p",
        "no:benchmark",
    )
    found.ended(passed=1)
    assert {"test_own": "passed"} == found.statuses
