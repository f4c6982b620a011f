"""From a history to a small figure for each test: its speedup over the runs, and where it changed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from operator import attrgetter
from statistics import median_high

from pytest_gpuperf.analysis.changepoint import FEWEST, Change
from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.report.history import History, Series, series
from pytest_gpuperf.report.html import plot
from pytest_gpuperf.report.html.figure import Figure, Mark, Place, Word, band, dot, line, rule
from pytest_gpuperf.report.scale import LogScale

MOST = 60
"""Tests that are shown, those with the worst changes first."""
_FACTS = ", "  # what stands between the facts of a fingerprint
_MOST_REJECTED = 20  # files: who gives a wrong folder needs no list of all that is in it
_LEFT, _RIGHT = 40.0, 308.0
_TOP, _HEIGHT = 18.0, 64.0
_MOST_POINTS = 60
_TOO_FEW = f"changes are looked for in {FEWEST} or more"
_FARTHEST = 2.0  # times the largest speedup: so far the axis shows a range


@dataclass(frozen=True, slots=True, kw_only=True)
class Histories:
    """The figures of a history, and what is not among them: tests with a speedup, files with the reason.

    `of` is what the runs were made on, as far as all have it in common.
    """

    of: str
    shown: tuple[tuple[Series, Figure], ...]
    hidden: int
    rejected: tuple[tuple[str, str], ...]


def figures(history: History) -> Histories:
    """Return a figure for each test, largest loss first, then largest gain, at most `MOST` of them.

    Where the runs cannot all be compared, as those of two machines, each figure says what its are made on.
    """
    timed = sorted((one for one in series(history.entries) if len(one.timed) > 1), key=_rank)
    facts = {one.fingerprint: one.fingerprint.split(_FACTS) for one in timed}
    common = [fact for fact in next(iter(facts.values()), []) if all(fact in own for own in facts.values())]
    shown = []
    for one in timed[:MOST]:
        if drawn := figure(one):
            own = _FACTS.join(fact for fact in facts[one.fingerprint] if fact not in common)
            caption = f"{drawn.caption}; {own}" if own else drawn.caption
            shown.append((one, replace(drawn, caption=caption)))
    return Histories(
        of=_FACTS.join(common),
        shown=tuple(shown),
        hidden=max(0, len(timed) - MOST),
        rejected=tuple(history.rejected.items())[:_MOST_REJECTED],
    )


def figure(series: Series) -> Figure | None:
    """Return the speedup with its range over the runs, and its changes; None with fewer than two runs."""
    found = [point.result.speedup for point in series.timed if point.result.speedup]
    if len(found) < 2:
        return None
    scale = LogScale.of_estimates(found, _HEIGHT, farthest=_FARTHEST)
    step = (_RIGHT - _LEFT) / (len(found) - 1)
    shown = [(_LEFT + number * step, estimate) for number, estimate in _thinned(found)]

    def places(value: Callable[[Estimate], float]) -> list[Place]:
        return [(x, _TOP + _HEIGHT - scale.position(value(estimate))) for x, estimate in shown]

    middle = places(attrgetter("value"))
    changes = [(_LEFT + (change.index - 0.5) * step, change) for change in series.changes]
    ticks = scale.ticks(4)
    heights = [_TOP + _HEIGHT - scale.position(tick) for tick in ticks]
    first, last = (point.entry for point in (series.timed[0], series.timed[-1]))
    return Figure(
        width=plot.WIDTH,
        height=_TOP + _HEIGHT + 18,
        finding=_finding(series, found),
        marks=[
            Mark("axis", "".join(f"M{_LEFT:.0f} {y:.0f}H{_RIGHT:.0f}" for y in heights)),
            Mark(
                "gpu", band(places(attrgetter("upper")), places(attrgetter("lower"))), filled=True, faint=True
            ),
            *(Mark("limit", rule(x, _TOP, _TOP + _HEIGHT)) for x, _ in changes),
            Mark("gpu", line(*middle)),
            Mark("gpu", dot(*middle[-1]), filled=True),
        ],
        words=[
            *_words_of(changes, series),
            *(Word(_LEFT - 5, y + 4, plot.ratio(tick), "end") for tick, y in _apart(ticks, heights)),
            Word(_LEFT, _TOP + _HEIGHT + 14, first.day),
            Word(_RIGHT, _TOP + _HEIGHT + 14, last.day, "end"),
        ],
        caption=_caption(series, len(found)),
    )


def _rank(series: Series) -> tuple[int, float]:
    """Return what sorts the largest loss first, then the largest gain, and last what did not change."""
    ratios = [change.after / change.before for change in series.changes]
    if not ratios:
        return 2, 0.0
    return (0, min(ratios)) if min(ratios) < 1 else (1, -max(ratios))


def _thinned(found: Sequence[Estimate]) -> Iterator[tuple[int, Estimate]]:
    """Yield the estimates with their places: all, or of each few the middle one, in all their ranges.

    The first and the last are those of the runs whose dates the axis has.
    """
    count = len(found)
    shown = min(count, _MOST_POINTS)
    for number in range(shown):
        begin, end = count * number // shown, count * (number + 1) // shown
        few = found[begin:end]
        low, high = min(each.lower for each in few), max(each.upper for each in few)
        at = begin if number == 0 else end - 1 if number == shown - 1 else (begin + end - 1) // 2
        value = found[at].value if at in (0, count - 1) else median_high(each.value for each in few)
        yield at, Estimate(value=value, low=low, high=None if high == inf else high)


def _apart(ticks: Iterable[float], heights: Iterable[float]) -> Iterator[tuple[float, float]]:
    """Yield the ticks whose words do not overlap, lowest first."""
    above = inf
    for tick, y in zip(ticks, heights, strict=True):
        if above - y >= plot.LINE:
            yield tick, y
            above = y


def _words_of(changes: Sequence[tuple[float, Change]], series: Series) -> list[Word]:
    """Return the words of the changes, the largest first where there is no room for all."""
    sized = sorted(changes, key=lambda pair: abs(pair[1].percent), reverse=True)
    words = (Word(x, _TOP - 6, _label(change, series), "middle") for x, change in sized)
    return plot.row(words)


def _label(change: Change, series: Series) -> str:
    """Return the change in percent and the commit, or the day, that it came with."""
    entry = series.timed[change.index].entry
    origin = entry.commit.short if entry.commit else entry.day
    return f"{units.change(change.after / change.before)} {origin}"


def _finding(series: Series, found: Sequence[Estimate]) -> str:
    last = found[-1]
    said = f"{units.digits(last.value)}x {units.interval(last.low, last.high, units.digits)}"
    runs = units.count(len(found), "run")
    changes = ", ".join(_label(change, series) for change in series.changes)
    unchanged = "no change" if len(found) >= FEWEST else _TOO_FEW
    return f"Speedup {said} in the last of {runs}; {changes or unchanged}"


def _caption(series: Series, runs: int) -> str:
    if runs < FEWEST:
        return f"{units.count(runs, 'run')}: {_TOO_FEW}"
    changes = (
        f"{units.digits(change.before)}x to {units.digits(change.after)}x ({_label(change, series)})"
        for change in series.changes
    )
    return "; ".join(changes) or f"no change in {runs} runs"
