"""What finds the speedup tests of a suite; tests/plugin has pytest runs with it."""

import subprocess
import sys


def test_collection_needs_no_device_and_no_numpy():
    program = "import sys, pytest_gpuperf.collection.finder; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"numpy", "pytest_gpuperf.devices.jax"}.isdisjoint(ran.stdout.split())
