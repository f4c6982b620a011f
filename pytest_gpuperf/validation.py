"""From a document, or a part of one, to whether it keeps the published schema, and where it does not.

jsonschema judges; what jsonschema-rs accepts, where it is installed, need not come before it. That is a
hundred times as quick.
"""

import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any, Literal

from pytest_gpuperf import jsontext
from pytest_gpuperf.model.errors import GpuPerfError

__all__ = ["check", "check_record"]

_Part = Literal["document", "record"]
_ERRORS = 1000  # the most to choose the most telling one from


def check(content: Any, version: str) -> None:
    """Raise GpuPerfError, with the place and the cause, when a document breaks the schema of a version."""
    records = content.get("records") if isinstance(content, dict) else None
    if not isinstance(records, list):
        _check(content, version, "document", "$")
        return
    _check({**content, "records": []}, version, "document", "$")
    for index, record in enumerate(records):
        check_record(record, version, index)
    _check_bounded(content, "$")


def check_record(content: Any, version: str, index: int) -> None:
    """Raise GpuPerfError when a record of a document breaks the schema; `index` is its place there."""
    _check(content, version, "record", f"$.records[{index}]")


def _check(content: Any, version: str, part: _Part, place: str) -> None:
    if _accepted(content, version, part):
        return
    from jsonschema.exceptions import best_match

    try:
        error = best_match(islice(_judge(version, part).iter_errors(content), _ERRORS))
        found = error and (f"{place}{error.json_path[1:]}", error.message[:200])
    except RecursionError:
        found = (place, "it is nested too deeply")
    if found is not None:
        raise GpuPerfError(f"the report breaks its schema at {found[0]}: {found[1]}")
    _check_bounded(content, place)


def _check_bounded(content: Any, place: str) -> None:
    """Raise GpuPerfError for what the schema does not exclude, as JSON has no such numbers: infinity."""
    if found := jsontext.unbounded(content, place):
        raise GpuPerfError(f"the report breaks its schema at {found}: the number is beyond a double's range")


def _accepted(content: Any, version: str, part: _Part) -> bool:
    """Say whether jsonschema-rs accepts; what it does not, or cannot read, may be valid."""
    accepts = _acceptor(version, part)
    try:
        return accepts is not None and accepts(content)
    except (ValueError, RecursionError):  # half a character, or too deep for it
        return False


@cache
def _acceptor(version: str, part: _Part) -> Callable[[Any], bool] | None:
    try:
        from jsonschema_rs import Draft202012Validator
    except ImportError:
        return None
    return Draft202012Validator(_schema(version, part)).is_valid


@cache
def _judge(version: str, part: _Part) -> Any:
    """Return the validator; jsonschema is imported here because only a report that is wrong needs it."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(_schema(version, part))


@cache
def _schema(version: str, part: _Part) -> dict[str, Any]:
    file = resources.files("pytest_gpuperf").joinpath(f"report-{version}.schema.json")
    whole: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if part == "document":
        return whole
    return {"$schema": whole["$schema"], "$ref": "#/$defs/record", "$defs": whole["$defs"]}
