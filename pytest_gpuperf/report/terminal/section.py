"""From a run to the lines that a terminal shows of it: the section, and the table of what changed."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record, Run, VerdictCode
from pytest_gpuperf.report.terminal import layout
from pytest_gpuperf.report.terminal.layout import Colour, Line, Row
from pytest_gpuperf.report.words import columns, view
from pytest_gpuperf.report.words.below_table import NOTHING_ABOVE, Note, ShownAbove
from pytest_gpuperf.report.words.names import short_names
from pytest_gpuperf.report.words.regression_check import comparison_cells
from pytest_gpuperf.report.words.scaling import scaling_heading, scaling_lines
from pytest_gpuperf.report.words.thresholds import Sizes
from pytest_gpuperf.report.words.verdicts import FAILURES, in_words, shown_records
from pytest_gpuperf.report.words.view import View

_COLOURS: dict[VerdictCode, Colour | None] = {
    **dict.fromkeys(FAILURES, "red"),
    "passed": "green",
    "recorded": None,
}
"""Of all other verdicts it is yellow."""
_WIDEST_TEXT = 120  # columns: longer lines of words are hard to read
_MOST_TEXTS, _MOST_LINES = 10, 3  # of notes, and of each of them
_INDENT = "    "  # of a text's second and later lines
_EXPENDABLE_CHANGES = (("baseline", "now"), ("metric",))


def lines(run: Run, width: int, *, above: ShownAbove = NOTHING_ABOVE, all_notes: bool = False) -> list[Line]:
    """Return the section's lines, none of them longer than `width` (at least 60) columns.

    What pytest has shown `above` is not said again. Without `all_notes` a test takes one row: a long name is
    cut, and columns without room are left out; and the rest of many or long notes is counted only.
    """
    shown, text_width = view.of(run, above=above, all_notes=all_notes), min(width, _WIDEST_TEXT)
    notes = list(_notes(shown.notes))
    scalings = chain.from_iterable(
        _with_rest(f"scaling of {scaling_heading(each)}", scaling_lines(each)) for each in shown.scalings
    )
    sentences = (scalings, _thresholds(shown.thresholds), shown.cautions, shown.gate, _totals(shown))
    blocks = [
        _wrapped(notes, text_width)
        if all_notes
        else _few([*notes, *shown.busy], shown.more_notes, text_width),
        *([_wrapped(shown.products, text_width)] if all_notes else []),
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
    """Return how many tests ended how, why those failed that did, and how to decide more: `pytest -q`."""
    if not shown_records(run):
        return []
    shown, text_width = view.of(run, above=above, only_failures=True), min(width, _WIDEST_TEXT)
    thresholds = _thresholds(each for each in shown.thresholds if each.threshold.status == "failed")
    is_undecided = any(row.record.reason_code == "interference" for row in shown.rows)
    texts = [
        *_wrapped([_counted(shown, _on_emulated(shown))], text_width),
        *_few(list(_notes(shown.notes)), 0, text_width),
        *_wrapped(shown.busy if is_undecided else (), text_width),
        *_wrapped(thresholds, text_width),
        *_wrapped(shown.totals, text_width),
    ]
    return [Line(text) for text in texts]


def _notes(notes: Iterable[Note]) -> Iterator[str]:
    """Yield what is said of tests; the first text of a note shares a line with its head."""
    for note in notes:
        yield from _with_rest(f"{note.head}: {note.texts[0]}", note.texts[1:])


def _with_rest(first: str, others: Iterable[str]) -> Iterator[str]:
    yield first
    yield from (f"  {text}" for text in others)


def _thresholds(shown: Iterable[Sizes]) -> Iterator[str]:
    return (f"threshold of {each.threshold.name}: {each.said}" for each in shown)


def _totals(shown: View) -> list[str]:
    """Return the totals, a line each."""
    return [*([_counted(shown)] if shown.counts.tests else []), *shown.totals]


def _counted(shown: View, on: str = "") -> str:
    """Return how many tests have each verdict; pytest's own line counts what a setup raises otherwise."""
    return f"verdicts{on}: {shown.counts}"


def _on_emulated(shown: View) -> str:
    """Return that what was measured is emulated, which a headline says where there is one."""
    emulated = {row.record.is_emulated for row in shown.rows if row.record.gpu}
    if True not in emulated:
        return ""
    return ", some on an emulated device" if False in emulated else " on an emulated device"


def _wrapped(texts: Iterable[str], width: int) -> list[str]:
    return [line for text in texts for line in layout.wrapped(text, width, _INDENT)]


def _few(texts: Sequence[str], more: int, width: int) -> list[str]:
    """Return the lines of the first texts, a few of each, and how many texts have more than is shown."""
    lines = []
    for text in texts[:_MOST_TEXTS]:
        cut = layout.wrapped(text, width, _INDENT, most=_MOST_LINES)
        more += cut != layout.wrapped(text, width, _INDENT)
        lines += cut
    more += len(texts[_MOST_TEXTS:])
    return [*lines, *([f"{units.count(more, 'more note')}: pytest -v"] if more else [])]


def _table(shown: View, width: int, *, one_row: bool) -> list[Line]:
    if not shown.rows:
        return []
    rows = [
        Row(
            row.name,
            columns.cells_in_one_row(row) if one_row else row.cells,
            _COLOURS.get(row.record.verdict, "yellow"),
            in_words(row.record.verdict),
        )
        for row in shown.rows
    ]
    headings, expendable = [each.heading for each in shown.columns], columns.left_out()
    if one_row:
        headings = layout.with_room(rows, headings, width, expendable)
    texts = [each.text for each in shown.explanations if each.heading in headings]
    below = map(Line, _wrapped(texts, min(width, _WIDEST_TEXT)))
    return [Line(""), *layout.lines(rows, headings, width, expendable, one_row=one_row), *below]


def changes(records: Sequence[Record], width: int) -> Iterator[str]:
    """Yield a table of what changed or cannot be compared, and why the latter."""
    names = short_names(records)
    compared = [
        (names[record.nodeid], each) for record in records for each in record.comparisons if each.reason
    ]
    if compared:
        rows = [Row(name, comparison_cells(comparison)) for name, comparison in compared]
        yield from map(str, layout.lines(rows, [*rows[0].cells], width, _EXPENDABLE_CHANGES))
    unexplained: dict[str, list[str]] = {}  # by the numbers alone
    for name, comparison in compared:
        if comparison.reason and (comparison.ratio is None or comparison.outcome == "inconclusive"):
            unexplained.setdefault(comparison.reason, []).append(name)
    if unexplained:
        yield ""
    for reason, tests in unexplained.items():
        yield from layout.wrapped(f"{units.first_few(dict.fromkeys(tests), most=1)}: {reason}", width)
