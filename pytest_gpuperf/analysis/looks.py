"""From values in the order of their rounds to what they decide of a limit: stretches, and looks at them.

A look is a moment at which rounds are weighed, with the factors that decide then. It splits all rounds so
far, in order, into seven equal stretches. Whatever the noise, seven independent stretches lie on the wrong
side of their median together once in 128 times. Stretches are alike where noise lasts longer than one of
them, as that of clocks and neighbours does: so what a look decides must also lie beyond a factor that one
such spell may explain. The longer the rounds lasted, the smaller it is. A limit that is met takes less than
one that is missed: the next run looks again, while a failure stops people.

A comparison of two runs is wrong only if both are unlucky, in opposite directions. So a pair has factors of
its own, which are smaller than the product of two. The range over several earlier runs shows how much runs
differ: a later run must lie beyond that range, by a share of it.
docs/explanation/statistics.md has the rates that benchmarks/cells.py, two_runs.py and folder.py found.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil
from statistics import median
from typing import Literal, NamedTuple

from pytest_gpuperf.model.demand import Demand

STRETCHES = 7
SAMPLING_SHARE = 0.75
"""The share of max_time in which rounds are taken; the rest is for secondary measurements."""
_ROUNDS_OF_TIME = {7: 12, 20: 31, 28: 43}
"""In how many rounds' time so many are timed: from 14 on there are untimed ones, too."""
ENOUGH, FEWEST_OF_SLOW = 20, 5
"""Rounds that decide a comparison of two runs; slow calls get them in a longer time if the fewest fit."""
ROUNDS_AROUND = 5
"""How many rounds take as long as first calls, the check, warm-up and the calls that end a test."""
_ROUNDED = 1e-9  # rounds: 6.9999999999 are 7
_SHORTEST, _LONGEST = 1e-9, 86_400.0  # seconds of a round: a day is the longest max_time
_UNSURE = 2.0  # of short measurements: no spell of a slower clock was seen to be as strong
MANY = 4 * STRETCHES  # rounds; with fewer, medians of stretches are as noisy as rounds
_AT_END = 1.01  # levels of one workload drift by up to 0.8 % in recorded noise
# Fewer rounds than five must lie beyond a limit by a factor that is rare in Laplace noise of the log ratio,
# as two devices have it whose times are of Pareto's distribution with a tail of 0.8.
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


class Length(NamedTuple):
    """How long a run measured a test: so many rounds, in so many seconds."""

    rounds: int
    seconds: float

    @property
    def round_time(self) -> float | None:
        """The seconds that a round took, with what is between them; None where none was measured.

        A report that was edited may say what no round takes.
        """
        each = self.seconds / self.rounds if self.rounds else 0.0
        return each if _SHORTEST <= each <= _LONGEST else None


EXACT = Look(1.0, 1.0)
"""Of values without noise, such as the memory that a workload holds."""
CLEAR = Look(_UNSURE, _UNSURE)
"""Of rounds that are far beyond a limit, though it is too early to say that they miss it."""
_FIRST = Look(_UNSURE, None)
_BY_SECONDS = ((7.5, Look(_AT_END, _AT_END)), (2.0, Look(1.1, 1.5)), (1.0, Look(1.2, None)))
SHARPEST_AFTER, SHARPEST = _BY_SECONDS[0]
"""The seconds, and the look, after which more time decides nothing that is nearer to a limit."""
LONGEST = Length(MANY, SHARPEST_AFTER)
"""The length from which on longer runs find no smaller losses."""
_LEAST_OF_FEW = 1.1  # the least factor of fewer rounds than `MANY`
# Of five or six rounds, by seconds: each is long enough to be an average, and all lie beyond.
_FIVE, _OF_FIVE = 5, ((7.5, Look(1.2, 1.2)), (2.0, Look(1.2, 1.6)), (0.0, Look(2.0, 2.0)))

# Two runs. The factor of a miss depends on the number of rounds of the run that has fewer, and on the seconds
# of both. A row has the least seconds of the shorter run, those of the longer run, and the factor.
_MISSED_BY_ROUNDS = ((28, 1.01), (20, 1.03), (12, 1.1), (7, 1.15), (5, 1.2), (4, 1.25), (3, 2.7), (0, 4.9))
_MISSED_BY_SECONDS = (
    (7.5, 7.5, 1.01),
    (5.0, 5.0, 1.15),
    (2.0, 7.5, 1.2),
    (2.0, 2.0, 1.65),
    (1.0, 7.5, 1.3),
    (0.0, 0.0, _UNSURE),
)
_MET = ((28, 7.5, 7.5, 1.01), (20, 5.0, 5.0, 1.03), (5, 5.0, 5.0, 1.05), (5, 2.0, 7.5, 1.05))
"""The least rounds, the seconds of the shorter and the longer run, the factor; else the later run's."""

# Beside several runs, of which each began anew: how far beyond their range, as a share of that range.
_MET_BESIDE_RUNS, _MISSED_BESIDE_RUNS = 1 / 8, 1 / 4


def reached(rounds: int, seconds: float) -> Look | None:
    """Return the latest look that so many rounds in so many seconds have reached; None before the first."""
    if rounds < STRETCHES:
        return None
    return next((look for least, look in _BY_SECONDS if seconds >= least and rounds >= MANY), _FIRST)


def at_end(rounds: int, seconds: float) -> Look:
    """Return the look at rounds that have ended after so many seconds: it may always decide a failure."""
    if rounds < _FIVE:
        factor = _TWO_ROUNDS if rounds <= 2 else _FEW_ROUNDS
        return Look(factor, factor)
    if rounds < STRETCHES:
        return next(look for least, look in _OF_FIVE if seconds >= least)
    meets, misses = next((look for least, look in _BY_SECONDS if seconds >= least), _FIRST)
    least = 1.0 if rounds >= MANY else _LEAST_OF_FEW
    return Look(max(meets, least), max(misses or _UNSURE, least))


def of_pair(before: Length, now: Length) -> Look:
    """Return the look at two runs of a test: by how much the later one meets or misses the earlier one's."""
    rounds = min(before.rounds, now.rounds)
    shorter, longer = sorted((before.seconds, now.seconds))
    by_rounds = next(factor for fewest, factor in _MISSED_BY_ROUNDS if rounds >= fewest)
    by_seconds = next(
        factor for least, of_other, factor in _MISSED_BY_SECONDS if shorter >= least and longer >= of_other
    )
    met = (
        factor
        for fewest, least, of_other, factor in _MET
        if rounds >= fewest and shorter >= least and longer >= of_other
    )
    return Look(next(met, at_end(now.rounds, now.seconds).meets), max(by_rounds, by_seconds))


def of_runs(width: float, alone: Look = SHARPEST) -> Look:
    """Return the look at a run beside several earlier ones, the range of all of which is so wide: high / low.

    Their range already contains what lasts for a whole run, so the seconds of a run do not matter. `alone` is
    the look at a run beside a range without width.
    """
    meets, misses = width**_MET_BESIDE_RUNS, width**_MISSED_BESIDE_RUNS
    return Look(alone.meets * meets, (alone.misses or 1.0) * misses)


def time_for(rounds: int, round_time: float) -> int:
    """Return the max_time, in whole seconds, in which so many rounds are timed: 7, 20 or 28."""
    return ceil(_ROUNDS_OF_TIME[rounds] * round_time - _ROUNDED)


def planned(round_time: float, max_time: float, slow_time: float | None = None) -> Length:
    """Return how long a test takes rounds of so many seconds each, within its max_time.

    Where `slow_time` says how long a test of slow calls may take, these have enough rounds, if as many fit.
    """
    seconds = max(0.0, min(SAMPLING_SHARE * max_time, max_time - ROUNDS_AROUND * round_time))
    usual = Length(int(seconds / round_time + _ROUNDED), seconds)
    fit = int(slow_time / round_time - ROUNDS_AROUND + _ROUNDED) if slow_time else 0
    rounds = min(ENOUGH, fit)
    return Length(rounds, rounds * round_time) if fit >= FEWEST_OF_SLOW and rounds > usual.rounds else usual


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
    """Return the range of the medians of seven stretches; of fewer values, that of the values.

    Few values are all used, in stretches that are as equal as can be.
    """
    weighed = values
    if len(values) >= MANY:
        weighed = medians(values, len(values) // STRETCHES)
    elif len(values) >= STRETCHES:
        ends = (len(values) * place // STRETCHES for place in range(STRETCHES + 1))
        weighed = [median(values[start:end]) for start, end in pairwise(ends)]
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
