"""A hundredfold speedup is one over a single core: tuned against tuned, a GPU wins by two to five times.
Expect more than these where the report says `cpu_threads`: there NumPy computes on one core.
Source: Lee et al., ISCA 2010, GTX 280 over Core i7: SGEMM 3.9, SAXPY 5.3, FFT 3.0, Monte Carlo 1.8.
"""

import numpy as np
import pytest

SIZE = 1 << 20

pytestmark = pytest.mark.speedup(min=2.5)  # the average of the paper, for every test of this file


def test_sgemm(device):
    a, b = uploaded(device, 2, (1024, 1024))
    return lambda: a @ b


def test_saxpy(device):
    x, y = uploaded(device, 2, 8 * SIZE)
    return lambda: 2.5 * x + y


def test_fft(device):
    (signal,) = uploaded(device, 1, SIZE)
    return lambda: device.xp.fft.fft(signal)


def test_monte_carlo(device):
    xp, (drawn,) = device.xp, uploaded(device, 1, SIZE)
    return lambda: xp.maximum(100 * xp.exp(0.2 * drawn - 0.02) - 100, 0).mean()


def uploaded(device, number, shape):
    rng = np.random.default_rng(0)
    return [device.asarray(rng.standard_normal(shape, dtype=np.float32)) for _ in range(number)]
