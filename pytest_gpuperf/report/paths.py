"""From a path to why no output may be written there, if so.

A start of pytest imports this module where an output is requested: it uses the standard library only.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

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
