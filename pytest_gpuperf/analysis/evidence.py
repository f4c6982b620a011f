"""From the log ratios of rounds to e-values and to the interval of their median.

Sources: V. Vovk and R. Wang, E-values (2021); A. Ramdas et al., Game-theoretic statistics and safe
anytime-valid inference (2023). By Ville's inequality an e-process passes 1/alpha at any time with
probability at most alpha while its hypothesis is true, so looking after every round is allowed.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from math import comb, exp, inf, log
from statistics import fmean

ALPHA = 0.025
"""Chance of a wrong verdict, per side: that either bound of an interval is wrong."""
LARGEST_EXPONENT = 700.0
"""e**700 is still a float; evidence beyond it decides nothing more."""
FEWEST_ROUNDS = 2
"""With fewer there is no interval."""
_LEAST_FACTOR = 2.7  # beyond two levels of a GPU's clock, the widest of which are 2.2 apart
_TAIL = 0.8  # of a Pareto distribution: so heavy that it has no mean
_UNANIMOUS = 0.7  # of the weight is on rounds that all agree; the rest is uniform over p > 1/2
_MIN_VALUES = 8  # with fewer values, a lag-1 autocorrelation says more about chance than about the samples
_ROUNDING = 1e-6  # log ratios that vary less than this vary by rounding only


@lru_cache(maxsize=1024)
def _tails(rounds: int) -> tuple[int, ...]:
    """Return the sums of C(rounds + 1, j) for j up to 0, 1, ... rounds: exact integers."""
    coefficients = accumulate(range(rounds), lambda c, j: c * (rounds + 1 - j) // (j + 1), initial=1)
    return tuple(accumulate(coefficients))


@lru_cache(maxsize=65536)
def _sign_evidence(rounds: int, above: int) -> float:
    """Return the e-value of `above` heads in `rounds` throws of a coin, against p <= 1/2.

    The mean of two likelihood ratios: that of p = 1, which ends a clear case after six rounds, and that of p
    mixed uniformly over p > 1/2, which is 2**(n+1) times the incomplete beta integral of p**s (1-p)**(n-s).
    """
    mixed = log(_tails(rounds)[above]) - log((rounds + 1) * comb(rounds, above))
    evidence = (1 - _UNANIMOUS) * exp(min(LARGEST_EXPONENT, mixed))
    if above == rounds:
        evidence += _UNANIMOUS * exp(min(LARGEST_EXPONENT, rounds * log(2)))
    return evidence


@lru_cache(maxsize=65536)
def _needed(rounds: int, alpha: float) -> int:
    """Return how many rounds must agree to reject at level alpha; one more than all where none suffice."""
    return bisect_left(range(rounds + 1), 1 / alpha, key=lambda above: _sign_evidence(rounds, above))


def _far(rounds: int, alpha: float) -> float:
    """Return a log ratio by which all of so few rounds lie above their median with a chance of at most alpha.

    The chance is that of Laplace noise in the log ratio, as two devices with Pareto times have it.
    """
    return max(log(_LEAST_FACTOR), -log(2 * alpha ** (1 / rounds)) / _TAIL)


def e_value(values: Sequence[float], limit: float) -> float:
    """Return the evidence that the median of `values` lies above `limit`; both are log ratios.

    Only the side of the limit on which each value lies counts, so it holds for any independent noise.
    """
    return _sign_evidence(len(values), sum(value > limit for value in values))


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
        self._ordered: list[float] = []
        self._bounds = (-inf, inf)  # what was rejected after some round stays rejected: they only approach

    def add(self, value: float) -> None:
        """Take the log ratio of one more round."""
        self.values.append(value)
        insort(self._ordered, value)
        low, high = self._last_bounds
        self._bounds = (max(self._bounds[0], low), min(self._bounds[1], high))

    @property
    def low(self) -> float:
        """The lower end: every median below it, less the resolution, was rejected at level alpha."""
        return self._bounds[0] - self.resolution

    @property
    def high(self) -> float:
        """The upper end, likewise."""
        return self._bounds[1] + self.resolution

    @property
    def median(self) -> float:
        """The median of the values; there must be one."""
        middle = len(self._ordered) // 2  # they need no sorting, as statistics.median would do in each round
        upper = self._ordered[middle]
        return upper if len(self._ordered) % 2 else (self._ordered[middle - 1] + upper) / 2

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the interval, once there is a value.

        Rounds that contradict each other widen it: where the evidence has rejected medians from both sides
        until none was left, or the median has drifted out of what was left, the interval includes all that
        the last round has not rejected.
        """
        if self.low <= self.median <= self.high:
            return self.low, self.high
        low, high = self._last_bounds
        ends = self.low, self.high, low - self.resolution, high + self.resolution
        return min(ends), max(ends)

    @property
    def has_enough_rounds(self) -> bool:
        """Whether the signs of so many rounds can reject anything."""
        return _needed(len(self.values), self.alpha) <= len(self.values)

    @property
    def few_rounds_interval(self) -> tuple[float, float] | None:
        """The interval of a workload too slow for enough rounds; None with fewer than two.

        It reaches so far beyond the least and the greatest round that all rounds would rarely be so far off.
        To be looked at once, when time is up: unlike `interval` it is not valid after every round.
        """
        rounds = len(self.values)
        if rounds < FEWEST_ROUNDS:
            return None
        far = _far(rounds, self.alpha)
        return self._ordered[0] - far, self._ordered[-1] + far

    @property
    def _last_bounds(self) -> tuple[float, float]:
        """The medians between which the evidence after the last round alone leaves the median.

        A median is rejected if as many values as needed lie beyond it, on one side.
        """
        rounds = len(self._ordered)
        needed = _needed(rounds, self.alpha)
        if needed > rounds:
            return -inf, inf
        return self._ordered[rounds - needed], self._ordered[needed - 1]


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
