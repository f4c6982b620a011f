"""Half precision pays on a GPU: half of the bytes to move, and matrix units that are made for it.
Expect [float16] to reach up to twice the speedup of [float32]; the CPU computes in float32 in both.
Source: STREAM (McCalpin, 1995): a triad is bound by memory, so half of the bytes take half of the time.
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
