"""Run <-> the text of a report, laid out for people and for speed: each record is a line."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, repeat
from typing import Any

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.json import codec, schema
from pytest_gpuperf.timing.gc_pause import gc_paused

_RECORDS = "records"
_OPENS = f'\n "{_RECORDS}": [\n  '
_NEXT = ",\n  "
_CLOSES = "\n ]"
_WITHOUT_REASON = ("passed", "recorded")


@gc_paused()
def text(run: Run) -> str:
    """Return a run as JSON text; raise GpuPerfError, naming the place, if it breaks the schema.

    Each record is a line, so that reports can be compared line by line.
    """
    _checked(run)
    heading = codec.dump(codec.load(codec.dump(replace(run, records=())), Run))
    heading["summary"] = run.summary
    lines = (codec.written(record, f"$.records[{index}]") for index, record in enumerate(run.records))
    members = (_list(lines) if name == _RECORDS else _member(part) for name, part in heading.items())
    named = (f" {codec.text(name)}: {member}" for name, member in zip(heading, members, strict=True))
    return "{\n" + ",\n".join(named) + "\n}\n"


def parse(content: bytes) -> Run:
    """Return the run in a report's text, in UTF-8.

    Raises ValueError, with the place, when it is no JSON, and GpuPerfError as `load` does.
    """
    try:
        laid_out = _split(content)
        if laid_out is not None:
            heading, lines = laid_out
            schema.check_version(heading)
            run = codec.load(heading, Run)
            places = (f"$.records[{index}]" for index in count())
            records = map(codec.value_in, lines, repeat(Record), places)
            return _checked(replace(run, records=tuple(records)))
    except ValueError:  # a line of it is no JSON: its place is found in the whole
        pass
    return load(codec.parse(content.decode("utf-8-sig")))


def load(content: Any) -> Run:
    """Return the run in a document; raise GpuPerfError when its version or its shape is not ours."""
    schema.check_version(content)
    return _checked(codec.load(content, Run))


def _checked(run: Run) -> Run:
    """Return the run; raise GpuPerfError, with the place, for what the types of a report cannot express.

    The published schema has the first of these as if, then and else; no schema can express the other.
    """
    for index, record in enumerate(run.records):
        if (record.reason is None) != (record.status in _WITHOUT_REASON) or record.reason == "":
            cause = f"a record that {record.status} has {'no' if record.reason else 'a'} reason"
            raise codec.broken(f"$.records[{index}].reason", cause)
    counts = Counter(record.nodeid for record in run.records)
    if len(counts) < len(run.records):
        nodeid, _ = counts.most_common(1)[0]
        first, second, *_ = (index for index, record in enumerate(run.records) if record.nodeid == nodeid)
        raise GpuPerfError(
            f"$.records[{first}] and $.records[{second}] are both of {repr(nodeid)[:80]}; "
            "leave one of them out"
        )
    return run


def _split(content: bytes) -> tuple[Any, Iterator[bytes]] | None:
    """Return the value that a text has without its records, and each record's text.

    None for a text that is laid out in another way. A line end is no part of a text in JSON, and so the
    object is whole when the rest is, and each record is. Raises ValueError when the rest is no JSON.
    """
    opens = _OPENS.encode()
    start = content.find(opens)
    first = start + len(opens)
    end = content.find(_CLOSES.encode(), first)
    if start < 0 or end < 0:
        return None
    head, tail = content[:start].decode(), content[end + len(_CLOSES) :].decode()
    rest = codec.parse(f'{head}\n "{_RECORDS}": []{tail}')
    if not isinstance(rest, dict) or rest.get(_RECORDS) != []:
        return None
    return rest, _items(content, first, end)


def _items(content: bytes, first: int, end: int) -> Iterator[bytes]:
    """Yield the texts between first and end; a search for one byte is ten times as quick as for several."""
    while (stop := content.find(b"\n", first, end)) >= 0:
        if content[stop - 1 : stop + 3] != _NEXT.encode():
            raise ValueError("a line that is no item")
        yield content[first : stop - 1]
        first = stop + 3
    yield content[first:end]


def _member(value: Any) -> str:
    if value and isinstance(value, dict):
        members = (f"{codec.text(name)}: {codec.text(part)}" for name, part in value.items())
        return "{\n  " + _NEXT.join(members) + "\n }"
    if isinstance(value, list | tuple):
        return _list(map(codec.text, value))
    return codec.text(value)


def _list(lines: Iterable[str]) -> str:
    """Return a list with an item a line, none of which is empty."""
    items = _NEXT.join(lines)
    return f"[\n  {items}{_CLOSES}" if items else "[]"
