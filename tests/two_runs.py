"""Reports of two runs, one on the CPU and one on the GPU, that can be merged."""

import factories
from factories import CPU, GPU, measured, recorded, run_of
from msgspec.structs import replace

from pytest_gpuperf.model.demand import Demand, Pairing, SizeGroup
from pytest_gpuperf.model.record import Clocks, Record, Report, ThreadPool
from pytest_gpuperf.report.merge import merge

TEST = "tests/test_fft.py::test_fft[64]"

OTHER = "tests/test_fft.py::test_other"

TWICE = Demand(min=2)

HERE = replace(
    factories.HERE,
    host={"name": "here", "system": "Linux", "machine": "x86_64", "memory": 64 * 10**9},
    gpu=None,
    gpu_reason="--gpuperf-gpu=none",
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


def side(kind, *seconds, nodeid=TEST, demand=TWICE, timed=None, **changes) -> Record:
    """Return the record of one side, with these seconds as its samples; one stands for all rounds."""
    device, library = (CPU, "numpy") if kind == "cpu" else (GPU, "cupy")
    known = {
        **dict.fromkeys(("cpu", "gpu", "speedup")),
        kind: replace(measured(device, *seconds), **(timed or {})),
        "demand": demand,
        "pairing": Pairing(kind=kind, library=library),
    }
    return recorded(nodeid, **{**known, **changes})


def report(name, *records, environment=None, **changes) -> Report:
    surveyed = environment or (HERE if name.startswith("cpu") else THERE)
    return Report(name=name, run=run_of(*records, environment=surveyed, **changes))


def joined(cpu: Record, gpu: Record, **changes) -> Record:
    """Return the record that two sides make."""
    (record,) = merge([report("cpu.json", cpu, **changes), report("gpu.json", gpu, **changes)]).records
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
