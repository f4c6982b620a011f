"""Plugins that some tests need."""

import os
from importlib.util import find_spec

import pytest


def needed(plugin, package):
    """Return a plugin that the extra `test` has; where it is not installed a test skips, and says so."""
    return pytest.importorskip(plugin, reason=f"the extra `test` has {package}")


def needed_beyond_test(plugin, package):
    """Skip a module whose plugin the extra `test` does not have; CI must have it."""
    if find_spec(plugin) is not None:
        return
    if os.environ.get("GPUPERF_NO_SKIP"):
        raise ImportError(f"{package} is not installed, and these tests may not skip here")
    pytest.skip(f"{package} is not installed; CI has it", allow_module_level=True)
