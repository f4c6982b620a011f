"""Run -> the JSON of pytest-benchmark, for `pytest-benchmark compare` and what else reads it."""

from collections.abc import Iterator
from typing import Any

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.measurement import Measurement
from pytest_gpuperf.model.record import Environment, Record, Run
from pytest_gpuperf.report.escape import distinct, printable
from pytest_gpuperf.report.exports.spread import spread
from pytest_gpuperf.report.json import codec

__all__ = ["text"]

_VERSION = "5.1.0"  # the release of pytest-benchmark whose files have this shape


def text(run: Run) -> str:
    """Return one benchmark for each device of each test that was timed: `test_fft[cpu]`, `test_fft[gpu]`."""
    content = {
        "machine_info": _machine(run.environment),
        "commit_info": _commit(run.commit),
        "benchmarks": [benchmark for record in run.records for benchmark in _benchmarks(record)],
        "datetime": run.started,
        "version": _VERSION,
    }
    return codec.text(content) + "\n"


def _benchmarks(record: Record) -> Iterator[dict[str, Any]]:
    sides: tuple[tuple[Kind, Measurement | None], ...] = (("cpu", record.cpu), ("gpu", record.gpu))
    for side, measured in sides:
        if measured and measured.samples:
            yield _benchmark(record, side, measured)


def _benchmark(record: Record, side: Kind, measured: Measurement) -> dict[str, Any]:
    nodeid = distinct(record.nodeid)
    path, bracket, parameters = nodeid.partition("[")
    return {
        "group": nodeid,
        "name": f"{path.split('::')[-1]}{bracket}{parameters}[{side}]",
        "fullname": f"{nodeid}[{side}]",
        "params": {"device": side},
        "param": f"{parameters.removesuffix(']')}-{side}" if parameters else side,
        "extra_info": _extra(record, measured),
        "options": _options(record, measured),
        "stats": {
            **spread(measured.samples),
            "data": measured.samples.tolist(),
            "iterations": measured.block_calls,
        },
    }


def _extra(record: Record, measured: Measurement) -> dict[str, Any]:
    """Return what pytest-benchmark has no place for: the device, the verdict and the speedup."""
    speedup = record.speedup
    return {
        "device": printable(measured.device.name),
        "backend": printable(measured.device.backend),
        "emulated": measured.device.emulated,
        "status": record.status,
        "reason": None if record.reason is None else printable(record.reason),
        "speedup": speedup.value if speedup else None,
        "speedup_low": speedup.low if speedup else None,
        "speedup_high": speedup.high if speedup else None,
        "confidence": speedup.confidence if speedup else None,
    }


def _options(record: Record, measured: Measurement) -> dict[str, Any]:
    """Return how it was measured, in pytest-benchmark's words; null where a report does not tell."""
    return {
        "disable_gc": True,
        "timer": "perf_counter",
        "min_rounds": None,
        "max_time": record.demand.max_time,
        "min_time": measured.block_time,
        "precision": None,
        "confidence": None,
        "warmup": measured.warmup_calls > 0,
    }


def _machine(environment: Environment) -> dict[str, Any]:
    """Return the machine in pytest-benchmark's words; null where a report does not tell."""
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
