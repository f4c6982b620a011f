"""The larger the data, the larger the advantage: a small array takes longer to launch than to compute.
Expect the GPU to lose at a thousand numbers, and to win from a quarter of a million on.
Source: pyhpc-benchmarks, results/aws.md, CuPy on a P100 over NumPy: 0.21 at 4,096 numbers, 21 at 262,144.
"""

import numpy as np
import pytest

SIZES = [
    pytest.param(1 << 10, marks=pytest.mark.speedup(max=1)),
    1 << 14,
    1 << 18,
    pytest.param(1 << 22, marks=pytest.mark.speedup(min=3)),
]


@pytest.mark.offload_threshold("n", at_least=1 << 12, at_most=1 << 18)
@pytest.mark.speedup
@pytest.mark.parametrize("n", SIZES)
def test_density(device, n):
    rng = np.random.default_rng(0)
    t = device.asarray(rng.uniform(0, 30, n).astype(np.float32))
    s = device.asarray(rng.uniform(30, 40, n).astype(np.float32))
    return lambda: density(device.xp, t, s)


def test_check_value(device):
    """An unmarked test that takes `device` runs on both, and times nothing: the answer comes first."""
    t, s = device.asarray([5.0, 25.0]), device.asarray([35.0, 35.0])
    assert device.asnumpy(density(device.xp, t, s)) == pytest.approx([1027.67547, 1023.34306], abs=1e-5)


def density(xp, t, s):
    """Return kg/m^3 at the surface: 30 operations of UNESCO technical papers in marine science 44, 1983."""
    pure = 999.842594 + t * (
        6.793952e-2 + t * (-9.095290e-3 + t * (1.001685e-4 + t * (-1.120083e-6 + t * 6.536332e-9)))
    )
    b = 8.24493e-1 + t * (-4.0899e-3 + t * (7.6438e-5 + t * (-8.2467e-7 + t * 5.3875e-9)))
    c = -5.72466e-3 + t * (1.0227e-4 + t * -1.6546e-6)
    return pure + s * (b + xp.sqrt(s) * c + s * 4.8314e-4)
