"""Run <-> the JSON document, version 1.0, and the check against its published schema."""

import json
from array import array
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any, cast

from pytest_gpuperf.model import (
    Demand,
    DeviceInfo,
    Environment,
    GpuPerfError,
    Measurement,
    Parity,
    Record,
    Run,
    Speedup,
)

__all__ = [
    "VERSION",
    "document",
    "dump_environment",
    "dump_record",
    "load",
    "load_environment",
    "load_record",
    "text",
    "validate",
]

VERSION = "1.0"


def document(run: Run) -> dict[str, Any]:
    """Return a run as the JSON document of the report."""
    return {
        "schema_version": VERSION,
        "started": run.started,
        "complete": run.complete,
        "environment": dump_environment(run.environment),
        "records": [dump_record(record) for record in run.records],
        "summary": dict(run.summary),
    }


def text(run: Run) -> str:
    """Return a run as JSON text; raise GpuPerfError, naming the place, if it breaks the schema."""
    content = document(run)
    validate(content)
    try:
        return json.dumps(content, indent=1, allow_nan=False) + "\n"
    except ValueError as error:
        raise GpuPerfError(f"the report holds a number that is not finite: {error}") from error


def load(content: Any) -> Run:
    """Return the run in a document; raise GpuPerfError when its version or its shape is not ours."""
    version = content.get("schema_version") if isinstance(content, dict) else None
    if not isinstance(version, str) or not version.startswith("1."):
        raise GpuPerfError(f"this is no report that this version can read: schema_version is {version!r}")
    if version != VERSION:
        raise GpuPerfError(f"the report's schema {version} is newer than {VERSION}; update pytest-gpuperf")
    validate(content)
    return Run(
        environment=load_environment(content["environment"]),
        started=content["started"],
        complete=content["complete"],
        records=tuple(load_record(record) for record in content["records"]),
    )


def validate(content: Any) -> None:
    """Raise GpuPerfError, with the place and the cause, when a document breaks the schema."""
    from jsonschema.exceptions import best_match

    error = best_match(_validator().iter_errors(content))
    if error is not None:
        raise GpuPerfError(f"the report breaks its schema at {error.json_path}: {error.message[:200]}")


def dump_record(record: Record) -> dict[str, Any]:
    """Return a record as it stands in the document."""
    return {
        "nodeid": record.nodeid,
        "status": record.status,
        "reason": record.reason,
        "demand": {**asdict(record.demand), "alpha": record.alpha},
        "scope": record.scope,
        "cpu": _dump_measurement(record.cpu),
        "gpu": _dump_measurement(record.gpu),
        "speedup": asdict(record.speedup) if record.speedup else None,
        "parity": asdict(record.parity) if record.parity else None,
        "transfer": None,
        "offload": None,
        "parity_elapsed": record.parity_elapsed,
        "rounds_elapsed": record.rounds_elapsed,
        "elapsed": record.elapsed,
        "notes": list(record.notes),
    }


def load_record(content: dict[str, Any]) -> Record:
    """Return the record that `dump_record` wrote."""
    asked = dict(content["demand"])
    alpha = asked.pop("alpha")
    plain = ("nodeid", "status", "reason", "scope", "parity_elapsed", "rounds_elapsed", "elapsed")
    return Record(
        **{name: content[name] for name in plain},
        demand=Demand(**asked),
        alpha=alpha,
        cpu=_load_measurement(content["cpu"]),
        gpu=_load_measurement(content["gpu"]),
        speedup=Speedup(**content["speedup"]) if content["speedup"] else None,
        parity=Parity(**content["parity"]) if content["parity"] else None,
        notes=tuple(content["notes"]),
    )


def dump_environment(environment: Environment) -> dict[str, Any]:
    """Return an environment as it stands in the document."""
    return asdict(environment)


def load_environment(content: dict[str, Any]) -> Environment:
    """Return the environment that `dump_environment` wrote."""
    gpu = DeviceInfo(**content["gpu"]) if content["gpu"] else None
    return Environment(**{**content, "gpu": gpu})


def _dump_measurement(measurement: Measurement | None) -> dict[str, Any] | None:
    if measurement is None:
        return None
    return {
        "device": asdict(measurement.device),
        "median": measurement.median,
        "samples": measurement.samples.tolist(),
        "block_calls": measurement.block_calls,
        "setup": measurement.setup,
        "first_call": measurement.first_call,
        "warmup": measurement.warmup,
        "warmup_calls": measurement.warmup_calls,
        "steady": measurement.steady,
        "synchronize_cost": measurement.synchronize_cost,
        "device_time": measurement.device_time,
        "waited": measurement.waited,
    }


def _load_measurement(content: dict[str, Any] | None) -> Measurement | None:
    if content is None:
        return None
    plain = {name: value for name, value in content.items() if name not in ("device", "median", "samples")}
    return Measurement(
        device=DeviceInfo(**content["device"]), samples=array("d", content["samples"]), **plain
    )


@cache
def _validator() -> Any:
    """Return the validator; jsonschema is imported here because only a run with a report needs it."""
    from jsonschema import Draft202012Validator

    schema = resources.files("pytest_gpuperf").joinpath("report-1.0.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator(cast("dict[str, Any]", json.loads(schema)))
