"""From a run to what a reader sees of it, in order: headline, rows, notes, sentences, counts. No layout."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.model import units
from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.names import short_names
from pytest_gpuperf.report.summary import (
    Saying,
    common_cells,
    explained_by_variant,
    gate_lines,
    gpu_text,
    left_alone_text,
    measured_thresholds,
    sayings_of,
    short_change,
    threshold_sentence,
)
from pytest_gpuperf.report.verdicts import (
    FAILURES,
    GRAVEST_FIRST,
    VerdictCode,
    rows_of,
    run_counts,
    shown_records,
    verdict,
    verdict_code,
)

_MOST_UNMARKED = 20  # rows for tests that only --gpuperf-all measured

ShownAbove = Mapping[str, str]
"""What pytest has shown of tests above, by their node ids."""
NOTHING_ABOVE: ShownAbove = MappingProxyType({})


class Row(NamedTuple):
    """One test in the table: its name, its cells by their headings, and how it ended."""

    name: str
    cells: Mapping[str, str]
    code: VerdictCode


class Note(NamedTuple):
    """What is said of some tests: `head` names them."""

    head: str
    texts: Sequence[str]


class View(NamedTuple):
    """A run as its reader sees it.

    `more_notes` is how many texts the notes leave out; `sentences` are those of the thresholds, of what was
    measured without a marker, of the regression check, and the totals.
    """

    headline: str
    headings: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[Note]
    more_notes: int
    sentences: Sequence[Sequence[str]]


def of(run: Run, *, above: ShownAbove = NOTHING_ABOVE, all_notes: bool = False) -> View:
    """Return the view of a run. What pytest has shown `above` is not said again.

    Without `all_notes` each kind of note is said once, and what only explains is left out.
    """
    records = shown_records(run)
    listed = _with_rows(records)
    rows, names = rows_of(listed), short_names(listed)
    notes, more = _notes(listed, names, above, all_notes=all_notes)
    if not all_notes and (busy := _busy(rows, names)) is not None:
        notes.append(busy)
    return View(
        headline=_headline(run, records),
        headings=_headings(rows),
        rows=[Row(names[record.nodeid], _cells(record), verdict_code(record)) for record in rows],
        notes=notes,
        more_notes=more,
        sentences=[
            thresholds(run, measured_thresholds(run), above),
            [*_unmarked(run, rows), *filter(None, [left_alone_text(run)])],
            list(gate_lines(run)),
            _totals(run, records),
        ],
    )


def failures(run: Run, above: ShownAbove) -> list[Note]:
    """Return why the tests failed that did, without what explains it."""
    records = rows_of(shown_records(run))
    failed = [record for record in records if verdict_code(record) in FAILURES]
    bare = [replace(record, notes=(), offload=None) for record in failed]
    return _notes(bare, short_names(records), above, all_notes=True)[0]


def thresholds(run: Run, found: Iterable[Threshold], above: ShownAbove) -> list[str]:
    """Return each threshold's sizes and status, and its reason unless pytest has shown that above."""
    emulated = {record.nodeid for record in run.records if record.is_emulated}
    sentences = []
    for each in found:
        if each.reason and any(each.reason in above.get(point.nodeid, "") for point in each.curve):
            each = replace(each, reason=None)
        gpu = "the emulated GPU" if any(point.nodeid in emulated for point in each.curve) else "the GPU"
        sentences.append(f"threshold of {each.name}: {threshold_sentence(each, gpu)}")
    return sentences


def _with_rows(records: Sequence[Record]) -> list[Record]:
    """Return the records with a marker, and of all others the slowest that have a speedup.

    Those of one function stand together.
    """
    others = [record for record in records if record.source == "all" and record.speedup and record.cpu]
    others.sort(key=lambda record: (record.cpu and record.cpu.median) or 0.0, reverse=True)
    slowest = {record.nodeid for record in others[:_MOST_UNMARKED]}
    listed = [record for record in records if record.source != "all" or record.nodeid in slowest]
    # Workers finish the tests of one function among those of others.
    places: dict[str, int] = {}
    for record in listed:
        places.setdefault(function_of(record.nodeid), len(places))
    return sorted(listed, key=lambda record: places[function_of(record.nodeid)])


def _headline(run: Run, records: Sequence[Record]) -> str:
    gpu, found = gpu_text(run.environment), run.environment.gpu
    cpus = [record.cpu.device for record in records if record.cpu]
    if cpus and all(cpu.emulated for cpu in cpus):
        return printable(f"simulated CPU | {gpu}: synthetic times")
    others = {record.gpu.device.name for record in records if record.gpu and record.is_emulated}
    if found and found.emulated:
        gpu = f"emulated: {gpu}, not a GPU"
    else:
        gpu = "; ".join([f"GPU {gpu}", *(f"emulated: {name}, not a GPU" for name in sorted(others))])
    return printable(f"CPU {run.environment.cpu.get('name') or 'unknown'} | {gpu}")


def _headings(rows: Sequence[Record]) -> list[str]:
    measured = [record.is_emulated for record in rows if record.gpu]
    gpu = "emulated" if measured and all(measured) else "GPU"
    used = {
        "with copies": any(record.offload and record.offload.always for record in rows),
        "change": any(record.comparisons for record in rows),
    }
    headings = ("CPU", gpu, "speedup", "with copies", "limit", "change", "verdict")
    return [heading for heading in headings if used.get(heading, True)]


def _cells(record: Record) -> dict[str, str]:
    always = record.offload.always if record.offload else None
    cells = common_cells(record)
    return {
        **cells,
        "emulated": cells["GPU"],
        "with copies": f"{units.digits(always.value)}x" if always else "-",
        "change": short_change(record),
        "verdict": verdict(record),
    }


def _notes(
    records: Sequence[Record], names: Mapping[str, str], above: ShownAbove, *, all_notes: bool
) -> tuple[list[Note], int]:
    """Return the notes, of the gravest tests first, and how many texts they leave out.

    Texts on the same tests are one note. Of a kind of note that differs from test to test, one is shown.
    """
    in_order = sorted(records, key=lambda record: GRAVEST_FIRST[verdict_code(record)])
    said = list(_said(in_order, above))
    kinds: dict[tuple[str | None, str], dict[str, list[str]]] = {}
    for record, saying in said:
        if all_notes or not (saying.only_explains or saying.code == "interference"):
            kind = (None, saying.text) if all_notes or saying.code is None else (saying.code, "")
            kinds.setdefault(kind, {}).setdefault(saying.text, []).append(names[record.nodeid])
    notes: dict[tuple[str, ...], list[str]] = {}
    for texts in kinds.values():
        (text, tests), *others = texts.items()
        rest = f" ({units.count(len(others), 'note')} of this kind more)" if others else ""
        notes.setdefault(tuple(dict.fromkeys(tests)), []).append(f"{text}{rest}")
    shown = [Note(units.first_few(tests, most=1), texts) for tests, texts in notes.items()]
    return shown, len({saying.text for _, saying in said}) - len(kinds)


def _said(records: Iterable[Record], above: ShownAbove) -> Iterator[tuple[Record, Saying]]:
    """Yield once what is said of each test, if neither pytest nor the test's GPU variant has said it."""
    records = list(records)
    explained = explained_by_variant(records)
    said = [(record, saying) for record in records for saying in sayings_of(record, explained)]
    told = {(record.pairing.partner, saying.text) for record, saying in said if record.pairing}
    for record, saying in said:
        if (record.nodeid, saying.text) not in told and not _is_above(saying.text, record, above):
            told.add((record.nodeid, saying.text))
            yield record, saying


def _is_above(text: str, record: Record, above: ShownAbove) -> bool:
    """Return whether pytest has shown a text above, or the exception that it is about."""
    shown = above.get(record.nodeid)
    is_of_exception = text == record.reason and record.status == "error"
    return shown is not None and (is_of_exception or text in shown)


def _busy(rows: Sequence[Record], names: Mapping[str, str]) -> Note | None:
    """Return how many tests other work disturbed, and the one that it disturbed most."""
    pairs = ((each, of) for of in rows for each in (of.interference, of.gpu_interference))
    found = [(each, of) for each, of in pairs if each is not None]
    if not found:
        return None
    worst, record = min(found, key=lambda pair: pair[0].own_share)
    count = f"{len({of.nodeid for _, of in found})} of {units.count(len(rows), 'test')}"
    text = f"{count}; worst {names[record.nodeid]}, {noise.in_short(worst)}: close other work"
    return Note("machine busy", [text])


def _unmarked(run: Run, rows: Sequence[Record]) -> list[str]:
    """Return how many tests were measured without a marker, and how many of them have no row."""
    if run.unmarked is None:
        return []
    if not run.unmarked:
        return ["--gpuperf-all: 0 tests: no unmarked test has variants on the CPU and on a GPU here"]
    others = [record for record in run.records if record.source == "all"]
    compared = f"{sum(record.speedup is not None for record in others)} compared with a CPU variant"
    above = sum(record.source == "all" for record in rows)
    rest = f"the slowest {above} are above, all are in the report"
    return [f"--gpuperf-all: {units.count(run.unmarked, 'test')}, {compared}; {rest}"]


def _totals(run: Run, records: Sequence[Record]) -> list[str]:
    """Return how many of several tests ended how and are worth it, and how long tests waited."""
    counts = run_counts(run)
    is_plain = len(counts) < 2 and all(count.code in ("passed", "recorded", "skipped") for count in counts)
    totals = [] if is_plain else [", ".join(map(str, counts))]  # pytest says the same of one kind
    for label, is_emulated in (("worth it (GPU surely faster)", False), ("emulated device faster", True)):
        compared = [record for record in records if record.gpu and record.is_emulated == is_emulated]
        offloads = [record.offload for record in compared if record.offload]
        if len(offloads) > 1:
            worth = sum(offload.worth is True for offload in offloads)
            totals.append(f"{label}: {worth} of {len(offloads)}")
        if len(offloads) > 1 and run.cost_ratio is not None:
            saves = sum(offload.price is not None and offload.price.saves is True for offload in offloads)
            totals.append(f"costs less at {run.cost_ratio:g} times the price: {saves}")
    waited = sum(record.turn_wait or 0.0 for record in records)
    waits = f"waited {units.seconds(waited)} in all for other processes that measured"
    return [*filter(None, ["; ".join(totals)]), *([waits] if waited else [])]
