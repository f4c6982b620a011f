"""Signals, clusters and images, in NumPy's arrays or CuPy's: results stay where the data are."""

from ripple.clusters import distances, kmeans_step, nearest
from ripple.filters import fft_convolve, savitzky_golay
from ripple.images import gaussian_blur, gradient_magnitude
from ripple.spectra import periodogram, welch

__all__ = [
    "distances",
    "fft_convolve",
    "gaussian_blur",
    "gradient_magnitude",
    "kmeans_step",
    "nearest",
    "periodogram",
    "savitzky_golay",
    "welch",
]
