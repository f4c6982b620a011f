"""A dense network, forward and backward: five matrix products. Expect a GPU to win as it does on products."""

import numpy as np
import pytest

BATCH, INPUTS, HIDDEN, OUTPUTS = 256, 784, 1024, 10


@pytest.mark.speedup(min=3)
def test_forward_and_backward(device):
    xp, rng = device.xp, np.random.default_rng(0)
    x = device.asarray(rng.standard_normal((BATCH, INPUTS), dtype=np.float32))
    target = device.asarray(rng.standard_normal((BATCH, OUTPUTS), dtype=np.float32))
    w1 = device.asarray(rng.standard_normal((INPUTS, HIDDEN), dtype=np.float32) / INPUTS**0.5)
    w2 = device.asarray(rng.standard_normal((HIDDEN, OUTPUTS), dtype=np.float32) / HIDDEN**0.5)

    def gradients():
        hidden = xp.maximum(x @ w1, 0)
        error = (hidden @ w2 - target) / BATCH
        back = (error @ w2.T) * (hidden > 0)
        return x.T @ back, hidden.T @ error

    return gradients
