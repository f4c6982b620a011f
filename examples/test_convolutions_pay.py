"""Convolution layers pay, even for a single image: billions of operations on a few million numbers.
Expect the GPU to win at each of these layers of VGG-16, unrolled into one matrix product (im2col).
Source: jcjohnson/cnn-benchmarks, VGG-16, 16 images: 3102 ms on two Xeons, 144 ms on a GTX 1080 without cuDNN.
"""

import numpy as np
import pytest

LAYERS = {  # channels in, channels out, rows and columns
    "conv1_1": (3, 64, 224),
    "conv3_1": (128, 256, 56),
    "conv5_1": (512, 512, 14),
}


@pytest.mark.speedup(min=2.8)
@pytest.mark.parametrize("layer", LAYERS)
def test_vgg16(device, layer):
    channels, filters, side = LAYERS[layer]
    xp, rng = device.xp, np.random.default_rng(0)
    image = np.pad(rng.random((channels, side, side), dtype=np.float32), ((0, 0), (1, 1), (1, 1)))
    padded = device.asarray(image)
    weights = device.asarray(rng.standard_normal((filters, 9 * channels), dtype=np.float32))

    def convolution():
        shifted = [padded[:, y : y + side, x : x + side] for y in range(3) for x in range(3)]
        unrolled = xp.stack(shifted, axis=1).reshape(9 * channels, side * side)
        return xp.maximum(weights @ unrolled, 0)

    return convolution
