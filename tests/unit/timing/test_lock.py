"""The measurement lock: one process measures at a time, waiting costs nothing and ends."""

import errno
import os
import signal
import stat
import sys
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from filelock import FileLock, Timeout
from real_clock import held, process

from pytest_gpuperf.timing import lock
from pytest_gpuperf.timing.lock import LockHold, MeasurementLock

NO_LOCK = "the measurement lock was unavailable; other processes may have measured meanwhile"
USER_LOCK = "the machine-wide measurement lock was unavailable; other users may have measured meanwhile"
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
with MeasurementLock(Path(sys.argv[1])).acquire():
    pass  # everything is imported while it may be
if os.getuid() == 0:
    os.setuid(65534)
for file in sys.argv[2:]:
    with MeasurementLock(Path(file)).acquire() as hold:
        print(hold.warning)
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "turn.lock"


def held_by_another(file):
    """Return a lock on the file, for a context: the system gives it to one open file, whoever's it is."""
    return FileLock(file)


def is_free(file):
    try:
        with held_by_another(file).acquire(timeout=0):
            return True
    except Timeout:
        return False


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

    @contextmanager
    def wait():
        with noted(marks):
            release.touch()
            yield

    release = file.with_name("release")
    with held(file, 0.1, after=release), MeasurementLock(file).acquire(wait) as hold:
        assert 0.05 < hold.waited < 5
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
    with held_by_another(file):
        before = time.process_time()
        with MeasurementLock(file, timeout=0.2).acquire() as hold:
            used = time.process_time() - before
    assert hold.waited >= 0.2
    assert used < 0.05


def test_a_process_that_never_releases_the_lock_is_not_waited_for_for_ever(file):
    with held_by_another(file), MeasurementLock(file, timeout=0.1).acquire() as hold:
        assert hold.warning == (f"{NO_LOCK}: {file}: another process has held it for 0.1 s")
        assert hold.waited >= 0.1


def test_a_process_that_never_releases_the_lock_is_waited_for_once(file):
    of_run = MeasurementLock(file, timeout=0.1)
    with held_by_another(file):
        with of_run.acquire() as first:
            pass
        with of_run.acquire() as second:
            assert second == LockHold(waited=0.0, warning=first.warning)
    with of_run.acquire() as third:
        assert third == LockHold(waited=0.0, warning=None)
        assert not is_free(file)


def test_the_lock_is_reentrant(file):
    outer = MeasurementLock(file, timeout=0.2)
    with outer.acquire(), outer.acquire() as again, MeasurementLock(file, timeout=0.2).acquire() as another:
        assert again == another == LockHold(waited=0.0, warning=None)
        assert not is_free(file)
    assert is_free(file)


def test_an_error_releases_the_lock(file):
    kept = lock._lock_on(file)  # what nobody keeps would end with the last reference to it, too
    with pytest.raises(ValueError, match="of the test"), MeasurementLock(file).acquire():
        raise ValueError("of the test")
    assert not kept.is_locked
    assert is_free(file)


def test_an_error_while_waiting_leaves_no_lock_behind(file):
    @contextmanager
    def interrupted():
        raise KeyboardInterrupt
        yield

    waiting = MeasurementLock(file)
    with held_by_another(file), pytest.raises(KeyboardInterrupt), waiting.acquire(interrupted):
        pass
    with waiting.acquire() as hold:
        assert hold.waited == 0
    assert is_free(file)


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
def test_another_users_file_is_used_where_that_is_permitted(shared_folder):
    open_to_all, closed = shared_folder / "open.lock", shared_folder / "closed.lock"
    for file, mode in ((open_to_all, 0o666), (closed, 0)):
        file.touch()
        file.chmod(mode)
    told, _ = process(ACQUIRE_AS_NOBODY, shared_folder / "another.lock", open_to_all, closed).communicate(
        timeout=60
    )
    assert told.splitlines() == ["None", f"{NO_LOCK}: {closed} cannot be used: Permission denied"]


def test_where_the_machines_file_cannot_be_used_a_users_own_is(tmp_path):
    own = tmp_path / "own.lock"
    with MeasurementLock(tmp_path, fallback=own).acquire() as hold:
        assert not is_free(own)
        assert hold.warning == (f"{USER_LOCK}: {tmp_path} cannot be used: it is not a lock file")


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
