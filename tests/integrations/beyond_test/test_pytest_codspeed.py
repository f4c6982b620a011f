"""pytest-codspeed: its fixture takes a workload as pytest-benchmark's does; where it measures, we are off."""

import pytest
from plugins import needed_beyond_test

needed_beyond_test("pytest_codspeed", "pytest-codspeed")
pytestmark = pytest.mark.all_plugins

SUITE = """
@pytest.mark.speedup(min=3)
def test_slot(codspeed_benchmark, device):
    codspeed_benchmark(device.xp.ones, 3)

@pytest.mark.speedup(min=3)
def test_variants(codspeed_benchmark, xp):
    codspeed_benchmark.pedantic(xp.ones, args=(3,), rounds=7)

@pytest.mark.benchmark
@pytest.mark.speedup(min=3)
def test_marked_twice(device):
    return lambda: device.xp.ones(3)
"""
OURS = {
    "test_slot": "passed",
    "test_variants[numpy]": "recorded",
    "test_variants[cupy]": "passed",
    "test_marked_twice": "passed",
}
QUICK = ("--codspeed", "--codspeed-max-time=0.01", "--codspeed-warmup-time=0")


def test_what_a_marked_test_hands_to_codspeed_is_the_workload(suite):
    found = suite(SUITE)
    found.ended(passed=4)
    assert OURS == found.statuses
    assert 10 == found.speedup("test_variants[cupy]")


def test_where_codspeed_measures_marked_tests_run_plainly_and_one_line_says_so(suite):
    found = suite(SUITE, *QUICK)
    found.ended(passed=4)
    assert found.written is None
    found.says("gpuperf: off, because CodSpeed measures: 4 tests with a speedup marker run as without it")


def test_a_suite_without_our_marker_sees_nothing_of_us_beside_codspeed(suite):
    source = "def test_it(codspeed_benchmark):\n    codspeed_benchmark(sum, [1, 2])\n"
    found = suite(source, *QUICK, ours=())
    found.ended(passed=1)
    found.result.stdout.no_fnmatch_line("*gpuperf: *")


def test_a_regression_check_or_a_required_gpu_beside_codspeed_is_refused(suite):
    found = suite(SUITE, *QUICK, "--gpuperf-fail-on=speedup:10%", "--gpuperf-baseline=base.json")
    assert pytest.ExitCode.USAGE_ERROR == found.result.ret
    assert "--gpuperf-fail-on: CodSpeed measures in this run" in found.result.stderr.str()
    found = suite(SUITE, *QUICK, "--gpuperf-require-gpu")
    assert pytest.ExitCode.USAGE_ERROR == found.result.ret
    assert "--gpuperf-require-gpu: CodSpeed measures in this run" in found.result.stderr.str()


def test_what_the_ini_file_asks_for_is_left_out_beside_codspeed(suite):
    ini = "gpuperf_fail_on = speedup:10%\ngpuperf_baseline = base.json\ngpuperf_require_gpu = true\n"
    found = suite(SUITE, *QUICK, ini=ini)
    found.ended(passed=4)
    found.says("gpuperf: off, because CodSpeed measures: 4 tests")
