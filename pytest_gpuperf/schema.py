"""Run <-> the JSON document, version 1.0, and the check against its published schema."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pytest_gpuperf import jsontext, layout, validation
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
    load_valid_record,
    plain,
)
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record, Run

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
    "parse",
    "text",
    "validate",
]

VERSION = "1.0"
_READABLE = (VERSION,)


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
    """Return a run as JSON text; raise GpuPerfError, naming the place, if it breaks the schema.

    Each record is a line, so that reports can be compared line by line.
    """
    heading = document(replace(run, records=())) | {"summary": dict(run.summary)}
    validation.check(heading, VERSION)
    try:
        return layout.text(heading, "records", _lines(run.records))
    except ValueError as error:
        raise GpuPerfError(f"the report holds a number that is not finite: {error}") from error


def _lines(records: Iterable[Record]) -> Iterator[str]:
    """Yield the text of each record, of which the document exists one at a time."""
    for index, record in enumerate(records):
        content = dump_record(record)
        validation.check_record(content, VERSION, index)
        yield jsontext.line(content)


def parse(content: bytes) -> Run:
    """Return the run in a report's text, in UTF-8.

    Raises ValueError, with the place, when it is no JSON, and GpuPerfError as `load` does.
    """
    try:
        laid = layout.split(content, "records")
        if laid is not None:
            return _streamed(*laid)
    except ValueError:  # a line of it is no JSON: its place is found in the whole
        pass
    return load(jsontext.parse(content.decode("utf-8-sig")))


def _streamed(heading: dict[str, Any], lines: Iterable[bytes]) -> Run:
    """Return the run of a text as `text` writes it, of which one record's document exists at a time."""
    version = _version(heading)
    validation.check(heading, version)
    return _run(heading, tuple(_records(lines, version)))


def _records(lines: Iterable[bytes], version: str) -> Iterator[Record]:
    for index, line in enumerate(lines):
        content = jsontext.parse_line(line)
        validation.check_record(content, version, index)
        yield load_valid_record(content)


def load(content: Any) -> Run:
    """Return the run in a document; raise GpuPerfError when its version or its shape is not ours.

    Documents of earlier minor versions have less in them: what they lack is None, or empty.
    """
    validation.check(content, _version(content))
    return _run(content, tuple(map(load_valid_record, content["records"])))


def validate(content: Any) -> None:
    """Raise GpuPerfError, with the place and the cause, when a document breaks the schema of its version."""
    version = content.get("schema_version") if isinstance(content, dict) else None
    validation.check(content, version if version in _READABLE else VERSION)


def _version(content: Any) -> str:
    """Return a document's version; raises GpuPerfError when it is none that can be read."""
    version = content.get("schema_version") if isinstance(content, dict) else None
    if not isinstance(version, str):
        raise GpuPerfError("this is no report; name one that --gpuperf-json wrote")
    if version in _READABLE:
        return version
    if _is_newer(version):
        raise GpuPerfError(f"the report's schema {version} is newer than {VERSION}; update pytest-gpuperf")
    raise GpuPerfError(
        f"this is no report that can be read: its schema_version is {repr(version)[:80]}; "
        "name one that --gpuperf-json wrote"
    )


def _is_newer(version: str) -> bool:
    """Say whether a document's version comes after ours; one that is no version, or absurd, does not."""
    if not re.fullmatch(r"[0-9]{1,9}\.[0-9]{1,9}", version):
        return False
    return _numbers(version) > _numbers(VERSION)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _run(content: dict[str, Any], records: tuple[Record, ...]) -> Run:
    return Run(
        environment=load_environment(content["environment"]),
        started=content["started"],
        complete=content["complete"],
        cost_ratio=content.get("cost_ratio"),
        records=records,
        thresholds=tuple(load_threshold(threshold) for threshold in content.get("thresholds", ())),
        selections=load_selections(content.get("selections", ())),
        merged=load_merged(content["merged"]) if content.get("merged") else None,
        commit=load_commit(content["commit"]) if content.get("commit") else None,
        gate=load_gate(content["gate"]) if content.get("gate") else None,
    )
