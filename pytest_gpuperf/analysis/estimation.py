"""From rounds to the speedup, and to whether enough of them were taken."""

from collections.abc import Iterable, Sequence
from math import exp, inf, log
from statistics import median

from pytest_gpuperf.analysis import verdict
from pytest_gpuperf.analysis.evidence import Evidence, autocorrelation, e_value
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import Neighbours, Round, Speedup

__all__ = ["SequentialEstimator", "estimate", "gated"]

_FEWEST = 2  # rounds that are taken whatever they cost: one alone can never decide
_MOST_OF_IT = 0.75  # of max_time is for precision; the rest is for what is sampled beside the verdict
_LARGEST = 700.0  # e**700 is still a float


def estimate(ratios: Iterable[float], plan: RunOptions, sampling: Neighbours) -> Speedup | None:
    """Return the speedup that ratios, in the order in which they were taken, are samples of."""
    return gated((Round(cpu=ratio, gpu=1.0) for ratio in ratios), Demand(), plan, sampling)


def gated(rounds: Iterable[Round], demand: Demand, plan: RunOptions, sampling: Neighbours) -> Speedup | None:
    """Return the speedup of rounds, in the order in which they were taken, as the demand gates it."""
    estimation = SequentialEstimator(demand, plan)
    for taken in rounds:
        estimation.add(taken)
    return estimation.speedup(sampling)


class SequentialEstimator:
    """The speedup as it takes shape, and the rule that stops sampling.

    Copies count as the demand says. Sampling stops when the verdict is certain and the interval precise, or
    when its time or its rounds are used up. Without a demand there is no verdict to wait for. `apart` are
    ranges of speedups that it must be told from, too.
    """

    def __init__(self, demand: Demand, plan: RunOptions, apart: Sequence[tuple[float, float]] = ()) -> None:
        self._demand = demand
        self._plan = plan
        self._apart = [(log(low), log(high)) for low, high in apart]
        self._evidence = Evidence(alpha=plan.alpha, resolution=log(1 + plan.sampling.resolution))
        self._strongest = dict.fromkeys(demand.limits, 0.0)

    def add(self, taken: Round) -> None:
        """Take one more round."""
        calls = self._demand.calls if self._demand.transfer == "once" else None
        self._evidence.add(log(taken.cpu / (taken.gpu + taken.copies / (calls or 1))))
        for limit in self._strongest:
            self._strongest[limit] = max(self._strongest[limit], self._against(log(limit)))

    def enough(self, *, spent: float, left: float) -> bool:
        """Say whether sampling may stop, `spent` seconds after it began and with `left` seconds allowed."""
        plan, taken = self._plan, len(self._evidence.values)
        if taken < _FEWEST:
            return False
        if 2 * spent / taken > left:  # one more round, and the two calls that end the test
            return True
        if taken < plan.sampling.min_rounds:
            return False
        waited = taken >= plan.sampling.precision_rounds or spent >= _MOST_OF_IT * plan.max_time
        if not self._demand.limits:
            recorded = (
                self._precise
                or (waited and spent >= plan.sampling.record_time)
                or taken >= plan.sampling.record_rounds
            )
            return recorded and (self._is_told or taken >= plan.sampling.max_rounds)
        if taken >= plan.sampling.max_rounds:
            return True
        return self._decided and (self._precise or (waited and spent >= plan.sampling.precision_time))

    def speedup(self, sampling: Neighbours) -> Speedup | None:
        """Return the estimate from the rounds so far, None before the first."""
        values = self._evidence.values
        if not values:
            return None
        low, high = self._interval
        return Speedup(
            value=exp(median(values)),
            low=exp(low) if low > -inf else None,
            high=exp(high) if high < inf else None,
            confidence=1 - 2 * self._plan.alpha,
            resolution=self._plan.sampling.resolution,
            rounds=len(values),
            evidence=self._at_nearest_limit(exp(median(values))),
            autocorrelation=autocorrelation(values),
            sampling=sampling,
        )

    @property
    def _interval(self) -> tuple[float, float]:
        """The ends of the interval, as log ratios.

        Rounds that contradict each other are a doubt: where the evidence has rejected medians from both
        sides until none was left, or the median has drifted away from what was left, the interval takes in
        all that the last round has not rejected, too, and what is as near to the median as the resolution:
        of samples in two heaps the last round may have rejected that as well.
        """
        seen, middle = self._evidence, median(self._evidence.values)
        if seen.low <= middle <= seen.high:
            return seen.low, seen.high
        near = (middle - seen.resolution, middle + seen.resolution)
        ends = (seen.low, seen.high, seen.latest_low, seen.latest_high, *near)
        return min(ends), max(ends)

    @property
    def _decided(self) -> bool:
        if not self._is_told:
            return False
        low, high = self._interval
        return verdict.decision(exp(low), exp(min(high, _LARGEST)), self._demand) is not None

    @property
    def _is_told(self) -> bool:
        """Whether the speedup is told from what it must be told from beside its demand."""
        low, high = self._interval
        return all(low > most or high < least for least, most in self._apart)

    @property
    def _precise(self) -> bool:
        low, high = self._interval
        middle, near = median(self._evidence.values), log(1 + self._plan.sampling.precision)
        return middle - low <= near and high - middle <= near

    def _at_nearest_limit(self, value: float) -> float | None:
        """Return the strongest evidence of any round against the limit that is nearest to the estimate."""
        if not self._strongest:
            return None
        return self._strongest[min(self._strongest, key=lambda limit: abs(log(value / limit)))]

    def _against(self, limit: float) -> float:
        """Return the evidence that the median is not at the limit, on the side that has more of it."""
        values, resolution = self._evidence.values, self._evidence.resolution
        above = e_value(values, limit + resolution)
        return max(above, e_value([-value for value in values], resolution - limit))
