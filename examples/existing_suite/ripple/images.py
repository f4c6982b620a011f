"""Blurring and edges of grey images, in rows and columns; beyond an edge its last pixel goes on."""

import numpy as np

from ripple.arrays import array_module


def gaussian_blur(image, sigma):
    """Return an image blurred by a Gaussian of that standard deviation, in pixels, cut at three of them."""
    reach = max(1, int(3 * sigma + 0.5))
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    weights /= weights.sum()
    return _along_rows(_along_rows(image, weights).T, weights).T


def gradient_magnitude(image):
    """Return the length of the gradient, by Sobel's operator, in grey values per pixel."""
    xp = array_module(image)
    smooth, slope = (0.25, 0.5, 0.25), (-0.5, 0.0, 0.5)
    across = _along_rows(_along_rows(image.T, smooth).T, slope)
    down = _along_rows(_along_rows(image, smooth).T, slope).T
    return xp.sqrt(across * across + down * down)


def _along_rows(image, weights):
    """Return the sums of each row's neighbouring pixels under these weights."""
    xp, reach = array_module(image), len(weights) // 2
    padded = xp.pad(image, [(0, 0), (reach, reach)], mode="edge")
    result = xp.zeros_like(image)
    for place, weight in enumerate(weights):
        result += float(weight) * padded[:, place : place + image.shape[1]]
    return result
