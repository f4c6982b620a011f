"""A pytest plugin: array-api-strict, which works on the CPU, stands for a GPU."""

import pytest

from pytest_gpuperf.testing import StandIn


@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    """Let tests of a suite that work with array_api_strict be variants of those with NumPy."""
    return [StandIn("array_api_strict")]
