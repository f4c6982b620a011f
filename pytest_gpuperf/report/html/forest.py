"""The forest plot: each test's speedup with its range, all on one axis, beside what is required of it."""

from collections.abc import Iterable, Iterator, Sequence

from pytest_gpuperf.analysis.verdict import describe_demand, ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Speedup
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.axes import LogScale, baseline_of, speedup_axis, times
from pytest_gpuperf.report.html import figure as svg
from pytest_gpuperf.report.html.figure import Figure, Mark, Style, Word, in_rows, text_width
from pytest_gpuperf.report.words.columns import Row
from pytest_gpuperf.report.words.names import shorten
from pytest_gpuperf.report.words.verdicts import FAILURES, verdict

WIDTH = 200
_ROW = 22  # pixels from one row to the next
_AXIS = 34
_MIDDLE, _GHOST = 10.0, 17.0  # heights of the range and of the baseline's, in a row
_LEAST_GHOST = 5.0  # pixels of the baseline's range, which is seen although it is narrow
_MARGIN = 6.0  # room for a dot at an end of the axis
LENGTH = WIDTH - 2 * _MARGIN
"""Pixels of the axis, which all tests share."""
_LONGEST_NAME = 60  # characters in a plot that stands alone
_MEANINGS: dict[Style, str] = {
    "passed": "passed",
    "failed": "failed",
    "inconclusive": "inconclusive",
    "muted": "nothing required",
}


def axis(shared: LogScale) -> Figure:
    """Return the axis with its ticks, to stand above the rows."""
    ticks = [(tick, _MARGIN + shared.position(tick)) for tick in shared.ticks()]
    by_weight = sorted(ticks, key=lambda each: each[0] != 1)  # where there is no room for all, 1x has a word
    words = in_rows(((x, times(tick)) for tick, x in by_weight), WIDTH)
    return Figure(
        width=WIDTH,
        height=_AXIS,
        finding=f"axis of the speedup, from {units.digits(shared.low)}x to {units.digits(shared.high)}x",
        marks=[_upright("axis", [x for _, x in ticks], _AXIS - 6, _AXIS)],
        words=[
            Word(_MARGIN, 10, "speedup, log scale"),
            *(Word(x, _AXIS - 9, text, "middle") for row in words for x, text in row),
        ],
    )


def row(record: Record, shared: LogScale) -> Figure | None:
    """Return the plot of a test's speedup on the shared axis; None where the test has no speedup."""
    if record.speedup is None:
        return None
    return Figure(width=WIDTH, height=_ROW, finding=None, marks=list(_marks(record, record.speedup, shared)))


def legend(records: Iterable[Record]) -> list[tuple[str, Figure]]:
    """Return the marks that the plots of records have, with their meanings."""
    shown = [record for record in records if record.speedup]
    styles = {_style(record) for record in shown}
    found = [(_MEANINGS[style], _range(style, 2, 22, 12)) for style in _MEANINGS if style in styles]
    if shown:
        found.append(("1x", _upright("axis", [12], 0, 20)))
    if any(record.demand.limits for record in shown):
        found.append(("required", _upright("limit", [12], 2, 18)))
    if any(map(baseline_of, shown)):
        found.append(("baseline", Mark("baseline", svg.bar(2, 8, 20, 4), "area")))
    return [(words, Figure(width=24, height=20, finding=None, marks=[mark])) for words, mark in found]


def plot(rows: Sequence[Row]) -> Figure:
    """Return the whole plot with the tests' names, for a file of its own."""
    shown = [
        (record, record.speedup, shorten(name, _LONGEST_NAME)) for record, name, *_ in rows if record.speedup
    ]
    left = max((text_width(name) for _, _, name in shown), default=0.0) + _MARGIN
    shared = speedup_axis((record for record, _, _ in shown), LENGTH)
    top = axis(shared)
    marks = [mark._replace(move=(left, 0)) for mark in top.marks]
    words = [word._replace(x=word.x + left) for word in top.words]
    findings, right = [], 0.0
    for number, (record, speedup, name) in enumerate(shown):
        y = _AXIS + number * _ROW
        marks += (mark._replace(move=(left, y)) for mark in _marks(record, speedup, shared))
        said = f"{ratio(speedup)} {verdict(record)}{', emulated' if record.is_emulated else ''}"
        words.append(Word(left - _MARGIN, y + 14, name, "end"))
        words.append(Word(left + WIDTH + _MARGIN, y + 14, said))
        required = f", required {describe_demand(record.demand)}" if record.demand.limits else ""
        findings.append(f"{name}: {said}{required}")
        right = max(right, text_width(said))
    return Figure(
        width=left + WIDTH + 2 * _MARGIN + right,
        height=_AXIS + len(shown) * _ROW,
        finding="; ".join(findings) or "no speedup was measured",
        marks=marks,
        words=words,
    )


def _upright(style: Style, places: Iterable[float], top: float, bottom: float) -> Mark:
    return Mark(style, "".join(svg.line((x, top), (x, bottom)) for x in places))


def _marks(record: Record, speedup: Speedup, shared: LogScale) -> Iterator[Mark]:
    """Yield 1x, the limits, the baseline's range and the test's own, whose dot has a shape by verdict."""

    def place(value: float | None) -> float:
        return _MARGIN + shared.position(value)

    yield _upright("axis", [place(1)], 0, _ROW)
    if record.demand.limits:
        yield _upright("limit", map(place, record.demand.limits), 2, 18)
    if baseline := baseline_of(record):
        low, high = place(baseline.low), place(baseline.high or shared.high)
        width = max(high - low, _LEAST_GHOST)
        yield Mark("baseline", svg.bar((low + high - width) / 2, _GHOST, width, 3), "area")
    yield _range(_style(record), place(speedup.low), place(speedup.high or shared.high), place(speedup.value))


def _style(record: Record) -> Style:
    code = record.verdict
    if code in FAILURES:
        return "failed"
    return code if code in ("passed", "inconclusive") else "muted"


def _range(style: Style, low: float, high: float, value: float) -> Mark:
    """Return a range with its dot as one mark: a page has thousands, and a browser takes long for each."""
    shapes = {"failed": svg.diamond(value, _MIDDLE, 2.6), "inconclusive": svg.dot(value, _MIDDLE)}
    path = svg.line((low, _MIDDLE), (high, _MIDDLE)) + shapes.get(style, svg.dot(value, _MIDDLE, 2))
    return Mark(style, path, "line" if style == "inconclusive" else "range")
