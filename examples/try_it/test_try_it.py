"""Three questions about an accelerator that need no GPU: JAX on this CPU stands in for one, beside NumPy.

    pytest examples/try_it --gpuperf-gpu=standin:jax.numpy

Expect what is true of a GPU as well, for the same reasons: each call has to be submitted, which costs
microseconds, and a compiler that fuses operations reads and writes the data once instead of ten times. The
numbers are those of this CPU.
"""

import numpy as np
import pytest


def compiled(function, device):
    """Return the function, compiled where the library has a compiler."""
    if device.backend != "jax":
        return function
    return pytest.importorskip("jax").jit(function)


def damped_wave(x):
    """Ten passes over the data in NumPy, each with an array of its own; one pass where they are fused."""
    return 3.0 * (0.5 * x + 1.0) * (x - 0.25) * (x + 0.75) / (1.0 + x * x + 0.5 * x)


@pytest.mark.speedup(min=1.2)
def test_a_fused_formula_pays(device):
    x = device.asarray(np.linspace(0.0, 1.0, 4_000_000, dtype=np.float32))
    wave = compiled(damped_wave, device)
    return lambda: wave(x)


@pytest.mark.speedup(max=1)
def test_a_small_array_stays_with_numpy(device):
    x = device.asarray(np.linspace(0.0, 1.0, 100, dtype=np.float32))
    return lambda: x + x


@pytest.mark.offload_threshold("n")
@pytest.mark.parametrize("n", [1_000, 30_000, 1_000_000])
@pytest.mark.speedup
def test_from_which_size_on(device, n):
    x = device.asarray(np.linspace(0.0, 1.0, n, dtype=np.float32))
    wave = compiled(damped_wave, device)
    return lambda: wave(x)
