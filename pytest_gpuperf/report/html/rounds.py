"""From a record to its rounds in order: whether times drift, or have two levels, is seen at a glance."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from statistics import median
from typing import Literal

from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import KINDS, Kind
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.html.figure import Figure, Mark, Word, scatter
from pytest_gpuperf.report.html.plot import WIDTH

MOST = 60
"""Dots of one device: of more rounds, the fastest and the slowest of each few are shown."""
_BINS = MOST // 2
_LEFT, _RIGHT = 54, 250
_STRIP, _GAP, _MARGIN = 36, 14, 4
_LEAST, _MOST = 1e-30, 1e30  # seconds; beyond are those of files that lie
_NARROWEST = 1.1  # high over low at least: noise of a percent looks like one
_DRIFT = 0.05  # of the first half: by so much the second differs before that is worth a word
_DOTS: dict[Kind, Literal["round", "square"]] = {"cpu": "round", "gpu": "square"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Strip:
    """The rounds of one device."""

    kind: Kind
    samples: Sequence[float]
    fastest: float
    slowest: float
    median: float


def figure(record: Record) -> Figure | None:
    """Return a strip of dots for each device, both with the same room for the same ratio.

    A dot is a round's time of a call; the line is their median. None where nothing was sampled twice.
    """
    strips = list(_strips(record))
    if not strips:
        return None
    span = max(_NARROWEST, *(strip.slowest / strip.fastest for strip in strips))
    marks: list[Mark] = []
    words: list[Word] = []
    for number, strip in enumerate(strips):
        top = _MARGIN + number * (_STRIP + _GAP)
        low = (strip.slowest / strip.fastest / span) ** 0.5 * strip.fastest
        typical = round(top + _STRIP * (1 - log(strip.median / low) / log(span)))
        marks.append(Mark("axis", f"M{_LEFT} {typical}H{_RIGHT}"))
        marks.append(Mark(strip.kind, scatter(_places(strip, low, span, top)), dots=_DOTS[strip.kind]))
        words += (
            Word(_LEFT - 6, top + 8, units.seconds(low * span), "end"),
            Word(_LEFT - 6, top + _STRIP, units.seconds(low), "end"),
            Word(_RIGHT + 6, top + 15, strip.kind.upper()),
            Word(_RIGHT + 6, top + 28, units.seconds(strip.median)),
        )
    rounds = max(len(strip.samples) for strip in strips)
    return Figure(
        width=WIDTH,
        height=2 * _MARGIN + len(strips) * (_STRIP + _GAP) - _GAP,
        finding=f"{units.count(rounds, 'round')} in order: {'; '.join(map(_finding, strips))}",
        marks=marks,
        words=words,
        caption=_caption(rounds),
    )


def _strips(record: Record) -> Iterator[_Strip]:
    for kind in KINDS:
        measurement = record.measurement(kind)
        taken = measurement.samples_for(record.demand) if measurement else ()
        samples = [sample for sample in taken if _LEAST < sample < _MOST]
        if len(samples) > 1:
            ordered = sorted(samples)
            yield _Strip(
                kind=kind,
                samples=samples,
                fastest=ordered[0],
                slowest=ordered[-1],
                median=median(ordered),
            )


def _places(strip: _Strip, low: float, span: float, top: int) -> list[tuple[int, int]]:
    samples = strip.samples
    step = (_RIGHT - _LEFT) / (len(samples) - 1)
    bottom, lowest, slope = top + _STRIP, log(low), _STRIP / log(span)
    return [
        (round(_LEFT + number * step), round(bottom - slope * (log(samples[number]) - lowest)))
        for number in _shown(samples)
    ]


def _shown(samples: Sequence[float]) -> Sequence[int]:
    """Return the rounds to show: all, or the fastest and the slowest of each few."""
    count = len(samples)
    if count <= MOST:
        return range(count)
    shown: list[int] = []
    for number in range(_BINS):
        begin, end = count * number // _BINS, count * (number + 1) // _BINS
        few = samples[begin:end]
        fastest, slowest = begin + few.index(min(few)), begin + few.index(max(few))
        shown += sorted({fastest, slowest})
    return shown


def _finding(strip: _Strip) -> str:
    half = len(strip.samples) // 2
    drift = median(strip.samples[half:]) / median(strip.samples[:half]) - 1
    ends = f"{units.seconds(strip.fastest)} to {units.seconds(strip.slowest)}"
    said = f"{strip.kind.upper()} {units.seconds(strip.median)} ({ends})"
    if abs(drift) <= _DRIFT:
        return said
    how = "slower" if drift > 0 else "faster"
    return f"{said}, the second half {abs(100 * drift):.0f} % {how} than the first"


def _caption(rounds: int) -> str:
    if rounds <= MOST:
        return f"{units.count(rounds, 'round')} in order, with their median"
    few = round(rounds / _BINS)
    return f"{rounds:,} rounds in order: the fastest and the slowest of each {few}, and the median"
