"""From an offload threshold to its figure: time over size on the CPU, the GPU, and the GPU with copies."""

from collections.abc import Iterator, Sequence
from math import inf

from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.offload import Point, Threshold
from pytest_gpuperf.report.html import chart
from pytest_gpuperf.report.html.chart import Axis, Event, Line
from pytest_gpuperf.report.html.figure import Figure
from pytest_gpuperf.report.names import shorten

_LONGEST_NAME = 24
_number = "{:.9g}".format


def figure(threshold: Threshold, said: str, gpu: str) -> Figure | None:
    """Return the times over the size with the threshold; None with fewer than two sizes on a GPU.

    `said` is what the text says of the threshold, and `gpu` what its sizes were measured on. Sizes that are
    not above zero have no place on the axis.
    """
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
