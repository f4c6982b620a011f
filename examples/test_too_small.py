"""An array too small to pay: launching the work takes longer than doing it. Expect the CPU to win."""

import numpy as np
import pytest


@pytest.mark.speedup(max=1)
def test_hundred_numbers(device):
    a = device.asarray(np.arange(100.0))
    return lambda: a + a


def test_same_answer_without_a_race(device):
    """An unmarked test that takes `device` runs on both, and skips the GPU where there is none."""
    assert float(device.asarray(np.arange(100.0)).sum()) == 4950
