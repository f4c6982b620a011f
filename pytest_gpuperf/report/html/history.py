"""From a history to a small figure for each test: its speedup over the runs, and where it changed."""

from collections.abc import Collection, Sequence

from pytest_gpuperf.model import units
from pytest_gpuperf.report.history import History, Series, sentences, series
from pytest_gpuperf.report.html import chart
from pytest_gpuperf.report.html.chart import Axis, Event, Line
from pytest_gpuperf.report.html.figure import Figure

_FACTS = ", "  # what stands between the facts of a fingerprint


def worst_first(history: History) -> list[Series]:
    """Return what has a speedup in two runs: the largest loss first, last what did not change."""
    return sorted((each for each in series(history) if len(each.timed) > 1), key=_rank)


def facts_of_all(shown: Sequence[Series]) -> list[str]:
    """Return what all runs were made on, as far as they have it in common."""
    facts = [each.fingerprint.split(_FACTS) for each in shown]
    return [fact for fact in facts[0] if all(fact in each for each in facts)] if facts else []


def figure(series: Series, known: Collection[str] = ()) -> Figure:
    """Return the speedup with its range over at least two runs, its changes, and facts that are not known."""
    values = [(float(run), each.speedup) for run, each in enumerate(series.timed) if each.speedup]
    own = _FACTS.join(fact for fact in series.fingerprint.split(_FACTS) if fact not in known)
    caption = "; ".join(filter(None, [*sentences(series), own]))
    (end, last), origins = values[-1], [each.origin if each.commit else each.day for each in series.timed]
    found = f"{units.digits(last.value)}x {units.interval(last.low, last.high, units.digits)}"
    return chart.figure(
        [Line(style="gpu", name="speedup", values=values)],
        [
            Event(at=each.index - 0.5, text=f"{units.change(each.after / each.before)} {origins[each.index]}")
            for each in sorted(series.changes, key=lambda each: abs(each.percent), reverse=True)
        ],
        across=Axis(name="run date", word=lambda run: series.timed[int(run)].day, log=False),
        ticks=[0.0, end],
        upright=Axis(name="speedup, log scale", word="{:g}x".format),
        finding=f"Speedup {found} in the last of {units.count(len(values), 'run')}; {caption}",
        caption=caption,
    )


def _rank(series: Series) -> tuple[bool, float]:
    ratios = [change.after / change.before for change in series.changes]
    return not ratios, min(ratios, default=1.0)
