"""Which files may be written; from text to a file that is there whole or not at all, and from it to bytes.

Temporary files have random names and are opened only if nothing is there. A link that the user names as an
output is followed.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EFBIG, EINVAL, ENOTDIR
from pathlib import Path
from stat import S_IMODE
from typing import IO

from pytest_gpuperf.model import units

LIMIT = 2_000_000_000
"""Bytes that are read of a file; a report of 100,000 tests has about a quarter of them."""
ENOUGH = 65_536
"""Bytes to know a file by: it may begin with a node id, which can be long."""


def begins(pattern: bytes) -> Callable[[bytes], bool]:
    """Return a function that says of a file's first bytes, without white space, whether they match."""
    return lambda head: re.match(pattern, b"".join(head[:ENOUGH].split())) is not None


TEXT = rb'"(?:[^"\\]|\\.)*+"'
"""The pattern of a text in JSON."""
REPORT = begins(rb'\{"schema_version":"[0-9]+\.[0-9]+","started":"')
JOURNAL = begins(rb'\{"started":"[^"]*","environment":\{')
MARKDOWN = begins(rb"<!--pytest-gpuperf-->###")
PAGE = begins(
    rb'<!doctypehtml><htmllang="en"><head><metacharset="utf-8"><metaname="generator"content="pytest-gpuperf">'
)
SVG = begins(rb"<!--pytest-gpuperf--><svg")


def target(path: Path) -> Path:
    """Return the path of what a link leads to, of anything else its own.

    Raises OSError for a link to nothing, and for one that leads to itself.
    """
    if not path.is_symlink():
        return path
    try:
        return Path(os.path.realpath(path, strict=True))
    except OSError as error:
        raise OSError(error.errno, "it is a link that leads to no file", str(path)) from error


def why_not_writable(path: Path, is_ours: Callable[[bytes], bool], what: str) -> str | None:
    """Return why an output cannot be written as `what`: an existing file must be empty or one of ours."""
    try:
        if path.is_dir():
            return f"{path} is a folder; choose a file in it"
        if path.exists() and not path.is_file():  # a device or a pipe, which a file would destroy
            return f"{path} is not a regular file; choose another"
        head = _head(path) if path.exists() else b""
        is_empty = len(head) < ENOUGH and not head.strip()  # after more white space something may follow
        if not (is_empty or is_ours(head)):
            return f"{path} exists and was not written by pytest-gpuperf as {what}; choose another file"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}; choose another file"
    return why_no_new_file(path)


def why_no_lock(path: Path) -> str | None:
    """Return why a file cannot be the lock of several processes, which may be there, and empty."""
    if (problem := why_not_writable(path, lambda _: False, "a lock file")) is not None:
        return problem
    is_there = path.parent.is_dir()  # to make it would hide that another process locks another file
    return None if is_there else f"the folder {path.parent} does not exist; create it first"


def why_no_new_file(path: Path) -> str | None:
    """Return why no file can be made next to a path, which is how outputs are written, or in a folder.

    Folders that are not there are made with the file, so that the nearest one that is there must be writable.
    """
    if (problem := why_broken(path)) is not None:
        return problem
    folder = target(path)
    folder = folder if folder.is_dir() else folder.parent
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        return f"{folder} is not a folder; choose another place"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"no file can be written in {folder}; choose another place"
    return None


def why_broken(path: Path) -> str | None:
    """Return why nothing can be read or written at a path that is a link to no file."""
    try:
        target(path)
    except OSError as error:
        return f"{path} cannot be used: {error.strerror}; remove it or choose another path"
    return None


def begins_as(path: Path, is_ours: Callable[[bytes], bool]) -> bool:
    """Return whether a file is there that is ours by its first bytes."""
    return path.is_file() and is_ours(_head(path))


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(ENOUGH)


def content(path: Path) -> bytes:
    """Return a regular file's bytes; raise OSError for any other, and for one that has more than LIMIT."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LIMIT:
            raise OSError(EFBIG, f"it has more than {units.size(LIMIT)}, the most that is read", str(path))
        return file.read(size)


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file to read it; raise OSError for any other: a device is endless, a pipe may wait."""
    if path.exists() and not (path.is_file() or path.is_dir()):  # which the system names
        raise OSError(EINVAL, "it is not a regular file", str(path))
    return path.open("rb")


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
    """Write a new file whole or not at all; raises OSError, and leaves it as it is, when one is there.

    On a file system without links a process that is killed between two steps leaves an empty file.
    """
    with _temporary(path, text) as temporary:
        try:
            os.link(temporary, path)  # unlike a rename, it fails where another process was faster
        except OSError:  # so it did, or the file system has no links
            open_new(path).close()  # which fails there, too, and keeps the name from others
            try:
                temporary.replace(path)
            except OSError:
                path.unlink(missing_ok=True)
                raise


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
