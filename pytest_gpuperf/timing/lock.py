"""From processes that want to measure to one at a time: a lock on a file that ends with the process."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock

OnWait = Callable[[], AbstractContextManager[None]]
"""The context to wait in. A session passes one that pauses pytest-timeout's timer."""

_NAME = "pytest-gpuperf"
_EVERYONE = 0o666  # may open the file, which is all that a lock needs
_POLL = 0.05  # seconds between two attempts of some 100 us each: 0.2 % of a processor
_TIMEOUT = 600.0  # seconds: enough to measure many tests; a process that holds the lock for longer hangs


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHold:
    """One hold of the lock: the seconds that it was waited for, and why others may measure meanwhile."""

    waited: float = 0.0
    warning: str | None = None


class MeasurementLock:
    """The lock of this machine for measuring: one process at a time, across runs and users.

    The lock is on the file `path`, or on `fallback` where that file cannot be used; without either, nothing
    is locked. No wait is longer than `timeout` seconds, and after one that was as long there is no other: a
    process that hangs would cost that much for each test. The lock is reentrant within a process.
    `warning` is why other processes may measure at the same time. That is never an error: a test with
    interference is better than no test.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        fallback: Path | None = None,
        timeout: float = _TIMEOUT,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.warning: str | None = None
        self._files = [file for file in (path, fallback) if file is not None]
        self._timeout = timeout
        self._held_too_long: str | None = None
        self._clock = clock

    @classmethod
    def from_option(cls, option: str) -> "MeasurementLock":
        """Return the lock that an option names: `auto`, `none`, or the path of a file."""
        if option != "auto":
            return cls(None if option == "none" else Path(option))
        # On Windows the folder for temporary files is one user's: there is no other file to fall back to.
        user_file = None if sys.platform == "win32" else Path(gettempdir(), f"{_NAME}-{os.getuid()}.lock")
        return cls(default_path(), fallback=user_file)

    def prepare(self) -> None:
        """Import what the first acquisition would wait for."""
        if self._files:
            import filelock  # noqa: F401 - 20 ms that no test shall take

    @contextmanager
    def acquire(self, on_wait: OnWait = nullcontext) -> Iterator[LockHold]:
        """Hold the lock within this context; waiting for it happens within a context of `on_wait`."""
        lock, waited, problem = None, 0.0, None
        try:
            lock = self._open()
        except Exception as error:  # noqa: BLE001 - what filelock calls may be replaced, in this test alone
            problem = f"{_scope_note([])}: {_os_error_text(error)}"
        warning = problem or self.warning
        if lock is not None and not lock.is_locked:
            if self._held_too_long is None:
                started = self._clock()
                with on_wait():
                    warning = self._wait(lock) or warning
                waited = self._clock() - started
            else:
                warning = self._held_too_long
        try:
            yield LockHold(waited=waited, warning=warning)
        finally:
            if lock is not None and lock.is_locked:
                lock.release()

    def _open(self) -> "BaseFileLock | None":
        """Return the lock on the first usable file, acquired already where no other process holds it."""
        while self._files:
            from filelock import Timeout

            file = self._files[0]
            try:
                lock = _lock_on(file)
                with suppress(Timeout):
                    lock.acquire(timeout=0)
            except (OSError, NotImplementedError) as error:
                del self._files[0]
                self.warning = f"{_scope_note(self._files)}: {file} cannot be used: {_os_error_text(error)}"
            else:
                return lock
        return None

    def _wait(self, lock: "BaseFileLock") -> str | None:
        """Wait until the lock is held, or return why it is not."""
        from filelock import Timeout

        unlocked = f"{_scope_note([])}: {lock.lock_file}"
        try:
            lock.acquire(timeout=self._timeout, poll_interval=_POLL)
        except Timeout:
            self._held_too_long = f"{unlocked}: another process has held it for {self._timeout:g} s"
            return self._held_too_long
        except Exception as error:  # noqa: BLE001 - as where it is opened
            return f"{unlocked}: {_os_error_text(error)}"
        return None


def default_path() -> Path:
    """Return the lock file of this machine: the same for every run and, except on Windows, for every user."""
    if sys.platform == "win32":
        return Path(gettempdir(), f"{_NAME}.lock")
    return Path(f"/tmp/{_NAME}.lock")  # noqa: S108 - TMPDIR differs between users; links are not followed


def _lock_on(file: Path) -> "BaseFileLock":
    """Return the lock on a file; raise OSError for one with content, a link or a folder, and change nothing.

    filelock follows no link from 3.20.1 on (CVE-2025-68146), but before 3.32 it empties what it opens.
    """
    from filelock import FileLock

    with suppress(FileNotFoundError):
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size or status.st_nlink > 1:
            raise OSError("it is not a lock file")
    # A lock that is the mere existence of a file would outlive a process that is killed.
    return FileLock(file, mode=_EVERYONE, is_singleton=True, fallback_to_soft=False)


def _scope_note(files: list[Path]) -> str:
    """Return how far the lock reaches when only these files, or none, are left of it."""
    if files:
        return "the machine-wide measurement lock was unavailable; other users may have measured meanwhile"
    return "the measurement lock was unavailable; other processes may have measured meanwhile"


def _os_error_text(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
