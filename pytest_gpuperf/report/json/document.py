"""Run <-> the text of a report, laid out for people and for speed: each record is a line."""

import json
from collections import Counter
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.timing.gc_pause import gc_paused

VERSION = "1.0"
MARK = b"\xef\xbb\xbf"
"""What some editors on Windows begin a text in UTF-8 with."""
_NO_RECORDS = '"records": []'  # as no text in JSON has it, in which quotes are escaped
_REMEDY = "name one that --gpuperf-json wrote"
_TIMES = {"cpu", "gpu"}
_COMPUTED = ("speedup", "offload", "diagnosis", "comparisons")  # of both times


def line_of(record: Record) -> str:
    """Return a record as a line of a report; raise GpuPerfError, with the place, if that cannot hold it."""
    _check_reason(record, "$")
    return codec.text(record)


def record_in(content: bytes) -> Record:
    """Return the record in a line; raise GpuPerfError, with the place, for one that no report can hold."""
    found = codec.load(content, Record)
    _check_reason(found, "$")
    return found


def possible(record: Record) -> Record:
    """Return a record that a report can hold: without the fields that none can, which its reason names.

    A verdict may rest on them and is an error; what was computed of wrong times goes with these.
    """
    has_reason = record.status not in ("passed", "recorded")
    if has_reason != bool(record.reason):
        record = replace(record, reason="no reason was given" if has_reason else None)
    bare = Record(nodeid=record.nodeid, status=record.status, reason=record.reason, demand=Demand())
    wrong = codec.wrong_fields(record, bare)
    if not wrong:
        return record
    reason = f"what was measured is impossible and not kept: {_named(wrong)}"
    lost = {*wrong, *(_COMPUTED if _TIMES & wrong.keys() else ())}
    kept = replace(record, **{name: getattr(bare, name) for name in lost})
    if record.status in ("skipped", "error"):
        return replace(kept, reason=f"{record.reason}; {reason}")
    return replace(kept, status="error", reason=reason, reason_code=None)


def possible_run(run: Run) -> tuple[Run, str]:
    """Return a run without the fields besides its records that no report can hold, and these, named."""
    bare = Run(started=run.started, environment=run.environment)
    wrong = codec.wrong_fields(replace(run, records=()), bare)
    return replace(run, **{name: getattr(bare, name) for name in wrong}), _named(wrong)


@gc_paused()
def text(run: Run, line: Callable[[Record], str] = line_of) -> str:
    """Return a run as JSON text; raise GpuPerfError, naming the place, if it breaks the schema.

    Each record is a line, so that reports can be compared line by line.
    """
    _check(run)
    heading = json.loads(codec.text(replace(run, records=())))
    heading["summary"] = codec.dump(run.summary)
    before, after = codec.indented(heading).split(_NO_RECORDS)
    lines = ",\n  ".join(map(line, run.records))
    records = f'"records": [\n  {lines}\n ]' if lines else _NO_RECORDS
    return f"{before}{records}{after}\n"


def parse(content: bytes) -> Run:
    """Return the run in a report's text, in UTF-8; raise GpuPerfError, with the place, when it holds none."""
    content = content.removeprefix(MARK)
    try:
        run = codec.load(content, Run)
    except GpuPerfError:
        _check_version(content)
        raise
    _check(run)
    return run


def _named(wrong: dict[str, GpuPerfError]) -> str:
    return "; ".join(f"{name}: {error}" for name, error in wrong.items())


def _check(run: Run) -> None:
    """Raise GpuPerfError for what the types of a report cannot express.

    The published schema has the first of these as if, then and else; no schema can express the other.
    """
    for index, record in enumerate(run.records):
        _check_reason(record, f"$.records[{index}]")
    counts = Counter(record.nodeid for record in run.records)
    if len(counts) < len(run.records):
        nodeid, number = counts.most_common(1)[0]
        raise GpuPerfError(f"it has {number} records of {repr(nodeid)[:80]}; remove all but one")


def _check_reason(record: Record, place: str) -> None:
    if (record.reason is None) != (record.status in ("passed", "recorded")) or record.reason == "":
        cause = f"a record that {record.status} has {'no' if record.reason else 'a'} reason"
        raise codec.broken(f"{place}.reason", cause)


def _check_version(content: bytes) -> None:
    """Raise GpuPerfError for JSON that is no report of this version."""
    try:
        found = msgspec.json.decode(content)
    except (ValueError, RecursionError):
        return  # it is no JSON
    version = found.get("schema_version") if isinstance(found, dict) else None
    if version is None:
        raise GpuPerfError(f"this is no report: it has no schema_version; {_REMEDY}")
    if version != VERSION:
        wrong = f"its schema_version is {repr(version)[:80]}, and not {VERSION}"
        raise GpuPerfError(f"{wrong}; update pytest-gpuperf if it is older, or {_REMEDY}")
