"""From text to a file that is on the disk whole, or not at all."""

import os
from contextlib import suppress
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Write a file whole or not at all: to the disk under another name, then in its place.

    Raises OSError that names it, and leaves what was there, when it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def create(path: Path, text: str) -> None:
    """Write a new file whole or not at all; raises OSError, and leaves it as it is, when one is there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        replace(temporary, text)
        try:
            os.link(temporary, path)  # unlike a rename, it fails where another process was faster
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            with path.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
    finally:
        with suppress(OSError):
            temporary.unlink()
