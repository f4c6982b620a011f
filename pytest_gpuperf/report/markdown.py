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
from pytest_gpuperf.model.scaling import ScalingCurve
from pytest_gpuperf.report.axes import LogScale, baseline_of, speedup_axis
from pytest_gpuperf.report.words import repeat_command, view
from pytest_gpuperf.report.words.below_table import Note
from pytest_gpuperf.report.words.columns import Row
from pytest_gpuperf.report.words.names import shorten
from pytest_gpuperf.report.words.scaling import scaling_heading, scaling_lines
from pytest_gpuperf.report.words.verdicts import FAILURES, counts
from pytest_gpuperf.report.words.view import View

_MOST_ROWS, _MOST_LINES = 50, 10  # of the table, and of any other list
_MOST_OF_CURVES, _MOST_FACTS = 20, 40  # lines on scaling, and of the environment
_LONGEST, _LONGEST_NAME = 400, 100  # characters of a text and of a name
_LONGEST_CELL = 60  # of our own cells: a number in a hostile report may have hundreds of digits
_PLOT, _PLOT_WIDTH = "plot", 28
_LEFT_ALIGNED = (_PLOT, "verdict")

SIGNATURE = "<!-- pytest-gpuperf -->"
"""How each begins: actions that keep one comment of a pull request up to date find theirs by such a line."""


def text(run: Run) -> str:
    """Return the whole; of what does not fit it says how much there is."""
    shown = view.of(run, worst_first=True)
    gate = [*([shown.not_compared] if shown.not_compared else []), *shown.gate]
    said = [
        *_few("failure", [f"- **failed:** {code_span(failure)}" for failure in shown.gate_failures]),
        *_few("note", [*_notes(shown.notes), *_bullets(shown.busy)], more=shown.more_notes),
        *_few(
            "threshold",
            [f"- threshold of {_name(found.name)}: {code_span(said)}" for found, said, _ in shown.thresholds],
        ),
        *_few("scaling line", [*_scalings(shown.scalings)], _MOST_OF_CURVES),
        *_few("remark", _bullets([*gate, *shown.totals])),
    ]
    facts = [f"- {_name(name)}: {_name(value)}" for name, value in shown.environment]
    parts = [
        [f"{SIGNATURE}\n### {shown.title}: {shown.counts}"],
        [code_span(shown.headline) + (f", {code_span(shown.commit)}" if shown.commit else "")],
        *([f"**Note:** {code_span(caution)}"] for caution in shown.cautions),
        list(_table(shown)),
        said,
        _folded("Speedups taken apart", _few("speedup", _bullets(shown.products), _MOST_ROWS)),
        _commands(run, shown.rows),
        _folded("Environment", _few("value", facts, _MOST_FACTS)),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Return lines that a reader unfolds by their summary; without lines there is no summary either."""
    return [f"<details>\n<summary>{summary}</summary>\n", *lines, "\n</details>"] if lines else []


def _few(noun: str, lines: Sequence[str], most: int = _MOST_LINES, *, more: int = 0) -> list[str]:
    """Return the first lines of a list, and how many there are in the report besides."""
    more += max(0, len(lines) - most)
    rest = [f"- {units.count(more, f'more {noun}')} in the report"] if more else []
    return [*lines[:most], *rest]


def _bullets(texts: Iterable[str]) -> list[str]:
    return [f"- {code_span(text)}" for text in texts]


def _table(shown: View) -> Iterator[str]:
    """Yield the rows of the first tests, with the plot behind the speedup, and how many others there are."""
    if not shown.rows:
        return
    rows = shown.rows[:_MOST_ROWS]
    records = [row.record for row in rows]
    headings = [column.heading for column in shown.columns]
    axis = speedup_axis(records, _PLOT_WIDTH - 1)
    has_plot = any(record.speedup for record in records)
    if has_plot:
        headings.insert(headings.index("speedup") + 1, _PLOT)
    yield table_row("test", [f"`{plot_heading(axis)}`" if each == _PLOT else each for each in headings])
    yield table_row(":---", [":---" if each in _LEFT_ALIGNED else "---:" for each in headings])
    for row in rows:
        plot = plot_row(row.record, axis)
        cells = {**row.cells, _PLOT: f"`{plot}`" if plot else "-"}
        yield table_row(_name(row.name), [cells[heading] for heading in headings])
    if has_plot:
        yield f"\n{plot_legend(records)}"
    yield from (f"\n{code_span(each.text)}" for each in shown.explanations)
    if others := [row.record for row in shown.rows[_MOST_ROWS:]]:
        tests = units.count(len(others), "more test is", "more tests are")
        yield f"\n{tests} not in the table, only in the report: {counts(others)}."


def _name(name: str) -> str:
    return code_span(shorten(printable(name), _LONGEST_NAME), _LONGEST_NAME)


def _notes(notes: Iterable[Note]) -> Iterator[str]:
    return (f"- {_name(note.head)}: {code_span(text)}" for note in notes for text in note.texts)


def _scalings(curves: Iterable[ScalingCurve]) -> Iterator[str]:
    for curve in curves:
        yield f"- scaling of {_name(scaling_heading(curve))}"
        yield from (f"  - {code_span(text)}" for text in scaling_lines(curve))


def _commands(run: Run, rows: Iterable[Row]) -> list[str]:
    """Return the commands that repeat what failed, whole: one that is cut would repeat something else."""
    missed = {each.curve[-1].nodeid for each in run.thresholds if each.status == "failed" and each.curve}
    failed = [each.record for each in rows if each.record.verdict in FAILURES or each.record.nodeid in missed]
    last_sizes = repeat_command.last_sizes(run)
    commands = (repeat_command.command(run, record, last_sizes) for record in failed)
    shown = list(islice((each for each in commands if len(each) <= _LONGEST), _MOST_LINES))
    if not shown:
        return []
    more = f" ({len(shown)} of {len(failed)})" if len(shown) < len(failed) else ""
    return [f"Repeat what failed or regressed{more}, in the root folder:\n", "```sh", *shown, "```"]


def code_span(text: str, longest: int = _LONGEST) -> str:
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

    def column(value: float) -> int:
        return round(axis.position(value))

    speedup, baseline = record.speedup, baseline_of(record)
    if speedup is None:
        return None
    cells = ["·"] * _PLOT_WIDTH
    first, last = column(speedup.low or 0.0), column(speedup.estimate.upper)
    cells[first : last + 1] = "─" * (last + 1 - first)
    if baseline:
        cells[column(baseline.value)] = "○"
    cells[column(1.0)] = "│"
    cells[first] = "├" if speedup.low else "◄"
    cells[last] = "┤" if speedup.high is not None else "►"
    for limit in record.demand.limits:
        cells[column(limit)] = "║"
    cells[column(speedup.value)] = "●"
    return "".join(cells)


def _axis_end(value: float) -> str:
    return f"{value:.0f}x" if 10 <= value < 1e6 else f"{value:.2g}x"
