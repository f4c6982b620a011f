"""Run <-> the text of a report, laid out for people and for speed: each record is a line; and its schema."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.timing.gc_pause import gc_paused

VERSION = "1.0"
_RECORD = re.compile(rb'\s*\{"nodeid"')  # how the line of a record begins, if nobody has laid it out anew
_ERRORS = 1000  # the most to choose the most informative one from


@gc_paused()
def text(run: Run, line: Callable[[Record], str] = codec.text) -> str:
    """Return a run as JSON text; raise GpuPerfError, naming the place, if it breaks the schema.

    Each record is a line, so that reports can be compared line by line.
    """
    _checked(run)
    heading = json.loads(codec.text(replace(run, records=())))
    return "".join(_laid_out(heading | {"summary": codec.dump(run.summary)}, map(line, run.records)))


def parse(content: bytes) -> Run:
    """Return the run in a report's text, in UTF-8; raise GpuPerfError, with the place, when it holds none."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        run = codec.load(content, Run)
    except GpuPerfError:
        _check_version(content)
        raise
    return _checked(run, content)


def _checked(run: Run, source: bytes = b"") -> Run:
    """Return the run; raise GpuPerfError, with the place, for what the types of a report cannot express.

    The published schema has the first of these as if, then and else; no schema can express the other.
    """
    for index, record in enumerate(run.records):
        if (record.reason is None) != (record.status in ("passed", "recorded")) or record.reason == "":
            cause = f"a record that {record.status} has {'no' if record.reason else 'a'} reason"
            raise codec.broken(f"$.records[{index}].reason", cause)
    counts = Counter(record.nodeid for record in run.records)
    if len(counts) < len(run.records):
        nodeid, _ = counts.most_common(1)[0]
        same = [index for index, record in enumerate(run.records) if record.nodeid == nodeid][:2]
        lines = [number for number, line in enumerate(source.split(b"\n"), 1) if _RECORD.match(line)]
        has_lines = len(lines) == len(run.records)
        first, second = (f"$.records[{at}]{f' (line {lines[at]})' if has_lines else ''}" for at in same)
        raise GpuPerfError(f"{first} and {second} are both of {repr(nodeid)[:80]}; leave one of them out")
    return run


def _laid_out(heading: dict[str, Any], records: Iterable[str]) -> Iterator[str]:
    before = "{\n"
    for name, part in heading.items():
        yield f"{before} {codec.plain(name)}: "
        yield from _list(records) if name == "records" else _member(part)
        before = ",\n"
    yield "\n}\n"


def _member(value: Any) -> Iterable[str]:
    if value and isinstance(value, dict):
        return _list((f"{codec.plain(name)}: {codec.plain(part)}" for name, part in value.items()), "{}")
    if isinstance(value, list | tuple):
        return _list(map(codec.plain, value))
    return (codec.plain(value),)


def _list(lines: Iterable[str], brackets: str = "[]") -> Iterator[str]:
    """Yield a list with an item a line."""
    before = f"{brackets[0]}\n  "
    for line in lines:
        yield f"{before}{line}"
        before = ",\n  "
    yield f"\n {brackets[1]}" if before == ",\n  " else brackets


def published_schema(name: str) -> dict[str, Any]:
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
        _check_schema(content, "$")
        return
    _check_schema({**content, "records": []}, "$")
    for index, record in enumerate(records):
        if progress:
            progress(index, len(records))
        _check_schema(record, f"$.records[{index}]", "/$defs/Record")


def _check_schema(content: Any, place: str, part: str = "") -> None:
    from jsonschema.exceptions import best_match

    try:
        error = best_match(islice(_validator(part).iter_errors(content), _ERRORS))
    except RecursionError:
        raise codec.broken(place, "it is nested too deeply") from None
    if error is not None:
        raise codec.broken(f"{place}{error.json_path[1:]}", error.message)


@cache
def _validator(part: str) -> Any:
    """Return the validator of a part; jsonschema is imported here because only validating needs it."""
    from jsonschema import Draft202012Validator

    schema = published_schema("report")
    if part:
        schema = {"$schema": schema["$schema"], "$ref": f"#{part}", "$defs": schema["$defs"]}
    return Draft202012Validator(schema)


def _check_version(content: bytes) -> None:
    """Raise GpuPerfError for JSON that is no report of this version."""
    try:
        found = msgspec.json.decode(content)
    except (ValueError, RecursionError):
        return  # it is no JSON, or no number
    version = found.get("schema_version") if isinstance(found, dict) else None
    if version == VERSION:
        return
    # A text that is no version, or an absurd one, is not newer.
    numbers = re.fullmatch(r"([1-9][0-9]{0,8})\.([0-9]{1,9})", version) if isinstance(version, str) else None
    if numbers and [*map(int, numbers.groups())] > [*map(int, VERSION.split("."))]:
        raise GpuPerfError(f"its schema_version {version} is newer than {VERSION}; update pytest-gpuperf")
    has = "it has no schema_version" if version is None else f"its schema_version is {repr(version)[:80]}"
    raise GpuPerfError(f"this is no report: {has}; name one that --gpuperf-json wrote")
