"""Which workloads fit a device, and how a run on it differs: `cheats.py` runs them."""

import os
from functools import wraps
from inspect import signature

import pytest

FITS = {
    "standin:numpy": {"namespace", "in_place", "numpy"},
    "standin:jax.numpy": {"namespace", "jax"},
    "simulated": {"namespace", "numpy"},
    "torch:cpu": {"in_place", "torch"},
    "torch": {"in_place", "torch"},
    "jax:cpu": {"namespace", "jax"},
    "cupy": {"namespace", "in_place"},
}
"""What the tests may ask of each device: see the markers in arrays.py, and the ends of the files' names."""
OF_ONE_LIBRARY = ("numpy", "torch", "jax")
COMPUTES = "FAKE_CUDA" not in os.environ
HOST_TIME = 1e-6  # seconds that a call takes on the host of the simulated devices


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(what): what the device must be able to do")
    if fitting(config) is None:
        raise pytest.UsageError(f"no workloads are known for {config.getoption('gpuperf_gpu')!r}: {[*FITS]}")
    if "jax" in fitting(config) and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(
            0, {min(os.sched_getaffinity(0))}
        )  # of the libraries it alone has no variable for it


def fitting(config):
    """Return what tests may ask of the chosen device, None where that is not known."""
    found = FITS.get(config.getoption("gpuperf_gpu") or "")
    return found and (found | {"values"} if COMPUTES else found)


def pytest_ignore_collect(collection_path, config):
    """Import no library that is not the device's: it would change what the others are."""
    library = collection_path.stem.rpartition("_")[2]
    return True if library in OF_ONE_LIBRARY and library not in fitting(config) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    fits = fitting(config)
    needs = {item: {mark.args[0] for mark in item.iter_markers("needs")} for item in items}
    items[:] = [item for item in items if needs[item] <= fits]
    for item in items:
        limits = item.get_closest_marker("speedup").kwargs
        if not COMPUTES and limits:
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "speedup"]
            item.add_marker(pytest.mark.speedup(**{**limits, "check": False}))
        if config.getoption("gpuperf_gpu") == "simulated" and "dishonest" in item.nodeid:
            item.obj = with_host_time(item.obj)


def with_host_time(function):
    """Return a test whose calls take time on simulated devices, too, whose clock sees no Python.

    Else one that does nothing would be refused for that, and no other rule would be asked. The plugin shall
    see no decorator in it.
    """

    @wraps(function)
    def test(*, device, **others):
        device.pause(HOST_TIME)
        found = function(device=device, **others)
        if not callable(found):
            return found

        def call():
            device.pause(HOST_TIME)
            return found()

        return call

    test.__signature__ = signature(function)
    del test.__wrapped__
    return test
