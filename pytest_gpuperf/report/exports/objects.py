"""Objects -> JSON text that every reader takes: numbers are finite, and text can be encoded."""

import json
from typing import Any

from pytest_gpuperf.model.errors import GpuPerfError

__all__ = ["json_text"]


def json_text(content: Any) -> str:
    """Return the content as JSON; raise GpuPerfError when it holds a number that JSON has not."""
    try:
        return json.dumps(content, allow_nan=False) + "\n"
    except ValueError as error:
        raise GpuPerfError(f"the report holds a number that is not finite: {error}") from error
