"""Which array module data belong to; CuPy is asked only where something has imported it."""

import sys

import numpy as np


def array_module(*arrays):
    """Return CuPy where one of the arrays is CuPy's, else NumPy."""
    cupy = sys.modules.get("cupy")
    return np if cupy is None else cupy.get_array_module(*arrays)


def to_host(array):
    """Return an array of either module as NumPy's."""
    cupy = sys.modules.get("cupy")
    return np.asarray(array) if cupy is None else cupy.asnumpy(array)
