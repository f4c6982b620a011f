"""Plugins that some tests need."""

import pytest


def needed(plugin, package):
    """Return a plugin that the extra `test` has; where it is not installed a test skips, and says so."""
    return pytest.importorskip(plugin, reason=f"the extra `test` has {package}")
