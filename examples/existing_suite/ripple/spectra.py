"""How the power of a signal is spread over frequencies."""

from ripple.arrays import array_module


def periodogram(x, rate=1.0):
    """Return frequencies and the one-sided power spectral density of a real signal, along its last axis.

    The mean is taken off first. Densities add up to the variance: their sum times the frequency step is it.
    """
    xp = array_module(x)
    density = _density(xp, x - xp.mean(x, axis=-1, keepdims=True), rate, x.shape[-1])
    return xp.fft.rfftfreq(x.shape[-1], 1 / rate), density


def welch(x, segment, rate=1.0):
    """Return frequencies and the mean density of half-overlapping segments under a Hann window.

    Welch, IEEE Transactions on Audio and Electroacoustics 15, 1967. What is left at the end is not used.
    """
    xp = array_module(x)
    window = (0.5 - 0.5 * xp.cos(2 * xp.pi * xp.arange(segment) / segment)).astype(x.dtype)
    starts = xp.arange(0, x.shape[-1] - segment + 1, segment // 2)
    pieces = x[starts[:, None] + xp.arange(segment)]
    pieces = (pieces - xp.mean(pieces, axis=-1, keepdims=True)) * window
    density = xp.mean(_density(xp, pieces, rate, xp.sum(window * window)), axis=0)
    return xp.fft.rfftfreq(segment, 1 / rate), density


def _density(xp, x, rate, weight):
    """Return |X|^2 per hertz; all but the frequency 0 and, of an even length, the last count twice."""
    power = xp.abs(xp.fft.rfft(x, axis=-1)) ** 2 / (rate * weight)
    power[..., 1 : -1 if x.shape[-1] % 2 == 0 else None] *= 2
    return power
