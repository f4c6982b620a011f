"""Copies eat the advantage of work that looks at every number once: the link is slower than the memory.

Expect the GPU to find a maximum faster where the numbers are on the device already, and slower where they
have to be copied there first. The report shows both, and says `transfer-bound` where copies take longer than
the work; `offload.links` has what each link (PCIe, NVLink) allows at best, also without a GPU.

Source: Gregg and Hazelwood, ISPASS 2011: with the transfers it takes 2 to 50 times longer than the GPU's time
alone.
"""

import numpy as np
import pytest

NUMBERS = 1 << 24


@pytest.mark.speedup(min=2)
def test_resident_maximum(device):
    return maximum(device)


@pytest.mark.speedup(max=1, transfer="always")
def test_copied_maximum(device):
    return maximum(device)


def maximum(device):
    numbers = device.asarray(np.random.default_rng(0).random(NUMBERS, dtype=np.float32))
    return lambda: numbers.max()
