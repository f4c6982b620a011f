"""A dense layer pays, forward and backward, once it is wide: n^2 weights for n numbers to keep the GPU busy.
Expect the GPU to win from a width of 1024 on, at 256 samples; a layer of 16 is bound by its launches.
Source: jcjohnson/cnn-benchmarks, VGG-16 both ways: 8495 ms on two Xeons, 522 ms on a GTX 1080 without cuDNN.
"""

import numpy as np
import pytest

BATCH = 256


@pytest.mark.offload_threshold("width", at_most=1024)
@pytest.mark.speedup
@pytest.mark.parametrize("width", [16, 256, pytest.param(1024, marks=pytest.mark.speedup(min=3))])
def test_dense_layer(device, width):
    xp, rng = device.xp, np.random.default_rng(0)
    x = device.asarray(rng.standard_normal((BATCH, width), dtype=np.float32))
    target = device.asarray(rng.standard_normal((BATCH, width), dtype=np.float32))
    weights = device.asarray(rng.standard_normal((width, width), dtype=np.float32) / width**0.5)

    def gradients():
        before = x @ weights
        error = (xp.maximum(before, 0) - target) * (before > 0)
        return x.T @ error, error @ weights.T

    return gradients
