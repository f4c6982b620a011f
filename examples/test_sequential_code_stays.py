"""Sequential and branching code stays on the CPU: each step needs the one before, nothing runs at once.
Expect the CPU to win by far; `max=1` fails on the day that this changes.
Source: JAX, docs/benchmarking.md: a product of 10x10 is ten times slower on the GPU.
"""

import numpy as np
import pytest


@pytest.mark.speedup(max=1)
def test_recurrence(device):
    start = device.asarray(np.linspace(0.1, 0.9, 16, dtype=np.float32))

    def logistic_map():
        x = start
        for _ in range(100):
            x = 3.2 * x * (1 - x)
        return x

    return logistic_map


@pytest.mark.speedup(max=1)
def test_branches(device):
    ends = device.asarray(np.float32(1)), device.asarray(np.float32(2))

    def bisection():
        low, high = ends
        for _ in range(20):
            middle = (low + high) / 2
            if middle * middle < 2:
                low = middle
            else:
                high = middle
        return low

    return bisection
