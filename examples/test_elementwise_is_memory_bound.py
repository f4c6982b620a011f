"""Elementwise functions are bound by memory: their speedup is that of the bandwidth, not of arithmetic.
Expect the same speedup for a copy and a triad: NumPy moves 10 to 50 GB/s, GPUs 300 to 5,000 GB/s.
Source: STREAM (McCalpin, 1995); Lee et al., ISCA 2010: 5.3 for SAXPY where both sides are tuned.
"""

import numpy as np
import pytest

NUMBERS = 1 << 23
BYTES = 4 * NUMBERS


@pytest.fixture
def operands(device):
    """Two arrays on the device: a fixture that builds on `device` makes two items of each test."""
    rng = np.random.default_rng(0)
    return [device.asarray(rng.random(NUMBERS, dtype=np.float32)) for _ in range(2)]


@pytest.mark.speedup(min=4, max_time=4)
def test_copy(operands, xp):
    a, _ = operands
    return lambda: xp.copy(a)


@pytest.mark.speedup(min=4, max_time=4)
def test_triad(operands):
    a, b = operands
    return lambda: a + 3 * b
