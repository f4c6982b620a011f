"""Plugins and libraries that some tests need."""

from importlib.util import find_spec

import pytest


def needed(plugin, package):
    """Return a plugin that the extra `test` has; where it is not installed a test skips, and says so."""
    return pytest.importorskip(plugin, reason=f"the extra `test` has {package}")


def needed_beyond_test(plugin, package):
    """Skip a module whose plugin the extra `test` does not have; CI must have it."""
    if find_spec(plugin) is None:
        skip_module(f"{package} is not installed; CI has it")


def skip_module(reason):
    """Skip a module; with GPUPERF_NO_SKIP set, as in CI's second environment, that is an error."""
    pytest.skip(reason, allow_module_level=True)
