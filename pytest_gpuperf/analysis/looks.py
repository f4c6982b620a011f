"""From values in the order of their rounds to what they decide of a limit: stretches, and looks at them.

A look is a moment at which rounds are weighed, with the factors that decide then. It splits all rounds so
far, in order, into seven equal stretches. Whatever the noise, seven independent stretches lie on the wrong
side of their median together once in 128 times. Stretches are alike where noise lasts longer than one of
them, as that of clocks and neighbours does: so what a look decides must also lie beyond a factor that one
such spell may explain. The longer the rounds lasted, the smaller it is. A limit that is met takes less than
one that is missed: the next run looks again, while a failure stops people.
docs/explanation/statistics.md has the rates that benchmarks/cells.py found.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Literal, NamedTuple

from pytest_gpuperf.model.demand import Demand

STRETCHES = 7
SAMPLING_SHARE = 0.75
"""The share of max_time in which rounds are taken; the rest is for secondary measurements."""
_UNSURE = 2.0  # of short measurements: no spell of a slower clock was seen to be as strong
_MANY = 4 * STRETCHES  # rounds; with fewer, medians of stretches are as noisy as rounds
_AT_END = 1.01  # levels of one workload drift by up to 0.8 % in recorded noise
# Fewer rounds than stretches must lie beyond a limit by a factor that is rare in Laplace noise of the log
# ratio, as two devices have it whose times are of Pareto's distribution with a tail of 0.8.
_TWO_ROUNDS, _FEW_ROUNDS = 4.9, 2.7

Side = Literal["below", "above", "either", "neither"]


class Limit(NamedTuple):
    """A range of ratios that rounds must lie above or below of; a ratio on the side that `fails` is red."""

    low: float
    high: float
    fails: Side = "below"

    def is_red(self, side: Literal["below", "above"]) -> bool:
        """Return whether a ratio on this side fails."""
        return self.fails in (side, "either")


class Range(NamedTuple):
    """From the least to the greatest median of the stretches."""

    low: float
    high: float


class Look(NamedTuple):
    """The factors beyond a limit at which it is met, and missed; without `misses` nothing is missed yet."""

    meets: float
    misses: float | None


EXACT = Look(1.0, 1.0)
"""Of values without noise, such as the memory that a workload holds."""
_FIRST = Look(_UNSURE, None)
_BY_SECONDS = ((7.5, Look(_AT_END, _AT_END)), (2.0, Look(1.1, 1.5)), (1.0, Look(1.2, None)))
SHARPEST = _BY_SECONDS[0][1]
"""The look after which more time decides nothing that is nearer to a limit."""
_LEAST_OF_FEW = 1.1  # the least factor of fewer rounds than `_MANY`


def reached(rounds: int, seconds: float) -> Look | None:
    """Return the latest look that so many rounds in so many seconds have reached; None before the first."""
    if rounds < STRETCHES:
        return None
    return next((look for least, look in _BY_SECONDS if seconds >= least and rounds >= _MANY), _FIRST)


def at_end(rounds: int, seconds: float) -> Look:
    """Return the look at rounds that have ended after so many seconds: it may always decide a failure."""
    if rounds < STRETCHES:
        factor = _TWO_ROUNDS if rounds <= 2 else _FEW_ROUNDS
        return Look(factor, factor)
    meets, misses = next((look for least, look in _BY_SECONDS if seconds >= least), _FIRST)
    least = 1.0 if rounds >= _MANY else _LEAST_OF_FEW
    return Look(max(meets, least), max(misses or _UNSURE, least))


def medians(values: Sequence[float], size: int) -> list[float]:
    """Return the median of each full stretch of so many values.

    Of an even number one is left out: the last and the first in turn, so that values which alternate between
    two levels do not begin each stretch on the same one.
    """
    odd = size - 1 + size % 2
    stretches = range(min(STRETCHES, len(values) // size))
    starts = (place * size + place % 2 * (size - odd) for place in stretches)
    return [median(values[start : start + odd]) for start in starts]


def seen(values: Sequence[float]) -> Range:
    """Return the range of the medians of seven stretches; of fewer values, that of the values."""
    weighed = medians(values, len(values) // STRETCHES) if len(values) >= STRETCHES else values
    return Range(min(weighed), max(weighed))


def decided(limit: Limit, found: Range, look: Look) -> Literal["below", "above"] | None:
    """Return on which side of a limit a range lies, by the factor that this side takes at a look."""
    above = look.misses if limit.is_red("above") else look.meets
    below = look.misses if limit.is_red("below") else look.meets
    if above is not None and found.low > limit.high * above:
        return "above"
    return "below" if below is not None and found.high * below < limit.low else None


def is_hopeless(limit: Limit, found: Range) -> bool:
    """Return whether no later rounds decide a limit: stretches of the last look lie on both sides of it."""
    return found.low < limit.low and found.high > limit.high


def limits_of(demand: Demand) -> Iterator[Limit]:
    """Yield the limits that a marker requires."""
    if demand.min is not None:
        yield Limit(demand.min, demand.min, "below")
    if demand.max is not None:
        yield Limit(demand.max, demand.max, "above")
