"""From a history to a small figure for each test: its speedup over the runs, and where it changed."""

from dataclasses import dataclass, replace
from math import ceil

from pytest_gpuperf.model import units
from pytest_gpuperf.report.history import History, Point, Series, sentences, series
from pytest_gpuperf.report.html import chart
from pytest_gpuperf.report.html.chart import Axis, Event, Line
from pytest_gpuperf.report.html.figure import Figure

MOST = 60
"""Tests that are shown, those with the worst changes first."""
_FACTS = ", "  # what stands between the facts of a fingerprint
_MOST_REJECTED = 20  # files: who gives a wrong folder needs no list of all that is in it
_MOST_POINTS = 120  # runs of a figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Histories:
    """The figures of a history, and what is not among them: tests with a speedup, files with the reason.

    `of` is what the runs were made on, as far as all have it in common; `hidden` is how many tests, and
    `more_rejected` how many files there are besides those that are shown.
    """

    of: str
    shown: tuple[tuple[Series, Figure], ...]
    hidden: int
    rejected: tuple[tuple[str, str], ...]
    more_rejected: int


def figures(history: History) -> Histories:
    """Return a figure for each test, largest loss first, then largest gain, at most `MOST` of them.

    Where the runs cannot all be compared, as those of two machines, each figure says what its are made on.
    """
    timed = sorted((one for one in series(history) if len(one.timed) > 1), key=_rank)
    facts = {one.fingerprint: one.fingerprint.split(_FACTS) for one in timed}
    common = [fact for fact in next(iter(facts.values()), []) if all(fact in own for own in facts.values())]
    shown = []
    for one in timed[:MOST]:
        drawn = figure(one)
        if own := _FACTS.join(fact for fact in facts[one.fingerprint] if fact not in common):
            drawn = replace(drawn, caption=f"{drawn.caption}; {own}")
        shown.append((one, drawn))
    return Histories(
        of=_FACTS.join(common),
        shown=tuple(shown),
        hidden=max(0, len(timed) - MOST),
        rejected=tuple(history.rejected.items())[:_MOST_REJECTED],
        more_rejected=max(0, len(history.rejected) - _MOST_REJECTED),
    )


def figure(series: Series) -> Figure:
    """Return the speedup with its range over at least two runs, and its changes."""
    found = [point.speedup for point in series.points if point.speedup]
    last = len(found) - 1
    step = ceil(len(found) / _MOST_POINTS)
    shown = sorted({0, *range(last, 0, -step)})
    changes = sorted(series.changes, key=lambda each: abs(each.percent), reverse=True)
    caption = "; ".join(sentences(series)) + (f"; one run of {step} is drawn" if step > 1 else "")
    value = units.digits(found[-1].value), units.interval(found[-1].low, found[-1].high, units.digits)
    return chart.figure(
        [Line(style="gpu", name="speedup", values=[(float(run), found[run]) for run in shown])],
        [
            Event(
                at=each.index - 0.5,
                text=f"{units.change(each.after / each.before)} {_origin(series.timed[each.index])}",
            )
            for each in changes
        ],
        across=Axis(name="run date", word=lambda run: series.timed[int(run)].day, log=False),
        ticks=[0.0, float(last)],
        upright=Axis(name="speedup, log scale", word="{:g}x".format),
        finding=f"Speedup {value[0]}x {value[1]} in the last of {units.count(len(found), 'run')}; {caption}",
        caption=caption,
    )


def _rank(series: Series) -> tuple[int, float]:
    """Return what sorts the largest loss first, then the largest gain, and last what did not change."""
    ratios = [change.after / change.before for change in series.changes]
    if not ratios:
        return 2, 0.0
    return (0, min(ratios)) if min(ratios) < 1 else (1, -max(ratios))


def _origin(point: Point) -> str:
    return point.origin if point.commit else point.day
