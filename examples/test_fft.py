"""Fourier transform: 5 n log2(n) operations on n numbers. Expect a GPU to win from a million points on."""

import numpy as np
import pytest

POINTS = 1 << 20


@pytest.mark.speedup(min=3)
def test_fft(device):
    signal = device.asarray(np.random.default_rng(0).random(POINTS, dtype=np.float32))
    return lambda: device.xp.fft.fft(signal)
