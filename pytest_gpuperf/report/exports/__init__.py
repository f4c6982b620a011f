"""From a run to text in the format of another tool, one module per format."""

from importlib import import_module
from typing import cast

from pytest_gpuperf.model.record import Run

NOTHING = "no test has a result for it"


def text(format: str, run: Run) -> str:
    """Return a run in a format, one of `paths.EXPORTS`; empty where a tool would find nothing in it."""
    # A format's module has its name, and is imported at first use.
    return cast("str", import_module(f"{__name__}.{format.replace('-', '_')}").text(run))
