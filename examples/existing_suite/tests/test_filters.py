"""Tests of the filters."""

import numpy as np
import pytest

from ripple import fft_convolve, savitzky_golay
from ripple.testing import assert_close


def signal(n, dtype="float64"):
    return np.random.default_rng(n).random(n).astype(dtype)


@pytest.mark.parametrize("n", [1, 5, 1000])
def test_it_is_numpys_convolution(xp, n):
    a, b = signal(n), signal(33)
    assert_close(fft_convolve(xp.asarray(a), xp.asarray(b)), np.convolve(a, b))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [64, 1 << 18])
def test_sums_multiply(xp, n, dtype):
    a, b = xp.asarray(signal(n, dtype)), xp.asarray(signal(64, dtype))
    c = fft_convolve(a, b)
    assert c.dtype == dtype
    assert float(xp.sum(c)) == pytest.approx(float(xp.sum(a)) * float(xp.sum(b)), rel=1e-4)


@pytest.mark.parametrize("degree", [2, 3])
def test_a_polynomial_is_not_changed_by_smoothing(xp, degree):
    x = xp.asarray(np.linspace(-1, 1, 1 << 18) ** degree)
    assert_close(savitzky_golay(x, 11, degree)[5:-5], x[5:-5])


def test_an_even_window_has_no_middle(xp):
    with pytest.raises(ValueError, match="must be odd"):
        savitzky_golay(xp.asarray(signal(9)), 4, 2)
