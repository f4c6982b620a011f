"""pytest-timeout: waiting for other processes is not the time that it gives a test."""

import time

import pytest
from plugins import needed
from real_clock import NAP, held


def test_waiting_is_not_the_time_that_pytest_timeout_gives_a_test(on_hosts, pytester, lock_file):
    needed("pytest_timeout", "pytest-timeout")
    options = ("--timeout=1.5", "--timeout-method=signal", "-o", "timeout_func_only=true")
    with held(lock_file, 1.8, after=pytester.path / "begun"):
        result, (record,) = on_hosts(NAP.format(seconds=1e-3), "--gpuperf-max-time=0.3", *options)
    result.assert_outcomes(passed=1)
    assert record["turn_wait"] > 1.5


UNDECIDED = """
MARKS
@pytest.mark.speedup(min=10)
def test_at_its_limit(device):  # ten times as fast
    return lambda: device.launch(10e-3 if device.kind == "cpu" else 1e-3)
"""
SHORTER = "pytest-timeout ends this test after 5.00 s, so that it was measured as with max_time="


@pytest.mark.parametrize("way", ["marker", "ini", "option", "environment"])
def test_sampling_ends_before_the_limit_of_pytest_timeout_wherever_that_is_set(suite, monkeypatch, way):
    needed("pytest_timeout", "pytest-timeout")
    if way == "environment":
        monkeypatch.setenv("PYTEST_TIMEOUT", "5")
    found = suite(
        UNDECIDED.replace("MARKS", "@pytest.mark.timeout(5)" if way == "marker" else ""),
        "--timeout-method=signal",
        *(["--timeout=5"] if way == "option" else []),
        ini="timeout = 5" if way == "ini" else "",
    )
    record = found.records["test_at_its_limit"]
    assert "inconclusive" == record["status"]
    assert ["not_enough_time"] == [note["code"] for note in record["notes"] if SHORTER in note["text"]]
    assert record["elapsed"] < 4


def test_first_calls_that_do_not_fit_say_which_limit_to_raise(on_hosts):
    needed("pytest_timeout", "pytest-timeout")
    result, (record,) = on_hosts(NAP.format(seconds=30), "--timeout=0.5", "--timeout-method=signal")
    said = "no round began within pytest-timeout's limit of 500 ms: raise it; max_time does not limit first"
    assert said in record["reason"]
    assert said in str(result.stdout)


HANGS_LATER = """
    import time
    from itertools import count
    from pathlib import Path
    import pytest

    CALLS = count()

    @pytest.mark.speedup
    def test_hangs_later(device):
        Path("begun").touch()
        return lambda: time.sleep(60 if next(CALLS) > 5 else 1e-3)
"""


# The method `thread` ends the whole process where it finds a test too slow: such a run is one of its own.
@pytest.mark.parametrize("method", ["signal", "thread"])
def test_a_call_that_hangs_is_ended_after_its_wait(on_hosts, pytester, lock_file, method):
    needed("pytest_timeout", "pytest-timeout")
    begun = time.perf_counter()
    with held(lock_file, 1.2, after=pytester.path / "begun"):
        options = ("--timeout=1", f"--timeout-method={method}")
        result, _ = on_hosts(HANGS_LATER, *options, apart=method == "thread")
        assert 1.2 < time.perf_counter() - begun < 40
    assert result.ret == 1
    assert "Timeout" in str(result.stdout) + str(result.stderr)


def test_a_call_that_hangs_is_ended_by_pytest_timeout_and_further_calls_have_more_time(suite):
    needed("pytest_timeout", "pytest-timeout")
    found = suite(
        """
import time

@pytest.mark.timeout(1)
@pytest.mark.speedup(min=3)
def test_hangs(device):
    return lambda: time.sleep(60)

CALLS = []

@pytest.mark.timeout(1)
def test_further_calls(xp):  # of --gpuperf-all, whose time is not the test's
    CALLS.append(1)
    if 1 < len(CALLS) < 9:
        time.sleep(0.2)
    xp.ones(3)

ITEMS = ["the only one"]

@pytest.mark.timeout(1)
def test_hangs_in_further_calls(xp):
    if xp.__name__ == "numpy":
        ITEMS.pop() if ITEMS else time.sleep(60)

def test_has_no_limit(xp):
    xp.ones(3)
""",
        "--timeout-method=signal",
        "--gpuperf-all",
        "--gpuperf-max-time=2",
    )
    found.ended(passed=6, failed=1)
    assert "Timeout" in found.records["test_hangs"]["reason"]
    assert "Timeout (>3.0s)" in found.records["test_hangs_in_further_calls[numpy]"]["reason"]
    further = {f"test_further_calls[{library}]": "recorded" for library in ("numpy", "cupy")}
    assert {"test_hangs": "error", **further}.items() <= found.statuses.items()
