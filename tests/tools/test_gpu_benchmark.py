"""The benchmark for a first GPU: a part that fails says why."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.fixture
def measured(tmp_path):
    """Run the script, short, with these options; return its exit code, and the lines of its file."""

    def call(*options):
        command = [sys.executable, SCRIPT, "--short", "--output", tmp_path, *options]
        code = subprocess.run(command, check=False).returncode
        lines = (tmp_path / "gpu.jsonl").read_text().splitlines()
        return code, [json.loads(line) for line in lines if line]

    return call


def test_a_part_that_fails_says_why(measured):
    code, (ended,) = measured("--gpus", "cupy:99", "--parts", "answers")
    assert (code, ended["what"], "Unavailable" in ended["cause"]) == (1, "ended", True)


@pytest.mark.libraries
@pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed; CI's second environment has it")
def test_every_part_that_needs_no_gpu_runs_on_the_cpu_of_jax(measured):
    parts = ("machine", "detection", "times", "copies", "answers", "faults")
    code, found = measured("--gpus", "jax:cpu", "--parts", *parts)
    assert code == 0
    assert {line["part"] for line in found if "figure" in line} == set(parts)
    assert not [line for line in found if "cause" in line]
