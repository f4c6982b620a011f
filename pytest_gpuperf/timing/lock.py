"""From processes that want to measure to one at a time: a turn is a lock that ends with its holder."""

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

__all__ = ["MeasurementLock", "Turn", "place"]

_NAME = "pytest-gpuperf"
_EVERYONE = 0o666  # may open the file: a lock needs that and nothing else of it
_POLL = 0.05  # seconds between two looks of some 100 us each: 0.2 % of a processor
_PATIENCE = 600.0  # seconds: many tests' measuring; whoever holds a turn for longer hangs


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn to measure: the seconds that it was waited for, and why others may measure in it, too."""

    waited: float = 0.0
    doubt: str | None = None


class MeasurementLock:
    """The machine's turn to measure: one process at a time, across runs and users.

    The lock is on the file `path`, or on `instead` where that cannot be used; without both, nobody is waited
    for. Nobody is waited for longer than `patience` (seconds) either. Turns within a turn of the same process
    are that turn. `doubt` says why there may be other processes in a turn: never an error, as a test that is
    measured in doubt is better than none.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        instead: Path | None = None,
        patience: float = _PATIENCE,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.doubt: str | None = None
        self._files = [file for file in (path, instead) if file is not None]
        self._patience = patience
        self._clock = clock

    @classmethod
    def chosen(cls, choice: str) -> "MeasurementLock":
        """Return the turns that an option asks for: `auto`, `none`, or the path of a file."""
        if choice == "auto":
            return cls(place(), instead=_own_place())
        return cls(None if choice == "none" else Path(choice))

    @contextmanager
    def take(self, on_wait: Callable[[], AbstractContextManager[None]] = nullcontext) -> Iterator[Turn]:
        """Hold the turn; while it has to be waited for, be in a context of `on_wait`."""
        lock, waited, doubt = self._lock(), 0.0, self.doubt
        if lock is not None and not lock.is_locked:
            begun = self._clock()
            with on_wait():
                doubt = self._wait(lock) or doubt
            waited = self._clock() - begun
        try:
            yield Turn(waited=waited, doubt=doubt)
        finally:
            if lock is not None and lock.is_locked:
                lock.release()

    def _lock(self) -> "BaseFileLock | None":
        """Return the lock on the first file that can be used, already held where nobody else holds it."""
        while self._files:
            from filelock import Timeout

            file = self._files[0]
            try:
                lock = _lock_on(file)
                with suppress(Timeout):
                    lock.acquire(timeout=0)
            except (OSError, NotImplementedError) as error:
                del self._files[0]
                self.doubt = f"{_among(self._files)}: {file} cannot be used: {_cause(error)}"
            else:
                return lock
        return None

    def _wait(self, lock: "BaseFileLock") -> str | None:
        """Wait until the lock is held, or return why it is not."""
        from filelock import Timeout

        try:
            lock.acquire(timeout=self._patience, poll_interval=_POLL)
        except Timeout:
            cause = f"another process has held it for {self._patience:g} s"
        except (OSError, NotImplementedError) as error:
            cause = _cause(error)
        else:
            return None
        return f"{_among([])}: {lock.lock_file}: {cause}"


def place() -> Path:
    """Return the lock file of this machine: the same for every run and, but on Windows, for every user."""
    if sys.platform == "win32":
        return Path(gettempdir(), f"{_NAME}.lock")
    return Path(f"/tmp/{_NAME}.lock")  # noqa: S108 - TMPDIR differs between users; links are not followed


def _own_place() -> Path | None:
    """Return the lock file of this user, where that is another one."""
    if sys.platform == "win32":
        return None
    return Path(gettempdir(), f"{_NAME}-{os.getuid()}.lock")


def _lock_on(file: Path) -> "BaseFileLock":
    """Return the lock on a file; raise OSError where that is another's file, which stays as it is.

    filelock follows no link from 3.20.1 on (CVE-2025-68146), but before 3.32 it empties what it opens.
    """
    from filelock import FileLock

    with suppress(FileNotFoundError):
        found = file.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size or found.st_nlink > 1:
            raise OSError("it is no lock file")
    # A lock by the mere existence of a file would outlive a process that is killed.
    return FileLock(file, mode=_EVERYONE, is_singleton=True, fallback_to_soft=False)


def _among(files: list[Path]) -> str:
    return "only this user's processes took turns to measure" if files else "measured without taking turns"


def _cause(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
