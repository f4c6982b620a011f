"""From an offload threshold to its curves: time over size on the CPU, the GPU, and the GPU with copies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import inf
from typing import Literal

from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.offload import Point, Threshold
from pytest_gpuperf.report.html import plot
from pytest_gpuperf.report.html.figure import Figure, Mark, Style, Word, band, bar, line, rule, text_width
from pytest_gpuperf.report.html.plot import Plot
from pytest_gpuperf.report.names import shorten
from pytest_gpuperf.report.scale import LogScale

_LEFT, _TOP, _RIGHT = 54.0, 22.0, 12.0
_HEIGHT, _LINE = 140.0, 13.0
_FARTHEST = 3.0  # times the largest time, or a third of the smallest: so far the axis shows a range
_LONGEST_NAME = 24
_Anchor = Literal["start", "end"]
_ANCHORS: tuple[_Anchor, ...] = ("start", "end")


@dataclass(frozen=True, slots=True)
class _Time:
    """A time at a size."""

    size: float
    time: Estimate


@dataclass(frozen=True, slots=True)
class _Curve:
    style: Style
    name: str
    times: Sequence[_Time]


@dataclass(frozen=True, slots=True)
class _Label:
    """What is said of a size, above the plot."""

    size: float
    text: str
    style: Style


def figure(threshold: Threshold) -> Figure | None:
    """Return the times over the size with the threshold; None with fewer than two sizes on a GPU.

    The range of a time on the GPU is that of its ratio to the CPU's: the CPU's own lies in it.
    """
    points = [point for point in threshold.curve if 0 < point.size < inf]
    curves = [curve for curve in _curves(threshold, points) if curve.times]
    if sum(1 for point in points if point.gpu) < 2:
        return None
    labels = [*_labels(threshold)]
    # The words of the largest size stand below its point, and in the figure.
    right = max(_RIGHT, text_width(plot.number(max(point.size for point in points))) / 2)
    box = Plot(
        left=_LEFT,
        top=_TOP + _LINE * len(labels),
        x=LogScale.around(
            [*(point.size for point in points), threshold.at_least, threshold.at_most],
            plot.WIDTH - _LEFT - right,
            include=(),
        ),
        y=LogScale.of_estimates(
            [each.time for curve in curves for each in curve.times], _HEIGHT, farthest=_FARTHEST
        ),
    )
    ticks = box.y.ticks(6)
    marks, words = plot.legend([(curve.style, curve.name) for curve in curves], 8)
    marks += [*_doubt(threshold, box), box.grid(ticks), *_marks(curves, box)]
    for label, word in _arranged(labels, box):
        bottom = box.bottom if label.style == "verdict" else box.top + 8
        marks.append(Mark(label.style, rule(box.place(label.size, None)[0], word.y - 8, bottom)))
        words.append(word)
    words += box.words_left(ticks, plot.time)
    words += box.words_below((point.size, plot.number(point.size)) for point in points)
    name = shorten(threshold.parameter, _LONGEST_NAME)
    words.append(Word(box.right, box.bottom + 27, name, "end"))
    return Figure(
        width=plot.WIDTH,
        height=box.bottom + 33,
        finding=_finding(threshold),
        marks=marks,
        words=words,
        caption=" ".join(_caveats(threshold, len(points))) or None,
    )


def _curves(threshold: Threshold, points: Sequence[Point]) -> Iterator[_Curve]:
    yield _Curve("cpu", "CPU", [_time(p.size, p.cpu, None, None) for p in points if p.cpu])
    # Speedups of single calls say nothing of the time of calls in a row.
    exact = threshold.by_latency
    is_shared = threshold.regime == "once"
    on_gpu = [(p, p.never or (p.speedup if threshold.regime == "body" else None)) for p in points]
    yield _Curve(
        "gpu", "GPU", [_time(p.size, p.gpu, p.cpu, None if exact else found) for p, found in on_gpu if p.gpu]
    )
    with_copies = [] if exact else [(p, p.once if is_shared else p.always) for p in points]
    yield _Curve(
        "copies",
        "GPU, copies shared" if is_shared else "GPU with copies",
        [
            _time(p.size, p.cpu / found.value, p.cpu, found)
            for p, found in with_copies
            if p.cpu and found and found.value > 0
        ],
    )


def _time(size: float, value: float, cpu: float | None, found: Estimate | None) -> _Time:
    """Return a time with the range that its ratio to the CPU's has."""
    if cpu is None or found is None:
        return _Time(size, Estimate(value=value, low=value, high=value))
    # The median of the ratios is not the ratio of the medians: the range may miss what is drawn in it.
    low = min(cpu / found.high, value) if found.high else None
    high = max(cpu / found.low, value) if found.low else None
    return _Time(size, Estimate(value=value, low=low, high=high))


def _marks(curves: Sequence[_Curve], box: Plot) -> Iterator[Mark]:
    for curve in curves:
        upper = [box.place(each.size, each.time.upper) for each in curve.times]
        lower = [box.place(each.size, each.time.lower) for each in curve.times]
        if upper != lower:
            yield Mark(curve.style, band(upper, lower), filled=True, faint=True)
    for curve in curves:
        places = [box.place(each.size, each.time.value) for each in curve.times]
        yield Mark(curve.style, line(*places))
        yield Mark(curve.style, "".join(plot.SHAPES[curve.style](*place) for place in places), filled=True)


def _doubt(threshold: Threshold, box: Plot) -> Iterator[Mark]:
    """Yield where the threshold may lie: above the largest size that is not won."""
    if threshold.smallest_won is None or threshold.largest_not_won is None:
        return
    low, high = (box.place(size, None)[0] for size in (threshold.largest_not_won, threshold.smallest_won))
    yield Mark("muted", bar(low, box.top, max(high - low, 1), box.y.length), filled=True, faint=True)


def _arranged(labels: Sequence[_Label], box: Plot) -> Sequence[tuple[_Label, Word]]:
    """Return each label with its word, in a line of its own: no word lies over another's upright line.

    Where that cannot be, it is as few as possible; none leaves the figure if that can be.
    """
    tried = product(permutations(labels), product(_ANCHORS, repeat=len(labels)))
    return min((_words(order, anchors, box) for order, anchors in tried), key=lambda each: _faults(each, box))


def _words(labels: Sequence[_Label], anchors: Sequence[_Anchor], box: Plot) -> list[tuple[_Label, Word]]:
    """Return each label with its word, one below the other, at the right or the left of its upright line."""
    found = []
    for number, (label, anchor) in enumerate(zip(labels, anchors, strict=True), start=1):
        x = box.place(label.size, None)[0] + (4 if anchor == "start" else -4)
        found.append((label, Word(x, _TOP + number * _LINE - 4, label.text, anchor)))
    return found


def _faults(arranged: Sequence[tuple[_Label, Word]], box: Plot) -> tuple[int, int]:
    """Return how many words leave the figure, and how many lie over the line of a word above."""
    outside = crossing = 0
    lines: list[float] = []
    for label, word in arranged:
        begin, end = plot.extent(word)
        outside += not 0 <= begin <= end <= plot.WIDTH
        crossing += sum(begin - 2 < x < end + 2 for x in lines)
        lines.append(box.place(label.size, None)[0])
    return outside, crossing


def _labels(threshold: Threshold) -> Iterator[_Label]:
    """Yield the limits of the threshold and the threshold."""
    if threshold.at_least is not None:
        yield _Label(threshold.at_least, f"at least {plot.number(threshold.at_least)}", "limit")
    if threshold.at_most is not None:
        yield _Label(threshold.at_most, f"at most {plot.number(threshold.at_most)}", "limit")
    if threshold.smallest_won is not None:
        won = threshold.smallest_won
        yield _Label(won, f"GPU faster from {plot.number(won)}", "verdict")


def _finding(threshold: Threshold) -> str:
    """Return from which size on the GPU is faster, and what is required."""
    name, won, lost = threshold.parameter, threshold.smallest_won, threshold.largest_not_won
    if won is not None:
        said = f"The GPU is faster from {name}={plot.number(won)} on"
        said += f", and not surely at {plot.number(lost)}" if lost is not None else ", the smallest size"
    elif threshold.outcome is None:
        said = f"No threshold of {name} is known: sizes are missing"
    else:
        said = f"The GPU is not surely faster from any size of {name} on"
    if threshold.outcome == "not_monotone":
        said += "; it wins at a smaller size, too, and loses between them"
    limits = [label.text for label in _labels(threshold) if label.style == "limit"]
    return f"{said}; required {' and '.join(limits)}, {threshold.status}" if limits else said


def _caveats(threshold: Threshold, shown: int) -> Iterator[str]:
    if threshold.by_latency:
        yield "Times of calls in a row; the threshold is that of single calls, each waited for."
    else:
        yield "Time per call; a band is the range of the speedup."
    if hidden := len(threshold.curve) - shown:
        yield f"Sizes that are not above zero have no place on this axis: {hidden}."
