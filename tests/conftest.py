"""What the tests share: pytest in pytest, and a plan with the defaults."""

import os
from importlib import import_module
from importlib.util import find_spec

import pytest

# pytester forgets modules that an in-process run imported, and C extensions cannot be imported twice.
for name in ("numpy", "jsonschema", "dpnp", "dpctl", "cupy", "filelock", "hypothesis"):
    if find_spec(name) is not None:
        import_module(name)
for room in (
    "hooks",
    "command",
    "devices.simulated",
    "devices.cupy",
    "devices.sycl",
    "devices.torch",
    "devices.jax",
):
    import_module(f"pytest_gpuperf.{room}")

pytest_plugins = ["pytester"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where everything but a GPU is installed (GPUPERF_NO_SKIP is set), only tests/gpu may skip."""
    report = yield
    if report.skipped and os.environ.get("GPUPERF_NO_SKIP") and item.path.parent.name != "gpu":
        report.outcome = "failed"
    return report


@pytest.fixture
def run(pytester: pytest.Pytester):
    """Run pytest in this process on one file of tests, with the simulated GPU unless told otherwise."""

    def call(source: str, *options: str, gpu: str | None = "simulated"):
        pytester.makepyfile(test_it=source)
        chosen = [] if gpu is None else [f"--gpuperf-gpu={gpu}"]
        return pytester.runpytest_inprocess("-p", "no:randomly", *chosen, *options)

    return call
