"""pytest-timeout: waiting for other processes is not the time that it gives a test."""

import time
from types import SimpleNamespace

import pytest
from plugins import needed
from real_clock import NAP, held

from pytest_gpuperf.integrations.pytest_timeout import TimeoutPauser


@pytest.mark.parametrize(("timeout", "left"), [(100.0, pytest.approx(100.0, abs=5)), (0.0, 1e-3)])
def test_a_timer_is_set_again_for_what_is_left_and_never_for_no_time(timeout, left):
    set_to = []
    hooks = SimpleNamespace(
        pytest_timeout_set_timer=lambda item, settings: set_to.append(settings["timeout"]),
        pytest_timeout_cancel_timer=lambda item: set_to.append("cancelled"),
    )
    pauser, item = TimeoutPauser(), SimpleNamespace(config=SimpleNamespace(hook=hooks))
    with pauser.stopped(item):
        assert [] == set_to, "no timer runs"
    pauser.pytest_timeout_set_timer(SimpleNamespace(timeout=timeout, _replace=dict))
    with pauser.stopped(item):
        assert ["cancelled"] == set_to
    assert left == set_to[1] != timeout
    pauser.pytest_timeout_cancel_timer()
    with pauser.stopped(item):
        assert 2 == len(set_to), "it was cancelled"


def test_waiting_is_not_the_time_that_pytest_timeout_gives_a_test(on_hosts, pytester, lock_file):
    needed("pytest_timeout", "pytest-timeout")
    options = ("--timeout=1.5", "--timeout-method=signal", "-o", "timeout_func_only=true")
    with held(lock_file, 1.8, after=pytester.path / "begun"):
        result, (record,) = on_hosts(NAP.format(seconds=1e-3), "--gpuperf-max-time=0.3", *options)
    result.assert_outcomes(passed=1)
    assert record["turn_wait"] > 1.5


# The method `thread` ends the whole process where it finds a test too slow: such a run is one of its own.
@pytest.mark.parametrize("method", ["signal", "thread"])
def test_a_test_that_is_too_slow_is_ended_after_its_wait(on_hosts, pytester, lock_file, method):
    needed("pytest_timeout", "pytest-timeout")
    begun = time.perf_counter()
    with held(lock_file, 1.2, after=pytester.path / "begun"):
        options = ("--timeout=1", f"--timeout-method={method}")
        result, _ = on_hosts(NAP.format(seconds=0.25), *options, apart=method == "thread")
        assert 1.2 < time.perf_counter() - begun < 40
    assert result.ret == 1
    assert "Timeout" in str(result.stdout) + str(result.stderr)


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
