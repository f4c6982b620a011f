"""Matrix product: 2 n^3 operations on 3 n^2 numbers. Expect a GPU to win clearly from n = 1000 on."""

import numpy as np
import pytest

N = 1024


@pytest.mark.speedup(min=3)
def test_matmul(device):
    rng = np.random.default_rng(0)
    a = device.asarray(rng.random((N, N), dtype=np.float32))
    b = device.asarray(rng.random((N, N), dtype=np.float32))
    return lambda: a @ b
