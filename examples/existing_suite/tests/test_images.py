"""Tests of the images."""

import unittest

import numpy as np
import pytest

from ripple import gaussian_blur, gradient_magnitude
from ripple.testing import MODULES, WHY_NOT, assert_close


class BlurTest(unittest.TestCase):
    def setUp(self):
        self.image = np.random.default_rng(0).random((512, 512), dtype=np.float32)

    def blur(self, xp):
        image = xp.asarray(self.image)
        blurred = gaussian_blur(image, 2.0)
        self.assertEqual(blurred.shape, image.shape)
        self.assertLess(float(xp.std(blurred)), float(xp.std(image)) / 4)

    def test_blur_numpy(self):
        self.blur(np)

    @unittest.skipUnless("cupy" in MODULES, WHY_NOT)
    def test_blur_cupy(self):
        self.blur(MODULES["cupy"])

    def test_a_flat_image_stays(self):
        flat = np.full((8, 8), 0.5)
        assert_close(gaussian_blur(flat, 1.0), flat)


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_a_slope_has_one_gradient(module):
    slope = module.asarray(np.linspace(0, 511 * 3.0, 512) + np.zeros((512, 1)))
    assert_close(gradient_magnitude(slope)[:, 1:-1], np.full((512, 510), 3.0))
