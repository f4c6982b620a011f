"""The charts of a page: times over a size, efficiency over devices, a test's speedup over runs."""

from collections.abc import Collection, Iterator, Sequence
from math import inf

from pytest_gpuperf.analysis import verdict
from pytest_gpuperf.analysis.scaling import efficiency_text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.offload import Point, Threshold
from pytest_gpuperf.model.scaling import Mode, ScalingCurve
from pytest_gpuperf.report.axes import times
from pytest_gpuperf.report.history_folder import History, Series, series
from pytest_gpuperf.report.html import chart
from pytest_gpuperf.report.html.chart import Axis, Event, Line
from pytest_gpuperf.report.html.figure import Figure, Style
from pytest_gpuperf.report.words.history import sentences
from pytest_gpuperf.report.words.names import shorten
from pytest_gpuperf.report.words.scaling import scaling_heading
from pytest_gpuperf.report.words.thresholds import Sizes

_LONGEST_NAME = 24
_number = "{:.9g}".format
_CAPTIONS: dict[Mode, str] = {
    "strong": "Speedup over the fewest devices / how many times as many devices.",
    "weak": "Time on the fewest devices / time, for a problem that grows with the devices.",
}
_FACTS = ", "  # what stands between the facts of a fingerprint


def of_threshold(sizes: Sizes) -> Figure | None:
    """Return the times over the size with the threshold; None with fewer than two sizes on a GPU.

    Sizes that are not above zero have no place on the axis.
    """
    threshold, said, gpu = sizes
    points = [point for point in threshold.curve if 0 < point.size < inf]
    if sum(bool(point.gpu) for point in points) < 2:
        return None
    limits = (("at least", threshold.at_least), ("at most", threshold.at_most))
    events = [Event(at=at, text=f"{name} {_number(at)}") for name, at in limits if at is not None]
    required = " and ".join(event.text for event in events)
    caption = f"Time of a call; the band of the {gpu} is the CPU's time over the range of the speedup."
    if threshold.by_latency:
        caption = "Times of calls in a row; the threshold is that of single calls, each waited for."
    if (won := threshold.smallest_won) is not None:
        text = f"{gpu} faster from {_number(won)}"
        events.append(Event(at=won, text=text, style="muted", since=threshold.largest_not_won))
        if threshold.largest_not_won is not None:
            caption += " The threshold lies in the grey area."
    return chart.figure(
        list(_lines(threshold, points, gpu)),
        events,
        across=Axis(name=f"size {shorten(threshold.parameter, _LONGEST_NAME)}", word=_number),
        ticks=[point.size for point in points],
        upright=Axis(name="time of a call", word=units.seconds),
        finding=said + (f"; required {required}" if required else ""),
        caption=caption,
    )


def _lines(threshold: Threshold, points: Sequence[Point], gpu: str) -> Iterator[Line]:
    yield Line(style="cpu", name="CPU", values=[(p.size, chart.exact(p.cpu)) for p in points if p.cpu])
    if threshold.by_latency:  # speedups of single calls say nothing of the time of calls in a row
        yield Line(style="gpu", name=gpu, values=[(p.size, chart.exact(p.gpu)) for p in points if p.gpu])
        return
    resident = [(p, p.speedup if threshold.regime == "body" else p.never) for p in points]
    values = [(p.size, _ranged(p.gpu, p.cpu, ratio)) for p, ratio in resident if p.gpu]
    yield Line(style="gpu", name=gpu, values=values)
    is_shared = threshold.regime == "once"
    copied = ((p, p.cpu, p.once if is_shared else p.always) for p in points)
    values = [(p.size, _ranged(cpu / r.value, cpu, r)) for p, cpu, r in copied if cpu and r and r.value > 0]
    name = f"{gpu}, copies shared" if is_shared else f"{gpu} with copies"
    yield Line(style="copies", name=name, values=values)


def _ranged(value: float, cpu: float | None, ratio: Estimate | None) -> Estimate:
    """Return a time on the GPU with the range that its ratio to the CPU's has: the CPU's own lies in it."""
    if cpu is None or ratio is None:
        return chart.exact(value)
    # The median of the ratios is not the ratio of the medians: the range may miss what is drawn in it.
    low = min(cpu / ratio.high, value) if ratio.high else None
    high = max(cpu / ratio.low, value) if ratio.low else None
    return Estimate(value=value, low=low, high=high)


def of_scaling(curve: ScalingCurve) -> Figure | None:
    """Return the efficiency over the number of devices; None where it was measured on none."""
    values = [(float(point.count), point.efficiency) for point in curve.points if point.efficiency]
    if not values:
        return None
    said = (f"{efficiency_text(each)} on {units.count(int(count), curve.member)}" for count, each in values)
    finding = f"Scaling of {scaling_heading(curve)}: efficiency {', '.join(said)}"
    counts = [float(point.count) for point in curve.points]
    # The line begins with the fewest devices, with which all others are compared.
    if curve.points[0].efficiency is None and curve.points[0].time is not None:
        values.insert(0, (counts[0], chart.exact(1.0)))
    lines = [Line(style="gpu", name="measured", values=values), _level(counts, "muted", "ideal", 1.0)]
    if curve.required is not None:
        lines.append(_level(counts, "limit", f"required {curve.required:g}", curve.required))
    return chart.figure(
        lines,
        (),
        across=Axis(name=f"{curve.member}s", word="{:.0f}".format),
        ticks=counts,
        upright=Axis(name="efficiency", word="{:g}".format, log=False),
        finding=finding,
        caption=f"{_CAPTIONS[curve.mode]} 1 is perfect; the band is the range.",
    )


def _level(counts: Sequence[float], style: Style, name: str, value: float) -> Line:
    return Line(style=style, name=name, values=[(count, chart.exact(value)) for count in counts])


def worst_first(history: History) -> list[Series]:
    """Return what has a speedup in two runs: the largest loss first, last what did not change."""
    return sorted((each for each in series(history) if len(each.timed) > 1), key=_rank)


def facts_of_all(shown: Sequence[Series]) -> list[str]:
    """Return what all runs were made on, as far as they have it in common."""
    facts = [each.fingerprint.split(_FACTS) for each in shown]
    return [fact for fact in facts[0] if all(fact in each for each in facts)] if facts else []


def of_series(one: Series, known: Collection[str] = ()) -> Figure:
    """Return the speedup with its range over at least two runs, its changes, and facts that are not known."""
    values = [(float(run), each.speedup) for run, each in enumerate(one.timed) if each.speedup]
    own = _FACTS.join(fact for fact in one.fingerprint.split(_FACTS) if fact not in known)
    caption = "; ".join(filter(None, [*sentences(one), own]))
    (end, last), origins = values[-1], [each.origin if each.commit else each.day for each in one.timed]
    return chart.figure(
        [Line(style="gpu", name="speedup", values=values)],
        [
            Event(at=each.index - 0.5, text=f"{units.change(each.after / each.before)} {origins[each.index]}")
            for each in sorted(one.changes, key=lambda each: abs(each.percent), reverse=True)
        ],
        across=Axis(name="run date", word=lambda run: one.timed[int(run)].day, log=False),
        ticks=[0.0, end],
        upright=Axis(name="speedup, log scale", word=times),
        finding=f"Speedup {verdict.ratio(last)} in the last of {units.count(len(values), 'run')}; {caption}",
        caption=caption,
    )


def _rank(one: Series) -> tuple[bool, float]:
    ratios = [change.after / change.before for change in one.changes]
    return not ratios, min(ratios, default=1.0)
