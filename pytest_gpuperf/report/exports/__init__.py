"""From a run to text in the format of another tool, one module per format."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import cast

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Run


def text(format: str, run: Run) -> str:
    """Return a run in a format; raise GpuPerfError, naming the formats, when there is none of that name."""
    if format not in FORMATS:
        raise GpuPerfError(f"{format!r} is not an export format; choose one of {', '.join(FORMATS)}")
    return FORMATS[format](run)


def _text_by(module: str, run: Run) -> str:
    """Return the text that a format's module makes; the module is imported at first use."""
    return cast("str", import_module(f"{__name__}.{module}").text(run))


FORMATS: Mapping[str, Callable[[Run], str]] = MappingProxyType(
    {
        "pytest-benchmark": partial(_text_by, "pytest_benchmark"),
        "github-action-benchmark": partial(_text_by, "github_action_benchmark"),
        "bencher": partial(_text_by, "bencher"),
        "csv": partial(_text_by, "csv"),
    }
)
"""The functions that make the text, by the name of the format."""
