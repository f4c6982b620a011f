"""Convolution and smoothing, along the last axis."""

import numpy as np

from ripple.arrays import array_module


def fft_convolve(a, b):
    """Return the full linear convolution of two real signals, by the product of their transforms."""
    xp = array_module(a, b)
    length = a.shape[-1] + b.shape[-1] - 1
    padded = 1 << (length - 1).bit_length()
    product = xp.fft.rfft(a, padded, axis=-1) * xp.fft.rfft(b, padded, axis=-1)
    return xp.fft.irfft(product, padded, axis=-1)[..., :length].astype(xp.result_type(a, b))


def savitzky_golay(x, window, degree):
    """Return a signal smoothed by polynomials of that degree, fitted to an odd window around each point.

    Savitzky and Golay, Analytical Chemistry 36, 1964. Beyond its ends the signal is continued as a constant.
    """
    xp, half = array_module(x), window // 2
    if window % 2 == 0 or degree >= window:
        raise ValueError(f"window must be odd and above degree, not {window} with a degree of {degree}")
    powers = np.vander(np.arange(-half, half + 1), degree + 1, increasing=True)
    weights = np.linalg.pinv(powers)[0]  # of the constant term: the polynomial's value in the middle
    padded = xp.pad(x, [(0, 0)] * (x.ndim - 1) + [(half, half)], mode="edge")
    smooth = xp.zeros_like(x)
    for place, weight in enumerate(weights):
        smooth += float(weight) * padded[..., place : place + x.shape[-1]]
    return smooth
