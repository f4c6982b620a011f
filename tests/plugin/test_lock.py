"""The measurement lock in whole runs: waiting is recorded, and runs and workers measure in turn."""

import subprocess
import sys
import time
from itertools import pairwise
from types import SimpleNamespace

from real_clock import NAP, REAL_TIME, held

from pytest_gpuperf import options
from pytest_gpuperf.session import live_line
from pytest_gpuperf.timing import lock


def test_a_record_and_the_terminal_say_how_long_a_test_waited(on_hosts, pytester, lock_file, monkeypatch):
    shown = []
    line = SimpleNamespace(begin=lambda _: None, show_wait=shown.append, erase=lambda: shown.append("erased"))
    monkeypatch.setattr(live_line, "of_run", lambda _: line)
    with held(lock_file, 1.2, after=pytester.path / "begun"):
        result, (record,) = on_hosts(NAP.format(seconds=1e-3), "--gpuperf-max-time=0.4")
    assert "recorded" == record["status"]
    assert record["turn_wait"] > 0.6
    assert record["elapsed"] < record["turn_wait"]
    assert record["gpu"]["samples"]
    result.stdout.fnmatch_lines(["waited * in all for other processes that measured"])
    assert ["test_it.py::test_nap", "erased"] == shown


def test_variants_take_their_turns_too(on_hosts, pytester, lock_file):
    source = """
        import time
        from pathlib import Path
        import pytest

        @pytest.fixture
        def nap(device):
            Path("begun").touch()
            return lambda: time.sleep(1e-3)

        @pytest.mark.speedup
        def test_nap(nap):
            return nap
    """
    with held(lock_file, 0.5, after=pytester.path / "begun"):
        _, (cpu, gpu) = on_hosts(source, "--gpuperf-max-time=0.1")
    assert cpu["turn_wait"] > 0.2
    assert gpu["turn_wait"] is None


def test_a_measurement_without_a_turn_says_why_once(on_hosts):
    source = """
        import time
        from pathlib import Path
        import pytest

        @pytest.mark.parametrize("n", range(3))
        @pytest.mark.speedup
        def test_nap(device, n):
            Path("turn.lock").write_text("somebody else's")
            return lambda: time.sleep(1e-3)
    """
    result, records = on_hosts(source, "--gpuperf-lock=turn.lock", "--gpuperf-max-time=0.1", "-v")
    assert ["recorded"] * 3 == [record["status"] for record in records]
    said = [line for line in result.outlines if "the measurement lock was unavailable" in line]
    assert len(said) == 1
    assert said[0].strip().startswith(("test_nap[0] and 2 more: ", "the measurement lock"))
    assert 1 == sum(line.startswith("test_nap[0] and 2 more: ") for line in result.outlines)


def test_a_lock_file_in_the_ini_file_starts_at_the_root_wherever_pytest_is_called(pytester, monkeypatch):
    pytester.makeini("[pytest]\ngpuperf_lock = turn.lock\n")
    monkeypatch.chdir(pytester.mkdir("below"))
    assert str(pytester.path / "turn.lock") == options.run_options(pytester.parseconfig(pytester.path)).lock


def test_no_file_is_locked_when_none_is_chosen(pytester, monkeypatch, tmp_path):
    machines = tmp_path / "machine.lock"
    monkeypatch.setattr(lock, "default_path", lambda: machines)
    pytester.makeini("[pytest]\ngpuperf_lock = none\n")
    pytester.makeconftest(REAL_TIME)
    pytester.makepyfile(test_it=NAP.format(seconds=1e-3))
    with held(machines, 60):
        result = pytester.runpytest_inprocess(
            "-pno:randomly", "--gpuperf-gpu=hosts", "--gpuperf-max-time=0.1"
        )
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("waited*")


LOGGED = """
    import os
    import time
    from contextlib import contextmanager
    from pytest_gpuperf.timing.lock import MeasurementLock

    acquire = MeasurementLock.acquire

    @contextmanager
    def logged(self, on_wait):
        with acquire(self, on_wait) as hold, open(f"{os.getpid()}.log", "a") as log:
            begun = time.perf_counter()
            yield hold
            log.write(f"{begun} {time.perf_counter()}\\n")

    if acquire.__name__ == "acquire":  # else this was forked from a process that logs already
        MeasurementLock.acquire = logged
"""

NAPS = """
    import time
    import pytest

    @pytest.mark.parametrize("n", range(4))
    @pytest.mark.speedup(max_time=0.1)  # no demand: a verdict would rest on how busy the machine is
    def test_nap(device, n):
        return lambda: time.sleep(1e-3)
"""


def spans(folder):
    lines = [line for log in folder.glob("*.log") for line in log.read_text().splitlines()]
    return sorted(tuple(map(float, line.split())) for line in lines)


def test_two_runs_at_the_same_time_measure_in_turn(pytester, lock_file, monkeypatch):
    monkeypatch.setattr(lock.MeasurementLock, "acquire", lock.MeasurementLock.acquire)  # LOGGED replaces it
    pytester.makeconftest(REAL_TIME + LOGGED)
    pytester.makepyfile(test_it=NAPS, test_other=NAPS)
    options = ["-pgpuperf", "-pno:cacheprovider", "--gpuperf-gpu=hosts", f"--gpuperf-lock={lock_file}"]
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, "test_other.py"], stdout=subprocess.DEVNULL
    ) as other:
        while not spans(pytester.path):
            assert other.poll() is None
            time.sleep(0.01)
        result = pytester.runpytest_inprocess("-pno:randomly", *options, "test_it.py")
        assert 0 == other.wait(timeout=60)
    result.assert_outcomes(passed=4)
    assert len(list(pytester.path.glob("*.log"))) == 2
    found = spans(pytester.path)
    assert len(found) == 8
    for (_, ended), (begun, _) in pairwise(found):
        assert ended <= begun
