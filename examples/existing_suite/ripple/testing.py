"""What the tests share: the array modules that can be used here, and how arrays are compared."""

import numpy as np
import pytest

from ripple.arrays import to_host

try:
    import cupy

    cupy.cuda.runtime.getDeviceCount()
except Exception as error:  # noqa: BLE001 - no CuPy, no driver or no device
    cupy = None
    WHY_NOT = f"CuPy cannot be used: {error}"
else:
    WHY_NOT = ""

MODULES = {"numpy": np} if cupy is None else {"numpy": np, "cupy": cupy}
needs_cupy = pytest.mark.skipif(cupy is None, reason=WHY_NOT)


def assert_close(actual, expected, rtol=1e-5, atol=1e-6):
    """Compare on the host, wherever the arrays are."""
    np.testing.assert_allclose(to_host(actual), to_host(expected), rtol=rtol, atol=atol)
