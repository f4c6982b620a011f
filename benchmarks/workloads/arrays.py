"""What the workloads share: their arrays, and the markers that say what they ask of a device."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

__all__ = ["DISHONEST", "HONEST", "IN_PLACE", "NAMESPACE", "VALUES", "cases", "is_gpu", "matrix", "zeros"]

HONEST = pytest.mark.speedup(min=1e-4)
"""A limit that any honest speedup meets: what is not `passed` was refused, or is doubted."""
DISHONEST = pytest.mark.speedup(min=2)

NAMESPACE = pytest.mark.needs("namespace")
"""The test computes with functions of `device.xp`, by the names of the array API."""
IN_PLACE = pytest.mark.needs("in_place")
"""The test writes into arrays."""
VALUES = pytest.mark.needs("values")
"""The device computes: the CUDA runtime of tests/fakes does not."""


def matrix(device: Any, n: int = 64, seed: int = 0) -> Any:
    return device.asarray(np.random.default_rng(seed).random((n, n)))


def zeros(device: Any, n: int = 64) -> Any:
    return device.asarray(np.zeros((n, n)))


def is_gpu(device: Any) -> bool:
    return device.kind == "gpu"


def cases(*functions: Callable[..., Any]) -> Any:
    """Return a parametrization by functions, under their names."""
    return pytest.mark.parametrize("case", functions, ids=[each.__name__ for each in functions])
