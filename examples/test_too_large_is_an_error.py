"""A layer that does not fit in device memory gives a clear error and no crash, and the device works on.
Expect the library's out-of-memory error, and `max_memory` to hold for the same layer of a single image.
Source: VGG-16's second layer (Simonyan and Zisserman, ICLR 2015), unrolled: 116 MB for an image in float32.
"""

import numpy as np
import pytest

CHANNELS, SIDE = 64, 224


def test_ten_million_images(gpu):
    with pytest.raises(Exception, match=r"(?i)memory|allocat"):
        gpu.xp.empty((10_000_000, 9 * CHANNELS, SIDE * SIDE), dtype="float32")
    assert float(gpu.asarray([1.0, 2.0]).sum()) == 3


@pytest.mark.speedup(min=2.8, max_memory="256MB")
def test_one_image(device):
    xp, rng = device.xp, np.random.default_rng(0)
    padded = device.asarray(rng.random((CHANNELS, SIDE + 2, SIDE + 2), dtype=np.float32))
    weights = device.asarray(rng.standard_normal((CHANNELS, 9 * CHANNELS), dtype=np.float32))

    def convolution():
        shifted = [padded[:, y : y + SIDE, x : x + SIDE] for y in range(3) for x in range(3)]
        return weights @ xp.stack(shifted, axis=1).reshape(9 * CHANNELS, SIDE * SIDE)

    return convolution
