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
from unittest.mock import Mock

import pytest
from filelock import FileLock, Timeout
from real_clock import held, process

from pytest_gpuperf.timing import lock
from pytest_gpuperf.timing.lock import LockHold, MeasurementLock

NO_LOCK = "the measurement lock was unavailable; other processes may have measured meanwhile"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")
ACQUIRE_AS_NOBODY = """
import os, sys
from pathlib import Path
from pytest_gpuperf.timing.lock import MeasurementLock, default_path
print(default_path())
with MeasurementLock(Path(sys.argv[1])).acquire():
    pass  # everything is imported while it may be
if os.getuid() == 0:
    os.setuid(65534)
for file in sys.argv[2:]:
    with MeasurementLock(Path(file)).acquire() as hold:
        print(hold.warning)
"""


def is_free(file):
    try:
        with FileLock(file).acquire(timeout=0):
            return True
    except Timeout:
        return False


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX only")
def test_the_lock_of_a_process_that_was_killed_is_free(lock_file):
    with held(lock_file, 600) as holder:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        with MeasurementLock(lock_file, timeout=5).acquire() as hold:
            assert hold.warning is None
            assert hold.waited < 1


def test_a_process_that_never_releases_the_lock_is_waited_for_once_and_that_uses_no_processor(lock_file):
    of_run = MeasurementLock(lock_file, timeout=0.2)
    with FileLock(lock_file):
        before = time.process_time()
        with of_run.acquire() as first:
            used = time.process_time() - before
        with of_run.acquire() as second:
            assert second == LockHold(waited=0.0, warning=first.warning)
    assert first.warning == f"{NO_LOCK}: {lock_file}: another process has held it for 0.2 s"
    assert first.waited >= 0.2
    assert used < 0.05
    with of_run.acquire() as third:
        assert third == LockHold(waited=0.0, warning=None)
        assert not is_free(lock_file)


def test_the_lock_is_reentrant(lock_file):
    outer = MeasurementLock(lock_file, timeout=0.2)
    with (
        outer.acquire(),
        outer.acquire() as again,
        MeasurementLock(lock_file, timeout=0.2).acquire() as another,
    ):
        assert again == another == LockHold(waited=0.0, warning=None)
        assert not is_free(lock_file)
    assert is_free(lock_file)


def test_an_error_releases_the_lock(lock_file):
    kept = lock._lock_on(lock_file)  # what nobody keeps would end with the last reference to it, too
    with pytest.raises(ValueError, match="of the test"), MeasurementLock(lock_file).acquire():
        raise ValueError("of the test")
    assert not kept.is_locked
    assert is_free(lock_file)


def test_an_error_while_waiting_leaves_no_lock_behind(lock_file):
    @contextmanager
    def interrupted():
        raise KeyboardInterrupt
        yield

    waiting = MeasurementLock(lock_file)
    with FileLock(lock_file), pytest.raises(KeyboardInterrupt), waiting.acquire(interrupted):
        pass
    with waiting.acquire() as hold:
        assert hold.waited == 0
    assert is_free(lock_file)


def test_without_a_file_nothing_is_locked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with MeasurementLock.from_option("none").acquire() as hold:
        assert hold == LockHold(waited=0.0, warning=None)
    assert list(tmp_path.iterdir()) == []


@POSIX
def test_every_user_may_open_the_file(lock_file):
    before = os.umask(0o077)
    try:
        with MeasurementLock(lock_file).acquire():
            assert 0o666 == stat.S_IMODE(lock_file.stat().st_mode)
    finally:
        os.umask(before)


@POSIX
def test_another_users_file_is_used_where_that_is_permitted_and_every_user_has_the_same(monkeypatch):
    monkeypatch.setenv("TMPDIR", "/var/tmp")  # noqa: S108 - where a user may want temporary files
    with TemporaryDirectory(dir="/tmp") as name:  # pytest's own folders are private
        folder = Path(name)
        folder.chmod(0o1777)
        open_to_all, closed = folder / "open.lock", folder / "closed.lock"
        for file, mode in ((open_to_all, 0o666), (closed, 0)):
            file.touch()
            file.chmod(mode)
        another = process(ACQUIRE_AS_NOBODY, folder / "another.lock", open_to_all, closed)
        place, *said = another.communicate(timeout=60)[0].splitlines()
    assert str(lock.default_path()) == place == "/tmp/pytest-gpuperf.lock"  # noqa: S108 - as above
    assert ["None", f"{NO_LOCK}: {closed} cannot be used: Permission denied"] == said


def test_where_the_machines_file_cannot_be_used_a_users_own_is(tmp_path):
    own = tmp_path / "own.lock"
    with MeasurementLock(tmp_path, fallback=own).acquire() as hold:
        assert not is_free(own)
        assert hold.warning == (
            "the machine-wide measurement lock was unavailable; other users may have measured meanwhile: "
            f"{tmp_path} cannot be used: it is not a lock file"
        )


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(Path.symlink_to, marks=POSIX),
        pytest.param(Path.hardlink_to, marks=POSIX),
        lambda lock_file, _: lock_file.write_text("precious"),
    ],
    ids=["symbolic link", "hard link", "content"],
)
def test_a_link_and_a_file_with_something_in_it_are_left_alone(lock_file, tmp_path, make):
    target = tmp_path / "precious"
    target.touch(mode=0o600)
    make(lock_file, target)
    before = lock_file.read_text()
    with MeasurementLock(lock_file).acquire() as hold:
        assert hold.warning == f"{NO_LOCK}: {lock_file} cannot be used: it is not a lock file"
    assert (before, 0o600) == (lock_file.read_text(), stat.S_IMODE(target.stat().st_mode))


@POSIX
@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EIO])
def test_a_filesystem_without_locks_is_a_doubt(lock_file, monkeypatch, code):
    def flock(descriptor, operation):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", flock)
    with MeasurementLock(lock_file).acquire() as hold:
        assert hold.warning.startswith(f"{NO_LOCK}: {lock_file} cannot be used: ")


def test_what_a_test_has_replaced_is_in_the_way_of_the_lock_in_this_test_alone(lock_file, monkeypatch):
    of_run = MeasurementLock(lock_file)
    with monkeypatch.context() as patch:
        patch.setattr(FileLock, "acquire", Mock(side_effect=RuntimeError("replaced")))
        with of_run.acquire() as hold:
            assert f"{NO_LOCK}: replaced" == hold.warning
    with of_run.acquire() as hold:
        assert hold.warning is None
        assert not is_free(lock_file)
