"""Simulated GPUs that are taken for real ones, in runs that require a GPU and refuse what emulates one."""

from msgspec.structs import replace


def taken_for_gpus(backend):
    """Return a backend whose GPUs say of themselves that they emulate none."""
    for index in range(backend.count()):
        gpu = backend.gpu(str(index))
        gpu.info = replace(gpu.info, emulated=False)
    return backend


REAL = """
    from cards import taken_for_gpus

    taken_for_gpus(BACKEND)
"""
"""What follows the conftest of the fixture `suite`, whose CuPy then is a GPU."""
CARD = """
    import pytest
    from cards import taken_for_gpus
    from pytest_gpuperf.devices.simulated import SimulatedBackend

    @pytest.hookimpl(optionalhook=True)
    def pytest_gpuperf_devices():
        return [taken_for_gpus(SimulatedBackend(name="card"))]
"""
"""A conftest that brings `--gpuperf-gpu=card`."""
