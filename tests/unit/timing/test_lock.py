"""The measurement lock: one process measures at a time, waiting costs nothing and ends."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from pytest_gpuperf import options
from pytest_gpuperf.integrations.pytest_timeout import TimeoutPauser
from pytest_gpuperf.timing import lock
from pytest_gpuperf.timing.budget import TimeBudget
from pytest_gpuperf.timing.lock import LockHold, MeasurementLock

NO_LOCK = "the measurement lock was unavailable; other processes may have measured meanwhile"
USER_LOCK = "the machine-wide measurement lock was unavailable; other users may have measured meanwhile"
HOLD = """
import sys, time
from pathlib import Path
from pytest_gpuperf.timing.lock import MeasurementLock
with MeasurementLock(Path(sys.argv[1])).acquire():
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""
TEN_HOLDS = """
import sys, time
from pathlib import Path
from pytest_gpuperf.timing.lock import MeasurementLock
lock = MeasurementLock(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(10):
    with lock.acquire() as hold:
        begun = time.perf_counter()
        time.sleep(0.02)
        print(begun, time.perf_counter(), hold.waited)
    time.sleep(0.005)
"""
ACQUIRE_AS_NOBODY = """
import os, sys
from pathlib import Path
from pytest_gpuperf.timing.lock import MeasurementLock
with MeasurementLock(Path(sys.argv[2])).acquire():
    pass  # everything is imported while it may be
if os.getuid() == 0:
    os.setuid(65534)
with MeasurementLock(Path(sys.argv[1])).acquire() as hold:
    print(hold.warning)
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "turn.lock"


def process(source, *arguments, **options):
    command = [sys.executable, "-c", source, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(Path(lock.__file__).parents[2])}
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
    )


@contextmanager
def held(file, seconds):
    """Let another process hold the lock."""
    with process(HOLD, file, seconds) as holder:
        assert holder.stdout.readline() == "held\n"
        try:
            yield holder
        finally:
            holder.kill()


@contextmanager
def noted(marks):
    marks.append("waits")
    yield
    marks.append("goes on")


def test_a_free_lock_is_not_waited_for(file):
    marks = []
    with MeasurementLock(file).acquire(lambda: noted(marks)) as hold:
        assert hold == LockHold(waited=0.0, warning=None)
    assert marks == []


def test_the_lock_of_another_process_is_waited_for_and_the_wait_is_reported(file):
    marks = []
    with held(file, 0.5), MeasurementLock(file).acquire(lambda: noted(marks)) as hold:
        assert 0.1 < hold.waited < 5
        assert hold.warning is None
        assert marks == ["waits", "goes on"]


def test_of_processes_that_start_together_one_at_a_time_has_the_lock(file):
    both = [process(TEN_HOLDS, file) for _ in range(2)]
    for each in both:
        assert each.stdout.readline() == "ready\n"
    for each in both:
        each.stdin.write("go\n")
        each.stdin.flush()
    told = [line.split() for each in both for line in each.communicate(timeout=60)[0].splitlines()]
    spans = sorted((float(begun), float(ended)) for begun, ended, _ in told)
    assert len(spans) == 20
    for (_, ended), (begun, _) in pairwise(spans):
        assert ended <= begun
    assert sum(float(waited) for _, _, waited in told) > 0.02


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX only")
def test_the_lock_of_a_process_that_was_killed_is_free(file):
    with held(file, 600) as holder:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        with MeasurementLock(file, timeout=5).acquire() as hold:
            assert hold.warning is None
            assert hold.waited < 1


def test_waiting_uses_no_processor_worth_naming(file):
    with held(file, 60):
        before = os.times()
        with MeasurementLock(file, timeout=2).acquire() as hold:
            after = os.times()
    assert hold.waited >= 2
    assert after.user + after.system - before.user - before.system < 0.1


def test_a_process_that_never_releases_the_lock_is_not_waited_for_for_ever(file):
    with held(file, 60), MeasurementLock(file, timeout=0.2).acquire() as hold:
        assert hold.warning == (f"{NO_LOCK}: {file}: another process has held it for 0.2 s")
        assert hold.waited >= 0.2


def test_the_lock_is_reentrant(file):
    outer = MeasurementLock(file, timeout=0.2)
    with outer.acquire(), outer.acquire() as again, MeasurementLock(file, timeout=0.2).acquire() as another:
        assert again == another == LockHold(waited=0.0, warning=None)
    with held(file, 0):  # it is free again
        pass


def test_an_error_releases_the_lock(file):
    kept = lock._lock_on(file)  # what nobody keeps would end with the last reference to it, too
    with pytest.raises(ValueError, match="of the test"), MeasurementLock(file).acquire():
        raise ValueError("of the test")
    assert not kept.is_locked
    with held(file, 0):
        pass


def test_an_error_while_waiting_leaves_no_lock_behind(file):
    @contextmanager
    def interrupted():
        raise KeyboardInterrupt
        yield

    waiting = MeasurementLock(file)
    with held(file, 60), pytest.raises(KeyboardInterrupt), waiting.acquire(interrupted):
        pass
    with waiting.acquire() as hold:
        assert hold.waited == 0
    with held(file, 0):
        pass


def test_without_a_file_nothing_is_locked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with MeasurementLock.from_option("none").acquire() as hold:
        assert hold == LockHold(waited=0.0, warning=None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="a user's own temporary folder is the place there")
def test_every_user_and_run_has_the_same_place(monkeypatch):
    expected = lock.default_path()
    monkeypatch.setenv("TMPDIR", "/var/tmp")  # noqa: S108 - where a user may want temporary files
    monkeypatch.setattr("tempfile.tempdir", None)
    assert lock.default_path() == expected
    assert expected.parent == Path("/tmp")  # noqa: S108 - as above


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")
def test_every_user_may_open_the_file(file):
    before = os.umask(0o077)
    try:
        with MeasurementLock(file).acquire():
            assert 0o666 == stat.S_IMODE(file.stat().st_mode)
    finally:
        os.umask(before)


@pytest.fixture
def shared_folder():
    """A folder that all users may write to, as /tmp is; pytest's own are private."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")
@pytest.mark.parametrize(
    ("mode", "doubt"),
    [(0o666, "None"), (0, "{NO_LOCK}: {file} cannot be used: Permission denied")],
)
def test_another_users_file_is_used_where_that_is_permitted(shared_folder, mode, doubt):
    folder = shared_folder
    file = folder / "turn.lock"
    file.touch()
    file.chmod(mode)
    told, _ = process(ACQUIRE_AS_NOBODY, file, folder / "another.lock").communicate(timeout=60)
    assert told == f"{doubt.format(file=file, NO_LOCK=NO_LOCK)}\n"


def test_where_the_machines_file_cannot_be_used_a_users_own_is(tmp_path):
    own = tmp_path / "own.lock"
    with MeasurementLock(tmp_path, fallback=own).acquire() as hold, held_by_us(own):
        assert hold.warning == (f"{USER_LOCK}: {tmp_path} cannot be used: it is not a lock file")


@contextmanager
def held_by_us(file):
    with process(HOLD, file, 0) as other:
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(timeout=1)
        other.kill()
        yield


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")
@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_a_link_is_not_followed(file, tmp_path, make):
    target = tmp_path / "precious"
    target.touch(mode=0o600)
    make(file, target)
    with MeasurementLock(file).acquire() as hold:
        assert hold.warning == f"{NO_LOCK}: {file} cannot be used: it is not a lock file"
    assert (0, 0o600) == (target.stat().st_size, stat.S_IMODE(target.stat().st_mode))


def test_a_file_with_something_in_it_stays_as_it_is(file):
    file.write_text("precious")
    with MeasurementLock(file).acquire() as hold:
        assert "it is not a lock file" in hold.warning
    assert file.read_text() == "precious"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")
@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EIO])
def test_a_filesystem_without_locks_is_a_doubt(file, monkeypatch, code):
    def flock(descriptor, operation):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", flock)
    with MeasurementLock(file).acquire() as hold:
        assert hold.warning.startswith(f"{NO_LOCK}: {file} cannot be used: ")


def test_a_read_only_place_is_a_doubt(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    with MeasurementLock(tmp_path / "turn.lock").acquire() as hold:
        assert hold.warning.endswith("cannot be used: Read-only file system")


def ticking(*times):
    return iter(times).__next__


def test_waiting_is_not_the_tests_time():
    clock, now = time.perf_counter, []

    @contextmanager
    def acquire():
        begun = clock()
        time.sleep(0.3)
        yield LockHold(waited=clock() - begun)

    budget = TimeBudget(0.2, acquire)
    budget.start(clock)
    with budget.lock():
        now.append(budget.remaining())
    assert 0.1 < now[0] <= 0.2
    assert budget.waited >= 0.3
    assert budget.elapsed < 0.1


def test_simulated_time_needs_no_lock():
    def acquire():
        raise AssertionError

    simulated, real = ticking(*range(9)), time.perf_counter
    for clocks in ([simulated], [real, simulated], [simulated, real]):
        budget = TimeBudget(1.0, acquire)
        for clock in clocks:
            budget.start(clock)
        with budget.lock():
            assert budget.waited == 0


@pytest.fixture
def stopwatch():
    """Return pytest-timeout's hooks, as they were called, and an item that calls them on our Timers."""
    called = []
    hooks = SimpleNamespace(
        pytest_timeout_set_timer=lambda item, settings: called.append(settings.timeout),
        pytest_timeout_cancel_timer=lambda item: called.append("cancel"),
    )
    return called, SimpleNamespace(config=SimpleNamespace(hook=hooks))


class Settings(SimpleNamespace):
    def _replace(self, timeout):
        return Settings(timeout=timeout)


@pytest.mark.parametrize(("left", "before"), [(7.0, 3.0), (1e-3, 30.0)])
def test_a_timer_is_stopped_and_set_again_for_what_was_left(stopwatch, left, before):
    called, item = stopwatch
    timers = TimeoutPauser(ticking(100.0, 100.0 + before))
    timers.pytest_timeout_set_timer(Settings(timeout=10.0))
    with timers.stopped(item):
        assert called == ["cancel"]
    assert called == ["cancel", left]


def test_where_no_timer_runs_none_is_set(stopwatch):
    called, item = stopwatch
    timers = TimeoutPauser(ticking(0.0))
    with timers.stopped(item):
        pass
    timers.pytest_timeout_set_timer(Settings(timeout=10.0))
    timers.pytest_timeout_cancel_timer()
    with timers.stopped(item):
        pass
    assert called == []


REAL_TIME = """
    from dataclasses import replace
    from pytest_gpuperf.devices.host import HostDevice

    class Second(HostDevice):
        kind = "gpu"
        backend = "hosts"

        def __init__(self):
            super().__init__("second host")
            self.info = replace(self.info, kind="gpu", emulated=True)

    class Hosts:
        name = "hosts"
        automatic = False

        def check(self, selector):
            pass

        def gpu(self, selector):
            return Second()

        def cpu(self):
            return HostDevice("first host")

    def pytest_gpuperf_devices():
        return [Hosts()]
"""
NAP = """
    import time
    import pytest

    @pytest.mark.speedup
    def test_nap(device):
        return lambda: time.sleep({seconds})
"""


@pytest.fixture
def suite(pytester, file):
    """Run tests on two devices with the real clock, in a process of their own; return pytest's result."""

    def call(source, *options):
        pytester.makeconftest(REAL_TIME)
        pytester.makepyfile(test_it=source)
        ours = ["--gpuperf-gpu=hosts", f"--gpuperf-lock={file}", "--gpuperf-json=report.json"]
        return pytester.runpytest_subprocess("-p", "no:randomly", *ours, *options, timeout=120)

    return call


def records(pytester):
    return json.loads((pytester.path / "report.json").read_text())["records"]


def test_a_record_and_the_terminal_say_how_long_a_test_waited(suite, pytester, file):
    with held(file, 2.5):
        result = suite(NAP.format(seconds=1e-3), "--gpuperf-max-time=2")
    (record,) = records(pytester)
    assert "recorded" == record["status"]
    assert record["turn_wait"] > 0.2
    assert record["elapsed"] < 2
    assert len(record["gpu"]["samples"]) >= 3
    result.stdout.fnmatch_lines(["waited * in all for other processes that measured"])


def test_a_test_that_did_not_wait_says_so(suite, pytester):
    result = suite(NAP.format(seconds=1e-3))
    assert records(pytester)[0]["turn_wait"] is None
    result.stdout.no_fnmatch_line("waited*")


def test_siblings_take_their_turns_too(suite, pytester, file):
    source = """
        import time
        import pytest

        @pytest.fixture
        def nap(device):
            return lambda: time.sleep(1e-3)

        @pytest.mark.speedup
        def test_nap(nap):
            return nap
    """
    with held(file, 2.5):
        suite(source)
    cpu, gpu = records(pytester)
    assert cpu["turn_wait"] > 0.2
    assert gpu["turn_wait"] is None


def test_a_measurement_without_a_turn_says_why_once(suite, pytester, file):
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
    result = suite(source, "--gpuperf-lock=turn.lock")
    assert ["recorded"] * 3 == [record["status"] for record in records(pytester)]
    said = [line for line in result.outlines if "the measurement lock was unavailable" in line]
    assert len(said) == 1
    assert said[0].startswith("test_nap[0] and 2 more: ")


@pytest.mark.parametrize(("method", "func_only"), [("signal", "false"), ("thread", "true")])
def test_waiting_is_not_the_time_that_pytest_timeout_gives_a_test(suite, pytester, file, method, func_only):
    pytest.importorskip("pytest_timeout", reason="the extra `test` has pytest-timeout")
    options = ["--timeout=2", f"--timeout-method={method}", "-o", f"timeout_func_only={func_only}"]
    with held(file, 5):
        result = suite(NAP.format(seconds=1e-3), "--gpuperf-max-time=1", *options)
    result.assert_outcomes(passed=1)
    assert records(pytester)[0]["turn_wait"] > 2


@pytest.mark.parametrize("method", ["signal", "thread"])
def test_a_test_that_is_too_slow_is_ended_after_its_wait(suite, file, method):
    pytest.importorskip("pytest_timeout", reason="the extra `test` has pytest-timeout")
    begun = time.perf_counter()
    with held(file, 4):
        result = suite(NAP.format(seconds=0.4), "--timeout=2", f"--timeout-method={method}")
        assert 4 < time.perf_counter() - begun < 40
    assert result.ret == 1
    assert "Timeout" in str(result.stdout) + str(result.stderr)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (".", "--gpuperf-lock: * is a folder; name a file in it"),
        ("no/such/turn.lock", "--gpuperf-lock: folder *no/such does not exist; create it first"),
        ("test_it.py", "--gpuperf-lock: *test_it.py exists and is not a lock file; choose another file"),
        ("link", "--gpuperf-lock: *link exists and is not a lock file; choose another file"),
        ("", "--gpuperf-lock (ini: gpuperf_lock): expected a path"),
    ],
)
def test_a_bad_lock_file_is_a_usage_error_before_the_first_test(run, pytester, choice, said):
    (pytester.path / "link").symlink_to(pytester.path / "elsewhere")
    result = run("def test_it(): raise SystemExit('a test ran')", f"--gpuperf-lock={choice}", gpu=None)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{said}*"])


def test_a_lock_file_in_the_ini_file_starts_at_the_root_wherever_pytest_is_called(pytester, monkeypatch):
    pytester.makeini("[pytest]\ngpuperf_lock = turn.lock\n")
    monkeypatch.chdir(pytester.mkdir("below"))
    assert str(pytester.path / "turn.lock") == options.run_options(pytester.parseconfig(pytester.path)).lock


@pytest.mark.parametrize("place", ["an option", "the ini file"])
def test_no_file_is_locked_when_none_is_chosen(suite, pytester, file, place):
    pytester.makeini("[pytest]\ngpuperf_lock = none\n" if place == "the ini file" else "[pytest]\n")
    pytester.makeconftest(REAL_TIME)
    pytester.makepyfile(test_it=NAP.format(seconds=1e-3))
    chosen = ["--gpuperf-lock=none"] if place == "an option" else []
    with held(lock.default_path(), 60):
        result = pytester.runpytest_subprocess("--gpuperf-gpu=hosts", *chosen, timeout=60)
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

    MeasurementLock.acquire = logged
"""
FIVE_NAPS = """
    import time
    import pytest

    @pytest.mark.parametrize("n", range(5))
    @pytest.mark.speedup(max=3)
    def test_nap(device, n):
        return lambda: time.sleep(1e-3)
"""


def spans(folder):
    lines = [line for log in folder.glob("*.log") for line in log.read_text().splitlines()]
    return sorted(tuple(map(float, line.split())) for line in lines)


def test_two_runs_at_the_same_time_measure_in_turn(pytester, file):
    pytester.makeconftest(REAL_TIME + LOGGED)
    pytester.makepyfile(test_it=FIVE_NAPS)
    command = [sys.executable, "-m", "pytest", "--gpuperf-gpu=hosts", f"--gpuperf-lock={file}"]
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [0, 0] == [each.wait(timeout=60) for each in both]
    assert len(list(pytester.path.glob("*.log"))) == 2
    found = spans(pytester.path)
    assert len(found) == 10
    for (_, ended), (begun, _) in pairwise(found):
        assert ended <= begun


def test_the_workers_of_one_run_measure_in_turn(suite, pytester):
    pytest.importorskip("xdist", reason="the extra `test` has pytest-xdist")
    result = suite(LOGGED + FIVE_NAPS, "-n2")
    result.assert_outcomes(passed=5)
    assert len(list(pytester.path.glob("*.log"))) == 2
    found = spans(pytester.path)
    assert len(found) == 5
    for (_, ended), (begun, _) in pairwise(found):
        assert ended <= begun
    assert sum(record["turn_wait"] or 0 for record in records(pytester)) > 0
    result.stdout.fnmatch_lines(["waited * in all for other processes that measured"])
