"""From a record to its rounds in order: noise, drift and levels of both devices are seen at a glance."""

from collections.abc import Iterator, Sequence
from math import ceil
from statistics import median
from typing import NamedTuple

from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import KINDS, Kind
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.html.figure import Figure, Mark, Word, scatter
from pytest_gpuperf.report.scale import LogScale

_MOST = 200  # dots of one device
_WIDTH, _LEFT, _RIGHT = 360, 56, 296
_HEIGHT, _GAP, _MARGIN = 40, 22, 6
_LEAST, _LONGEST = 1e-30, 1e30  # seconds; beyond are those of files that lie
_NARROWEST = 1.1  # high over low at least: noise of a percent looks like one


class _Strip(NamedTuple):
    """The rounds of one device."""

    kind: Kind
    samples: Sequence[float]

    @property
    def ends(self) -> tuple[float, float]:
        return min(self.samples), max(self.samples)


def figure(record: Record) -> Figure | None:
    """Return a strip of dots for each device, both with the same room for the same ratio.

    A dot is a round's time of a call; the line is their median. None where nothing was sampled twice.
    """
    strips = list(_strips(record))
    if not strips:
        return None
    span = max(_NARROWEST, *(slowest / fastest for fastest, slowest in (strip.ends for strip in strips)))
    marks: list[Mark] = []
    words: list[Word] = []
    findings = []
    for number, strip in enumerate(strips):
        top = _MARGIN + number * (_HEIGHT + _GAP)
        (fastest, slowest), typical = strip.ends, median(strip.samples)
        low = (slowest / fastest / span) ** 0.5 * fastest
        axis = LogScale(low, low * span, _HEIGHT)
        middle = top + _HEIGHT - axis.position(typical)
        marks.append(Mark("axis", f"M{_LEFT} {middle:.0f}H{_RIGHT}"))
        marks.append(Mark(strip.kind, scatter(_places(strip.samples, axis, top)), dots=True))
        words += (
            Word(_LEFT - 7, top + 6, units.seconds(axis.high), "end"),
            Word(_LEFT - 7, top + _HEIGHT + 4, units.seconds(axis.low), "end"),
            Word(_RIGHT + 8, top + 17, strip.kind.upper()),
            Word(_RIGHT + 8, top + 31, units.seconds(typical)),
        )
        ends = f"{units.seconds(fastest)} to {units.seconds(slowest)}"
        findings.append(f"{strip.kind.upper()} {units.seconds(typical)} ({ends})")
    rounds = max(len(strip.samples) for strip in strips)
    step = _step(rounds)
    more = " The same height is the same ratio on both devices." if len(strips) > 1 else ""
    shown = f", one of each {step} shown" if step > 1 else ""
    return Figure(
        width=_WIDTH,
        height=2 * _MARGIN + len(strips) * (_HEIGHT + _GAP) - _GAP,
        finding=f"{units.count(rounds, 'round')} in order: {'; '.join(findings)}",
        marks=marks,
        words=words,
        caption=f"Time of a call in {units.count(rounds, 'round')}, in order{shown}; line: the median.{more}",
    )


def _strips(record: Record) -> Iterator[_Strip]:
    for kind in KINDS:
        measurement = record.measurement(kind)
        taken = measurement.samples_for(record.demand) if measurement else ()
        samples = [sample for sample in taken if _LEAST < sample < _LONGEST]
        if len(samples) > 1:
            yield _Strip(kind, samples)


def _places(samples: Sequence[float], axis: LogScale, top: int) -> Iterator[tuple[int, int]]:
    apart = (_RIGHT - _LEFT) / (len(samples) - 1)
    for number in range(0, len(samples), _step(len(samples))):
        yield round(_LEFT + number * apart), round(top + _HEIGHT - axis.position(samples[number]))


def _step(rounds: int) -> int:
    return ceil(rounds / _MOST)
