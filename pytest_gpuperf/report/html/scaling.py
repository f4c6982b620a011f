"""From a curve of scaling to its figure: parallel efficiency over the number of devices."""

from collections.abc import Iterator, Sequence

from pytest_gpuperf.analysis.scaling import efficiency_text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.scaling import Mode, ScalingCurve, ScalingPoint
from pytest_gpuperf.report.html import plot
from pytest_gpuperf.report.html.figure import Figure, Mark, Style, Word, line, rule, text_width
from pytest_gpuperf.report.html.plot import Plot
from pytest_gpuperf.report.scale import LinearScale, LogScale

_LEFT, _TOP = 40.0, 22.0
_HEIGHT = 140.0
_FARTHEST = 1.5  # times the largest efficiency: so far the axis shows a range
_SAMPLE, _WORDS, _GAP = 16.0, 20.0, 8.0  # of the legend: a line, where its words begin, the next one
_CAPTIONS: dict[Mode, str] = {
    "strong": "Speedup over the fewest devices / how many times as many devices.",
    "weak": "Time on the fewest devices / time, for a problem that grows with the devices.",
}


def figure(curve: ScalingCurve) -> Figure | None:
    """Return the efficiency over the number of devices; None where it was measured on none."""
    shown = [(point.count, point.efficiency) for point in curve.points if point.efficiency is not None]
    if not shown:
        return None
    limits = [] if curve.required is None else [curve.required]
    counts = [point.count for point in curve.points]
    box = Plot(
        left=_LEFT,
        top=_TOP,
        x=LogScale.around(counts, plot.WIDTH - _LEFT - 12, include=()),
        y=LinearScale.of_estimates(
            [efficiency for _, efficiency in shown], _HEIGHT, farthest=_FARTHEST, include=(1.0, *limits)
        ),
    )
    ticks = box.y.ticks()
    marks, words = _legend(curve.required)
    marks += [box.grid(ticks), _across(box, 1.0, "muted", dashed=True)]
    marks += [_across(box, limit, "limit") for limit in limits]
    marks += _marks(curve.points[0], shown, box)
    words += box.words_left(ticks, "{:g}".format)
    words += box.words_below((count, f"{count}") for count in counts)
    words.append(Word(box.right, box.bottom + 27, "devices", "end"))
    return Figure(
        width=plot.WIDTH,
        height=box.bottom + 33,
        finding=_finding(curve, *shown[-1]),
        marks=marks,
        words=words,
        caption=f"{_CAPTIONS[curve.mode]} 1 is perfect; a bar is a range.",
    )


def _across(box: Plot, value: float, style: Style, *, dashed: bool = False) -> Mark:
    y = box.place(None, value)[1]
    return Mark(style, line((box.left, y), (box.right, y)), dashed=dashed)


def _marks(first: ScalingPoint, shown: Sequence[tuple[int, Estimate]], box: Plot) -> Iterator[Mark]:
    """Yield the ranges and the line through the efficiencies; it begins at the fewest devices, with 1."""
    bars = ((box.place(count, each.upper), box.place(count, each.lower)) for count, each in shown)
    yield Mark("gpu", "".join(rule(x, top, bottom) for (x, top), (_, bottom) in bars))
    begin = [(first.count, 1.0)] if first.efficiency is None and first.time is not None else []
    places = [box.place(*each) for each in (*begin, *((count, each.value) for count, each in shown))]
    yield Mark("gpu", line(*places))
    yield Mark("gpu", "".join(plot.SHAPES["gpu"](*place) for place in places), filled=True)


def _legend(required: float | None) -> tuple[list[Mark], list[Word]]:
    """Return what each line is, above the plot."""
    entries: list[tuple[Style, str]] = [("gpu", "efficiency"), ("muted", "ideal")]
    entries += [("limit", f"required {required:g}")] if required is not None else []
    marks, words, left = [], [], 8.0
    for style, name in entries:
        marks.append(Mark(style, line((left, 8), (left + _SAMPLE, 8)), dashed=style == "muted"))
        words.append(Word(left + _WORDS, 12, name))
        left += _WORDS + text_width(name) + _GAP
    return marks, words


def _finding(curve: ScalingCurve, count: int, efficiency: Estimate) -> str:
    """Return the efficiency on the most devices that were measured, and whether it is the required one."""
    said = f"{curve.mode} scaling: the parallel efficiency on {units.count(count, 'device')} is "
    said = f"{said[0].upper()}{said[1:]}{efficiency_text(efficiency)}"
    if curve.required is None or count != curve.counts[-1]:  # which alone is held to it
        return said
    words = {True: "above", False: "below", None: "unclear whether above"}
    return f"{said}, {words[efficiency.is_above(curve.required)]} the required {curve.required:g}"
