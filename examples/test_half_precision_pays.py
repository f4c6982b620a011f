"""Half precision pays on a GPU: half of the bytes to move, and matrix units that are made for it.
Expect up to twice the speedup of [float32] where memory is the bound, more for products; the CPU has float32.
Source: STREAM (McCalpin, 1995); NVIDIA's H100 data sheet: 67 TFLOPS in float32, 989 in float16 and bfloat16.
"""

import numpy as np
import pytest

NUMBERS = 1 << 23
ROWS = 2048


@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_precision(device, precision):
    dtype = precision if device.kind == "gpu" else "float32"
    rng = np.random.default_rng(0)
    a, b = (device.asarray(rng.random(NUMBERS, dtype=np.float32).astype(dtype)) for _ in range(2))
    return lambda: a + 3 * b


@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
def test_product(device, precision):
    """NumPy, CuPy and dpnp have no bfloat16, torch and JAX do: the others take float16 for it."""
    xp, rng = device.xp, np.random.default_rng(0)
    a, b = (device.asarray(rng.random((ROWS, ROWS), dtype=np.float32)) for _ in range(2))
    if device.kind == "gpu" and precision != "float32":
        half = getattr(xp, precision, xp.float16)
        a, b = xp.asarray(a, dtype=half), xp.asarray(b, dtype=half)
    return lambda: a @ b
