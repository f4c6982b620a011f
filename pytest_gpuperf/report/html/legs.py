"""From a run and its baseline to each device's times now over then: a speedup hides which of them moved."""

from collections.abc import Sequence
from math import log

from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Legs
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.html import plot
from pytest_gpuperf.report.html.figure import Figure, Mark, Style, Word, line
from pytest_gpuperf.report.html.plot import Plot
from pytest_gpuperf.report.names import shorten
from pytest_gpuperf.report.scale import LogScale

MOST = 40
"""Tests that are shown, those with a device that moved first."""
_LEFT, _TOP = 8.0, 56.0
_RIGHT = 262.0  # of the axis; the ratios in words follow
_ROW = 40.0
_HEIGHTS: dict[Style, float] = {"cpu": 20.0, "gpu": 32.0}  # of the intervals, in a row
_NAME = 15.0  # height of a test's name, above its intervals
_LONGEST_NAME = 34
_FARTHEST = 3.0  # times the largest ratio: so far the axis shows an interval
_MOVED = {"cpu": "CPU moved", "gpu": "GPU moved", "both": "both moved", "neither": "neither moved"}


def figure(records: Sequence[Record], names: Sequence[str]) -> Figure | None:
    """Return the interval of each device's ratio for each test that has one; None where no test has.

    `names` are the tests' names.
    """
    found = [
        (record.legs, name)
        for record, name in zip(records, names, strict=True)
        if record.legs and _ratios(record.legs)
    ]
    if not found:
        return None
    found.sort(key=lambda pair: _rank(pair[0]))  # stable: otherwise tests stay in the order of the table
    shown = found[:MOST]
    height = len(shown) * _ROW
    ratios = [ratio for legs, _ in shown for _, ratio in _ratios(legs)]
    scale = LogScale.of_estimates(ratios, _RIGHT - _LEFT, farthest=_FARTHEST, include=(1.0,))
    box = Plot(left=_LEFT, top=_TOP, x=scale, y=LogScale(1.0, 2.0, height))
    marks, words = plot.legend([("cpu", "CPU"), ("gpu", "GPU")], _LEFT)
    ticks = scale.ticks(5)
    places = [box.place(tick, None)[0] for tick in ticks]
    one = box.place(1.0, None)[0]
    # Upright lines leave out the names, which lie in their way.
    tops = [_TOP + number * _ROW + _NAME for number in range(len(shown))]
    upright = "".join(f"M{{x:.0f}} {top:.0f}v{_ROW - _NAME:.0f}" for top in tops)
    marks.append(Mark("axis", "".join(upright.format(x=x) for x in places)))
    marks.append(Mark("limit", f"M{one:.0f} {_TOP - 6:.0f}v6{upright.format(x=one)}"))
    words += plot.row(
        Word(x, _TOP - 8, plot.ratio(tick), "middle") for x, tick in zip(places, ticks, strict=True)
    )
    words += [
        Word(_LEFT, _TOP - 23, "less time"),
        Word(_RIGHT, _TOP - 23, "more time than the baseline", "end"),
    ]
    lines, dots = dict.fromkeys(_HEIGHTS, ""), dict.fromkeys(_HEIGHTS, "")
    for number, (legs, name) in enumerate(shown):
        top = _TOP + number * _ROW
        words.append(Word(_LEFT, top + 12, shorten(name, _LONGEST_NAME)))
        if legs.moved:
            words.append(Word(plot.WIDTH, top + 12, _MOVED[legs.moved], "end"))
        for style, ratio in _ratios(legs):
            y = top + _HEIGHTS[style]
            low, middle, high = (
                box.place(value, None)[0] for value in (ratio.lower, ratio.value, ratio.upper)
            )
            lines[style] += line((low, y), (high, y))
            dots[style] += plot.SHAPES[style](middle, y)
            words.append(Word(plot.WIDTH, y + 4, f"{units.digits(ratio.value)}x", "end"))
    for style in _HEIGHTS:
        marks += Mark(style, lines[style]), Mark(style, dots[style], filled=True)
    return Figure(
        width=plot.WIDTH,
        height=_TOP + height + 4,
        finding=_finding([legs for legs, _ in found], shown[0][1]),
        marks=marks,
        words=words,
        caption=_caption(len(found)),
    )


def _ratios(legs: Legs) -> list[tuple[Style, Estimate]]:
    """Return the ratios that are known."""
    both: list[tuple[Style, Estimate | None]] = [("cpu", legs.cpu), ("gpu", legs.gpu)]
    return [(style, ratio) for style, ratio in both if ratio and ratio.value > 0]


def _rank(legs: Legs) -> tuple[int, float]:
    """Return what sorts first those that moved, the farthest first, and last those that surely did not."""
    if legs.moved in (None, "neither"):
        return (1 if legs.moved is None else 2), 0.0
    return 0, -max(abs(log(ratio.value)) for _, ratio in _ratios(legs))


def _finding(found: Sequence[Legs], first: str) -> str:
    moved = [legs.moved for legs in found]
    counts = ", ".join(f"{said} in {moved.count(code)}" for code, said in _MOVED.items() if code in moved)
    said = f"Time of a call now over that in the baseline, {units.count(len(found), 'test')}"
    ratios = ", ".join(f"{style.upper()} {units.digits(ratio.value)}x" for style, ratio in _ratios(found[0]))
    return f"{said}: {counts or 'inconclusive'}; {first}: {ratios}"


def _caption(found: int) -> str:
    said = "Time of a call now over that in the baseline, with its interval, on each device."
    return f"{said} {found - MOST:,} more tests are in the table." if found > MOST else said
