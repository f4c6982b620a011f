"""From a record to its rounds in order: whether times drift, or have two levels, is seen at a glance."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Literal

from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import KINDS, Kind
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.html.figure import Figure, Mark, Word, scatter
from pytest_gpuperf.report.html.plot import WIDTH
from pytest_gpuperf.report.scale import LogScale

MOST = 60
"""Dots of one device: of more rounds, the fastest and the slowest of each few are shown."""
_LEFT, _RIGHT = 54.0, 250.0
_STRIP, _GAP, _MARGIN = 36.0, 14.0, 4.0
_LEAST, _MOST = 1e-30, 1e30  # seconds; beyond are those of files that lie
_NARROWEST = 1.1  # high over low at least: noise of a percent looks like one
_DRIFT = 0.05  # of the first half: by so much the second differs before that is worth a word
_DOTS: dict[Kind, Literal["round", "square"]] = {"cpu": "round", "gpu": "square"}
_NAMES: dict[Kind, str] = {"cpu": "CPU", "gpu": "GPU"}


def figure(record: Record) -> Figure | None:
    """Return a strip of dots for each device, both with the same room for the same ratio.

    A dot is a round's time of a call; the line is their median. None where nothing was sampled twice.
    """
    found = {kind: samples for kind in KINDS if len(samples := _samples(record, kind)) > 1}
    if not found:
        return None
    span = max(_NARROWEST, *(max(samples) / min(samples) for samples in found.values()))
    marks: list[Mark] = []
    words: list[Word] = []
    for number, (kind, samples) in enumerate(found.items()):
        top = _MARGIN + number * (_STRIP + _GAP)
        middle = min(samples) ** 0.5 * max(samples) ** 0.5
        scale = LogScale(middle / span**0.5, middle * span**0.5, _STRIP)
        typical = round(top + _STRIP - scale.position(median(samples)))
        marks.append(Mark("axis", f"M{_LEFT:.0f} {typical}H{_RIGHT:.0f}"))
        marks.append(Mark(kind, scatter(_places(samples, scale, top)), dots=_DOTS[kind]))
        words += (
            Word(_LEFT - 6, top + 8, units.seconds(scale.high), "end"),
            Word(_LEFT - 6, top + _STRIP, units.seconds(scale.low), "end"),
            Word(_RIGHT + 6, top + 15, _NAMES[kind]),
            Word(_RIGHT + 6, top + 28, units.seconds(median(samples))),
        )
    rounds = max(map(len, found.values()))
    return Figure(
        width=WIDTH,
        height=2 * _MARGIN + len(found) * (_STRIP + _GAP) - _GAP,
        finding=f"{units.count(rounds, 'round')} in order: {'; '.join(_findings(found))}",
        marks=marks,
        words=words,
        caption=_caption(rounds),
    )


def _samples(record: Record, kind: Kind) -> Sequence[float]:
    measurement = record.measurement(kind)
    samples = measurement.samples_for(record.demand) if measurement else ()
    return [sample for sample in samples if _LEAST < sample < _MOST]


def _places(samples: Sequence[float], scale: LogScale, top: float) -> Iterator[tuple[int, int]]:
    step = (_RIGHT - _LEFT) / (len(samples) - 1)
    for number in _shown(samples):
        yield round(_LEFT + number * step), round(top + _STRIP - scale.position(samples[number]))


def _shown(samples: Sequence[float]) -> Sequence[int]:
    """Return the rounds to show: all, or the fastest and the slowest of each few."""
    count = len(samples)
    if count <= MOST:
        return range(count)
    ends = [count * end // (MOST // 2) for end in range(MOST // 2 + 1)]
    bins = [range(begin, end) for begin, end in pairwise(ends)]
    pairs = ((min(few, key=samples.__getitem__), max(few, key=samples.__getitem__)) for few in bins)
    return sorted({number for pair in pairs for number in pair})


def _findings(found: dict[Kind, Sequence[float]]) -> Iterator[str]:
    for kind, samples in found.items():
        half = len(samples) // 2
        drift = median(samples[half:]) / median(samples[:half]) - 1
        how = "slower" if drift > 0 else "faster"
        drifts = (
            f", the second half {abs(100 * drift):.0f} % {how} than the first" if abs(drift) > _DRIFT else ""
        )
        ends = f"{units.seconds(min(samples))} to {units.seconds(max(samples))}"
        yield f"{_NAMES[kind]} {units.seconds(median(samples))} ({ends}){drifts}"


def _caption(rounds: int) -> str:
    if rounds <= MOST:
        return f"{units.count(rounds, 'round')} in order, with their median"
    few = round(rounds / (MOST // 2))
    return f"{rounds:,} rounds in order: the fastest and the slowest of each {few}, and the median"
