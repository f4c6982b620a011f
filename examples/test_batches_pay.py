"""Batches pay, single requests do not: a wait for the GPU costs the same for one as for thousands.
Expect the CPU to win for one request (`latency=True`), and the GPU from some thousands on, with copies too.
Source: flashinfer-bench #195: an awaited call takes 51 us, of which the kernel is 4 us.
"""

import numpy as np
import pytest

FEATURES, HIDDEN, CLASSES = 64, 256, 10
LARGE = 1 << 14


@pytest.mark.speedup(max=1, latency=True)
def test_one_request(device):
    answer, request = network(device), device.asarray(requests(1))
    return lambda: answer(request)


@pytest.mark.offload_threshold("batch", at_least=2, at_most=4096)
@pytest.mark.speedup
@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(1, marks=pytest.mark.speedup(max=1)),
        64,
        4096,
        pytest.param(LARGE, marks=pytest.mark.speedup(min=3)),
    ],
)
def test_throughput(device, batch):
    answer, together = network(device), device.asarray(requests(batch))
    return lambda: answer(together)


@pytest.mark.speedup(min=1, transfer="always")
def test_with_copies(device):
    answer, together = network(device), device.asarray(requests(LARGE))
    return lambda: answer(together)


def network(device):
    xp, rng = device.xp, np.random.default_rng(0)
    w1 = device.asarray(rng.standard_normal((FEATURES, HIDDEN), dtype=np.float32) / FEATURES**0.5)
    w2 = device.asarray(rng.standard_normal((HIDDEN, CLASSES), dtype=np.float32) / HIDDEN**0.5)
    return lambda x: xp.tanh(x @ w1) @ w2


def requests(number):
    return np.random.default_rng(1).standard_normal((number, FEATURES), dtype=np.float32)
