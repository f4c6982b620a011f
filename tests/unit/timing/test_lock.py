"""The measurement lock: one process measures at a time, waiting costs nothing and ends."""

import errno
import os
import signal
import stat
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from filelock import FileLock, Timeout
from real_clock import held, process

from pytest_gpuperf.timing import lock
from pytest_gpuperf.timing.lock import LockHold, MeasurementLock

NO_LOCK = "the measurement lock was unavailable; other processes may have measured meanwhile"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")
USER_LOCK = "the machine-wide measurement lock was unavailable; other users may have measured meanwhile"
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


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX only")
def test_the_lock_of_a_process_that_was_killed_is_free(file):
    with held(file, 600) as holder:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        with MeasurementLock(file, timeout=5).acquire() as hold:
            assert hold.warning is None
            assert hold.waited < 1


def test_a_process_that_never_releases_the_lock_is_waited_for_once_and_that_uses_no_processor(file):
    of_run = MeasurementLock(file, timeout=0.2)
    with held_by_another(file):
        before = time.process_time()
        with of_run.acquire() as first:
            used = time.process_time() - before
        with of_run.acquire() as second:
            assert second == LockHold(waited=0.0, warning=first.warning)
    assert first.warning == f"{NO_LOCK}: {file}: another process has held it for 0.2 s"
    assert first.waited >= 0.2
    assert used < 0.05
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


@POSIX
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


@POSIX
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


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(Path.symlink_to, marks=POSIX),
        pytest.param(Path.hardlink_to, marks=POSIX),
        lambda file, _: file.write_text("precious"),
    ],
    ids=["symbolic link", "hard link", "content"],
)
def test_a_link_and_a_file_with_something_in_it_are_left_alone(file, tmp_path, make):
    target = tmp_path / "precious"
    target.touch(mode=0o600)
    make(file, target)
    before = file.read_text()
    with MeasurementLock(file).acquire() as hold:
        assert hold.warning == f"{NO_LOCK}: {file} cannot be used: it is not a lock file"
    assert (before, 0o600) == (file.read_text(), stat.S_IMODE(target.stat().st_mode))


@POSIX
@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EIO])
def test_a_filesystem_without_locks_is_a_doubt(file, monkeypatch, code):
    def flock(descriptor, operation):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", flock)
    with MeasurementLock(file).acquire() as hold:
        assert hold.warning.startswith(f"{NO_LOCK}: {file} cannot be used: ")
