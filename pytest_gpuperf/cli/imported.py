"""A plugin of pytest for the processes of `gpuperf against`, which lists the files of its modules."""

import os
import sys
from pathlib import Path

from pytest_gpuperf.model import ask

FILE = "GPUPERF_IMPORTED"
"""The variable that names the file to which each process adds its lines."""


def pytest_unconfigure() -> None:
    """Add the files of all modules."""
    with Path(os.environ[FILE]).open("ab") as written:
        for module in [*sys.modules.values()]:
            if isinstance(file := ask.attribute(module, "__file__", None), str):
                written.write(os.fsencode(file) + b"\n")


def files_in(path: Path) -> list[str]:
    """Return the files that processes wrote down; none where they ended before."""
    return [os.fsdecode(line) for line in path.read_bytes().splitlines()] if path.exists() else []
