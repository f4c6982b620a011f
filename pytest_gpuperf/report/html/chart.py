"""From values with their ranges to a chart: lines with bands, and upright marks with a word.

Words stand above the chart, above their marks and at the axes; none lies over another.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.report.axes import LinearScale, LogScale
from pytest_gpuperf.report.html import figure as svg
from pytest_gpuperf.report.html.figure import Figure, Mark, Paint, Place, Style, Word, in_rows, text_width

WIDTH = 320.0
"""Pixels: whole on a telephone, where a wider figure would be scaled until nobody can read its words."""
_HEIGHT, _MARGIN = 120.0, 12.0
_LINE = 14.0  # pixels from one line of words to the next
_SAMPLE = 22.0  # pixels of a line in the legend, with the space before its name
_SPACE = 7.0  # pixels between two words of the legend
_FARTHEST = 2.0  # times the largest value, or half of the smallest: so far the axis shows a range
_MOST_ROWS = 3  # of words above their marks
_MOST_DOTS = 20  # values of a line that has dots, too; of more of them the last one alone has one
_SHAPES: dict[Style, Callable[[float, float], str]]
_SHAPES = {"cpu": svg.dot, "gpu": svg.diamond, "copies": svg.square}
"""By which a line is known without its colour; others, as of limits, have no dots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Values with their ranges, from left to right."""

    style: Style
    name: str
    values: Sequence[tuple[float, Estimate]]
    drawn: Literal["both", "line", "dots"] = "both"
    """Whether values are joined, and whether each has a dot; what has dots alone may be in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An upright mark with a word; the area from `since` on, where it may also lie, is shaded."""

    at: float
    text: str
    style: Style = "limit"
    since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis and how its ticks are written; one that is not log begins at 0."""

    name: str
    word: Callable[[float], str]
    log: bool = True


def exact(value: float) -> Estimate:
    """Return a value without a range."""
    return Estimate(value=value, low=value, high=value)


def figure(
    lines: Iterable[Line],
    events: Sequence[Event],
    *,
    across: Axis,
    ticks: Sequence[float],
    upright: Axis,
    finding: str,
    caption: str,
) -> Figure:
    """Return the chart of lines with at least one value among them; `ticks` are those of the axis across.

    What lies beyond an axis, such as the end of an unbounded range, is on its edge. A word for which there is
    no room is left out: of events those that come last.
    """
    lines = [each for each in lines if each.values]
    ranges = [estimate for each in lines for _, estimate in each.values]
    shown = [estimate.value for estimate in ranges]
    least, most = min(shown) / _FARTHEST, max(shown) * _FARTHEST
    shown += (min(max(end, least), most) for each in ranges for end in (each.lower, each.upper))
    y_scale = (
        LogScale.around(shown, _HEIGHT, include=()) if upright.log else LinearScale.around(shown, _HEIGHT)
    )
    rows = y_scale.ticks()
    left = _MARGIN + max(text_width(upright.word(row)) for row in rows)
    # The last tick's word stands below it, and in the figure.
    length = WIDTH - left - max(_MARGIN, *(text_width(across.word(tick)) / 2 for tick in ticks))
    columns = [*ticks, *(event.at for event in events)]
    x_scale = (
        LogScale.around(columns, length, include=()) if across.log else LinearScale(max(columns), length)
    )
    marks, words = _legend(upright.name, lines)
    above = in_rows(((left + x_scale.position(event.at), event.text) for event in events), WIDTH, _MOST_ROWS)
    top = words[-1].y + len(above) * _LINE + 10
    bottom = top + _HEIGHT

    def place(x: float, y: float) -> Place:
        return left + x_scale.position(x), bottom - y_scale.position(y)

    for number, row in enumerate(above):
        words += [Word(x, top - 7 - number * _LINE, text, "middle") for x, text in row]
    words += [Word(left - 5, place(0, row)[1] + 4, upright.word(row), "end") for row in rows]
    below = in_rows(((place(tick, 0)[0], across.word(tick)) for tick in ticks), WIDTH)
    words += [Word(x, bottom + 15, text, "middle") for row in below for x, text in row]
    words.append(Word(WIDTH - _MARGIN, bottom + 28, across.name, "end"))
    grid = "".join(svg.line(place(0, row), place(inf, row)) for row in (0, *rows))
    marks += [Mark("axis", grid), *_marks(lines, events, place)]
    return Figure(width=WIDTH, height=bottom + 34, finding=finding, marks=marks, words=words, caption=caption)


def _legend(name: str, lines: Sequence[Line]) -> tuple[list[Mark], list[Word]]:
    """Return the name of the upright axis and, of more than one line, a sample and the name of each."""
    marks: list[Mark] = []
    words = [Word(0, _MARGIN, name)]
    x, y = text_width(name) + 2 * _SPACE, _MARGIN
    for each in lines if len(lines) > 1 else ():
        needed = _SAMPLE + text_width(each.name)
        if x + needed > WIDTH:
            x, y = 0.0, y + _LINE
        if each.drawn != "dots":
            marks.append(Mark(each.style, svg.line((x, y - 4), (x + _SAMPLE - 5, y - 4))))
        marks += _dots(each, [(x + _SAMPLE / 2 - 2.5, y - 4)])
        words.append(Word(x + _SAMPLE, y, each.name))
        x += needed + _SPACE
    return marks, words


def _marks(
    lines: Sequence[Line], events: Sequence[Event], place: Callable[[float, float], Place]
) -> Iterator[Mark]:
    for event in events:
        (x, top), (_, bottom) = place(event.at, inf), place(event.at, 0)
        if event.since is not None:
            since, _ = place(event.since, 0)
            yield Mark("muted", svg.bar(since, top, x - since, bottom - top), "band")
        yield Mark(event.style, svg.line((x, top), (x, bottom)))
    for each in lines:
        upper = [place(x, estimate.upper) for x, estimate in each.values]
        lower = [place(x, estimate.lower) for x, estimate in each.values]
        if upper != lower:  # the band of a single value is an upright line
            paint: Paint = "line" if len(upper) == 1 else "band"
            yield Mark(each.style, svg.line(*upper, *reversed(lower)), paint)
    for each in lines:
        places = [place(x, estimate.value) for x, estimate in each.values]
        if each.drawn != "dots":
            yield Mark(each.style, svg.line(*places))
        is_long = len(places) > _MOST_DOTS and each.drawn == "both"
        yield from _dots(each, places[-1:] if is_long else places)


def _dots(of: Line, places: Iterable[Place]) -> Iterator[Mark]:
    shape = _SHAPES.get(of.style) if of.drawn != "line" else None
    if shape:
        yield Mark(of.style, "".join(shape(*place) for place in places), "area")
