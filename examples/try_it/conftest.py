"""A simulated GPU with the costs of a real one, in place of the one that takes a millisecond for all."""

import pytest

from pytest_gpuperf.testing import SimulatedBackend, Timing

CPU = Timing(kernel=1e-6, per_element=1.5e-9)  # 11 GB/s: 16 bytes of each element are moved
GPU = Timing(launch=20e-6, kernel=3e-6, per_element=0.03e-9, synchronize=10e-6, bandwidth=2e10)


@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    """Let these tests' `--gpuperf-gpu=simulated` have these times."""
    return [SimulatedBackend(cpu=CPU, gpu=GPU)]
