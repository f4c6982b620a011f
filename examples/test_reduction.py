"""A sum of many numbers: one pass over memory, one number back. Expect about the ratio of the bandwidths."""

import numpy as np
import pytest

SIZE = 10_000_000


@pytest.mark.speedup(min=2)
def test_sum(device):
    values = device.asarray(np.random.default_rng(0).random(SIZE, dtype=np.float32))
    return lambda: values.sum()
