"""From text to a file that is on the disk whole, or not at all; and from a file to its bytes."""

import os
from contextlib import suppress
from errno import EFBIG, EINVAL
from pathlib import Path
from stat import S_ISREG

from pytest_gpuperf.model import units


def content(path: Path, most: int, *, follow_link: bool = True) -> bytes:
    """Return a regular file's bytes; raise OSError for any other, and for one that has more than `most`.

    A device may be endless, a pipe may wait for a writer, and a link may lead out of its folder.
    """
    if path.is_symlink() and not follow_link:
        raise OSError(EINVAL, "it is a link")
    names = ("O_NONBLOCK",) if follow_link else ("O_NONBLOCK", "O_NOFOLLOW")
    safely = sum(getattr(os, name, 0) for name in names)  # as far as the system has them
    try:
        if not S_ISREG(path.stat().st_mode):  # to open a pipe may take what another process wrote
            raise OSError(EINVAL, "it is not a regular file")
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | safely)) as file:
            status = os.fstat(file.fileno())
            if not S_ISREG(status.st_mode):
                raise OSError(EINVAL, "it is not a regular file")
            found = file.read(most + 1) if status.st_size <= most else b""
            if len(found) > most or status.st_size > most:
                raise OSError(EFBIG, f"it has more than {units.size(most)}, the most that is read")
            return found
    except ValueError as error:  # a name that no file can have
        raise OSError(EINVAL, str(error)) from error


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
