"""Tests of the spectra."""

import numpy as np
import pytest

from ripple import periodogram, welch
from ripple.testing import assert_close

RATE = 1000.0


class TestPeriodogram:
    def setup_method(self):
        times = np.arange(1 << 17) / RATE
        self.sine = 3 * np.sin(2 * np.pi * 125 * times)
        self.noise = np.random.default_rng(0).standard_normal(1 << 17)

    def test_a_sine_has_its_power_at_its_frequency(self, xp):
        frequencies, density = periodogram(xp.asarray(self.sine), RATE)
        peak = int(xp.argmax(density))
        assert float(frequencies[peak]) == pytest.approx(125)
        assert float(density[peak]) * RATE / len(self.sine) == pytest.approx(3**2 / 2)

    def test_densities_add_up_to_the_variance(self, xp):
        _, density = periodogram(xp.asarray(self.noise), RATE)
        assert float(xp.sum(density)) * RATE / len(self.noise) == pytest.approx(np.var(self.noise))

    @pytest.mark.skip_xp("cupy", reason="CuPy's arrays cannot be read-only")
    def test_data_may_be_read_only(self, xp):
        noise = xp.asarray(self.noise).copy()
        noise.flags.writeable = False
        periodogram(noise)


@pytest.mark.parametrize("segment", [256, 4096])
def test_white_noise_is_flat(xp, segment):
    noise = xp.asarray(np.random.default_rng(0).standard_normal(1 << 17))
    _, density = welch(noise, segment, RATE)
    assert float(xp.mean(density[1:-1])) * RATE / 2 == pytest.approx(1, rel=0.02)


def test_one_segment_is_a_windowed_periodogram(xp):
    x = np.random.default_rng(0).standard_normal(64)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(64) / 64)
    expected = np.abs(np.fft.rfft((x - x.mean()) * window)) ** 2 / np.sum(window**2)
    expected[1:-1] *= 2
    assert_close(welch(xp.asarray(x), 64)[1], expected)
