"""Three questions about a GPU that need none: how fast, how small, and from which size on?

    pytest examples/try_it --gpuperf-gpu=simulated           # exact times of the model in conftest.py
    pytest examples/try_it --gpuperf-gpu=standin:jax.numpy   # measured: JAX on this CPU, compared with NumPy

Both give the answers that are true of a GPU as well, for the same reasons: each call has to be submitted,
which costs microseconds, and where many numbers are computed that no longer matters.
"""

import numpy as np
import pytest


def damped_wave(x):
    """Ten passes over the data in NumPy, each with an array of its own; one pass where they are fused."""
    return 3.0 * (0.5 * x + 1.0) * (x - 0.25) * (x + 0.75) / (1.0 + x * x + 0.5 * x)


def formula(device, n):
    """Return the call for n numbers, compiled where the library has a compiler."""
    x = device.asarray(np.linspace(0.0, 1.0, n, dtype=np.float32))
    wave = pytest.importorskip("jax").jit(damped_wave) if device.backend == "jax" else damped_wave
    return lambda: wave(x)


@pytest.mark.speedup(min=1.2)
def test_formula_pays(device):
    return formula(device, 40_000)


@pytest.mark.speedup(max=1)
def test_small_stays(device):
    x = device.asarray(np.linspace(0.0, 1.0, 2_000, dtype=np.float32))
    return lambda: x + x


@pytest.mark.offload_threshold("n")
@pytest.mark.parametrize("n", [1_000, 4_000, 40_000])
@pytest.mark.speedup
def test_size(device, n):
    return formula(device, n)
