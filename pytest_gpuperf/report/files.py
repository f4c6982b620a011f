"""From text to a file that is on the disk whole, or not at all."""

import os
from contextlib import suppress
from pathlib import Path


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
