"""From text to a file that is on the disk whole, or not at all; and from a file to its bytes.

Temporary files have random names and are opened only if nothing is there, so that nobody can plant one: no
link is followed but the one that the user names as an output.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EFBIG, EINVAL, ENOTDIR
from pathlib import Path
from stat import S_IMODE, S_ISREG
from typing import IO

from pytest_gpuperf.model import units
from pytest_gpuperf.report.paths import target

LIMIT = 2_000_000_000
"""Bytes that are read of a file; a report of 100,000 tests has about a quarter of them."""


def content(path: Path, *, follow_link: bool = True) -> bytes:
    """Return a regular file's bytes; raise OSError for any other, and for one that has more than LIMIT."""
    with open_regular(path, follow_link=follow_link) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LIMIT:
            raise OSError(EFBIG, f"it has more than {units.size(LIMIT)}, the most that is read", str(path))
        return file.read(size)


def open_regular(path: Path, *, follow_link: bool = True) -> IO[bytes]:
    """Open a regular file to read it; raise OSError for any other.

    A device may be endless, a pipe may wait for a writer, and a link may lead out of its folder.
    """
    if path.is_symlink() and not follow_link:
        raise OSError(EINVAL, "it is a link", str(path))
    names = ("O_NONBLOCK",) if follow_link else ("O_NONBLOCK", "O_NOFOLLOW")
    safely = sum(getattr(os, name, 0) for name in names)  # as far as the system has them
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | safely))  # noqa: SIM115 - to return
    if not S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(EINVAL, "it is not a regular file", str(path))
    return file


def open_new(path: Path) -> IO[str]:
    """Open a file to write it, in a folder that is made if need be; raise OSError where one is there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # which would say that the file itself exists
        raise OSError(ENOTDIR, os.strerror(ENOTDIR), str(path.parent)) from error
    return path.open("x", encoding="utf-8", newline="")


def replace(path: Path, text: str) -> None:
    """Write a file whole or not at all: to the disk under another name, then in its place.

    Of a link that is the file to which it leads. The file keeps its mode; its folder is made if need be.
    Raises OSError that names it, and leaves what was there, when it cannot be written.
    """
    with _temporary(path, text) as temporary:
        temporary.replace(target(path))


def create(path: Path, text: str) -> None:
    """Write a new file whole or not at all; raises OSError, and leaves it as it is, when one is there."""
    with _temporary(path, text) as temporary:
        try:
            os.link(temporary, path)  # unlike a rename, it fails where another process was faster
        except OSError:  # so it did, or the file system has no links
            with open_new(path) as file:
                file.write(text)


@contextmanager
def _temporary(path: Path, text: str) -> Iterator[Path]:
    """Write a text to the disk beside a file, with its mode if there is one; remove it at the end.

    Any OSError, of what is done with it, too, names the file.
    """
    try:
        temporary = target(path).with_name(f".gpuperf-{os.urandom(8).hex()}.tmp")
        file = open_new(temporary)
        try:
            with file:
                with suppress(OSError):  # no such file yet, or a file system without modes
                    temporary.chmod(S_IMODE(path.stat().st_mode))
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
