"""From a run to the JSON of pytest-benchmark, for `pytest-benchmark compare` and other readers of it."""

from collections.abc import Sequence
from math import fsum
from typing import Any

import numpy as np

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import KINDS, Kind
from pytest_gpuperf.model.measurement import Measurement
from pytest_gpuperf.model.nodeid import name_of, parameters_of
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Environment, Record, Run
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.report.names import distinct

_LONGEST_GROUP = 200  # bytes: `compare --histogram` makes a file name of it
_VERSION = "5.1.0"  # the release of pytest-benchmark whose files have this shape


def text(run: Run) -> str:
    """Return one benchmark for each device of each test that was timed: `test_fft[cpu]`, `test_fft[gpu]`."""
    benchmarks = [
        _benchmark(record, kind, measurement)
        for record in run.records
        for kind in KINDS
        if (measurement := record.measurement(kind)) and measurement.samples
    ]
    if not benchmarks:
        return ""
    content = {
        "machine_info": _machine(run.environment),
        "commit_info": _commit(run.commit),
        "benchmarks": benchmarks,
        "datetime": run.started,
        "version": _VERSION,
    }
    return codec.text(content) + "\n"


def _benchmark(record: Record, kind: Kind, measurement: Measurement) -> dict[str, Any]:
    nodeid = distinct(record.nodeid)
    parameters = parameters_of(nodeid)
    return {
        "group": distinct(record.nodeid, _LONGEST_GROUP),
        "name": f"{name_of(nodeid)}[{kind}]",
        "fullname": f"{nodeid}[{kind}]",
        "params": {"device": kind},
        "param": f"{parameters}-{kind}" if parameters else kind,
        "extra_info": _extra(record, measurement),
        "options": _options(record, measurement),
        "stats": {
            **spread(measurement.samples),
            "data": measurement.samples.tolist(),
            "iterations": measurement.block_calls,
        },
    }


def spread(samples: Sequence[float]) -> dict[str, float | str]:
    """Return pytest-benchmark's statistics of one sample or more, in seconds.

    Its quartiles, the medians of the halves or for an odd number method 3 of
    https://en.wikipedia.org/wiki/Quartile#Computing_methods, are Hazen's; fences are Tukey's, 1.5 IQR beyond.
    """
    data = np.sort(samples)
    rounds, total = len(data), fsum(data)
    mean = np.clip(total / rounds, data[0], data[-1])  # rounding may not leave the samples' own range
    with np.errstate(over="raise"):
        stddev = np.sqrt(((data - mean) ** 2).sum() / max(rounds - 1, 1))
    low, middle, high = np.quantile(data, [0.25, 0.5, 0.75], method="hazen")
    inside = _between(data, low - 1.5 * (high - low), high + 1.5 * (high - low))
    iqr_outliers = rounds - len(inside)
    stddev_outliers = rounds - len(_between(data, mean - stddev, mean + stddev))
    return {
        "min": data[0],
        "max": data[-1],
        "mean": mean,
        "stddev": stddev,
        "rounds": rounds,
        "median": middle,
        "iqr": high - low,
        "q1": low,
        "q3": high,
        "iqr_outliers": iqr_outliers,
        "stddev_outliers": stddev_outliers,
        "outliers": f"{stddev_outliers};{iqr_outliers}",
        "ld15iqr": inside[0],
        "hd15iqr": inside[-1],
        "ops": rounds / total if total else 0.0,
        "total": total,
    }


def _between(data: Any, low: float, high: float) -> Any:
    return data[(low <= data) & (data <= high)]


def _extra(record: Record, measurement: Measurement) -> dict[str, Any]:
    """Return what pytest-benchmark has no place for: the device, the verdict, speedup, efficiency."""
    parts = {"speedup": "value", "speedup_low": "low", "speedup_high": "high"}
    ends = {"efficiency": "value", "efficiency_low": "low", "efficiency_high": "high"}
    efficiency = record.scaling.efficiency if record.scaling else None
    return {
        "device": printable(measurement.device.name),
        "backend": printable(measurement.device.backend),
        "emulated": measurement.device.emulated,
        "status": record.status,
        "reason": _shown(record.reason),
        **{name: getattr(record.speedup, part, None) for name, part in parts.items()},
        **{name: getattr(efficiency, part, None) for name, part in ends.items()},
    }


def _options(record: Record, measurement: Measurement) -> dict[str, Any]:
    """Return how it was measured, in pytest-benchmark's words; null where a report does not have it."""
    return {
        "disable_gc": True,
        "timer": "perf_counter",
        "min_rounds": None,
        "max_time": record.demand.max_time,
        "min_time": measurement.block_time,
        "precision": None,
        "confidence": None,
        "warmup": measurement.warmup_calls > 0,
    }


def _machine(environment: Environment) -> dict[str, Any]:
    """Return the machine in pytest-benchmark's words; null where a report does not have it."""
    host, cpu, gpu = environment.host, environment.cpu, environment.gpu
    return {
        "node": _shown(host.get("name")),
        "processor": "",
        "machine": _shown(host.get("machine")),
        "python_compiler": None,
        "python_implementation": None,
        "python_implementation_version": printable(environment.python),
        "python_version": printable(environment.python),
        "python_build": [],
        "release": None,
        "system": _shown(host.get("system")),
        "cpu": {"brand_raw": _shown(cpu.get("name")), "count": cpu.get("logical")},
        "gpu": {"name": printable(gpu.name), "emulated": gpu.emulated} if gpu else None,
    }


def _commit(commit: Commit | None) -> dict[str, Any]:
    """Return the commit in pytest-benchmark's words, with its own for what is not known."""
    return {
        "id": printable(commit.id) if commit else "unversioned",
        "time": commit.time if commit else None,
        "author_time": None,
        "dirty": bool(commit and commit.changed),
        "project": None,
        "branch": printable(commit.branch) if commit and commit.branch else "(unknown)",
    }


def _shown(value: float | str | None) -> str | None:
    return None if value is None else printable(str(value))
