"""What the tests on the fake CUDA devices share; without those they skip."""

import json
import os
import subprocess
import sys

import pytest

if "FAKE_CUDA" not in os.environ:

    def pytest_pycollect_makemodule():
        """Skip the files of this folder where there is no fake."""
        command = "python tests/fakes/cuda -m pytest tests/fakes"
        pytest.skip(f"needs the fake CUDA devices: {command}", allow_module_level=True)


@pytest.fixture(scope="session")
def ran(tmp_path_factory):
    """Run a suite on a fake device, in a process of its own; return pytest's output and the report's path."""

    def call(device, source, *options, conftest="", **settings):
        folder = tmp_path_factory.mktemp("suite")
        (folder / "test_it.py").write_text(source)
        (folder / "conftest.py").write_text(conftest)
        (folder / "pytest.ini").touch()
        command = [sys.executable, "-m", "pytest", "-p", "gpuperf", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, f"--gpuperf-gpu={device}", "--gpuperf-json=report.json", *options],
            cwd=folder,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **settings},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr, folder / "report.json"

    return call


@pytest.fixture(scope="session")
def records_of():
    """Return the records of a report that were measured or could not be, by their tests' names."""

    def call(report):
        listed = json.loads(report.read_text())["records"]
        known = {record["nodeid"].partition("::test_")[2]: record for record in listed}
        return {name: record for name, record in known.items() if record["status"] != "skipped"}

    return call
