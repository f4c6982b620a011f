"""The versions of the report and its published schema, against which jsonschema checks a document."""

import json
import re
from collections.abc import Callable
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.report.json import codec

VERSION = "1.0"
_ERRORS = 1000  # the most to choose the most informative one from


def published(name: str) -> dict[str, Any]:
    """Return the schema that the package publishes of a `report` or a `history`."""
    file = resources.files(__package__).joinpath("schemas", f"{name}-{VERSION}.json")
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def validate(content: Any, progress: Callable[[int, int], None] | None = None) -> None:
    """Raise GpuPerfError, with the place and the cause, when a document breaks the published schema.

    `progress` is called with the records that were checked, and their number, before each of them.
    """
    records = content.get("records") if isinstance(content, dict) else None
    if not isinstance(records, list):
        _check(content, "$")
        return
    _check({**content, "records": []}, "$")
    for index, record in enumerate(records):
        if progress:
            progress(index, len(records))
        _check(record, f"$.records[{index}]", "/$defs/Record")


def _check(content: Any, place: str, part: str = "") -> None:
    from jsonschema.exceptions import best_match

    try:
        error = best_match(islice(_validator(part).iter_errors(content), _ERRORS))
    except RecursionError:
        raise codec.broken(place, "it is nested too deeply") from None
    if error is not None:
        raise codec.broken(f"{place}{error.json_path[1:]}", error.message)
    if wild := codec.unbounded(content, place):  # the schema does not exclude infinity, as JSON has none
        raise codec.broken(wild, "the number is beyond the range of a double")


@cache
def _validator(part: str) -> Any:
    """Return the validator of a part; jsonschema is imported here because only validating needs it."""
    from jsonschema import Draft202012Validator

    schema = published("report")
    if part:
        schema = {"$schema": schema["$schema"], "$ref": f"#{part}", "$defs": schema["$defs"]}
    return Draft202012Validator(schema)


def check_version(content: Any, key: str, kind: str, remedy: str = "") -> None:
    """Raise GpuPerfError for a document whose version, which is under a key, cannot be read."""
    version = content.get(key) if isinstance(content, dict) else None
    if version == VERSION:
        return
    # A text that is no version, or an absurd one, is not newer.
    numbers = re.fullmatch(r"([1-9][0-9]{0,8})\.([0-9]{1,9})", version) if isinstance(version, str) else None
    if numbers and [*map(int, numbers.groups())] > [*map(int, VERSION.split("."))]:
        raise GpuPerfError(f"its {key} {version} is newer than {VERSION}; update pytest-gpuperf")
    has = f"it has no {key}" if version is None else f"its {key} is {repr(version)[:80]}"
    raise GpuPerfError(f"this is no {kind}: {has}{remedy}")
