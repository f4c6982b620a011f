"""From values to places on an axis: of ratios, where twice and half as fast lie as far from 1, or linear."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, log10

from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Record

_NARROWEST = 2.0  # high over low at least, so that noise looks like noise
_MOST_TICKS = 5  # as many as have room for their words
_STEPS = ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))  # of each decade, from many ticks to few
_FINE_STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)  # two of them on an axis that is as short as can be
_SHORT = 5.0  # high over low: up to there an axis may have one or none of the steps above
_LEAST, _MOST = 1e-30, 1e30  # of a ratio, a time or a size; beyond are those of files that lie
_LETTERS = ((1e12, "", 1.0), (1e9, "G", 1e9), (1e6, "M", 1e6), (1e4, "k", 1e3))  # each from a value on
_MARGIN = 1.05  # above the largest value of an axis of shares


@dataclass(frozen=True, slots=True)
class LogScale:
    """An axis from `low` to `high`, both above zero, that is `length` long."""

    low: float
    high: float
    length: float

    @classmethod
    def around(
        cls, values: Iterable[float | None], length: float, *, include: Iterable[float] = (1.0,)
    ) -> "LogScale":
        """Return an axis that shows all values above zero, and `include`, with a margin."""
        shown = [value for value in (*values, *include) if value is not None and _LEAST < value < _MOST]
        low, high = min(shown, default=1.0), max(shown, default=1.0)
        if high < _NARROWEST * low:
            middle = (low * high) ** 0.5
            low, high = middle / _NARROWEST**0.5, middle * _NARROWEST**0.5
        margin = (high / low) ** 0.04
        return cls(low / margin, high * margin, length)

    def position(self, value: float | None) -> float:
        """Return the place of a value, from 0 to `length`; one beyond an end, and None for 0, lies on it."""
        if value is None or value <= self.low:
            return 0.0
        if value >= self.high:
            return self.length
        return self.length * log10(value / self.low) / log10(self.high / self.low)

    def ticks(self) -> list[float]:
        """Return round values between the ends, lowest first: at most five, where there are more steps."""
        decades = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        for steps in (_FINE_STEPS, *_STEPS) if self.high < _SHORT * self.low else _STEPS:
            ticks = [step * 10.0**decade for decade in decades for step in steps]
            ticks = [tick for tick in ticks if self.low <= tick <= self.high]
            if len(ticks) <= _MOST_TICKS:
                return ticks
        step = ceil(len(ticks) / _MOST_TICKS)
        first = ticks.index(1.0) % step if 1.0 in ticks else 0  # 1 is what the others are read by
        return ticks[first::step]


@dataclass(frozen=True, slots=True)
class LinearScale:
    """An axis from 0 to `high`, above zero, that is `length` long."""

    high: float
    length: float

    @classmethod
    def around(cls, values: Iterable[float], length: float) -> "LinearScale":
        """Return an axis that shows all values above zero, with a margin."""
        return cls(_MARGIN * max((value for value in values if _LEAST < value < _MOST), default=1.0), length)

    def position(self, value: float | None) -> float:
        """Return the place of a value, from 0 to `length`; one beyond an end, and None for 0, lies on it."""
        return 0.0 if value is None else self.length * min(max(value / self.high, 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Return at most five round values from 0 to the end, at equal distances."""
        decade = 10.0 ** floor(log10(self.high / _MOST_TICKS))
        step = next(decade * each for each in (1, 2, 5, 10) if self.high / (decade * each) < _MOST_TICKS)
        return [step * number for number in range(floor(self.high / step) + 1)]


def times(tick: float) -> str:
    """Return a tick of an axis of speedups in few letters: `0.5x`, `100kx`, `1e12x`."""
    letter, unit = next(((letter, unit) for least, letter, unit in _LETTERS if tick >= least), ("", 1.0))
    number = f"{tick / unit:g}".replace("e+", "e").replace("e-0", "e-")
    return f"{number}{letter}x"


def baseline_of(record: Record) -> Estimate | None:
    """Return the speedup that a record's is compared with."""
    compared = (each.baseline for each in record.comparisons if each.metric == "speedup")
    return next(filter(None, compared), None)


def speedup_axis(records: Iterable[Record], length: float) -> LogScale:
    """Return the axis that shows the speedups of records, with what is required and their baselines."""
    values: list[float | None] = []
    for record in records:
        if record.speedup:
            values += record.demand.limits
            for each in filter(None, (record.speedup.estimate, baseline_of(record))):
                values += (each.value, each.low, each.high)
    return LogScale.around(values, length)
