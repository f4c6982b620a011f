"""A recurrence: each step needs the one before, so nothing runs side by side. Expect the CPU to win."""

import numpy as np
import pytest

STEPS = 200


@pytest.mark.speedup(max=1)
def test_logistic_map(device):
    start = device.asarray(np.linspace(0.1, 0.9, 16))

    def iterate():
        x = start
        for _ in range(STEPS):
            x = 3.2 * x * (1 - x)
        return x

    return iterate
