"""A temporary folder that its process removes at its end. If the process is killed, a later one removes it.

A process holds a lock file next to its folder. The operating system releases the lock when the process ends.
"""

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir
from time import sleep
from typing import TYPE_CHECKING

from pytest_gpuperf.integrations.processes import held_back

if TYPE_CHECKING:
    from filelock import BaseFileLock

_LOCK = ".lock"
_ATTEMPTS, _PAUSE = 50, 0.1  # seconds


@contextmanager
def temporary_folder(prefix: str, before: Callable[[Path], None]) -> Iterator[Path]:
    """Return a new folder, which is removed at the end, after `before` is called with it."""
    lock = _locked(prefix)
    try:
        folder = _folder_of(lock)
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        with held_back():
            _remove(lock, before)


def remove_left_behind(prefix: str, before: Callable[[Path], None]) -> None:
    """Remove the folders of processes that were killed."""
    from filelock import Timeout

    for path in Path(gettempdir()).glob(f"{prefix}*"):
        with held_back(), suppress(OSError, Timeout):
            # On Windows, the folder for temporary files is one user's.
            if sys.platform == "win32" or path.lstat().st_uid == os.getuid():
                lock = _lock(path.with_suffix(_LOCK))
                lock.acquire(timeout=0)
                _remove(lock, before)


def _locked(prefix: str) -> "BaseFileLock":
    """Return a lock of a new name that is held, and whose file is there."""
    while True:
        lock = _lock(Path(gettempdir(), f"{prefix}{token_hex(4)}{_LOCK}"))
        lock.acquire()
        if os.path.lexists(lock.lock_file):
            return lock
        lock.release()  # another process removed the file before this one had locked it


def _lock(path: Path) -> "BaseFileLock":
    from filelock import FileLock  # 20 ms that the other commands need not wait

    # A lock that is the mere existence of a file would outlive a process that is killed.
    return FileLock(path, fallback_to_soft=False)


def _folder_of(lock: "BaseFileLock") -> Path:
    return Path(lock.lock_file).with_suffix("")


def _remove(lock: "BaseFileLock", before: Callable[[Path], None]) -> None:
    """Remove the folder and, if nothing of it is left, the lock, which is held."""
    folder = _folder_of(lock)
    if folder.exists():
        before(folder)
    for _ in range(_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
        _make_writable(folder)
        sleep(_PAUSE)  # until what a killed process has started fails there, too
    file = Path(lock.lock_file)
    with suppress(OSError):
        file.unlink()  # before it is free, or it might be another's by now
    lock.release()
    if sys.platform == "win32":  # where a file that is open cannot be removed
        with suppress(OSError):
            file.unlink()


def _make_writable(folder: Path) -> None:
    """Make the folders in a folder writable, so that it can be removed: a test may have changed that."""
    for parent, folders, _ in os.walk(folder):
        for path in (Path(parent, name) for name in folders):
            if not path.is_symlink():  # which may lead to the user's files
                with suppress(OSError):
                    path.chmod(stat.S_IRWXU)
