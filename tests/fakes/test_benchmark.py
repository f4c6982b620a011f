"""The benchmark for a first GPU runs on the fake devices, and finds there what is given to them."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "gpu.py"
KERNEL, COPY = 20e-3, (1 << 20) / 0.05e9  # seconds: of a + 1, and for a megabyte
# Long enough for a busy machine. torch's index_kernel loses the device, as an index that is too large does.
KNOWN = {
    "FAKE_CUDA_KERNELS": "add=20000000 Add=20000000",
    "FAKE_CUDA_GBPS": "0.05",
    "FAKE_CUDA_CRASH": "index",
}
FAKES = {"cupy": "cupyx.profiler", "torch": "torch.utils.benchmark"}  # with a tool of the library's own
PARTS = ["machine", "detection", "times", "tests", "copies", "clocks", "answers", "faults", "examples"]
ALONE = {"cupy": ["tenants", "workers"], "torch": [], "jax:cpu": []}  # parts of one library alone


@pytest.fixture(scope="module")
def run_benchmark(tmp_path_factory):
    """Run the benchmark in a folder; return what it printed, its exit code, and its findings."""
    folder = tmp_path_factory.mktemp("findings")
    gpus = [*FAKES, *(["jax:cpu"] if find_spec("jax") else [])]

    def call():
        command = [sys.executable, BENCHMARK, "--short", "--gpus", *gpus, "--output", folder]
        done = subprocess.run(
            command, env={**os.environ, **KNOWN}, capture_output=True, text=True, check=False
        )
        lines = (folder / "gpu.jsonl").read_text().splitlines()
        return done, [json.loads(line) for line in lines if line]

    return call


@pytest.fixture(scope="module")
def first(run_benchmark):
    return run_benchmark()


@pytest.fixture(scope="module")
def findings(first):
    """Return the findings of a library by their part and name."""

    def call(gpu, part):
        return {line["what"]: line for line in first[1] if (line["gpu"], line["part"]) == (gpu, part)}

    return call


def test_every_part_runs_and_every_promise_is_kept(first):
    done, lines = first
    ended = {
        gpu: [line["part"] for line in lines if (line["gpu"], line["what"]) == (gpu, "ended")]
        for gpu in ALONE
    }
    for gpu in {line["gpu"] for line in lines}:
        assert sorted([*PARTS, *ALONE[gpu]]) == sorted(
            [*ended[gpu], *(["clocks"] if gpu == "jax:cpu" else [])]
        )
    assert [] == [line for line in lines if "cause" in line and line["what"] == "ended"]
    assert 0 == done.returncode, done.stdout + done.stderr


def test_what_a_fake_cannot_show_is_said(findings):
    for gpu in FAKES:
        for part in ("tests", "clocks", "examples"):
            assert {"not looked at: it needs a GPU", "ended"} == findings(gpu, part).keys()
        assert "not looked at: it needs a device that computes" in findings(gpu, "answers")


@pytest.mark.parametrize("gpu", FAKES)
def test_times_are_those_of_the_kernels(findings, gpu):
    found = findings(gpu, "times")
    names = [f"a + 1, {size}" for size in (1000, 1 << 18)]
    for name in names:
        assert KERNEL <= min(found[f"{name}: {figure}"]["figure"] for figure in ("block", "device time"))
        assert f"{name}: block / {FAKES[gpu]}" in found
    # The spell of a busy machine may spoil one of the two sizes.
    assert min(found[f"{name}: device time"]["figure"] for name in names) == pytest.approx(KERNEL, abs=1e-6)
    for beside in ("block / events", "latency / loop"):
        assert min(found[f"{name}: {beside}"]["figure"] for name in names) < 0.25


@pytest.mark.parametrize("gpu", FAKES)
def test_copies_have_the_bandwidth_of_the_device(findings, gpu):
    for direction in ("up", "down"):
        found = findings(gpu, "copies")[f"{1 << 20} bytes {direction} / loop"]
        assert COPY <= min(found["ours"], found["theirs"])
        assert found["figure"] < 0.4


@pytest.mark.parametrize("gpu", FAKES)
def test_ordinary_work_is_seen_and_each_fault_is_recognized(findings, gpu):
    seen, faults = findings(gpu, "detection"), findings(gpu, "faults")
    assert len(seen) >= 6
    assert {"not recognized: out_of_memory", "not recognized: lost", "ended"} == faults.keys()
    assert {0} == {line["figure"] for line in [*seen.values(), *faults.values()] if "figure" in line}


def test_what_was_found_is_not_measured_again(first, run_benchmark):
    assert first[1] == run_benchmark()[1]
