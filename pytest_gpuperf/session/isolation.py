"""Undoes the side effects of extra timing calls, and detects coverage, debuggers and profilers."""

import logging
import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_gpuperf.report import junit

_CAPTURES = ("capsys", "capsysbinary", "capteesys", "capfd", "capfdbinary")  # fixtures that read the output
_TOOL_IDS = (0, 1, 2)  # of sys.monitoring: debugger, coverage, profiler


@contextmanager
def isolated(item: pytest.Function) -> Iterator[None]:
    """Undo the side effects of the extra timing calls: random state, warnings, output, user properties."""
    state = random.getstate()
    numpy_state = np.random.get_state()
    properties = [pair for pair in item.user_properties if not pair[0].startswith(junit.PREFIX)]
    try:
        with warnings.catch_warnings(record=True), _silenced(item):
            yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
        ours = [pair for pair in item.user_properties if pair[0].startswith(junit.PREFIX)]
        item.user_properties[:] = properties + ours


@contextmanager
def _silenced(item: pytest.Function) -> Iterator[None]:
    """Drop what is printed and logged, except for a test whose fixtures read it."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    caplog_handler = getattr(item.funcargs.get("caplog"), "handler", None)
    with ExitStack() as stack:
        if not any(name in item.fixturenames for name in _CAPTURES):
            null = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
            stack.enter_context(redirect_stdout(null))
            stack.enter_context(redirect_stderr(null))
        root.handlers[:] = [caplog_handler or logging.NullHandler()]
        stack.callback(root.handlers.__setitem__, slice(None), handlers)
        yield


def is_traced() -> bool:
    """Return whether a tool follows the program line by line."""
    if sys.gettrace() is not None:
        return True
    monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
    return monitoring is not None and any(monitoring.get_tool(tool) for tool in _TOOL_IDS)
