"""Neighbours: other plugins beside ours, and suites that have names of their own for what we have."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest

MARKED = """
@pytest.mark.speedup(min=3)
def test_ones(xp):
    xp.ones(3)
"""


def needed(plugin, package):
    """Return a plugin that the extra `test` has; where it is not installed a test skips, and says so."""
    return pytest.importorskip(plugin, reason=f"the extra `test` has {package}")


# pytest-benchmark

BENCHMARKS = """
@pytest.mark.speedup(min=3)
def test_slot(benchmark, device):
    assert benchmark(device.xp.ones, 3).shape == (3,)

@pytest.mark.speedup(min=3)
def test_sibling(benchmark, xp):
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
        for name in ("sibling", "decorated", "through_a_fixture", "beside_a_fixture")
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


def test_a_use_of_benchmark_that_names_no_single_workload_is_an_error_that_says_so(suite):
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
""",
        "-Werror",
    )
    found.ended(failed=4)
    assert {"error"} == {*found.statuses.values()}
    found.says(
        "benchmark.pedantic has a setup for each call, which would be timed too*",
        "benchmark.pedantic has a teardown for each call*",
        "benchmark was called twice in one test; a speedup test has one workload",
        "a fixture of the suite calls benchmark, so that the workload is not known; take benchmark itself*",
    )


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


# pytest-timeout and pytest-rerunfailures


def test_a_workload_that_hangs_is_ended_by_pytest_timeout_and_its_record_says_so(suite):
    needed("pytest_timeout", "pytest-timeout")
    found = suite(
        """
import time

@pytest.mark.timeout(1)
@pytest.mark.speedup(min=3)
def test_hangs(device):
    return lambda: time.sleep(60)

@pytest.mark.timeout(60)
@pytest.mark.speedup(min=3)
def test_ends(xp):
    xp.ones(3)
""",
        "--timeout-method=signal",
    )
    found.ended(passed=2, failed=1)
    assert "error" == found.records["test_hangs"]["status"]
    assert "Timeout" in found.records["test_hangs"]["reason"]
    assert "passed" == found.records["test_ends[cupy]"]["status"]


FLAKY = """
TRIES = {{}}

def try_of(name):
    TRIES[name] = TRIES.get(name, 0) + 1
    return TRIES[name]

@pytest.mark.speedup(min=3)
def test_ones(xp):
    if xp.__name__ == "cupy":
        assert try_of("ones") > {failures}, f"try {{TRIES}}"
    return lambda: xp.ones(3)

@pytest.mark.speedup(min=3)
def test_slot(device):
    slow = device.kind == "gpu" and try_of("slot") <= {failures}
    return lambda: device.launch(1.0 if slow else None)

@pytest.mark.speedup(min=3)
def test_slow(xp):
    slow = xp.__name__ == "cupy" and try_of("slow") <= {failures}
    return lambda: (xp.ones(3), slow and conftest.BACKEND.gpu("").launch(1.0))[0]

@pytest.fixture
def frail(xp):
    if xp.__name__ == "cupy":
        assert try_of("frail") > {failures}

@pytest.mark.speedup(min=3)
def test_set_up(frail, xp):
    return lambda: xp.ones(3)
"""


def test_a_test_that_passes_when_it_is_run_again_has_one_record_that_counts_the_reruns(suite):
    needed("pytest_rerunfailures", "pytest-rerunfailures")
    found = suite(FLAKY.format(failures=1), "--reruns=3", "--junit-xml=j.xml")
    assert {"passed": 7, "rerun": 4} == found.result.parseoutcomes()
    assert {
        "test_ones[numpy]": ("recorded", 0),
        "test_ones[cupy]": ("passed", 1),
        "test_slot": ("passed", 1),
        "test_slow[numpy]": ("recorded", 0),
        "test_slow[cupy]": ("passed", 1),
        "test_set_up[numpy]": ("recorded", 0),
        "test_set_up[cupy]": ("passed", 1),
    } == {name: (record["status"], record["reruns"]) for name, record in found.records.items()}
    assert 10 == found.speedup("test_ones[cupy]")
    cases = list(ElementTree.parse(found.path / "j.xml").getroot().iter("testcase"))
    for case in cases:
        names = [each.get("name") for each in case.iter("property")]
        assert len({*names}) == len(names)
    last = {case.get("name"): case.find("*/property[@name='gpuperf.status']").get("value") for case in cases}
    assert found.statuses == last


def test_a_test_that_fails_at_every_try_keeps_the_record_of_the_last(suite):
    needed("pytest_rerunfailures", "pytest-rerunfailures")
    found = suite(FLAKY.format(failures=9), "--reruns=2")
    assert {"passed": 3, "failed": 3, "errors": 1, "rerun": 8} == found.result.parseoutcomes()
    statuses = {name: (record["status"], record["reruns"]) for name, record in found.records.items()}
    assert ("error", 2) == statuses["test_ones[cupy]"]
    assert ("failed", 2) == statuses["test_slot"] == statuses["test_slow[cupy]"]
    assert ("error", 2) == statuses["test_set_up[cupy]"]
    assert "'ones': 3" in found.records["test_ones[cupy]"]["reason"]


# pytest-randomly, and the order of tests


def test_a_shuffled_suite_has_the_same_records_and_gpu_after_cpu(suite):
    needed("pytest_randomly", "pytest-randomly")
    source = """
@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.speedup(min=3)
def test_ones(xp, n):
    xp.ones(n)

class TestMore:
    @pytest.mark.speedup(pair="zeros", min=3)
    def test_zeros_cupy(self):
        conftest.cupy.zeros(3)

    @pytest.mark.speedup(pair="zeros")
    def test_zeros_numpy(self):
        conftest.numpy.zeros(3)

def test_plain():
    pass
"""
    expected, orders = suite(source).statuses, set()
    assert {"passed": 3, "recorded": 3} == Counter(expected.values())
    for seed in range(20):
        found = suite(source, "-p", "randomly", f"--randomly-seed={seed}", "-v")
        found.ended(passed=7)
        assert expected == found.statuses
        orders.add(tuple(line.split()[0] for line in found.result.outlines if " PASSED " in line))
        (order,) = [order for order in orders if order][-1:] or [()]
        places = {name.partition("::")[2]: place for place, name in enumerate(order)}
        assert places["test_ones[numpy-3]"] < places["test_ones[cupy-3]"]
        assert places["TestMore::test_zeros_numpy"] < places["TestMore::test_zeros_cupy"]
    assert len(orders) > 5


CACHED = """
@pytest.mark.speedup(min={least})
@pytest.mark.parametrize("n", [3, 4])
def test_ones(xp, n):
    xp.ones(n)

@pytest.mark.parametrize("n", {numbers})
def test_plain(n):
    assert n
"""
LIBRARIES = """
    @pytest.fixture(params=["cupy", "numpy"])
    def xp(request):
        return LIBRARIES[request.param]
"""


@pytest.mark.parametrize("option", ["--ff", "--nf", "--lf", "--sw", "--sw-skip"])
def test_what_orders_tests_by_earlier_runs_leaves_gpu_after_cpu(suite, option):
    suite(CACHED.format(least=300, numbers=[1]), conftest=LIBRARIES).ended(passed=3, failed=2)
    found = suite(CACHED.format(least=3, numbers=[1]), option, "-v", conftest=LIBRARIES)
    assert {f"test_ones[{library}-{n}]" for library in ("numpy", "cupy") for n in (3, 4)} == {*found.statuses}
    assert 0 == found.result.ret
    ran = [line.split()[0].rpartition("::")[2] for line in found.result.outlines if " PASSED " in line]
    for n in (3, 4):
        assert "passed" == found.statuses[f"test_ones[cupy-{n}]"]
        assert ran.index(f"test_ones[numpy-{n}]") < ran.index(f"test_ones[cupy-{n}]")


@pytest.mark.parametrize(("option", "last"), [("-x", "skipped"), ("--maxfail=2", "failed")])
def test_a_run_that_stops_at_a_failure_says_what_did_not_run(suite, option, last):
    found = suite(CACHED.format(least=300, numbers=[1]), option)
    assert {
        "test_ones[numpy-3]": "recorded",
        "test_ones[numpy-4]": "recorded",
        "test_ones[cupy-3]": "failed",
        "test_ones[cupy-4]": last,
    } == found.statuses
    reason = "not run: the session ended before it" if last == "skipped" else "speedup 9.95x"
    assert found.records["test_ones[cupy-4]"]["reason"].startswith(reason)
    assert found.written["complete"] is (last == "failed")


@pytest.mark.parametrize("options", [["-k", "speedup"], ["-m", "speedup"], ["-p", "no:cacheprovider"]])
def test_marked_tests_are_selected_by_their_mark(suite, options):
    found = suite(CACHED.format(least=3, numbers=[1, 2]), *options)
    assert (4 if "no:cacheprovider" not in options else 6) == found.result.parseoutcomes()["passed"]
    assert {"recorded": 2, "passed": 2} == Counter(found.statuses.values())


@pytest.mark.parametrize("option", ["--collect-only", "--setup-plan"])
def test_what_runs_no_test_says_and_writes_nothing_of_siblings(suite, option):
    found = suite(CACHED.format(least=3, numbers=[1]), option)
    assert (0, None) == (found.result.ret, found.written)
    found.result.stdout.no_fnmatch_line("*- gpuperf -*")
    found.says("test_ones[[]cupy-4]*")


# pytest-cov

COVERED = """
@pytest.mark.speedup(min=3)
def test_ones(xp):
    xp.ones(3)

@pytest.mark.speedup(min=3)
def test_slot(device):
    return lambda: device.xp.ones(3)
"""
CORES = ["ctrace", "pytrace", *(["sysmon"] if sys.version_info >= (3, 12) else [])]


@pytest.mark.parametrize("core", CORES)
def test_coverage_is_noted_in_each_record_because_it_distorts_the_times(suite, monkeypatch, core):
    needed("pytest_cov", "pytest-cov")
    monkeypatch.setenv("COVERAGE_CORE", core)
    found = suite(COVERED, "--cov=.", apart=True)
    found.ended(passed=3)
    assert 3 == len(found.records)
    for record in found.records.values():
        assert [note["code"] for note in record["notes"]].count("traced") == 1
    found.says("test_ones[[]numpy] and 2 more: coverage, a debugger or a profiler traces the timed*")


def test_without_coverage_nothing_is_noted(suite):
    needed("pytest_cov", "pytest-cov")
    found = suite(COVERED, "--cov=.", "--no-cov", apart=True)
    found.ended(passed=3)
    noted = [note["code"] for record in found.records.values() for note in record["notes"]]
    assert "traced" not in noted


# subtests


SUBTESTS = """
@pytest.mark.speedup(min=3)
def test_slot(subtests, device):
    with subtests.test("ones"):
        assert device.xp.ones(3).sum() == {ones}
    return lambda: device.xp.ones(3)

class TestIt(unittest.TestCase):
    @pytest.mark.speedup(pair="zeros", min=3)
    def test_zeros_cupy(self):
        with self.subTest(n=3):
            assert conftest.cupy.zeros(3).sum() == {zeros}

    @pytest.mark.speedup(pair="zeros")
    def test_zeros_numpy(self):
        with self.subTest(n=3):
            conftest.numpy.zeros(3)
"""


def test_subtests_of_a_marked_test_are_reported_once(suite):
    needed("_pytest.subtests", "pytest 9, which has subtests")
    source = """
@pytest.mark.speedup(min=3)
def test_body(subtests, xp):
    for n in (3, 4):
        with subtests.test(n=n):
            xp.ones(n)
"""
    found = suite(SUBTESTS.format(ones=3, zeros=0) + source, "-v")
    assert {"passed": 5, "subtests": 5} == found.result.parseoutcomes()
    assert {"passed": 3, "recorded": 2} == Counter(found.statuses.values())
    assert found.records["test_body[cupy]"]["gpu"]["median"] == pytest.approx(2e-3, rel=0.01)


def test_a_subtest_that_fails_fails_its_marked_test_and_the_record_is_no_pass(suite):
    needed("_pytest.subtests", "pytest 9, which has subtests")
    source = """
@pytest.mark.speedup(min=3)
def test_on_one(subtests, xp):
    with subtests.test("wrong"):
        assert xp.__name__ == "numpy"
    return lambda: xp.ones(3)
"""
    found = suite(SUBTESTS.format(ones=4, zeros=4) + source)
    assert found.result.ret == pytest.ExitCode.TESTS_FAILED
    found.says("SUBFAILED*test_it.py::test_on_one[[]cupy]*")
    assert "error" == found.statuses["test_slot"]
    assert "recorded" == found.statuses["test_on_one[numpy]"]
    assert "error" == found.statuses["test_on_one[cupy]"]
    assert "error" == found.statuses["TestIt::test_zeros_cupy"]


# hypothesis, async tests, other reports

DRAWN = """
from hypothesis import given, settings, strategies

@settings(max_examples=5, database=None, deadline=None)
@given(n=strategies.integers(1, 4))
@pytest.mark.parametrize("module", [conftest.numpy, conftest.cupy], ids=["numpy", "cupy"])
def test_drawn(module, n):
    assert module.ones(n).sum() == n

def test_ones(xp):
    xp.ones(3)
"""


def test_a_marked_test_of_hypothesis_is_an_error_at_collection(suite):
    needed("hypothesis", "hypothesis")
    found = suite(DRAWN.replace("@settings", "@pytest.mark.speedup(min=3)\n@settings"))
    found.ended(errors=1)
    found.says("test_it.py::test_drawn[[]numpy]: a speedup test cannot be hypothesis's*")


@pytest.mark.parametrize(("options", "timed"), [([], []), (["--gpuperf-all"], ["test_ones"])])
def test_unmarked_tests_of_hypothesis_go_on_as_before(suite, options, timed):
    needed("hypothesis", "hypothesis")
    found = suite(DRAWN, *options)
    found.ended(passed=4)
    assert {*timed} == {name.partition("[")[0] for name in found.records}


RUNNER = """
    import asyncio
    import inspect

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(pyfuncitem):
        if inspect.iscoroutinefunction(pyfuncitem.obj):
            names = pyfuncitem._fixtureinfo.argnames
            asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
            return True
"""


@pytest.mark.parametrize("option", ["--gpuperf-all", "--gpuperf-off"])
def test_async_tests_of_another_plugin_go_on_as_before(suite, option):
    source = """
RAN = []

async def test_waits(xp):
    RAN.append(xp.__name__)

def test_ran(xp):
    assert RAN == ["numpy", "cupy"]
"""
    found = suite(source, option, conftest=RUNNER)
    found.ended(passed=4)
    assert not [name for name in found.records if "waits" in name]


def test_junit_and_json_report_have_the_properties_of_siblings_once(suite):
    needed("pytest_jsonreport", "pytest-json-report")
    found = suite(
        """
@pytest.mark.speedup(min=3)
def test_ones(xp, record_property):
    record_property("library", xp.__name__)
    return lambda: xp.ones(3)
""",
        "-o",
        "junit_family=xunit1",
        "--junit-xml=j.xml",
        "--json-report",
        "--json-report-file=j.json",
    )
    found.ended(passed=2)
    cases = list(ElementTree.parse(found.path / "j.xml").getroot().iter("testcase"))
    in_junit = [[each.get("name") for each in case.iter("property")] for case in cases]
    tests = json.loads((found.path / "j.json").read_text(encoding="utf-8"))["tests"]
    in_json = [[name for each in test["user_properties"] for name in each] for test in tests]
    numbers = ["gpuperf.speedup", "gpuperf.low", "gpuperf.high"]
    assert [["library", "gpuperf.status"], ["library", "gpuperf.status", *numbers]] == in_junit == in_json


# what is marked too late, and what cannot be measured


def test_a_demand_that_is_made_while_the_test_runs_comes_too_late_and_is_no_pass(suite):
    found = suite(
        """
@pytest.fixture
def mark(request):
    request.applymarker(pytest.mark.speedup(min=300))

@pytest.fixture
def mark_bare(request):
    request.node.add_marker("speedup")

@pytest.fixture(scope="class")
def mark_class(request):
    request.node.add_marker(pytest.mark.speedup(min=300))

def test_late(mark, xp):
    xp.ones(3)

def test_later(request):
    request.applymarker(pytest.mark.speedup(min=300))

def test_bare(mark_bare):
    pass

@pytest.mark.usefixtures("mark_class")
class TestLate:
    def test_it(self):
        pass

def test_wrong(mark):
    raise ValueError("first")

@pytest.fixture
def mistake(request):
    request.applymarker(pytest.mark.speedup(least=3))

def test_mistaken(mistake):
    pass

def test_plain():
    pass
"""
    )
    found.ended(passed=2, failed=6)
    assert {
        "test_late[numpy]",
        "test_late[cupy]",
        "test_later",
        "test_bare",
        "TestLate::test_it",
    } == {*found.records}
    assert {"error"} == {*found.statuses.values()}
    assert found.records["test_bare"]["reason"] == found.records["test_late[cupy]"]["reason"]
    found.says(
        "E*ValueError: first",
        "test_it.py::test_mistaken: @pytest.mark.speedup: has no argument 'least'*",
        "test_late[[]numpy] and 4 more: marked with speedup while it ran, too late to be*",
    )


def test_a_class_with_a_marker_and_nothing_to_measure_is_an_error_for_each_of_its_tests(suite):
    found = suite(
        """
@pytest.mark.speedup(min=3)
class TestNothing:
    def test_one(self):
        pass

    @pytest.mark.parametrize("n", [3])
    def test_two(self, n):
        pass

@pytest.mark.speedup(min=3)
class TestUnit(unittest.TestCase):
    def test_three(self):
        pass

@pytest.mark.speedup
class TestBare:
    def test_four(self):
        pass

def test_other():
    pass
"""
    )
    found.ended(passed=2, errors=3)
    assert {
        "TestNothing::test_one": "error",
        "TestNothing::test_two[3]": "error",
        "TestUnit::test_three": "error",
        "TestBare::test_four": "error",
    } == found.statuses
    assert all("needs a device" in record["reason"] for record in found.records.values())
    found.says("ERROR test_it.py::TestNothing::test_one - *")


# suites with names of their own

OWN_FIXTURES = """
    @pytest.fixture(params=["numpy", "cupy"])
    def xp(request):
        return request.param

    @pytest.fixture
    def gpu():
        return "my gpu"

    @pytest.fixture
    def cpu():
        return "my cpu"

    @pytest.fixture
    def device():
        return "my device"

    @pytest.fixture
    def gpuperf():
        return "my gpuperf"

    @pytest.fixture
    def both():
        return "my both"

    def pytest_addoption(parser):
        parser.addoption("--gpu", action="store_true")
        parser.addoption("--device", default="cpu")
        parser.addoption("--side", default="left")
"""
OWN_TESTS = """
def test_own(gpu, cpu, device, gpuperf, both, xp, request):
    assert [gpu, cpu, device, gpuperf, both] == ["my " + name for name in (
        "gpu", "cpu", "device", "gpuperf", "both"
    )]
    chosen = [request.config.getoption(name) for name in ("gpu", "device", "side")]
    assert chosen == [True, "cuda", "right"]

def test_scan_cpu(): pass

def test_scan_gpu(): pass

@pytest.mark.parametrize("device", ["cpu", "meta", 7])
def test_parametrized(device):
    assert device != "my device"
"""


def test_a_suites_own_fixtures_and_options_are_its_own(suite):
    found = suite(OWN_TESTS, "--gpu", "--device=cuda", "--side=right", conftest=OWN_FIXTURES)
    found.ended(passed=7)
    assert [] == found.written["records"]
    found.result.stdout.no_fnmatch_line("*- gpuperf -*")


def test_a_marked_test_that_takes_a_suites_own_device_says_that_it_has_none_of_ours(suite):
    source = """
@pytest.mark.speedup(min=3)
def test_own(device, gpuperf):
    pass

@pytest.mark.speedup(min=3)
def test_gpu(gpu):
    pass
"""
    found = suite(source, conftest=OWN_FIXTURES)
    found.ended(errors=2)
    assert {"test_own": "error", "test_gpu": "error"} == found.statuses
    assert all("needs a device" in record["reason"] for record in found.records.values())


FOREIGN = """
@pytest.mark.speedup
@pytest.mark.gpu
def test_plain():
    pass

@pytest.mark.speedup
@pytest.mark.parametrize("backend", ["fftw", lambda: 0])
def test_backends(backend):
    pass

@pytest.mark.speedup
def test_libraries(xp):
    xp.ones(3)

@pytest.mark.speedup("fast", factor=3)
def test_arguments():
    pass

@pytest.fixture
def mark(request):
    request.applymarker("speedup")

def test_late(mark):
    pass
"""
DEMANDS = """
@pytest.mark.speedup(min=3)
def test_demand(xp):
    xp.ones(3)

@pytest.mark.speedup
def test_ours(device):
    device.xp.ones(3)

@pytest.mark.speedup(min=3)
def test_nothing():
    pass
"""
REGISTERED = """
    def pytest_configure(config):
        config.addinivalue_line("markers", "speedup: what this suite means by it")
        config.addinivalue_line("markers", "gpu: needs a GPU")
"""
IN_INI = "markers =\n    speedup: what this suite means by it\n    gpu: needs a GPU\n"


@pytest.mark.parametrize("where", ["ini", "conftest"])
def test_a_mark_called_speedup_that_a_suite_registers_is_its_own(suite, where):
    ini, conftest = (IN_INI, "") if where == "ini" else ("", REGISTERED)
    found = suite(FOREIGN, "--strict-markers", "-Werror", ini=ini, conftest=conftest)
    found.ended(passed=7)
    assert [] == found.written["records"]
    found.result.stdout.no_fnmatch_line("*- gpuperf -*")
    found = suite(FOREIGN + DEMANDS, "--strict-markers", ini=ini, conftest=conftest)
    found.ended(passed=10, errors=1)
    assert {
        "test_demand[numpy]": "recorded",
        "test_demand[cupy]": "passed",
        "test_ours": "recorded",
        "test_nothing": "error",
    } == found.statuses


# the suite's own configuration

NATIVE = """
[{table}]
addopts = ["--strict-markers", "--strict-config", "--import-mode=importlib"]
gpuperf_gpu = "cupy"
gpuperf_alpha = 0.1
gpuperf_max_time = 5
gpuperf_cost_ratio = 3
gpuperf_all = true
gpuperf_report_only = false
gpuperf_inconclusive = "fail"
gpuperf_lock = "none"
gpuperf_json = "r.json"
gpuperf_device_params = ["engine"]
gpuperf_speedup = ["*::test_named* min=300"]
"""
INI = """
[{table}]
addopts = --strict-markers --strict-config --import-mode=importlib
gpuperf_gpu = cupy
gpuperf_alpha = 0.1
gpuperf_max_time = 5
gpuperf_cost_ratio = 3
gpuperf_all = true
gpuperf_report_only = no
gpuperf_inconclusive = fail
gpuperf_lock = none
gpuperf_json = r.json
gpuperf_device_params = engine
gpuperf_speedup =
    *::test_named* min=300
"""
CONFIGURED = """
@pytest.mark.parametrize("engine", ["numpy", "cupy"])
def test_ones(engine):
    conftest.LIBRARIES[engine].ones(3)

@pytest.mark.parametrize("engine", ["numpy", "cupy"])
def test_named(engine):
    conftest.LIBRARIES[engine].ones(3)

@pytest.mark.parametrize("xp", ["numpy", "cupy"])
def test_not_named(xp):
    pass
"""


def settled(pytester, suite, file, text):
    """Run a suite that has its options in a file."""
    (pytester.path / file).write_text(text, encoding="utf-8")
    pytester.syspathinsert()
    return suite(CONFIGURED, ini=None, ours=())


@pytest.mark.parametrize(
    ("file", "table", "text"),
    [
        ("pytest.toml", "pytest", NATIVE),
        ("pyproject.toml", "tool.pytest", NATIVE),
        ("pytest.ini", "pytest", INI),
        ("setup.cfg", "tool:pytest", INI),
    ],
)
def test_every_form_of_configuration_says_the_same(pytester, suite, file, table, text):
    if text is NATIVE:
        needed("_pytest.subtests", "pytest 9, which has native TOML")
    found = settled(pytester, suite, file, text.format(table=table))
    found.ended(passed=5, failed=1)
    assert {
        "test_ones[numpy]": ("recorded", "all"),
        "test_ones[cupy]": ("recorded", "all"),
        "test_named[numpy]": ("recorded", "pattern"),
        "test_named[cupy]": ("failed", "pattern"),
    } == {name: (record["status"], record["source"]) for name, record in found.records.items()}
    assert {0.1} == {record["demand"]["alpha"] for record in found.records.values()}
    assert 3 == found.written["cost_ratio"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('gpuperf_alpha = "low"', "gpuperf_alpha in the ini file: *expects a float*"),
        ("gpuperf_alpha = 2", "*gpuperf_alpha): 2* is not between 0 and 0.5"),
        ('gpuperf_all = "yes"', "gpuperf_all in the ini file: *expects a bool*"),
        ('gpuperf_device_params = "xp"', "gpuperf_device_params in the ini file: *expects a list*"),
        ("gpuperf_device_params = []", "gpuperf_device_params names no parameter; leave it out*"),
        ('gpuperf_speedup = "* min=2"', "gpuperf_speedup*expects a list*"),
    ],
)
def test_a_value_of_the_wrong_type_is_an_error_that_names_its_key(pytester, suite, line, said):
    needed("_pytest.subtests", "pytest 9, which has native TOML")
    (key,) = line.split(" = ")[:1]
    lines = [each for each in NATIVE.format(table="pytest").splitlines() if not each.startswith(key)]
    found = settled(pytester, suite, "pytest.toml", "\n".join([*lines, line]))
    assert pytest.ExitCode.USAGE_ERROR == found.result.ret
    found.result.stderr.fnmatch_lines([f"*{said}*"])


@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_tests_in_folders_with_conftests_of_their_own_are_siblings_there(suite, pytester, mode):
    for folder in ("a", "b"):
        (pytester.path / folder).mkdir()
        (pytester.path / folder / "conftest.py").write_text(
            "import pytest\n@pytest.fixture\ndef ones(xp):\n    return lambda: xp.ones(3)\n", encoding="utf-8"
        )
        (pytester.path / folder / f"test_{folder}.py").write_text(
            "import pytest\npytestmark = pytest.mark.speedup(min=3)\ndef test_ones(ones): return ones\n",
            encoding="utf-8",
        )
    found = suite(None, f"--import-mode={mode}", "--strict-markers", "--strict-config")
    found.ended(passed=4)
    assert {
        f"{folder}/test_{folder}.py::test_ones[{library}]": status
        for folder in ("a", "b")
        for library, status in (("numpy", "recorded"), ("cupy", "passed"))
    } == {record["nodeid"]: record["status"] for record in found.written["records"]}


def test_doctests_and_inherited_tests_of_a_marked_module(suite):
    found = suite(
        """
pytestmark = pytest.mark.speedup(min=3)

class Base:
    def test_ones(self, xp):
        '\''
        >>> 1 + 1
        2
        '\''
        xp.ones(self.n)

class TestThree(Base):
    n = 3

class TestFour(Base):
    n = 4

    def test_more(self, xp):
        super().test_ones(xp)
""".replace("'\\''", '"""'),
        "--doctest-modules",
    )
    found.ended(passed=7)
    assert {"recorded": 3, "passed": 3} == Counter(found.statuses.values())


@pytest.mark.parametrize("plugin", ["terminal", "cacheprovider", "randomly", "xdist", "timeout", "benchmark"])
def test_a_plugin_that_is_turned_off_is_not_missed(suite, plugin):
    found = suite(MARKED, "-p", f"no:{plugin}")
    assert 0 == found.result.ret
    assert {"test_ones[numpy]": "recorded", "test_ones[cupy]": "passed"} == found.statuses


# no marker anywhere

PLAIN = """
    import warnings
    import pytest

    @pytest.mark.parametrize("xp", ["numpy", "cupy"])
    def test_it(xp):
        warnings.warn("its own")

    @pytest.mark.parametrize("device", [7, "cpu"])
    def test_fails(device):
        assert device == "cpu"

    @pytest.mark.xfail
    def test_xfails():
        assert 0

    @pytest.mark.skip
    def test_skips():
        pass

    class TestMore:
        def test_method(self, tmp_path):
            return 3
"""
SEEN = """
    import sys

    def pytest_unconfigure():
        with open("imported", "w") as file:
            file.write(" ".join(sorted(sys.modules)))
"""
HEAVY = {"numpy", "filelock", "jsonschema", "xdist", "threadpoolctl", "cupy", "torch", "jax", "dpnp"}


def test_a_suite_without_a_marker_is_the_same_with_and_without_the_plugin(pytester):
    pytester.makepyfile(test_it=PLAIN)
    pytester.makeconftest(SEEN)
    others = ("xdist", "xdist.looponfail", "randomly", "benchmark", "hypothesispytest", "cov", "pytest_cov")
    quiet = [part for name in (*others, "cacheprovider") for part in ("-p", f"no:{name}")]

    def named(line):
        """Say whether a line of the header lists all plugins."""
        return line.startswith(("plugins: ", "metadata: "))

    told, imported = [], []
    for ours in (["-p", "no:gpuperf"], [], ["--gpuperf-off"]):
        for options in (["-v", "-rA"], ["--collect-only", "-q"]):
            command = [sys.executable, "-m", "pytest", *quiet, *options, *ours]
            ran = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, check=False)
            imported.append({*(pytester.path / "imported").read_text().split()})
            lines = re.sub(r" in \d+\.\d+s\b", "", ran.stdout).splitlines()
            left = sorted(path.name for path in pytester.path.iterdir() if path.name != "__pycache__")
            told.append(
                [ran.returncode, ran.stderr, left, *(line.strip("= ") for line in lines if not named(line))]
            )
    for before, after in zip(imported[:2] * 2, imported[2:], strict=True):
        assert not (after - before) & HEAVY
    assert 1 == told[0][0]
    for expected, seen in zip(told[:2] * 2, told[2:], strict=True):
        assert expected == seen
