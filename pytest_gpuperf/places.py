"""From a path to why no file of ours may be written there, if it may not; the standard library only."""

import os
from pathlib import Path

__all__ = ["EXPORTS", "MARKDOWN", "REPORT", "objection", "writable"]

_ENOUGH = 256  # bytes to know a file by
REPORT = (b'{"schema_version"',)
MARKDOWN = (b"###Speedups",)
EXPORTS = {
    "pytest-benchmark": (b'{"machine_info"',),
    "github-action-benchmark": (b'[{"name"', b"[]"),
    "bencher": (b"{",),
    "csv": (b"test,",),
}
"""How the files of each format begin, without their white space."""


def objection(path: Path, begins: tuple[bytes, ...], what: str) -> str | None:
    """Return why there cannot be a file of ours: only one that is new, empty, or begins so is written.

    Raises OSError for a file that cannot be read.
    """
    if path.is_dir():
        return f"{path} is a folder; name a file in it"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}; make it first"
    if path.exists() and not path.is_file():  # a device or a pipe, which a file in its place would destroy
        return f"{path} is no regular file; name another"
    if path.exists() and not _begins(path, begins):
        return f"{path} is there and no {what}; name another file"
    if (cause := _obstacle(path)) is not None:
        return f"no file can be written at {path} ({cause}); choose another place"
    return None


def writable(path: Path) -> bool:
    """Try to open a new file beside the path, as writing it will."""
    return _obstacle(path) is None


def _obstacle(path: Path) -> str | None:
    """Return what the system says of a new file beside the path: the disk is full, say."""
    trial = path.with_name(f".{path.name}.{os.getpid()}.trial")
    try:
        with trial.open("xb"):
            pass
        trial.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _begins(path: Path, begins: tuple[bytes, ...]) -> bool:
    with path.open("rb") as file:
        content = b"".join(file.read(_ENOUGH).split())
    return not content or content.startswith(begins)
