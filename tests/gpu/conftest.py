"""What the libraries show alike on a GPU, or a fake; each brings its own arrays, errors and kernels."""

import json
import os

import numpy as np
import pytest

PRODUCT = """
import numpy as np
import pytest

@pytest.mark.speedup(min=1.5)
def test_product(device):
    a = device.asarray(np.ones((2048, 2048), dtype=np.float32))
    return lambda: a @ a

def test_scan(gpu):
    assert gpu.xp.cumsum(gpu.asarray([1, 2, 3]), 0)[-1] == 6
"""
LOST = """
import pytest

@pytest.mark.speedup(min=1)
def test_crash(device):
    return crash(device) if device.kind == "gpu" else lambda: device.xp.ones(3)

def test_after(gpu):
    gpu.synchronize()
"""


FAKE = "FAKE_CUDA" in os.environ  # the CUDA devices are those of tests/fakes/cuda, which JAX cannot use
collect_ignore = ["test_jax.py"] if FAKE else []
if FAKE and os.environ.get("KERAS_BACKEND") != "torch":
    collect_ignore.append("test_keras.py")


@pytest.fixture
def is_fake():
    return FAKE


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    """Let no file skip for want of a device where there is a fake."""
    report = yield
    if FAKE and report.skipped:
        report.outcome = "failed"
    return report


def pytest_collection_modifyitems(config, items):
    """Leave out what needs a device that computes where there is none."""
    if FAKE:
        left_out = [item for item in items if item.get_closest_marker("needs_values")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def ran(pytester):
    """Run tests on a library's GPU, in a process of their own; return pytest's result and the records."""

    def call(library, source, *options):
        pytester.makepyfile(test_it=source)
        ours = (f"--gpuperf-gpu={library}", "--gpuperf-json=report.json")
        result = pytester.runpytest_subprocess("-p", "no:randomly", *ours, *options)
        return result, json.loads((pytester.path / "report.json").read_text())["records"]

    return call


@pytest.fixture
def product(ran):
    """Have a product pass on a library's GPU; return its record."""

    def call(library):
        # Fake devices are refused where a GPU is required: they emulate one.
        required = () if "FAKE_CUDA" in os.environ else ("--gpuperf-require-gpu",)
        result, (record,) = ran(library, PRODUCT, *required)
        result.assert_outcomes(passed=2)
        assert "passed" == record["status"]
        return record

    return call


@pytest.fixture
def lose(ran):
    """Lose a library's GPU to the workload that `crash(device)` returns; the tests after it must name it."""

    def call(library, crash):
        result, _ = ran(library, f"{crash}\n{LOST}")
        result.assert_outcomes(failed=1, errors=1)
        result.stdout.fnmatch_lines(["the * (*) was lost in test_it.py::test_crash: *"])

    return call


@pytest.fixture
def exhaust():
    """Ask for more bytes than a device has; it must name them, and be of use afterwards."""

    def call(device, allocate, size, error):
        with pytest.raises(error) as caught:
            allocate(size)
        fault = device.fault(caught.value)
        assert ("out_of_memory", pytest.approx(size, rel=0.01)) == (fault.kind, fault.requested)
        device.release()
        assert [1, 1] == device.asnumpy(device.asarray(np.ones(2))).tolist()

    return call


@pytest.fixture
def busy():
    """Submit a product that lasts, and return its result."""

    def call(device):
        array = device.xp.ones((4096, 4096), dtype=device.xp.float32)
        return array @ array

    return call
