"""From a path to why no file of ours may be written there, if it may not; the standard library only."""

import os
import re
from pathlib import Path

__all__ = ["EXPORTS", "MARKDOWN", "REPORT", "is_folder", "objection", "writable"]

_ENOUGH = 65_536  # bytes to know a file by: it may begin with a node id, which can be long
_TEXT = rb'"(?:[^"\\]|\\.)*+"'
REPORT = rb'\{"schema_version":"[0-9]+\.[0-9]+","started":"'
MARKDOWN = rb"###Speedups(?:onanemulateddevice)?:[a-z0-9,]+CPU`"
EXPORTS = {
    "pytest-benchmark": rb'\{"machine_info":\{',  # pytest-benchmark's own files are of this format, too
    "github-action-benchmark": rb'\[(?:\]\Z|\{"name":' + _TEXT + rb',"unit":"x","value":[^,"]+,"range":")',
    "bencher": rb"\{(?:\}\Z|" + _TEXT + rb':\{"(?:emulated-)?(?:speedup|cpu-ns|gpu-ns)":\{"value":)',
    "csv": rb"test,status,reason,cpu_device,gpu_device,gpu_emulated,",  # whatever columns follow
}
"""How our files of each format begin, without their white space: patterns, compiled when one is needed."""


def is_folder(path: Path) -> bool:
    """Say whether a path is that of a folder of baselines: one to be made is, where it has no suffix."""
    return path.is_dir() or not (path.suffix or path.exists())


def objection(path: Path, begins: bytes, what: str) -> str | None:
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


def _begins(path: Path, begins: bytes) -> bool:
    with path.open("rb") as file:
        head = file.read(_ENOUGH)
    content = b"".join(head.split())
    if not content:
        return len(head) < _ENOUGH  # a file may begin with a lot of white space and hold something
    return re.match(begins, content) is not None
