"""The forest plot: each test's speedup with its range, all on one axis, beside what is required of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Literal

from pytest_gpuperf.analysis.verdict import describe_demand, ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.html.figure import (
    Figure,
    Mark,
    Style,
    Word,
    bar,
    diamond,
    dot,
    line,
    rule,
    text_width,
)
from pytest_gpuperf.report.names import shorten
from pytest_gpuperf.report.scale import LogScale
from pytest_gpuperf.report.summary import baseline_of
from pytest_gpuperf.report.verdicts import verdict, verdict_code

WIDTH = 220
_ROW = 24  # pixels from one row to the next
_MIDDLE, _GHOST = 10.0, 18.0  # heights of the range and of the baseline's, in a row
_MARGIN = 6.0  # room for a dot at an end of the axis
_LONGEST_NAME = 60  # characters in a plot that stands alone
_STYLES: dict[str, Style] = {
    **dict.fromkeys(("passed", "improved"), "passed"),
    **dict.fromkeys(("failed", "error", "regressed"), "failed"),
    "inconclusive": "inconclusive",
}
_dot = partial(dot, radius=2)  # without its outline
_SHAPES: dict[str, Callable[[float, float], str]] = {
    "failed": partial(diamond, radius=2.6),
    "inconclusive": dot,
}


def scale(records: Iterable[Record]) -> LogScale:
    """Return the axis that all tests share."""
    shown = [record for record in records if record.speedup]
    ends: list[float | None] = []
    for record in shown:
        if record.speedup:
            ends += (record.speedup.value, record.speedup.low, record.speedup.high, *record.demand.limits)
        baseline = baseline_of(record)
        ends += (baseline.low, baseline.high) if baseline else ()
    return LogScale.around(ends, WIDTH - 2 * _MARGIN)


def axis(shared: LogScale) -> Figure:
    """Return the axis with its ticks, to stand above the rows."""
    ticks = [(tick, _MARGIN + shared.position(tick)) for tick in shared.ticks(5)]
    return Figure(
        width=WIDTH,
        height=_ROW,
        finding=f"axis of the speedup, from {units.digits(shared.low)}x to {units.digits(shared.high)}x",
        marks=[Mark("axis", "".join(rule(x, 17, _ROW) for _, x in ticks))],
        words=[Word(x, 13, f"{tick:g}x", anchor=_anchor(x)) for tick, x in ticks],
    )


def row(record: Record, shared: LogScale) -> Figure | None:
    """Return the plot of a test's speedup on the shared axis; None where the test has no speedup."""
    if record.speedup is None:
        return None
    return Figure(width=WIDTH, height=_ROW, finding=None, marks=list(_marks(record, shared)))


def finding(record: Record) -> str:
    """Return what the plot shows of a test, as a sentence."""
    parts = [f"speedup {ratio(record.speedup)}"] if record.speedup else ["no speedup"]
    if record.demand.limits:
        parts.append(f"required {describe_demand(record.demand)}")
    baseline = baseline_of(record)
    if baseline:
        parts.append(f"baseline {units.digits(baseline.value)}x")
    return ", ".join([*parts, verdict(record)])


def plot(records: Sequence[Record], names: Sequence[str]) -> Figure:
    """Return the whole plot with the tests' names, for a file of its own."""
    shown = [(record, name) for record, name in zip(records, names, strict=True) if record.speedup]
    texts = [shorten(name, _LONGEST_NAME) for _, name in shown]
    left = max(map(text_width, texts), default=0.0) + _MARGIN
    shared = scale(record for record, _ in shown)
    top = axis(shared)
    marks = list(_shifted(top.marks, left, 0))
    words = [Word(word.x + left, word.y, word.text, word.anchor) for word in top.words]
    for number, ((record, _), text) in enumerate(zip(shown, texts, strict=True), start=1):
        marks += _shifted(_marks(record, shared), left, number * _ROW)
        words.append(Word(left - _MARGIN, number * _ROW + 14, text, anchor="end"))
        if record.speedup:
            emulated = ", emulated" if record.is_emulated else ""
            said = f"{ratio(record.speedup)} {verdict(record)}{emulated}"
            words.append(Word(left + WIDTH + _MARGIN, number * _ROW + 14, said))
    right = max((text_width(word.text) for word in words if word.x > left + WIDTH), default=0.0)
    findings = "; ".join(f"{text}: {finding(record)}" for (record, _), text in zip(shown, texts, strict=True))
    return Figure(
        width=left + WIDTH + 2 * _MARGIN + right,
        height=(len(shown) + 1) * _ROW,
        finding=findings or "no speedup was measured",
        marks=marks,
        words=words,
    )


def _shifted(marks: Iterable[Mark], x: float, y: float) -> Iterator[Mark]:
    for mark in marks:
        yield mark._replace(move=(mark.move[0] + x, mark.move[1] + y))


def _anchor(x: float) -> Literal["start", "middle", "end"]:
    return "start" if x < 14 else "end" if x > WIDTH - 14 else "middle"


@lru_cache(maxsize=256)  # most rows have the same ones
def _upright(style: Style, values: tuple[float, ...], shared: LogScale, top: float, bottom: float) -> Mark:
    return Mark(style, "".join(rule(_MARGIN + shared.position(value), top, bottom) for value in values))


def _marks(record: Record, shared: LogScale) -> Iterator[Mark]:
    """Yield 1x, the limits, the baseline's range and the test's own, whose dot has a shape by verdict."""
    speedup = record.speedup
    if speedup is None:
        return

    def place(value: float | None) -> float:
        return _MARGIN + shared.position(value)

    yield _upright("axis", (1.0,), shared, 0, _ROW)
    if record.demand.limits:
        yield _upright("limit", tuple(record.demand.limits), shared, 2, 18)
    if baseline := baseline_of(record):
        low, high = place(baseline.low), place(baseline.high or shared.high)
        yield Mark("baseline", bar(low, _GHOST, max(high - low, 3), 4), filled=True, title="baseline")
    style = _STYLES.get(verdict_code(record), "muted")
    low, high = place(speedup.low), place(speedup.high or shared.high)
    # The range and the dot are one path: a page has thousands, and a browser takes long for each.
    path = line((low, _MIDDLE), (high, _MIDDLE)) + _SHAPES.get(style, _dot)(place(speedup.value), _MIDDLE)
    yield Mark(style, path, filled=style != "inconclusive", outlined=True)
