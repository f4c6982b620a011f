"""What the tests share: pytest in pytest, and a plan with the defaults."""

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester: pytest.Pytester):
    """Run pytest in this process on one file of tests, with the simulated GPU unless told otherwise."""

    def call(source: str, *options: str, gpu: str | None = "simulated"):
        pytester.makepyfile(test_it=source)
        chosen = [] if gpu is None else [f"--gpuperf-gpu={gpu}"]
        return pytester.runpytest_inprocess("-p", "no:randomly", *chosen, *options)

    return call
