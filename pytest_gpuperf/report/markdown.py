"""Run -> Markdown for a pull request or a step summary: a headline, a table, reasons, the environment.

The whole fits a comment, which may have 65,536 characters, and a step summary, which may have 1 MiB.
The table's plot is a forest plot in characters: each speedup in a row of one width, on one logarithmic axis.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice

from pytest_gpuperf.model import units
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import view
from pytest_gpuperf.report.names import shorten
from pytest_gpuperf.report.scale import LogScale
from pytest_gpuperf.report.summary import baseline_of
from pytest_gpuperf.report.verdicts import counts
from pytest_gpuperf.report.view import Curve, Row, View

_MOST_ROWS = 50
_MOST_NOTES = 15
_MOST_OTHERS = 10  # thresholds, failures and notes of a gate, commands
_MOST_CURVES, _MOST_COUNTS = 5, 6  # of scaling, and lines of each
_MOST_FACTS = 40  # of the environment
_MOST_OPEN = 3  # commands that are not folded
_LONGEST_COMMAND = 300
_LONGEST_NAME, _LONGEST_FACT = 100, 120
_LONGEST_CELL = 60  # of our own cells: a number in a hostile report may have hundreds of digits
_PLOT, _PLOT_WIDTH = "plot", 28
_LEFT_ALIGNED = (_PLOT, "verdict")
# What becomes of a character that a line crosses; characters that every monospaced font has (WGL4).
_AT_ONE = {"·": "│", "─": "┼"}
_AT_LIMIT = {"·": "║", "│": "║", "─": "╫", "┼": "╫", "├": "╟", "┤": "╢"}
_AT_BASELINE = {"·": "○", "─": "○"}


SIGNATURE = "<!-- pytest-gpuperf -->"
"""How each begins: actions that keep one comment of a pull request up to date find theirs by such a line."""


def text(run: Run) -> str:
    """Return the whole; what does not fit is named, and how much of it there is."""
    shown = view.of(run, worst_first=True)
    left_out = [row.record for row in shown.rows[_MOST_ROWS:]]
    parts = [
        f"{SIGNATURE}\n### {shown.title}: {', '.join(map(str, shown.counts)) or 'no test was measured'}",
        code_span(shown.headline) + (f", {code_span(shown.commit)}" if shown.commit else ""),
        *(f"**Note:** {code_span(caution)}" for caution in shown.cautions),
        "\n".join(_table(shown)),
        _left_out(left_out) if left_out else "",
        "\n".join([*_notes(shown), *_thresholds(shown)]),
        "\n".join(_scalings(shown.scalings)),
        "\n".join([*_bullets(shown.gate_failures, "**failed:** "), *_bullets(_gate(shown))]),
        "\n".join(_bullets([*shown.unmarked, *shown.totals])),
        _commands(shown.commands),
        _environment(shown.environment),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(shown: View) -> Iterator[str]:
    """Yield the rows of the first tests, with the plot behind the speedup."""
    if not shown.rows:
        return
    rows = shown.rows[:_MOST_ROWS]
    records = [row.record for row in rows]
    headings = list(shown.headings)
    axis = plot_axis(records)
    if any(record.speedup for record in records):
        headings.insert(headings.index("speedup") + 1, _PLOT)
    titles = {_PLOT: f"`{plot_heading(axis)}`"}
    yield table_row("test", [titles.get(each, each) for each in headings])
    yield table_row(":---", [":---" if each in _LEFT_ALIGNED else "---:" for each in headings])
    for row in rows:
        cells = {**row.cells, _PLOT: _plot_cell(row, axis)}
        yield table_row(_name(row.name), [cells[heading] for heading in headings])
    if _PLOT in headings:
        yield f"\n{plot_legend(records)}"


def _plot_cell(row: Row, axis: LogScale) -> str:
    plot = plot_row(row.record, axis)
    return f"`{plot}`" if plot else "-"


def _name(name: str) -> str:
    return code_span(shorten(printable(name), _LONGEST_NAME), _LONGEST_NAME)


def _left_out(records: Sequence[Record]) -> str:
    tests = units.count(len(records), "more test is", "more tests are")
    return f"{tests} not in the table, only in the report: {', '.join(map(str, counts(records)))}."


def _notes(shown: View) -> Iterator[str]:
    """Yield what is said of the tests, the gravest first."""
    said = [
        f"- {_name(note.head)}: {code_span(text)}"
        for note in (*shown.notes, *shown.busy)
        for text in note.texts
    ]
    yield from said[:_MOST_NOTES]
    yield from _more(max(0, len(said) - _MOST_NOTES) + shown.more_notes, "more note is", "more notes are")


def _thresholds(shown: View) -> Iterator[str]:
    said = [f"- threshold of {_name(each.name)}: {code_span(text)}" for each, text in shown.thresholds]
    yield from said[:_MOST_OTHERS]
    yield from _more(len(said) - _MOST_OTHERS, "more threshold is", "more thresholds are")


def _scalings(shown: Sequence[Curve]) -> Iterator[str]:
    """Yield how tests scale with the number of devices, and what holds them back."""
    for each in shown[:_MOST_CURVES]:
        yield f"- scaling of {_name(each.head)}"
        yield from (f"  - {code_span(text)}" for text in each.texts[-_MOST_COUNTS:])
    cut = sum(max(0, len(each.texts) - _MOST_COUNTS) for each in shown[:_MOST_CURVES])
    yield from _more(cut, "more number of devices is", "more numbers of devices are")
    yield from _more(len(shown) - _MOST_CURVES, "more curve of scaling is", "more curves of scaling are")


def _gate(shown: View) -> list[str]:
    return [*([shown.not_compared] if shown.not_compared else []), *shown.gate]


def _commands(commands: Sequence[str]) -> str:
    """Return the commands that repeat what went wrong, folded if they are many."""
    shown = list(islice((each for each in commands if len(each) <= _LONGEST_COMMAND), _MOST_OTHERS))
    if not shown:
        return ""
    more = f" ({len(shown)} of {len(commands)})" if len(shown) < len(commands) else ""
    title = f"Repeat what failed or regressed{more}, in the root folder"
    block = "\n".join(["```sh", *shown, "```"])
    if len(shown) <= _MOST_OPEN:
        return f"{title}:\n\n{block}"
    return f"<details>\n<summary>{title}</summary>\n\n{block}\n\n</details>"


def _bullets(texts: Sequence[str], mark: str = "") -> Iterator[str]:
    yield from (f"- {mark}{code_span(text)}" for text in texts[:_MOST_OTHERS])
    yield from _more(len(texts) - _MOST_OTHERS, "more", "more")


def _more(left_out: int, one: str, several: str) -> list[str]:
    return [f"- {units.count(left_out, one, several)} in the report"] if left_out > 0 else []


def _environment(facts: Sequence[tuple[str, str]]) -> str:
    """Return the environment, folded."""
    more = [f"{len(facts) - _MOST_FACTS:,} more in the report"] if len(facts) > _MOST_FACTS else []
    table = [f"| {_cell(name)} | {_cell(value)} |" for name, value in facts[:_MOST_FACTS]]
    folded = ["<details>", "<summary>Environment</summary>", "", "| | |", "| :--- | :--- |", *table]
    return "\n".join([*folded, "", *more, "</details>"])


def _cell(value: str) -> str:
    return code_span(value, _LONGEST_FACT).replace("|", r"\|")


def code_span(text: str, longest: int = 400) -> str:
    """Return a code span, in which GitHub follows no mark-up, link, mention or emoji; a long text is cut.

    It is closed by as many backticks as it was opened with (https://spec.commonmark.org/0.31.2/#code-spans),
    a number that the text has nowhere in a row.
    """
    shown = printable(text) or " "
    if len(shown) > longest:
        shown = f"{shown[: longest - 1]}…"
    runs = {len(run) for run in re.findall("`+", shown)}
    fence = "`" * next(size for size in count(1) if size not in runs)
    padding = " " if shown[0] in " `" or shown[-1] in " `" else ""
    return f"{fence}{padding}{shown}{padding}{fence}"


def table_row(first: str, others: Iterable[str]) -> str:
    """Return a table's row: a code span first, then cells of our own words."""
    cells = [first.replace("|", r"\|"), *(other[:_LONGEST_CELL].replace("|", r"\|") for other in others)]
    return f"| {' | '.join(cells)} |"


def plot_axis(records: Iterable[Record]) -> LogScale:
    """Return the axis that shows the speedups of records, with what is required and their baselines."""
    return LogScale.around((value for record in records for value in _plotted(record)), _PLOT_WIDTH - 1)


def plot_legend(records: Iterable[Record]) -> str:
    """Return what the marks of the records' rows stand for, in Markdown."""
    records = [record for record in records if record.speedup]
    limits = ", `║` required" if any(record.demand.limits for record in records) else ""
    baseline = ", `○` baseline" if any(map(baseline_of, records)) else ""
    return f"`├─●─┤` speedup with its range (`◄` and `►`: no end), `│` 1x{limits}{baseline}"


def plot_heading(axis: LogScale) -> str:
    """Return the row above the plot, with the values at its ends: `0.85x ·········· 12x`."""
    low, high = map(_axis_end, (axis.low, axis.high))
    return f"{low} {'·' * (_PLOT_WIDTH - len(low) - len(high) - 2)} {high}"


def plot_row(record: Record, axis: LogScale) -> str | None:
    """Return the row of a record: its speedup, what is required, and its baseline; None without a speedup."""
    speedup = record.speedup
    if speedup is None:
        return None
    cells = ["·"] * _PLOT_WIDTH
    first, last = _column(axis, speedup.low or 0.0), _column(axis, speedup.estimate.upper)
    cells[first : last + 1] = "─" * (last + 1 - first)
    cells[first] = "├" if speedup.low else "◄"
    cells[last] = "┤" if speedup.high is not None else "►"
    _mark(cells, _column(axis, 1.0), _AT_ONE)
    for limit in record.demand.limits:
        _mark(cells, _column(axis, limit), _AT_LIMIT)
    if baseline := baseline_of(record):
        _mark(cells, _column(axis, baseline.value), _AT_BASELINE)
    cells[_column(axis, speedup.value)] = "●"
    return "".join(cells)


def _axis_end(value: float) -> str:
    return f"{value:.0f}x" if 10 <= value < 1e6 else f"{value:.2g}x"


def _plotted(record: Record) -> Iterable[float | None]:
    if record.speedup:
        yield from (record.speedup.value, record.speedup.low, record.speedup.high)
        yield from record.demand.limits
        if baseline := baseline_of(record):
            yield baseline.value


def _column(axis: LogScale, value: float) -> int:
    return round(axis.position(value))


def _mark(cells: list[str], column: int, crossed: dict[str, str]) -> None:
    cells[column] = crossed.get(cells[column], cells[column])
