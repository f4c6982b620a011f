"""Copies eat the advantage of work that looks at every number once: the link is slower than the memory.
Expect the GPU to find a maximum faster in data on the device, and slower in data that are copied there.
Source: Gregg and Hazelwood, ISPASS 2011: with transfers it takes 2 to 50 times the GPU's time alone.
"""

import numpy as np
import pytest

NUMBERS = 1 << 24


@pytest.mark.speedup(min=2)
def test_resident_maximum(device):
    return maximum(device)


@pytest.mark.speedup(max=1, transfer="always")
def test_copied_maximum(device):
    return maximum(device)


def maximum(device):
    numbers = device.asarray(np.random.default_rng(0).random(NUMBERS, dtype=np.float32))
    return lambda: numbers.max()
