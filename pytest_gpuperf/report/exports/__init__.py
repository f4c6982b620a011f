"""From a run to text in the format of another tool, one module per format."""

from importlib import import_module
from typing import cast

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report import paths


def text(format: str, run: Run) -> str:
    """Return a run in a format; raise GpuPerfError, naming the formats, when there is none of that name."""
    if format not in paths.EXPORTS:
        raise GpuPerfError(f"{format!r} is not an export format; choose one of {', '.join(paths.EXPORTS)}")
    # A format's module has its name, and is imported at first use.
    return cast("str", import_module(f"{__name__}.{format.replace('-', '_')}").text(run))
