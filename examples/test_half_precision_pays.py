"""Half precision pays on a GPU: half of the bytes to move, and matrix units that are made for it.

Expect the speedup of [float16] to be up to twice that of [float32]: the CPU's side is float32 in both, so
their quotient is what half precision gains on the GPU. NumPy has no arithmetic in float16, it converts every
number and back; a comparison with that would flatter the GPU thirtyfold. The report says `precision differs`
under [float16], and answers are compared to half of float16's digits. This is a triad, bound by memory;
products gain more where there are matrix units.

Source: NVIDIA, Tensor Cores: up to 12 times the generation before for float16 products that are summed in
float32.
"""

import numpy as np
import pytest

NUMBERS = 1 << 23


@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_precision(device, precision):
    dtype = precision if device.kind == "gpu" else "float32"
    rng = np.random.default_rng(0)
    a, b = (device.asarray(rng.random(NUMBERS, dtype=np.float32).astype(dtype)) for _ in range(2))
    return lambda: a + 3 * b
