"""From the log ratios of rounds to e-values and to the interval of their median.

Sources: V. Vovk and R. Wang, E-values (2021); A. Ramdas et al., Game-theoretic statistics and safe
anytime-valid inference (2023). By Ville's inequality an e-process passes 1/alpha at any time with
probability at most alpha while its hypothesis is true, so looking after every round is allowed.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from math import comb, exp, inf, log
from statistics import fmean, median

# (m, q, p): at the limit fewer than q of the rounds are off by a factor m; tested against p.
_MARGINS = ((1.25, 1 / 4, 0.85), (2.0, 1 / 20, 0.90))
LARGEST_EXPONENT = 700.0
"""e**700 is still a float; evidence beyond it decides nothing more."""
_MIN_VALUES = 8  # with fewer values, a lag-1 autocorrelation says more about chance than about the samples
_ROUNDING = 1e-6  # log ratios that vary less than this vary by rounding only
_SHIFTS = (0.0, *(log(margin) for margin, _, _ in _MARGINS))


@lru_cache(maxsize=1024)
def _tails(rounds: int) -> tuple[int, ...]:
    """Return the sums of C(rounds + 1, j) for j up to 0, 1, ... rounds: exact integers."""
    return tuple(accumulate(comb(rounds + 1, j) for j in range(rounds + 1)))


@lru_cache(maxsize=65536)
def _sign_evidence(rounds: int, above: int) -> float:
    """Return the e-value of `above` heads in `rounds` throws, mixed uniformly over p > 1/2."""
    return _tails(rounds)[above] / ((rounds + 1) * comb(rounds, above))


@lru_cache(maxsize=65536)
def _margin_evidence(rounds: int, beyond: int, q: float, p: float) -> float:
    """Return the likelihood ratio of p against q for `beyond` successes in `rounds` trials."""
    return exp(min(LARGEST_EXPONENT, beyond * log(p / q) + (rounds - beyond) * log((1 - p) / (1 - q))))


def _combined(rounds: int, counts: Sequence[int]) -> float:
    """Return the mean of the sign term and the margin terms, each with its own count."""
    sign, *beyond = counts
    counted = zip(beyond, _MARGINS, strict=True)
    margins = (_margin_evidence(rounds, count, q, p) for count, (_, q, p) in counted)
    return fmean([_sign_evidence(rounds, sign), *margins])


def e_value(values: Sequence[float], limit: float) -> float:
    """Return the evidence that the median of `values` lies above `limit`; both are log ratios.

    The mean of three e-values: the sign of each value against the limit, and how many values exceed it
    by 25 % and by a factor of two. The sign term assumes nothing but the median; the margin terms add
    that, at the limit, fewer than a quarter and fewer than one in twenty of the rounds are that far off.
    """
    return _combined(len(values), [sum(value - shift > limit for value in values) for shift in _SHIFTS])


class _LowerLimit:
    """The largest value below which every median was rejected after some round; it only rises."""

    def __init__(self, alpha: float) -> None:
        self.value = -inf
        self._needed = 1 / alpha
        self._steps: tuple[list[float], ...] = tuple([] for _ in _SHIFTS)

    def add(self, value: float) -> None:
        """Take one more value and raise the limit over every median that is now rejected.

        The evidence is a step function of the limit, constant from one value (shifted by a margin) up to
        the next: the search climbs the steps from the previous limit.
        """
        for steps, shift in zip(self._steps, _SHIFTS, strict=True):
            insort(steps, value - shift)
        self.value = self.advance(self.value)

    def advance(self, value: float) -> float:
        """Return the limit above all medians from that value on which are now rejected.

        From -inf on that is the limit by the evidence after the last round alone.
        """
        rounds = len(self._steps[0])
        while True:
            places = [bisect_right(steps, value) for steps in self._steps]
            if _combined(rounds, [rounds - place for place in places]) < self._needed:
                return value
            ahead = zip(self._steps, places, strict=True)
            value = min(steps[place] for steps, place in ahead if place < rounds)


class Evidence:
    """The values of all rounds so far, and the interval of medians that no round has rejected.

    The interval reaches `resolution` (a log ratio) beyond the rejected medians on either side. Smaller
    differences are those of the wall clock: in recorded noise the level of one workload drifts by up to
    0.8 %, and a sign test takes that for evidence.
    """

    def __init__(self, *, alpha: float, resolution: float) -> None:
        self.alpha = alpha
        self.resolution = resolution
        self.values: list[float] = []
        self._below = _LowerLimit(alpha)
        self._above = _LowerLimit(alpha)

    def add(self, value: float) -> None:
        """Take the log ratio of one more round."""
        self.values.append(value)
        self._below.add(value)
        self._above.add(-value)

    @property
    def low(self) -> float:
        """The lower end: every median below it, less the resolution, was rejected at level alpha."""
        return self._below.value - self.resolution

    @property
    def high(self) -> float:
        """The upper end, likewise."""
        return self.resolution - self._above.value

    @property
    def median(self) -> float:
        """The median of the values; there must be one."""
        return median(self.values)

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the interval, once there is a value.

        Rounds that contradict each other widen it: where the evidence has rejected medians from both sides
        until none was left, or the median has drifted out of what was left, the interval includes all that
        the last round has not rejected, and what is as near to the median as the resolution: of samples in
        two clusters the last round may have rejected that as well.
        """
        if self.low <= self.median <= self.high:
            return self.low, self.high
        lows = (self.low, self._below.advance(-inf) - self.resolution, self.median - self.resolution)
        highs = (self.high, self.resolution - self._above.advance(-inf), self.median + self.resolution)
        return min(*lows, *highs), max(*lows, *highs)


def autocorrelation(values: Sequence[float]) -> float | None:
    """Return the lag-1 autocorrelation of the values, or None when they are too few or do not vary."""
    if len(values) < _MIN_VALUES:
        return None
    centre = fmean(values)
    deviations = [value - centre for value in values]
    spread = sum(d * d for d in deviations)
    if spread <= len(values) * _ROUNDING**2:
        return None
    return sum(a * b for a, b in pairwise(deviations)) / spread
