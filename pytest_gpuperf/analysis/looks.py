"""From the rounds so far to what decides: stretches, the range of their medians, and the looks that weigh it.

A look splits all rounds so far, in order, into equal stretches. Whatever the noise, seven independent
stretches lie on the wrong side of their median together once in 128 times. Stretches are alike where noise
lasts longer than one of them, as clocks and neighbours do; so what a look decides must also lie beyond a
factor that one such spell may explain. The longer the rounds lasted, the smaller it is. A limit that is met
takes less than one that is missed: the next run looks again, while a failure stops people.
docs/explanation/statistics.md has the rates that benchmarks/cells.py finds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, log2
from statistics import median
from typing import Literal, NamedTuple

from pytest_gpuperf.model.demand import Demand, Passes
from pytest_gpuperf.model.measurement import LookName

SAMPLING_SHARE = 0.75
"""The share of max_time in which rounds are taken; the rest is for what is measured beside them."""
LEAST_PER_STRETCH = 4
"""Rounds of a stretch, below which a look before the last is left out, and the last asks for more."""
DRIFT = 1.01
"""The factor that tells nothing: levels of one workload drift by up to 0.8 % in recorded noise."""
SHARE_OF_UNJUDGED = 1 / 8
"""The share of the sampling time for one device alone, where nothing fails by its samples."""
_UNSURE = 2.0  # what is certain before any look that decides a failure
_FEW_PER_STRETCH = 1.1  # with less than four rounds in each, medians are as noisy as rounds
_SHORT, _SHORT_FACTOR = 4.0, 1.35  # seconds of sampling, in which a spell of a second covers most stretches
_LEAST_FACTOR = 2.7  # of few rounds: beyond two levels of a GPU's clock, the widest of which are 2.2 apart
_TAIL = 0.8  # of a Pareto distribution: so heavy that it has no mean
_RESTART_SHARE = 0.8  # of alpha for rounds before a restart; few rounds are weighed once, before or after it

Side = Literal["below", "above", "either", "neither"]


class Limit(NamedTuple):
    """A range of ratios that rounds must lie above or below; the side that `fails` takes a sure verdict."""

    low: float
    high: float
    fails: Side = "below"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """When rounds are weighed, and the factors beyond a limit at which it counts as met, or as missed.

    `share` is of the sampling time. Without `misses` nothing fails by it. `sure` is how far beyond the range
    of the stretches the ratio may certainly lie.
    """

    name: LookName
    share: float
    meets: float
    misses: float | None

    @property
    def sure(self) -> float:
        """The factor by which the range is widened to what is certain."""
        return _UNSURE if self.misses is None else self.misses


_LOOKS: dict[Passes, tuple[Look, ...]] = {
    "quick": (
        Look(name="first", share=0.0, meets=2.0, misses=None),
        Look(name="eighth", share=1 / 8, meets=1.2, misses=None),
        Look(name="quarter", share=1 / 4, meets=1.1, misses=1.5),
    ),
    "sure": (
        Look(name="first", share=0.0, meets=2.0, misses=None),
        Look(name="quarter", share=1 / 4, meets=1.5, misses=1.5),
    ),
}


class Range(NamedTuple):
    """From the least to the greatest median of the stretches."""

    low: float
    high: float


def count_of_stretches(alpha: float) -> int:
    """Return how many stretches all lie on the wrong side with a chance of at most alpha / 1.6, on each side.

    That is 2**-7 for 0.025; and as many rounds make the first look.
    """
    return 1 + ceil(log2(1 / alpha))


def planned(passes: Passes) -> tuple[Look, ...]:
    """Return the looks before the last one."""
    return _LOOKS[passes]


def last(rounds: int, stretches: int, seconds: float, alpha: float) -> Look:
    """Return the look at the end of so many rounds, for which there were so many seconds."""
    if rounds < stretches:
        factor = few_rounds_factor(rounds, alpha)
        return Look(name="few_rounds", share=1.0, meets=factor, misses=factor)
    meets = DRIFT if rounds >= LEAST_PER_STRETCH * stretches else _FEW_PER_STRETCH
    misses = max(meets, _SHORT_FACTOR) if seconds < _SHORT else meets
    return Look(name="end", share=1.0, meets=meets, misses=misses)


def recorded(*factors: float | None) -> Look:
    """Return the look of samples that were recorded, by the factors of what is certain of each side."""
    sure = max(factor or _UNSURE for factor in factors)
    return Look(name="end", share=1.0, meets=sure, misses=sure)


def few_rounds_factor(rounds: int, alpha: float) -> float:
    """Return a factor by which all of so few rounds lie above their median with a chance of at most alpha.

    The chance is that of Laplace noise in the log ratio, as two devices with Pareto times have it.
    """
    tail = (_RESTART_SHARE * alpha) ** (1 / max(1, rounds))
    return max(_LEAST_FACTOR, float((2 * tail) ** (-1 / _TAIL)))


def medians(values: Sequence[float], stretches: int, size: int | None = None) -> list[float]:
    """Return the median of each stretch of so many values, all in order.

    Without a size the values are divided among the stretches. With one, only stretches that are full count.
    The median is of an odd number of values. Of an even number the last is left out, and in every second
    stretch the first: so stretches of values that alternate do not all begin alike.
    """
    if size is None:
        size = len(values) // stretches
    odd = size - 1 + size % 2
    starts = [index * size + index % 2 * (size - odd) for index in range(min(stretches, len(values) // size))]
    return [median(values[start : start + odd]) for start in starts]


def seen(values: Sequence[float], stretches: int) -> Range:
    """Return the range of the stretches' medians; of fewer values than stretches, that of the values."""
    weighed = medians(values, stretches) if len(values) >= stretches else values
    return Range(min(weighed), max(weighed))


def widened(seen: Range, factor: float) -> Range:
    """Return a range that reaches so much further on both sides."""
    return Range(seen.low / factor, seen.high * factor)


def is_decided(limit: Limit, seen: Range, look: Look) -> bool:
    """Return whether a range lies far enough above or below a limit."""
    above = look.misses if limit.fails in ("above", "either") else look.meets
    below = look.misses if limit.fails in ("below", "either") else look.meets
    return bool(above and seen.low > limit.high * above) or bool(below and seen.high * below < limit.low)


def is_hopeless(limit: Limit, seen: Range) -> bool:
    """Return whether no later rounds can decide a limit: stretches of the last look lie on either side."""
    return seen.low <= limit.high * DRIFT and seen.high * DRIFT >= limit.low


def limits_of(demand: Demand) -> Iterable[Limit]:
    """Yield the limits that a marker requires."""
    if demand.min is not None:
        yield Limit(demand.min, demand.min, "below")
    if demand.max is not None:
        yield Limit(demand.max, demand.max, "above")


def reached(passes: Passes, rounds: int, stretches: int, spent: float, seconds: float) -> Look:
    """Return the last look, of those before the end, that so many rounds in so many seconds have reached."""
    first, *later = planned(passes)
    enough = rounds >= LEAST_PER_STRETCH * stretches
    return next((look for look in reversed(later) if enough and spent >= look.share * seconds), first)
