"""A GPU that costs 2.5 times as much must be 2.5 times as fast before the bill gets smaller.

Expect computations that do much with few numbers to be cheaper on the GPU: all pairs of two thousand bodies
even if they are copied there at every call, a matrix product if its operands stay for a hundred calls. Each
record's `offload.price` says how much of the bill is saved, at the price that `--gpuperf-cost-ratio` names,
and `offload.break_even_calls` after how many calls on the same data the copies are earned back. A speedup of
2 is faster, and dearer.

Source: a GPU instance costs two to three times a CPU one. JAX, docs/benchmarking.md, a product of 1000x1000:
NumPy 16.2 ms, the copy up 1.26 ms, the GPU 0.485 ms: 33 times resident, at most 9 with the copy at every
call.
"""

import numpy as np
import pytest

BODIES, N = 2048, 1024


@pytest.mark.speedup(min=2.5)
def test_pairs(device):
    return potential(device)


@pytest.mark.speedup(min=2.5, transfer="always")
def test_copied_pairs(device):
    return potential(device)


@pytest.mark.speedup(min=2.5, transfer="once", calls=100)
def test_product(device):
    rng = np.random.default_rng(0)
    a, b = (device.asarray(rng.random((N, N), dtype=np.float32)) for _ in range(2))
    return lambda: a @ b


def potential(device):
    xp, rng = device.xp, np.random.default_rng(0)
    x, y, z = (device.asarray(rng.random(BODIES, dtype=np.float32)) for _ in range(3))

    def of_all_pairs():
        square = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 + (z[:, None] - z) ** 2
        return (1 / xp.sqrt(square + 1e-3)).sum(axis=1)

    return of_all_pairs
