"""Run <-> the JSON document, version 1.3, and the check against its published schema."""

import json
from functools import cache
from importlib import resources
from typing import Any, cast

from pytest_gpuperf.documents import (
    dump_environment,
    dump_record,
    dump_selections,
    load_commit,
    load_environment,
    load_gate,
    load_merged,
    load_record,
    load_selections,
    load_threshold,
    plain,
)
from pytest_gpuperf.model import GpuPerfError, Run

__all__ = [
    "VERSION",
    "document",
    "dump_environment",
    "dump_record",
    "dump_selections",
    "load",
    "load_environment",
    "load_record",
    "load_selections",
    "text",
    "validate",
]

VERSION = "1.3"
_READABLE = ("1.0", "1.1", "1.2", VERSION)


def document(run: Run) -> dict[str, Any]:
    """Return a run as the JSON document of the report."""
    return {
        "schema_version": VERSION,
        "started": run.started,
        "complete": run.complete,
        "cost_ratio": run.cost_ratio,
        "environment": dump_environment(run.environment),
        "records": [dump_record(record) for record in run.records],
        "thresholds": [plain(threshold) for threshold in run.thresholds],
        "selections": dump_selections(run.selections),
        "merged": plain(run.merged) if run.merged else None,
        "commit": plain(run.commit) if run.commit else None,
        "gate": plain(run.gate) if run.gate else None,
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
    """Return the run in a document; raise GpuPerfError when its version or its shape is not ours.

    Documents of earlier minor versions have less in them: what they lack is None, or empty.
    """
    version = content.get("schema_version") if isinstance(content, dict) else None
    if not isinstance(version, str) or not version.startswith("1."):
        raise GpuPerfError(f"this is no report that this version can read: schema_version is {version!r}")
    if version not in _READABLE:
        raise GpuPerfError(f"the report's schema {version} is newer than {VERSION}; update pytest-gpuperf")
    validate(content)
    return Run(
        environment=load_environment(content["environment"]),
        started=content["started"],
        complete=content["complete"],
        cost_ratio=content.get("cost_ratio"),
        records=tuple(load_record(record) for record in content["records"]),
        thresholds=tuple(load_threshold(threshold) for threshold in content.get("thresholds", ())),
        selections=load_selections(content.get("selections", ())),
        merged=load_merged(content["merged"]) if content.get("merged") else None,
        commit=load_commit(content["commit"]) if content.get("commit") else None,
        gate=load_gate(content["gate"]) if content.get("gate") else None,
    )


def validate(content: Any) -> None:
    """Raise GpuPerfError, with the place and the cause, when a document breaks the schema of its version."""
    from jsonschema.exceptions import best_match

    version = content.get("schema_version") if isinstance(content, dict) else None
    error = best_match(_validator(version if version in _READABLE else VERSION).iter_errors(content))
    if error is not None:
        raise GpuPerfError(f"the report breaks its schema at {error.json_path}: {error.message[:200]}")


@cache
def _validator(version: str) -> Any:
    """Return the validator; jsonschema is imported here because only a run with a report needs it."""
    from jsonschema import Draft202012Validator

    file = resources.files("pytest_gpuperf").joinpath(f"report-{version}.schema.json")
    return Draft202012Validator(cast("dict[str, Any]", json.loads(file.read_text(encoding="utf-8"))))
