"""Reports of two runs, one on the CPU and one on the GPU, that can be merged."""

from array import array
from dataclasses import replace

from pytest_gpuperf.model.demand import Demand, Pairing, SizeGroup
from pytest_gpuperf.model.measurement import DeviceInfo, Measurement
from pytest_gpuperf.model.record import Clocks, Environment, Record, Run, ThreadPool
from pytest_gpuperf.report.merge.run import merge
from pytest_gpuperf.report.reader import Report

TEST = "tests/test_fft.py::test_fft[64]"

OTHER = "tests/test_fft.py::test_other"

TWICE = Demand(min=2)

ROUNDS = 12  # enough for intervals that only the resolution of 1 % widens

CPU = DeviceInfo(kind="cpu", backend="numpy", name="a processor", library="numpy 2")

GPU = DeviceInfo(kind="gpu", backend="cupy", name="a GPU", library="cupy 13")

HERE = Environment(
    host={"name": "here", "system": "Linux", "machine": "x86_64", "memory": 64 * 10**9},
    cpu={"name": "a processor", "logical": 8, "usable": 8, "quota": None},
    gpu=None,
    gpu_reason="--gpuperf-gpu=none",
    python="3.11.7",
    packages={"numpy": "2.0", "pytest-gpuperf": "0.1.0"},
    thread_pools=(ThreadPool(library="openblas", api="blas", threads=8, version="0.3"),),
    variables={},
)

CLOCKS = Clocks(sm_mhz=1980, memory_mhz=None, celsius=40, watts=99.5, throttle=())

THERE = replace(
    HERE,
    gpu=GPU,
    gpu_reason=None,
    packages={**HERE.packages, "cupy-cuda12x": "13.4"},
    clocks_at_start=CLOCKS,
    clocks_at_end=CLOCKS,
)


def measured(on: DeviceInfo, seconds, **changes) -> Measurement:
    known = {
        "device": on,
        "samples": array("d", seconds),
        "block_calls": 1,
        "setup": None,
        "first_call": 0.01,
        "warmup": 0.1,
        "warmup_calls": 9,
        "steady": True,
        "synchronize_cost": 0.0,
    }
    return Measurement(**{**known, **changes})


def side(kind, *seconds, nodeid=TEST, demand=TWICE, timed=None, **changes) -> Record:
    """Return the record of one side, with these seconds as its samples; one stands for all rounds."""
    samples = seconds * ROUNDS if len(seconds) == 1 else seconds
    device, library = (CPU, "numpy") if kind == "cpu" else (GPU, "cupy")
    known = {
        "nodeid": nodeid,
        "status": "recorded",
        "reason": None,
        "demand": demand,
        "scope": "call",
        kind: measured(device, samples, **(timed or {})),
        "pairing": Pairing(kind=kind, library=library),
        "round_time": 10e-3,
        "rounds_elapsed": 10.0,  # they sit apart
    }
    return Record(**{**known, **changes})


def report(name, *records, environment=None, **changes) -> Report:
    surveyed = environment or (HERE if name.startswith("cpu") else THERE)
    known = {"started": "2026-01-01T00:00:00+00:00", "records": records, "cost_ratio": 2.5}
    return Report(name=name, run=Run(environment=surveyed, **{**known, **changes}))


def joined(cpu: Record, gpu: Record, **changes) -> Record:
    """Return the record that two sides make."""
    (record,) = merge([report("cpu.json", cpu, **changes), report("gpu.json", gpu, **changes)]).run.records
    return record


def whole(nodeid=OTHER, **changes) -> Record:
    both = joined(side("cpu", 10e-3, nodeid=nodeid), side("gpu", 1e-3, nodeid=nodeid))
    return replace(both, pairing=None, notes=(), **changes)


ELSEWHERE = replace(THERE, host={**THERE.host, "name": "there"})


def size_group_of(*ratios, at_most=None):
    """Return both sides of a size group of sizes 1, 2, ...: a record for each size and device."""
    sizes = tuple(range(1, len(ratios) + 1))
    for size, ratio in zip(sizes, ratios, strict=True):
        found = SizeGroup(name="test_n", parameter="n", size=size, sizes=sizes, at_most=at_most)
        common = {"nodeid": f"test_n[{size}]", "demand": Demand(), "size_group": found}
        yield side("cpu", ratio * 1e-3, **common), side("gpu", 1e-3, **common)
