"""From speedups to a forest plot in characters: a row of one width for each, on one logarithmic axis."""

from collections.abc import Iterable

from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.scale import LogScale
from pytest_gpuperf.report.summary import baseline_of

_WIDTH = 28
# What becomes of a character that a line crosses; characters that every monospaced font has (WGL4).
_AT_ONE = {"·": "│", "─": "┼"}
_AT_LIMIT = {"·": "║", "│": "║", "─": "╫", "┼": "╫", "├": "╟", "┤": "╢"}
_AT_BASELINE = {"·": "○", "─": "○"}


def axis(records: Iterable[Record]) -> LogScale:
    """Return the axis that shows the speedups of records, with what is required and their baselines."""
    return LogScale.around((value for record in records for value in _values(record)), _WIDTH - 1)


def legend(records: Iterable[Record]) -> str:
    """Return what the marks of the records' rows stand for, in Markdown."""
    records = [record for record in records if record.speedup]
    limits = ", `║` required" if any(record.demand.limits for record in records) else ""
    baseline = ", `○` baseline" if any(map(baseline_of, records)) else ""
    return f"`├─●─┤` speedup with its interval (`◄` and `►`: no end), `│` 1x{limits}{baseline}"


def heading(axis: LogScale) -> str:
    """Return the row above the plot, with the values at its ends: `0.85x ·········· 12x`."""
    low, high = map(_end, (axis.low, axis.high))
    return f"{low} {'·' * (_WIDTH - len(low) - len(high) - 2)} {high}"


def row(record: Record, axis: LogScale) -> str | None:
    """Return the row of a record: its speedup, what is required, and its baseline; None without a speedup."""
    speedup = record.speedup
    if speedup is None:
        return None
    cells = ["·"] * _WIDTH
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


def _end(value: float) -> str:
    return f"{value:.0f}x" if 10 <= value < 1e6 else f"{value:.2g}x"


def _values(record: Record) -> Iterable[float | None]:
    if record.speedup:
        yield from (record.speedup.value, record.speedup.low, record.speedup.high)
        yield from record.demand.limits
        if baseline := baseline_of(record):
            yield baseline.value


def _column(axis: LogScale, value: float) -> int:
    return round(axis.position(value))


def _mark(cells: list[str], column: int, crossed: dict[str, str]) -> None:
    cells[column] = crossed.get(cells[column], cells[column])
