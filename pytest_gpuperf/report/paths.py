"""From a path to why no output may be written there, if so.

Every start of pytest imports this module, which therefore uses the standard library only.
"""

import os
import re
from pathlib import Path

_ENOUGH = 65_536  # bytes to know a file by: it may begin with a node id, which can be long
_TEXT = rb'"(?:[^"\\]|\\.)*+"'
REPORT = rb'\{"schema_version":"[0-9]+\.[0-9]+","started":"'
MARKDOWN = rb"###Speedups(?:onanemulateddevice)?:[a-z0-9,]+CPU`"
EXPORTS = {
    "pytest-benchmark": rb'\{"machine_info":\{',  # pytest-benchmark's own files are of this format, too
    "github-action-benchmark": rb'\[\{"name":' + _TEXT + rb',"unit":"x","value":[^,"]+,"range":"',
    "bencher": rb"\{" + _TEXT + rb':\{"(?:emulated-)?(?:speedup|cpu-ns|gpu-ns)":\{"value":',
    "csv": rb"test,status,reason,cpu_device,gpu_device,gpu_emulated,",  # whatever columns follow
}
"""How our files of each format begin, without their white space: patterns, compiled when one is needed."""


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder of baselines; one that does not exist is where it has no suffix."""
    return path.is_dir() or not (path.suffix or path.exists())


def why_not_writable(path: Path, begins: bytes, what: str) -> str | None:
    """Return why an output cannot be written: an existing file must be empty or begin as ours do."""
    try:
        if path.is_dir():
            return f"{path} is a folder; choose a file in it"
        if path.exists() and not path.is_file():  # a device or a pipe, which a file would destroy
            return f"{path} is not a regular file; choose another"
        if path.exists() and not _begins(path, begins):
            return f"{path} exists and is not a {what}; choose another file"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}; choose another file"
    return why_no_new_file(path)


def why_no_new_file(path: Path) -> str | None:
    """Return why no file can be made next to a path, which is how outputs are written, or in a folder."""
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist; create it first"
    trial = (path if path.is_dir() else path.parent) / f".{path.name}.{os.getpid()}.trial"
    try:
        with trial.open("xb"):
            pass
        trial.unlink()
    except OSError as error:  # such as a full disk
        return f"no file can be written at {path} ({error.strerror or error}); choose another place"
    return None


def _begins(path: Path, begins: bytes) -> bool:
    with path.open("rb") as file:
        head = file.read(_ENOUGH)
    content = b"".join(head.split())
    if not content:
        return len(head) < _ENOUGH  # more than white space may follow
    return re.match(begins, content) is not None
