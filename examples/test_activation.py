"""Activations of a large vector: one pass over memory each. Expect the ratio of the memory bandwidths."""

import numpy as np
import pytest

SIZE = 4_000_000


@pytest.fixture
def activations(device):
    """A large vector on the device: a fixture that builds on `device` makes two items of each test."""
    return device.asarray(np.random.default_rng(0).standard_normal(SIZE, dtype=np.float32))


@pytest.mark.speedup(min=2)
def test_relu(activations, xp):
    return lambda: xp.maximum(activations, 0)


@pytest.mark.speedup(min=3)
def test_sigmoid(activations, xp):
    return lambda: 1 / (1 + xp.exp(-activations))
