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
FAKES = {  # with tools of the library's own
    "cupy": ["cupyx.profiler"],
    "torch": ["torch.utils.benchmark", "triton do_bench_cudagraph"],
}
_PARTS = "machine detection times tests copies roof answers faults hidden examples"
PARTS = _PARTS.split()
# Parts of the first library alone.
ALONE = {"cupy": ["clocks", "tenants", "cuda_bench", "workers"], "torch": ["profiled"], "jax:cpu": []}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Run the benchmark in a folder; return how it ended, and its findings."""
    folder = tmp_path_factory.mktemp("findings")
    gpus = [*FAKES, *(["jax:cpu"] if find_spec("jax") else [])]
    command = [sys.executable, BENCHMARK, "--short", "--gpus", *gpus, "--output", folder]
    done = subprocess.run(command, env={**os.environ, **KNOWN}, capture_output=True, text=True, check=False)
    lines = (folder / "gpu.jsonl").read_text().splitlines()
    return done, [json.loads(line) for line in lines if line]


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
        assert sorted([*PARTS, *ALONE[gpu]]) == sorted(ended[gpu])
    assert [] == [line for line in lines if "cause" in line and line["what"] == "ended"]
    assert 0 == done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("gpu", FAKES)
def test_the_first_facts_are_the_queue_of_launches_and_how_long_a_device_is_occupied(findings, gpu):
    found = findings(gpu, "machine")
    assert 0 < found["launches that wait for a busy device, up to 20000"]["figure"] < 1000
    assert {"device time of 500 launches", "device time of 1500 launches"} <= found.keys()
    assert found["occupied / asked for 0.005 s, after 0 s of idling"]["figure"] > 0.9


@pytest.mark.parametrize("gpu", FAKES)
def test_times_are_those_of_the_kernels(findings, gpu):
    found = findings(gpu, "times")
    names = [f"a + 1, {size}" for size in (1000, 1 << 18)]
    for name in names:
        assert KERNEL <= min(found[f"{name}: {figure}"]["figure"] for figure in ("block", "device time"))
        assert {f"{name}: block / {tool}" for tool in FAKES[gpu]} <= found.keys()
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
