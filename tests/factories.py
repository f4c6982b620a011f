"""Made-up devices, results, measurements, speedups, records and runs, the same in every test."""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import exp
from typing import Any

import numpy as np

from pytest_gpuperf.analysis.estimation import SequentialEstimator
from pytest_gpuperf.analysis.scaling import curves, with_speedup
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import DeviceInfo, Measurement, Round, Speedup
from pytest_gpuperf.model.offload import GpuLimits, Link, Offload, Price, Threshold
from pytest_gpuperf.model.record import Environment, Record, Run
from pytest_gpuperf.model.scaling import Mode, Scaling, ScalingCurve
from pytest_gpuperf.timing.leaves import Leaf, snapshot

GPU = DeviceInfo(kind="gpu", backend="cupy", name="H200", library="cupy 13")
CPU = DeviceInfo(kind="cpu", backend="numpy", name="EPYC", library="numpy 2")


@dataclass
class Answer:
    """A result in parts."""

    total: Any
    parts: Any


def on_host(result: Any) -> list[Leaf]:
    """Return the parts of a result of NumPy, copied."""
    return snapshot(result, lambda value: isinstance(value, np.ndarray), np.array)


def measurement(device: DeviceInfo, *samples: float) -> Measurement:
    """Return a measurement of a device from its samples, in seconds."""
    return Measurement(
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


def speedup(value: float = 10.0, low: float | None = 9.0, high: float | None = 11.0) -> Speedup:
    """Return a speedup; a limit of its interval that is None is open."""
    return Speedup(
        value=value,
        low=low,
        high=high,
        confidence=0.95,
        resolution=0.01,
        rounds=12,
        evidence=50.0,
        autocorrelation=None,
    )


def record(nodeid: str = "tests/test_fft.py::test_fft", **changes: Any) -> Record:
    """Return the record of a test that passed: 20 ms on an EPYC, 1.75 ms on an H200, but for `changes`."""
    defaults: dict[str, Any] = {
        "status": "passed",
        "reason": None,
        "demand": Demand(min=3),
        "cpu": measurement(CPU, 0.02, 0.03, 0.01),
        "gpu": measurement(GPU, 0.002, 0.001, 0.003, 0.0015),
        "speedup": speedup(),
    }
    return Record(nodeid=nodeid, **{**defaults, **changes})


def skipped(nodeid: str, reason: str = "no GPU: CuPy is not installed", **changes: Any) -> Record:
    """Return the record of a test that was skipped with nothing measured, but for `changes`."""
    absent = dict.fromkeys(("cpu", "gpu", "speedup"))
    return record(nodeid, **{**absent, "status": "skipped", "reason": reason, **changes})


def on_cpu_only(
    limits: GpuLimits | None, demand: Demand | None = None, links: tuple[Link, ...] = ()
) -> Record:
    """Return the record of a test for which there was no GPU, with what a call may take on one."""
    offload = Offload(
        worth=None,
        reason="it cannot pay",
        regime="never",
        by_latency=False,
        price=Price(ratio=2.5, needed=2.5, saves=None, saving_percent=None),
        gpu_limits=limits,
        links=links,
    )
    absent = dict.fromkeys(("gpu", "speedup"))
    changes = {**absent, "status": "skipped", "reason": "no GPU", "demand": demand or Demand()}
    return record(offload=offload, **changes)


def threshold(**changes: Any) -> Threshold:
    """Return the threshold of a size group: the GPU wins from n = 256 on. `changes` replace its fields."""
    known: dict[str, Any] = {
        "name": "test_fft",
        "parameter": "n",
        "at_most": None,
        "at_least": None,
        "regime": "never",
        "by_latency": False,
        "status": "recorded",
        "reason": None,
        "outcome": "bracket",
        "largest_not_won": 64,
        "smallest_won": 256,
        "curve": (),
    }
    return Threshold(**{**known, **changes})


def scaled(
    count: int, efficiency: float | None = None, *, mode: Mode = "strong", required: float | None = None
) -> Record:
    """Return the record of a scaling test on 1, 2 or 4 devices, its efficiency within a tenth."""
    scaling = Scaling(name="a.py::test_step", mode=mode, count=count, counts=(1, 2, 4), required=required)
    base = measurement(GPU, 0.012)
    found = None
    if efficiency is not None:
        value = efficiency * scaling.ideal
        found = speedup(value, 0.9 * value, 1.1 * value)
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
    """Return the curve of efficiencies of 0.8 on two devices and 0.6 on four, but for `changes`."""
    (found,) = curves([scaled(1), scaled(2, 0.8), scaled(4, 0.6)])
    return replace(found, **changes)


def run_of(*records: Record, gpu: DeviceInfo | None = GPU, **changes: Any) -> Run:
    """Return the run that left these records, on an EPYC with an H200, but for `changes`."""
    environment = Environment(
        host={"name": "runner", "system": "Linux", "machine": "x86_64"},
        cpu={"name": "EPYC", "logical": 2},
        gpu=gpu,
        gpu_reason=None,
        python="3.11.7",
        packages={},
    )
    defaults: dict[str, Any] = {
        "environment": environment,
        "started": "2026-11-21T10:54:31+00:00",
        "cost_ratio": 2.5,
    }
    return Run(records=records, **{**defaults, **changes})


def taken(ratio: float) -> Round:
    """Return a round with this speedup."""
    return Round(cpu=ratio * 1e-3, gpu=1e-3)


def estimation_of(ratios: Iterable[float], demand: Demand) -> SequentialEstimator:
    """Return the estimator of a demand that has taken rounds with these speedups."""
    estimation = SequentialEstimator(demand, RunOptions())
    for ratio in ratios:
        estimation.add(taken(ratio))
    return estimation


def noisy(seed: int, *, spread: float, centre: float = 1.0) -> Iterator[float]:
    """Return speedups that scatter lognormally about a median."""
    draws = np.random.default_rng(seed).standard_normal(1000)
    return (centre * exp(spread * draw) for draw in draws)
