"""pytest-run-parallel: a speedup test runs once and in one thread, other tests as often as it is asked."""

import pytest
from plugins import needed_beyond_test

needed_beyond_test("pytest_run_parallel", "pytest-run-parallel")
pytestmark = pytest.mark.all_plugins

SUITE = """
import threading

CALLS = []

@pytest.mark.iterations(5)
@pytest.mark.speedup(min=3)
def test_slot(device):
    assert threading.current_thread() is threading.main_thread()
    return lambda: device.xp.ones(3)

@pytest.mark.force_parallel_threads(4)
@pytest.mark.speedup(min=3)
def test_variants(xp):
    assert threading.current_thread() is threading.main_thread()
    xp.ones(3)

def test_other():
    assert threading.current_thread() is not threading.main_thread()
    CALLS.append(1)

def test_last():
    assert len(CALLS) == 12
"""


def test_a_speedup_test_runs_alone_and_the_others_in_threads(suite):
    found = suite(SUITE, "--parallel-threads=4", "--iterations=3")
    outcomes = found.result.parseoutcomes()
    assert {
        "test_slot": "passed",
        "test_variants[numpy]": "recorded",
        "test_variants[cupy]": "passed",
    } == found.statuses
    assert 10 == found.speedup("test_slot") == found.speedup("test_variants[cupy]")
    assert not outcomes.keys() & {"failed", "error", "errors"}
    found.says("3 tests were not run in parallel")
