"""From a run to the lines of the terminal's section: devices, table, notes, thresholds, gate."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from textwrap import wrap
from types import MappingProxyType

from pytest_gpuperf.model import units
from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.summary.cells import about_gpu_limits, common_cells
from pytest_gpuperf.report.summary.comparisons import gate_lines, short_change
from pytest_gpuperf.report.summary.counts import left_alone_text, rows_of, run_counts, shown_records
from pytest_gpuperf.report.summary.environment import gpu_text
from pytest_gpuperf.report.summary.names import short_names
from pytest_gpuperf.report.summary.reasons import explained_by_variant, reasons_of
from pytest_gpuperf.report.summary.scalings import heading, measured_scalings
from pytest_gpuperf.report.summary.scalings import lines as scaling_lines
from pytest_gpuperf.report.summary.thresholds import measured_thresholds, threshold_sentence
from pytest_gpuperf.report.summary.verdicts import VerdictCode, verdict, verdict_code
from pytest_gpuperf.report.text import table
from pytest_gpuperf.report.text.table import Colour, Line, Row

_HEADINGS = ("CPU", "GPU", "speedup", "with copies", "limit", "change", "verdict")
_MOVABLE = (("with copies",), ("limit",), ("change",), ("CPU", "GPU"))
_COLOURS: dict[VerdictCode, Colour | None] = {
    "failed": "red",
    "error": "red",
    "regressed": "red",
    "failed_expected": "yellow",
    "error_expected": "yellow",
    "regressed_expected": "yellow",
    "inconclusive": "yellow",
    "skipped": "yellow",
    "passed": "green",
    "recorded": None,
}
"""The colours of all verdicts, the gravest first."""
_GRAVEST_FIRST = {code: place for place, code in enumerate(_COLOURS)}
_MOST_UNMARKED = 20  # rows for tests that only --gpuperf-all measured
_WIDEST_TEXT = 120  # columns: longer lines of words are hard to read
_MOST_NOTED, _LONGEST_NOTE = 10, 3  # tests, and lines for each
_CUT = " ..."

ShownAbove = Mapping[str, str]
"""What pytest has shown of failed tests above the section, by their node ids."""
NOTHING_ABOVE: ShownAbove = MappingProxyType({})


def lines(run: Run, width: int, *, above: ShownAbove = NOTHING_ABOVE, all_notes: bool = False) -> list[Line]:
    """Return the section's lines, none of them longer than `width` (at least 60) columns.

    What pytest has shown `above` is not said again. Without `all_notes` the rest of many or long notes is
    counted only.
    """
    records = shown_records(run)
    text_width = min(width, _WIDEST_TEXT)
    gate = _wrapped(gate_lines(run), text_width)
    left_alone = _wrapped(filter(None, [left_alone_text(run)]), text_width)
    if not records:
        return [
            Line(text)
            for block in (_wrapped(_selections(run, ()), text_width), left_alone, gate)
            for text in _after_gap(block)
        ]
    listed = _with_rows(records)
    rows = rows_of(listed)
    names = short_names(listed)
    blocks = [
        _notes(listed, names, text_width, above, all_notes=all_notes),
        wrap(about_gpu_limits(rows, run.cost_ratio) or "", text_width),
        _thresholds(measured_thresholds(run), text_width, above),
        _scalings(run, text_width),
        _wrapped(_worth(records, run.cost_ratio), text_width),
        _waits(records),
        _wrapped(_selections(run, rows), text_width),
        left_alone,
        _inconclusive(records),
        gate,
    ]
    return [
        *map(Line, _devices(run, text_width)),
        *([Line(""), *_table(rows, names, width)] if rows else []),
        *(Line(text) for block in blocks for text in _after_gap(block)),
    ]


def short_lines(run: Run, width: int, *, above: ShownAbove = NOTHING_ABOVE) -> list[Line]:
    """Return how many tests ended how, and why those failed that did: what `pytest -q` shows."""
    records = rows_of(shown_records(run))
    if not records:
        return []
    counted = ", ".join(map(str, run_counts(run)))
    failed = [
        replace(record, notes=(), offload=None)  # without what only explains the reason
        for record in records
        if _COLOURS[verdict_code(record)] == "red"
    ]
    text_width = min(width, _WIDEST_TEXT)
    notes = _notes(failed, short_names(records), text_width, above, all_notes=False)
    thresholds = [each for each in run.thresholds if each.status == "failed"]
    return [
        Line(text)
        for text in (*_wrapped([counted], text_width), *notes, *_thresholds(thresholds, text_width, above))
    ]


def _after_gap(block: list[str]) -> list[str]:
    return ["", *block] if block else []


def _wrapped(texts: Iterable[str], width: int) -> list[str]:
    return [line for text in texts for line in table.wrapped(text, width)]


def _with_rows(records: Sequence[Record]) -> list[Record]:
    """Return the records with a marker or pattern, and of all others the slowest that have a speedup.

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


def _selections(run: Run, rows: Sequence[Record]) -> list[str]:
    """Return how many tests were measured without a marker, and how many of them have no row."""
    shown = []
    for selection in run.selections:
        if selection.pattern is not None:
            shown.append(f"gpuperf_speedup {selection.pattern}: {units.count(selection.tests, 'test')}")
            continue
        if not selection.tests:
            shown.append("--gpuperf-all: 0 tests: no unmarked test has variants on the CPU and on a GPU here")
            continue
        others = [record for record in run.records if record.source == "all"]
        compared = f"{sum(record.speedup is not None for record in others)} compared with a CPU variant"
        above = sum(record.source == "all" for record in rows)
        rest = f"the slowest {above} are above, all are in the report"
        shown.append(f"--gpuperf-all: {units.count(selection.tests, 'test')}, {compared}; {rest}")
    return shown


def _devices(run: Run, width: int) -> list[str]:
    environment = run.environment
    gpu = environment.gpu
    is_emulated = (gpu and gpu.emulated) or any(record.is_emulated for record in run.records)
    emulated = ", emulated: not a GPU's speedup" if is_emulated else ""
    cpu = environment.cpu.get("name") or "unknown"
    return wrap(printable(f"CPU {cpu} | GPU {gpu_text(environment)}{emulated}"), width)


def _table(records: Sequence[Record], names: Mapping[str, str], width: int) -> Iterator[Line]:
    has_copies = any(record.offload is not None and record.offload.always is not None for record in records)
    unused = set() if has_copies else {"with copies"}
    if not any(record.comparisons for record in records):
        unused.add("change")
    headings = [heading for heading in _HEADINGS if heading not in unused]
    return table.lines([_row(record, names) for record in records], headings, width, _MOVABLE)


def _row(record: Record, names: Mapping[str, str]) -> Row:
    always = record.offload.always if record.offload else None
    cells = {
        **common_cells(record),
        "with copies": f"{units.digits(always.value)}x" if always else "-",
        "change": short_change(record),
        "verdict": verdict(record),
    }
    return Row(name=names[record.nodeid], cells=cells, colour=_COLOURS[verdict_code(record)])


def _notes(
    records: Sequence[Record], names: Mapping[str, str], width: int, above: ShownAbove, *, all_notes: bool
) -> list[str]:
    """Return the reasons and notes of tests, the gravest first; what tests share is said once.

    Texts with the same tests stand together.
    """
    in_order = sorted(records, key=lambda record: _GRAVEST_FIRST[verdict_code(record)])
    texts = _noted(in_order, names, above)
    groups: dict[tuple[str, ...], list[str]] = {}
    for text, tests in texts.items():
        groups.setdefault(tuple(tests), []).append(text)
    shown = list(groups.items())[: None if all_notes else _MOST_NOTED]
    blocks = [_note(units.first_few(tests, most=1), texts, width) for tests, texts in shown]
    if all_notes:
        return list(chain.from_iterable(blocks))
    cut = sum(max(0, len(block) - _LONGEST_NOTE) for block in blocks)
    named = {test for tests, _ in shown for test in tests}
    others = {test for tests in groups for test in tests} - named
    left_out = [units.count(cut, "more line")] if cut else []
    left_out += [f"notes on {units.count(len(others), 'more test')}"] if others else []
    where = "pytest -v shows all, and so does gpuperf show with the report"
    rest = _wrapped([f"{' and '.join(left_out)}: {where}"], width) if left_out else []
    return [*(line for block in blocks for line in _shortened(block, width)), *rest]


def _noted(
    records: Iterable[Record], names: Mapping[str, str], above: ShownAbove
) -> dict[str, dict[str, None]]:
    """Return the names of the tests, each once and in order, of which each text is to be said."""
    records = list(records)
    explained = explained_by_variant(records)
    by_gpu_variants: dict[str, set[str]] = {}
    texts: dict[str, list[str]] = {}
    for record in records:
        said = texts[record.nodeid] = list(reasons_of(record, explained))
        if record.pairing and record.pairing.partner:
            by_gpu_variants.setdefault(record.pairing.partner, set()).update(said)
    tests: dict[str, dict[str, None]] = {}
    for record in records:
        said_by_gpu = by_gpu_variants.get(record.nodeid, ())
        for text in texts[record.nodeid]:
            if text not in said_by_gpu and not _is_above(text, record, above):
                tests.setdefault(text, {})[names[record.nodeid]] = None
    return tests


def _is_above(text: str, record: Record, above: ShownAbove) -> bool:
    """Return whether pytest has shown a text above, or the exception that it is about."""
    if record.nodeid not in above:
        return False
    is_of_exception = text == record.reason and record.status == "error"
    return is_of_exception or text in above[record.nodeid]


def _note(head: str, texts: Sequence[str], width: int) -> list[str]:
    """Return what is said of some tests: the first text beside their names, the others below."""
    said = (f"{head}: {texts[0]}", *(f"  {text}" for text in texts[1:]))
    return [line for text in said for line in table.wrapped(text, width, "    ")]


def _shortened(block: list[str], width: int) -> list[str]:
    """Return the lines of a note as far as they are shown, with a mark where that is not all."""
    if len(block) <= _LONGEST_NOTE:
        return block
    *shown, last = block[:_LONGEST_NOTE]
    if len(last) > width - len(_CUT):
        last = last[: width - len(_CUT)].rpartition(" ")[0]
    return [*shown, last + _CUT]


def _thresholds(thresholds: Iterable[Threshold], width: int, above: ShownAbove) -> list[str]:
    """Return each threshold's sizes and status, and its reason unless pytest has shown that above."""
    sentences = []
    for threshold in thresholds:
        reason = threshold.reason
        nodeids = (point.nodeid for point in threshold.curve)
        if reason is not None and any(reason in above.get(nodeid, "") for nodeid in nodeids):
            threshold = replace(threshold, reason=None)
        sentences.append(f"threshold of {threshold.name}: {threshold_sentence(threshold)}")
    return _wrapped(sentences, width)


def _scalings(run: Run, width: int) -> list[str]:
    """Return how each group of tests scales with the number of devices."""
    shown = []
    for curve in measured_scalings(run):
        shown += table.wrapped(f"scaling of {heading(curve)}", width)
        shown += [line for text in scaling_lines(curve) for line in table.wrapped(f"  {text}", width, "    ")]
    return shown


def _worth(records: Sequence[Record], price: float | None) -> list[str]:
    """Return how many tests are worth offloading, where more than one was measured on both devices."""
    offloads = [record.offload for record in records if record.offload and record.gpu]
    if len(offloads) < 2:
        return []
    worth = sum(offload.worth is True for offload in offloads)
    saves = sum(offload.price is not None and offload.price.saves is True for offload in offloads)
    costs = "" if price is None else f"; costs less at {price:g} times the price: {saves}"
    return [f"worth it (GPU surely faster): {worth} of {len(offloads)}{costs}"]


def _inconclusive(records: Iterable[Record]) -> list[str]:
    """Return how many tests are inconclusive, where there are any: by default they pass."""
    inconclusive = [record for record in records if record.status == "inconclusive"]
    return [f"inconclusive: {units.count(len(inconclusive), 'test')}"] if inconclusive else []


def _waits(records: Iterable[Record]) -> list[str]:
    """Return how long the tests waited for the measurement lock, where they did."""
    waited = sum(record.turn_wait or 0.0 for record in records)
    return [f"waited {units.seconds(waited)} in all for other processes that measured"] if waited else []
