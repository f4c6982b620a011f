"""Run <-> the text of a report, laid out for people and for speed: each record is a line."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report.json import codec, schema
from pytest_gpuperf.timing.gc_pause import gc_paused

_RECORD = re.compile(rb'\s*\{"nodeid"')  # how the line of a record begins, if nobody has laid it out anew


@gc_paused()
def text(run: Run) -> str:
    """Return a run as JSON text; raise GpuPerfError, naming the place, if it breaks the schema.

    Each record is a line, so that reports can be compared line by line.
    """
    _checked(run)
    heading = codec.load(codec.dump(replace(run, records=())), Run)
    lines = (codec.written(record, f"$.records[{index}]") for index, record in enumerate(run.records))
    return "".join(_laid_out(codec.dump(heading) | {"summary": run.summary}, lines))


def parse(content: bytes) -> Run:
    """Return the run in a report's text, in UTF-8.

    Raises ValueError, with the place, when it is no JSON, and GpuPerfError as `load` does.
    """
    run = codec.quick(content, Run, _pieces)
    if run is None:
        return load(codec.parse(content.decode("utf-8-sig")), content)
    return _checked(run, content)


def load(content: Any, source: bytes = b"") -> Run:
    """Return the run in a document; raise GpuPerfError when its version or its shape is not ours.

    `source` is the text that it was read from, for the lines in the errors.
    """
    schema.check_version(content, "schema_version", "report", "; name one that --gpuperf-json wrote")
    return _checked(codec.load(content, Run), source)


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


def _pieces(run: Run) -> Iterator[bytes]:
    """Yield what `text` returns for a run that was read from it, without proving it once more."""
    heading = codec.dump(replace(run, records=())) | {"summary": run.summary}
    yield from map(str.encode, _laid_out(heading, (codec.encode(record).decode() for record in run.records)))


def _laid_out(heading: dict[str, Any], records: Iterable[str]) -> Iterator[str]:
    before = "{\n"
    for name, part in heading.items():
        yield f"{before} {codec.text(name)}: "
        yield from _list(records) if name == "records" else _member(part)
        before = ",\n"
    yield "\n}\n"


def _member(value: Any) -> Iterable[str]:
    if value and isinstance(value, dict):
        return _list((f"{codec.text(name)}: {codec.text(part)}" for name, part in value.items()), "{}")
    if isinstance(value, list | tuple):
        return _list(map(codec.text, value))
    return (codec.text(value),)


def _list(lines: Iterable[str], brackets: str = "[]") -> Iterator[str]:
    """Yield a list with an item a line."""
    before = f"{brackets[0]}\n  "
    for line in lines:
        yield f"{before}{line}"
        before = ",\n  "
    yield f"\n {brackets[1]}" if before == ",\n  " else brackets
