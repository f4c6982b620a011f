"""Made-up devices, measurements, speedups, records, runs and histories, the same in every test.

Each factory takes what tests are about, and `changes` replace any other field: a new field of a class of the
model is one line here.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import exp
from typing import Any

import numpy as np
from msgspec.structs import replace

from pytest_gpuperf.analysis.estimation import Sampled
from pytest_gpuperf.analysis.scaling import curves, with_speedup
from pytest_gpuperf.model.comparison import (
    Commit,
    Comparison,
    GateFailure,
    GateOptions,
    GateResult,
    Outcome,
    Tolerance,
)
from pytest_gpuperf.model.demand import Demand, Pairing
from pytest_gpuperf.model.measurement import (
    Bounds,
    Copies,
    DeviceInfo,
    Estimate,
    Measurement,
    Round,
    Speedup,
    Transfer,
)
from pytest_gpuperf.model.metrics import Metric
from pytest_gpuperf.model.offload import Offload, Point, Threshold
from pytest_gpuperf.model.record import Environment, Record, Report, Run
from pytest_gpuperf.model.roof import DeviceRoof, Roof
from pytest_gpuperf.model.scaling import Mode, Scaling, ScalingCurve
from pytest_gpuperf.report import history_folder
from pytest_gpuperf.report.history_folder import History

GPU = DeviceInfo(kind="gpu", backend="cupy", name="H200", library="cupy 13")
CPU = DeviceInfo(kind="cpu", backend="numpy", name="EPYC", library="numpy 2")
EMULATED = DeviceInfo(kind="gpu", backend="sycl", name="a CPU", library="dpnp 0.17", emulated=True)
NOUNS = {"cpu": "CPU", "gpu": "emulated device"}  # of simulated devices, by their kinds
HERE = Environment(
    host={"name": "runner", "system": "Linux", "machine": "x86_64"},
    cpu={"name": "EPYC", "logical": 8, "usable": 8},
    gpu=GPU,
    gpu_reason=None,
    python="3.11.7",
    packages={},
)
ELSEWHERE = replace(HERE, cpu={**HERE.cpu, "name": "another"})
NODEID = "tests/test_fft.py::test_fft"
ROUNDS = 28  # enough for every look
LASTED = 10.0  # seconds, after which a limit is decided 1 % beyond what was seen


def within(share: float = 0.1, metric: Metric = "speedup") -> Tolerance:
    """Return how much worse than its baseline a metric may be."""
    return Tolerance(metric=metric, share=share)


GATE = GateOptions(tolerances=(within(),))


@dataclass
class Answer:
    """A result in parts."""

    total: Any
    parts: Any


def measurement(device: DeviceInfo, *samples: float, **changes: Any) -> Measurement:
    """Return a measurement of a device from its samples, in seconds."""
    known = Measurement(
        device=device,
        samples=array("d", samples),
        block_calls=4,
        setup=None,
        first_call=0.5,
        warmup=0.0,
        warmup_calls=3,
        steady=True,
        synchronize_cost=0.0,
    )
    return replace(known, **changes)


def measured(device: DeviceInfo, *seconds: float, **changes: Any) -> Measurement:
    """Return a measurement in blocks of one call; one number of seconds stands for those of all rounds."""
    samples = seconds * ROUNDS if len(seconds) == 1 else seconds
    return measurement(device, *samples, **{"block_calls": 1, **changes})


def speedup(
    value: float = 10.0, low: float | None = 9.0, high: float | None = 11.0, **changes: Any
) -> Speedup:
    """Return a speedup; a limit of its interval that is None is open."""
    known = Speedup(
        value=value,
        low=low,
        high=high,
        certain=Bounds(low=low and low / 1.01, high=high and high * 1.01),
        rounds=ROUNDS,
    )
    return replace(known, **changes)


def speedup_within(value: float, share: float = 0.05, **changes: Any) -> Speedup:
    """Return a speedup whose interval reaches so far to either side, as a share of the value."""
    return replace(speedup(value, value * (1 - share), value * (1 + share)), **changes)


def estimate(value: float, low: float | None = None, high: float | None = None) -> Estimate:
    """Return an estimate; a limit of its interval that is None is open."""
    return Estimate(value=value, low=low, high=high)


def estimate_within(value: float, share: float) -> Estimate:
    """Return an estimate whose interval reaches so far to either side, as a share of the value."""
    return estimate(value, value * (1 - share), value * (1 + share))


def offload(**changes: Any) -> Offload:
    """Return an offload that pays."""
    known = Offload(worth=True, faster=True, reason="it pays", regime="never", by_latency=False)
    return replace(known, **changes)


def record(nodeid: str = NODEID, **changes: Any) -> Record:
    """Return the record of a test that passed: 20 ms on an EPYC, 2 ms on an H200."""
    known = Record(
        nodeid=nodeid,
        status="passed",
        reason=None,
        demand=Demand(min=3),
        cpu=measurement(CPU, 0.02, 0.03, 0.01),
        gpu=measurement(GPU, 0.002, 0.001, 0.003, 0.002),
        speedup=speedup(),
    )
    return replace(known, **changes)


def recorded(nodeid: str = "test_a.py::test_1", value: float = 10.0, **changes: Any) -> Record:
    """Return the record of a test without limits: 10 ms on the CPU, and this speedup, within 4 %."""
    known = record(
        nodeid,
        status="recorded",
        demand=Demand(),
        scope="call",
        cpu=measured(CPU, 10e-3),
        gpu=measured(GPU, 10e-3 / value),
        speedup=speedup_within(value, 0.04),
        rounds_elapsed=LASTED,
    )
    return replace(known, **changes)


def near_roof(
    nodeid: str,
    moved: int,
    *,
    cpu_share: float | None = 0.25,
    gpu_share: float | None = 0.5,
    **changes: Any,
) -> Record:
    """Return the record of a test that moves so many bytes, at these shares of its devices' roofs.

    Copies take 10 us and a second for 20 GB on the CPU, 2 us and a second for 2 TB on the GPU; a share that
    is None is not known.
    """
    copies = {"cpu": 10e-6 + moved / 2e10, "gpu": 2e-6 + moved / 2e12}
    sides = {}
    for kind, share in (("cpu", cpu_share), ("gpu", gpu_share)):
        found = None if share is None else estimate_within(share, 0.1)
        bandwidth = None if share is None else moved * share / copies[kind]
        sides[kind] = DeviceRoof(bytes=moved, bandwidth=bandwidth, copy_time=copies[kind], share=found)
    return record(nodeid, **{"roof": Roof(source="arrays", **sides), **changes})


def skipped(
    nodeid: str = "test_a.py::test_1", reason: str | None = "no GPU: CuPy is not installed", **changes: Any
) -> Record:
    """Return the record of a test that was skipped with nothing measured."""
    absent = dict.fromkeys(("cpu", "gpu", "speedup"))
    return record(nodeid, **{**absent, "status": "skipped", "reason": reason, **changes})


def on_cpu_only(**changes: Any) -> Record:
    """Return the record of a test for which there was no GPU: 20 ms on the CPU."""
    known = {"status": "skipped", "reason": "no GPU", "transfer": Transfer(h2d=None, d2h=None)}
    return record(**{**known, "gpu": None, "speedup": None, **changes})


def variants(name: str = "a.py::test_a", **changes: Any) -> tuple[Record, Record]:
    """Return the records of two variants: the GPU's has the verdict, of the CPU's there is nothing to say."""
    cpu = record(f"{name}[cpu]", status="recorded", gpu=None, speedup=None)
    pairing = Pairing(kind="gpu", library="cupy", partner=cpu.nodeid)
    return cpu, record(f"{name}[gpu]", **{"pairing": pairing, **changes})


def copies(*seconds: float, bytes: int = 8) -> Copies:
    """Return copies in one direction from their seconds."""
    return Copies(bytes=bytes, arrays=1, samples=array("d", seconds))


def comparison(outcome: Outcome = "regressed", **changes: Any) -> Comparison:
    """Return the comparison of a speedup of 10 with a baseline of 12.5."""
    known = Comparison(
        metric="speedup",
        tolerance=0.1,
        outcome=outcome,
        reason=None if outcome == "not_regressed" else f"it {outcome}",
        baseline=estimate(12.5, 12.0, 13.0),
        found=estimate(10.0, 9.0, 11.0),
        ratio=estimate(0.8, 0.7, 0.9),
        visible=0.25,
    )
    return replace(known, **changes)


def gate_result(*failures: str, **changes: Any) -> GateResult:
    """Return the result of a gate on speedups, with these failures."""
    known = GateResult(
        baseline="base.json",
        started=None,
        tolerances=GATE.tolerances,
        failures=tuple(GateFailure(code="nothing_measured", text=text) for text in failures),
    )
    return replace(known, **changes)


def threshold(states: str = "LLWW", **changes: Any) -> Threshold:
    """Return a threshold over sizes that were won (W), lost (L) or in doubt (?), smallest first."""
    won = {"W": True, "L": False, "?": None}
    curve = tuple(
        Point(size=size, nodeid=f"test_fft[{size}]", cpu=1.0, gpu=1.0, won=won[state])
        for size, state in zip((64, 128, 256, 512), states, strict=False)
    )
    sure = len(states.rstrip("W"))
    known = Threshold(
        name="test_fft",
        parameter="n",
        at_most=None,
        at_least=None,
        regime="never",
        by_latency=False,
        status="recorded",
        reason=None,
        outcome="bracket" if sure < len(states) else "none",
        largest_not_won=curve[sure - 1].size if sure else None,
        smallest_won=curve[sure].size if sure < len(states) else None,
        curve=curve,
    )
    return replace(known, **changes)


def scaled(
    count: int, efficiency: float | None = None, *, mode: Mode = "strong", required: float | None = None
) -> Record:
    """Return the record of a scaling test on 1, 2 or 4 devices, its efficiency within a tenth."""
    scaling = Scaling(name="a.py::test_step", mode=mode, count=count, counts=(1, 2, 4), required=required)
    base = measurement(GPU, 0.012)
    found = None
    if efficiency is not None:
        found = speedup_within(efficiency * scaling.ideal, 0.1)
    return record(
        f"a.py::test_step[{count}]",
        status="recorded" if required is None else "passed",
        demand=Demand(),
        cpu=None,
        gpu=measurement(GPU, 0.012 / found.value if found else 0.012),
        speedup=None,
        scaling=with_speedup(scaling, found, base if found else None),
    )


def scaling_curve(**changes: Any) -> ScalingCurve:
    """Return the curve of efficiencies of 0.8 on two devices and 0.6 on four."""
    (found,) = curves([scaled(1), scaled(2, 0.8), scaled(4, 0.6)])
    return replace(found, **changes)


def run_of(*records: Record, gpu: DeviceInfo | None = GPU, **changes: Any) -> Run:
    """Return the run that left these records, on an EPYC with an H200."""
    known = Run(
        environment=replace(HERE, gpu=gpu),
        started="2026-01-01T00:00:00+00:00",
        records=records,
    )
    return replace(known, **changes)


def base_of(*records: Record, name: str = "base.json", **changes: Any) -> Report:
    """Return the baseline that holds these records."""
    return Report(name=name, run=run_of(*records, **{"started": f"{name} began", **changes}))


def point(day: int, value: float | None, share: float | None = 0.1, **changes: Any) -> history_folder.Point:
    """Return a test in the run of a day, the first of which is 1: its speedup, or that it was skipped."""
    found = None
    if value is not None:
        found = estimate(value) if share is None else estimate_within(value, share)
    known = history_folder.Point(
        started=datetime(2025, 12, 31, 12, tzinfo=UTC) + timedelta(days=day),
        commit=Commit(id=f"{day:07x}" + 33 * "f", branch="main"),
        status="skipped" if value is None else "passed",
        speedup=found,
    )
    return replace(known, **changes)


def history_of(
    *values: float | None, nodeid: str = "test_a", fingerprint: str = "here", **changes: Any
) -> History:
    """Return the history of a test with these speedups, one run a day."""
    points = [point(day, value, **changes) for day, value in enumerate(values, 1)]
    return History(started=tuple(each.started for each in points), points={fingerprint: {nodeid: points}})


def histories(*found: History) -> History:
    """Return the history of the tests of several, whose runs are the same."""
    points: dict[str, dict[str, list[history_folder.Point]]] = {}
    for each in found:
        for conditions, tests in each.points.items():
            points.setdefault(conditions, {}).update(tests)
    return replace(found[0], points=points)


STEP = [9.9, 9.95, 9.85, 9.9, 10.0, 9.8, 8.1, 8.15, 8.05, 8.1, 8.2, 8.0]


def taken(ratio: float) -> Round:
    """Return a round with this speedup."""
    return Round(cpu=ratio * 1e-3, gpu=1e-3)


def sampled(*ratios: float, seconds: float = LASTED) -> Sampled:
    """Return the times of rounds with these speedups, which took so many seconds together."""
    return Sampled(cpu=[ratio * 1e-3 for ratio in ratios], gpu=[1e-3] * len(ratios), seconds=seconds)


def noisy(seed: int, *, spread: float, centre: float = 1.0) -> Iterator[float]:
    """Return speedups that scatter lognormally about a median."""
    draws = np.random.default_rng(seed).standard_normal(1000)
    return (centre * exp(spread * draw) for draw in draws)
