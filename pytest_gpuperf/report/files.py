"""The report's file and the journal beside it: text in, safe on the disk."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from pytest_gpuperf import jsontext

__all__ = ["Journal", "create", "is_journal", "read_journal", "replace"]


def replace(path: Path, text: str) -> None:
    """Write a file whole or not at all: beside it, to the disk, then in its place.

    Raises OSError that names it, and leaves what was there, when it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            beside.unlink()


def create(path: Path, text: str) -> None:
    """Write a new file whole or not at all; raises OSError, and leaves it as it is, when one is there."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        replace(beside, text)
        try:
            os.link(beside, path)  # unlike a rename, it fails where another process was faster
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            with path.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
    finally:
        with suppress(OSError):
            beside.unlink()


class Journal:
    """One line per finished test, on the disk as soon as the test has ended; `kill -9` loses none.

    The file is made at the first line, under a name of this process's own, and removed by `close`.
    """

    def __init__(self, report: Path) -> None:
        self.path = report.with_name(f"{report.name}.{os.getpid()}.journal")
        self._file: IO[str] | None = None

    @property
    def begun(self) -> bool:
        """Whether a line was written."""
        return self._file is not None

    def add(self, line: str) -> None:
        """Append one line; raises OSError."""
        if self._file is None:
            self._file = self.path.open("w", encoding="utf-8")
        self._file.write(line + "\n")
        self._file.flush()

    def close(self, *, keep: bool) -> None:
        """Close the file, and remove it unless it holds the only copy of something."""
        if self._file is None:
            return
        with suppress(OSError):
            self._file.close()
            if not keep:
                self.path.unlink()


def is_journal(content: bytes) -> bool:
    """Say whether a file's bytes begin with the heading of a journal."""
    end = content.find(b"\n")
    if end < 0 or not content.startswith(b'{"started"'):
        return False
    try:
        heading = jsontext.parse(content[:end].decode("utf-8"))
    except ValueError:
        return False
    return isinstance(heading, dict) and heading.keys() == {"started", "environment"}


def read_journal(path: Path) -> Iterator[str]:
    """Yield the whole lines of a journal; a last line that was cut off is left out."""
    *whole, _ = path.read_bytes().split(b"\n")
    for line in whole:
        yield line.decode("utf-8")
