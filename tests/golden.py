"""A run that has everything, and the files that hold what each form of the report makes of it."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from factories import (
    CPU,
    EMULATED,
    GPU,
    comparison,
    copies,
    estimate,
    gate_result,
    measurement,
    offload,
    record,
    run_of,
    scaled,
    skipped,
    speedup,
    threshold,
    variants,
)
from msgspec.structs import replace

from pytest_gpuperf.analysis.scaling import curves
from pytest_gpuperf.model.comparison import Absent, Commit, GateNote
from pytest_gpuperf.model.demand import Demand, UnknownValue
from pytest_gpuperf.model.measurement import Memory, Transfer
from pytest_gpuperf.model.metrics import METRICS
from pytest_gpuperf.model.offload import BreakEven, Diagnosis, Point
from pytest_gpuperf.model.record import Note, Run

_DATA = Path(__file__).parent / "data" / "golden"
_ASSETS = re.compile(  # what the run has no part in, and records, which are JSON
    r"(?<=<style>).*?(?=</style>)|(?<=<script>).*?(?=</script>)|sha256-[\w+/=]*|^{\n.*?^}\n",
    re.DOTALL | re.MULTILINE,
)


def assert_golden(name: str, text: str) -> None:
    """Assert that a text is that of the file; GPUPERF_GOLDEN=write writes it, to be read in the diff."""
    path = _DATA / name
    if os.environ.get("GPUPERF_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def assert_told(name: str, said: Iterable[tuple[str, str]]) -> None:
    """Assert that what is said under each title is that of the file."""
    assert_golden(f"words/{name}.txt", "\n".join(f"=== {title}\n{text}" for title, text in said))


def without_assets(page: str) -> str:
    """Return a page without its styles and script, and without the records that are in it."""
    return _ASSETS.sub("", page)


def run_with_everything() -> Run:
    """Return a run that has everything that a report can show, and what is hard to show."""
    solver = (
        "tests/linalg/test_solvers.py::TestConjugateGradient::test_converges_for_badly_conditioned_matrices"
    )
    cpu, gpu = variants(offload=offload(always=speedup(4.56, 4, 5)))
    regressed = comparison(
        reason="speedup got worse: 5.00x [4.90, 5.10], baseline 10.0x [9.80, 10.2]: -50.0 % [-51.9, -48.0], "
        "10 % less is allowed",
        ratio=estimate(0.5, 0.48, 0.52),
    )
    two = estimate(2.0, 1.5, 3.0)
    slower = comparison(reason="slower", baseline=two, found=two, ratio=estimate(0.75, 0.5, 1.25))
    full = record(
        "tests/test_full.py::test_full",
        status="failed",
        reason="too slow",
        demand=Demand(min=3, max=9, max_memory=8192),
        transfer=Transfer(h2d=copies(0.001), d2h=copies(0.001)),
        memory=Memory(peak=4096),
        offload=offload(
            always=speedup(2.0, 1.5, 3.0),
            once=speedup(4.0, 3.5, 5.0),
            latency=speedup(6.0, 5.5, 7.0),
            break_even_calls=BreakEven(transfer=None, first_call=None, both=two, reason=None),
        ),
        comparisons=tuple(replace(slower, metric=metric) for metric in METRICS),
    )
    records = [
        full,
        record("tests/test_full.py::test_open", speedup=speedup(high=None)),
        record("tests/test_full.py::test_or[a|b]", gpu=measurement(EMULATED, 0.001)),
        skipped("tests/test_full.py::test_on_the_cpu", "no GPU", cpu=measurement(CPU, 0.02)),
        *(
            record(f"tests/test_fft.py::test_fft[{n}-{dtype}]", offload=offload(always=speedup(2.34, 2, 3)))
            for n in (64, 4096, 1048576)
            for dtype in ("float32", "complex128")
        ),
        record("tests/test_one.py::test_alike", demand=Demand(), status="recorded"),
        record("tests/test_two.py::test_alike", demand=Demand(max=20, transfer="always")),
        record(f"{solver}[numpy-to-cupy-double-precision-with-jacobi-preconditioner-131072]"),
        record(f"{solver}[8]", demand=Demand(min=2, max=40, transfer="once", calls=1000)),
        record("tests/test_two.py::test_latency", demand=Demand(min=1.5, latency=True)),
        cpu,
        gpu,
        record("tests/test_gate.py::test_lost[16]", comparisons=(regressed,)),
        record(
            "tests/test_gate.py::test_slow",
            status="failed",
            reason="required at least 30x, speedup 10.0x [9.00, 11.0]",
            demand=Demand(min=30),
            diagnosis=(Diagnosis(code="float64", sentence="float64: use float32 where its digits do"),),
            offload=offload(reason="worth it: 10.0x with the data on the device"),
        ),
        record(
            "tests/test_gate.py::test_known", status="failed", reason="as it should", expected_failure=True
        ),
        record(
            "tests/test_gate.py::test_near",
            status="inconclusive",
            reason="required at least 3x, speedup 3.05x [2.95, 3.15]: inconclusive after 60 rounds, which "
            "lie on both sides of the limit; use a quieter machine, or move the limit",
            notes=(
                Note(code="not_exclusive", text="another process used the GPU while this test was measured"),
            ),
        ),
        *(skipped(f"tests/test_skip.py::test_skip[{n}]", "CuPy has no such function") for n in range(3)),
        record(
            "tests/test_two.py::test_broken", status="error", reason="ValueError: shapes differ", speedup=None
        ),
    ]
    points = tuple(Point(size=n, nodeid=f"test_fft[{n}]", cpu=1.0, gpu=1.0) for n in (64, 4096))
    judged = replace(scaled(4, 0.6, required=0.5), demand=Demand(min=2, max=3))
    scaling = [scaled(1), scaled(2, 0.99), judged]
    gate = gate_result(
        "1 test of the baseline did not run: tests/test_gate.py::test_gone",
        started="2026-11-20T10:00:00+00:00",
        notes=(GateNote(code="baseline_stale", text="1 test improved beyond the tolerance"),),
        baseline_tests=2,
        absent=(Absent(name="test_gone", metric="speedup", cause="gone", reason=None),),
    )
    return run_of(
        *records,
        *scaling,
        gpu=replace(GPU, name="a stand-in", emulated=True),
        complete=False,
        arguments=("--gpuperf-gpu=cupy",),
        unmarked=0,
        unknown_values=(UnknownValue(parameter="backend", value="'dask'", tests=2),),
        commit=Commit(id="abc123", branch="main", time="2026-11-21T10:54:31+00:00", changed=True),
        thresholds=(threshold(name="test_fft[float32]", curve=points),),
        scalings=curves(scaling),
        gate=gate,
    )
