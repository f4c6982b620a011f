"""From further calls of a test to none of their traces, and whether something follows the code."""

import logging
import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

__all__ = ["as_it_was", "is_traced"]

_CAPTURES = ("capsys", "capsysbinary", "capteesys", "capfd", "capfdbinary")  # fixtures that show output
_MONITORED = (0, 1, 2)  # sys.monitoring's tools: debugger, coverage, profiler


@contextmanager
def as_it_was(item: pytest.Function) -> Iterator[None]:
    """Leave no trace of calls that the suite does not know of: draws, warnings, output, properties."""
    drawn, numpy = random.getstate(), sys.modules.get("numpy")
    numpy_drawn = numpy.random.get_state() if numpy else None
    properties = [pair for pair in item.user_properties if not pair[0].startswith("gpuperf.")]
    try:
        with warnings.catch_warnings(record=True), _unheard(item):
            yield
    finally:
        random.setstate(drawn)
        if numpy is not None:
            numpy.random.set_state(numpy_drawn)
        ours = [pair for pair in item.user_properties if pair[0].startswith("gpuperf.")]
        item.user_properties[:] = properties + ours


@contextmanager
def _unheard(item: pytest.Function) -> Iterator[None]:
    """Drop what is printed and logged at every call, but for a test that looks at it."""
    root, caplog = logging.getLogger(), item.funcargs.get("caplog")
    handlers, heard = root.handlers[:], getattr(caplog, "handler", None)
    with ExitStack() as stack:
        if not any(name in item.fixturenames for name in _CAPTURES):
            nowhere = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
            stack.enter_context(redirect_stdout(nowhere))
            stack.enter_context(redirect_stderr(nowhere))
        root.handlers[:] = [heard or logging.NullHandler()]
        stack.callback(root.handlers.__setitem__, slice(None), handlers)
        yield


def is_traced() -> bool:
    """Say whether something follows the program line by line."""
    if sys.gettrace() is not None:
        return True
    monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
    return monitoring is not None and any(monitoring.get_tool(tool) for tool in _MONITORED)
