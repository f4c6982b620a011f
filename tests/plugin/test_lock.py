"""The measurement lock in whole runs: waiting is recorded, and runs and workers measure in turn."""

import json
import re
import subprocess
import sys
from contextlib import closing
from itertools import pairwise

import pytest
from real_clock import NAP, REAL_TIME, held


def command(lock_file, *names):
    """Return the command of a run of its own."""
    ours = ["--gpuperf-gpu=hosts", f"--gpuperf-lock={lock_file}", "--gpuperf-json=report.json"]
    return [sys.executable, "-m", "pytest", "-pgpuperf", "-pno:cacheprovider", *ours, *names]


def test_a_record_and_the_terminal_say_how_long_a_test_waited(pytester, lock_file, monkeypatch):
    pytest.importorskip("termios", reason="the system has no such terminals")
    from screen import Screen

    monkeypatch.setenv("TERM", "xterm")
    pytester.makeconftest(REAL_TIME)
    pytester.makepyfile(test_it=NAP.format(seconds=1e-3))
    with closing(Screen()) as screen, held(lock_file, 1.2, after=pytester.path / "begun"):
        run = subprocess.Popen(command(lock_file, "--gpuperf-max-time=0.5"), stdout=screen.file)
        screen.read_to_the_end()
        assert 0 == run.wait(timeout=60)
    (record,) = json.loads((pytester.path / "report.json").read_text("utf-8"))["records"]
    assert "recorded" == record["status"]
    assert record["elapsed"] < record["turn_wait"]
    assert record["gpu"]["samples"]
    assert b"test_nap waits for another process that measures" in screen.written
    assert re.search(rb"\nwaited .* in all for other processes that measured", screen.written)


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


def test_without_a_gpu_nothing_is_decided_and_no_test_waits_for_a_turn(on_hosts, lock_file):
    source = """
        import pytest

        @pytest.fixture
        def made(device):
            return device.asarray([1.0])

        @pytest.mark.speedup(min=2)
        def test_variants(made):
            return lambda: made + 1

        @pytest.mark.speedup(min=2)
        def test_one(device):
            a = device.asarray([1.0])
            return lambda: a + 1
    """
    with held(lock_file, 5):
        _, records = on_hosts(source, "--gpuperf-gpu=none", "--gpuperf-max-time=0.3")
    assert [None] * 3 == [record["turn_wait"] for record in records]
    assert all(record["cpu"] for record in records)


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
    assert said[0].strip().startswith(("test_nap[0], test_nap[1], test_nap[2]: ", "the measurement lock"))
    assert 1 == sum(line.startswith("test_nap[0], test_nap[1], test_nap[2]: ") for line in result.outlines)


def test_a_lock_file_in_the_ini_file_starts_at_the_root_wherever_pytest_is_called(pytester, monkeypatch):
    pytester.makeini("[pytest]\ngpuperf_lock = gone/turn.lock\n")
    monkeypatch.chdir(pytester.mkdir("below"))
    result = pytester.runpytest_inprocess(pytester.path)
    result.stderr.fnmatch_lines([f"*the folder {pytester.path / 'gone'} does not exist; create it first"])
    pytester.makeini("[pytest]\ngpuperf_lock = none\n")
    pytester.makeconftest(REAL_TIME)
    pytester.makepyfile(test_it=NAP.format(seconds=1e-3))
    result = pytester.runpytest_inprocess(pytester.path, "--gpuperf-gpu=hosts", "--gpuperf-max-time=0.1")
    result.assert_outcomes(passed=1)
    assert [] == [*pytester.path.rglob("none")], "no file is locked"


# Only the first calls on each device are made before the lock is held.
NAPS = """
    import os
    import time
    import pytest

    @pytest.fixture
    def calls():
        times = []
        yield times
        with open(f"{os.getpid()}.log", "a") as log:
            log.write(f"{times[5]} {times[-1]}\\n")

    @pytest.mark.parametrize("n", range(4))
    @pytest.mark.speedup(max_time=0.1)
    def test_nap(device, calls, n):
        return lambda: calls.append(time.perf_counter()) or time.sleep(1e-3)
"""


def test_two_runs_at_the_same_time_measure_in_turn(pytester, lock_file):
    pytester.makeconftest(REAL_TIME)
    pytester.makepyfile(test_it=NAPS, test_other=NAPS)
    names = ("test_it.py", "test_other.py")
    runs = [subprocess.Popen(command(lock_file, name), stdout=subprocess.DEVNULL) for name in names]
    assert [0, 0] == [run.wait(timeout=60) for run in runs]
    logs = [log.read_text().splitlines() for log in pytester.path.glob("*.log")]
    assert [4, 4] == [len(lines) for lines in logs]
    found = sorted([float(word) for word in line.split()] for lines in logs for line in lines)
    for (_, ended), (begun, _) in pairwise(found):
        assert ended <= begun
