"""From a run to the lines that a terminal shows of it: the section, and the table of what changed."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from pytest_gpuperf.model import units
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.record import Record, Run, VerdictCode
from pytest_gpuperf.report import view
from pytest_gpuperf.report.names import short_names
from pytest_gpuperf.report.summary import (
    comparison_cells,
    shared_reasons,
)
from pytest_gpuperf.report.text import table
from pytest_gpuperf.report.text.table import Colour, Line, Row
from pytest_gpuperf.report.verdicts import FAILURES, run_counts, shown_records
from pytest_gpuperf.report.view import NOTHING_ABOVE, Curve, Note, ShownAbove, View

_MOVABLE = (("with copies",), ("limit",), ("change",), ("CPU", "GPU", "emulated"))
_COLOURS: dict[VerdictCode, Colour | None] = {
    **dict.fromkeys(FAILURES, "red"),
    "passed": "green",
    "recorded": None,
}
"""Of all other verdicts it is yellow."""
_PLAIN = ("passed", "recorded", "skipped")
_WIDEST_TEXT = 120  # columns: longer lines of words are hard to read
_MOST_NOTED, _LONGEST_NOTE = 10, 3  # notes, and lines of each
_CUT = " ..."
_CHANGE_HEADINGS = ("metric", "baseline", "now", "change", "outcome")
_MOVABLE_CHANGES = (("baseline", "now"), ("metric",))


def lines(run: Run, width: int, *, above: ShownAbove = NOTHING_ABOVE, all_notes: bool = False) -> list[Line]:
    """Return the section's lines, none of them longer than `width` (at least 60) columns.

    What pytest has shown `above` is not said again. Without `all_notes` a test takes one row where the width
    allows it: a long name is cut, and the copies may be left out; and the rest of many or long notes is
    counted only.
    """
    shown, text_width = view.of(run, above=above, all_notes=all_notes), min(width, _WIDEST_TEXT)
    notes = (
        [line for note in shown.notes for line in _note(note, text_width)]
        if all_notes
        else _few_notes([*shown.notes, *shown.busy], shown.more_notes, text_width)
    )
    thresholds = list(_thresholds(shown.thresholds))
    sentences = (thresholds, [*shown.unmarked, *shown.cautions], shown.gate, _totals(shown))
    blocks = [
        notes,
        _scalings(shown.scalings, text_width),
        *(_wrapped(block, text_width) for block in sentences),
    ]
    if not all_notes:  # few lines need no gaps between them
        blocks = [list(chain.from_iterable(blocks))]
    below = [Line(text) for block in blocks if block for text in ("", *block)]
    if not shown_records(run):
        return below
    headline = [Line(text) for text in _wrapped([shown.headline], text_width)]
    return [*headline, *_table(shown, width, one_row=not all_notes), *below]


def short_lines(run: Run, width: int, *, above: ShownAbove = NOTHING_ABOVE) -> list[Line]:
    """Return how many tests ended how, and why those failed that did: what `pytest -q` shows."""
    if not shown_records(run):
        return []
    text_width = min(width, _WIDEST_TEXT)
    counted = ", ".join(map(str, run_counts(run)))
    failed = [each for each in run.thresholds if each.status == "failed"]
    notes = _few_notes(view.failures(run, above), 0, text_width)
    thresholds = _wrapped(_thresholds(view.thresholds(run, failed, above)), text_width)
    return [Line(text) for text in (*_wrapped([counted], text_width), *notes, *thresholds)]


def _thresholds(shown: Iterable[tuple[Threshold, str]]) -> Iterator[str]:
    return (f"threshold of {threshold.name}: {text}" for threshold, text in shown)


def _scalings(shown: Iterable[Curve], width: int) -> list[str]:
    return [line for each in shown for line in _below(f"scaling of {each.head}", each.texts, width)]


def _totals(shown: View) -> list[str]:
    """Return the totals in one line; of tests that all passed or skipped pytest says the number itself."""
    is_plain = len(shown.counts) < 2 and all(each.code in _PLAIN for each in shown.counts)
    totals = [*([] if is_plain else [", ".join(map(str, shown.counts))]), *shown.totals]
    return ["; ".join(totals)] if totals else []


def _wrapped(texts: Iterable[str], width: int) -> list[str]:
    return [line for text in texts for line in table.wrapped(text, width)]


def _table(shown: View, width: int, *, one_row: bool) -> list[Line]:
    rows = [
        Row(name=row.name, cells=row.cells, colour=_COLOURS.get(row.code, "yellow")) for row in shown.rows
    ]
    if not rows:
        return []
    optional = "with copies" if one_row else None
    return [Line(""), *table.lines(rows, shown.headings, width, _MOVABLE, optional)]


def _few_notes(notes: Sequence[Note], more: int, width: int) -> list[str]:
    """Return the first notes as far as they fit in few lines, and how many texts there are besides."""
    blocks = [_note(note, width) for note in notes[:_MOST_NOTED]]
    for note in notes[:_MOST_NOTED]:
        upto = (Note(note.head, note.texts[: place + 1]) for place in range(len(note.texts)))
        more += sum(len(_note(each, width)) > _LONGEST_NOTE for each in upto)
    more += sum(len(note.texts) for note in notes[_MOST_NOTED:])
    rest = [f"{units.count(more, 'more note')}: pytest -v"] if more else []
    return [*(line for block in blocks for line in _shortened(block, width)), *_wrapped(rest, width)]


def _note(note: Note, width: int) -> list[str]:
    """Return a note's lines: its head and first text share a line, and each further text begins a new one."""
    return _below(f"{note.head}: {note.texts[0]}", note.texts[1:], width)


def _below(first: str, others: Iterable[str], width: int) -> list[str]:
    """Return the lines of texts, all but the first of which are indented."""
    said = (first, *(f"  {text}" for text in others))
    return [line for text in said for line in table.wrapped(text, width, "    ")]


def _shortened(block: Sequence[str], width: int) -> Sequence[str]:
    """Return the lines of a note as far as they are shown, with a mark where that is not all."""
    if len(block) <= _LONGEST_NOTE:
        return block
    *shown, last = block[:_LONGEST_NOTE]
    if len(last) > width - len(_CUT):
        last = last[: width - len(_CUT)].rpartition(" ")[0]
    return [*shown, last + _CUT]


def changes(records: Sequence[Record], width: int) -> Iterator[str]:
    """Yield a table of what changed or cannot be compared, and why the latter."""
    names = short_names(records)
    rows = [
        Row(name=names[record.nodeid], cells=comparison_cells(each))
        for record in records
        for each in record.comparisons
        if each.reason
    ]
    if rows:
        yield from map(str, table.lines(rows, _CHANGE_HEADINGS, width, _MOVABLE_CHANGES))
    reasons = shared_reasons(records, names, _unexplained)
    if reasons:
        yield ""
    for reason, tests in reasons.items():
        yield from table.wrapped(f"{units.first_few(tests, most=1)}: {reason}", width)


def _unexplained(record: Record) -> Iterator[str]:
    """Yield why comparisons ended as they did whose numbers alone do not say it."""
    for comparison in record.comparisons:
        if comparison.reason and (comparison.ratio is None or comparison.outcome == "inconclusive"):
            yield comparison.reason
