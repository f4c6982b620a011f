"""From rounds to the speedup with its interval, and to whether enough rounds were taken."""

from collections.abc import Iterable, Sequence
from math import exp, inf, log

from pytest_gpuperf.analysis import verdict
from pytest_gpuperf.analysis.evidence import LARGEST_EXPONENT, Evidence, autocorrelation, e_value
from pytest_gpuperf.analysis.noise import MOST_DROPPED
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import Neighbours, Round, Speedup

_MIN_ROUNDS = 2  # taken whatever they cost: one alone can never decide
_PRECISION_SHARE = 0.75  # of max_time is for precision; the rest is for secondary measurements


def estimate(ratios: Iterable[float], options: RunOptions, sampling: Neighbours) -> Speedup | None:
    """Return the speedup of which ratios, in the order in which they were taken, are samples."""
    return estimate_for_demand((Round(cpu=ratio, gpu=1.0) for ratio in ratios), Demand(), options, sampling)


def estimate_for_demand(
    rounds: Iterable[Round], demand: Demand, options: RunOptions, sampling: Neighbours
) -> Speedup | None:
    """Return the speedup of rounds, in the order in which they were taken, with the copies of the demand."""
    estimator = SequentialEstimator(demand, options)
    for one_round in rounds:
        estimator.add(one_round)
    return estimator.speedup(sampling)


class SequentialEstimator:
    """Estimates the speedup round by round, and has the rule that stops sampling.

    Copies count as the demand requires. `exclusions` are ranges of speedups (the limit of a regression check,
    or 1 in a size sweep) that the interval must lie outside of before sampling stops.
    """

    def __init__(
        self, demand: Demand, options: RunOptions, exclusions: Sequence[tuple[float, float]] = ()
    ) -> None:
        self._demand = demand
        self._options = options
        self._exclusions = [(log(low), log(high)) for low, high in exclusions]
        self._evidence = Evidence(alpha=options.alpha, resolution=log(1 + options.sampling.resolution))
        self._strongest = dict.fromkeys(demand.limits, 0.0)

    def add(self, one_round: Round) -> None:
        """Take one more round."""
        calls = self._demand.calls if self._demand.transfer == "once" else None
        self._evidence.add(log(one_round.cpu / (one_round.gpu + one_round.copies / (calls or 1))))
        for limit in self._strongest:
            self._strongest[limit] = max(self._strongest[limit], self._evidence_against(log(limit)))

    def should_stop(self, *, spent: float, left: float, dropped: int = 0) -> bool:
        """Return whether sampling stops, `spent` seconds after it began and with `left` seconds allowed.

        It stops when the verdict is certain and the interval precise, or when its time or its rounds are used
        up. Without limits there is no verdict to wait for. `dropped` rounds took time and count for nothing.
        """
        plan = self._options.sampling
        taken = len(self._evidence.values)
        too_many_dropped = dropped > MOST_DROPPED * (taken + dropped)
        counted = taken + dropped if too_many_dropped else taken
        # One more round, and the two calls that end the test, must fit into the time that is left.
        if counted >= _MIN_ROUNDS and 2 * spent / counted > left:
            return True
        if dropped > MOST_DROPPED * plan.max_rounds:
            return True
        if too_many_dropped or taken < max(_MIN_ROUNDS, plan.min_rounds):
            return False
        is_long = taken >= plan.precision_rounds or spent >= _PRECISION_SHARE * self._options.max_time
        if not self._demand.limits:
            is_recorded = self._is_precise or (is_long and spent >= plan.record_time)
            is_recorded = is_recorded or taken >= plan.record_rounds
            return is_recorded and (self._is_outside_exclusions or taken >= plan.max_rounds)
        if taken >= plan.max_rounds:
            return True
        return self._is_decided and (self._is_precise or (is_long and spent >= plan.precision_time))

    def speedup(self, sampling: Neighbours) -> Speedup | None:
        """Return the estimate from the rounds so far, None before the first."""
        values = self._evidence.values
        if not values:
            return None
        value = exp(self._evidence.median)
        low, high = self._evidence.interval
        nearest = min(self._strongest, key=lambda limit: abs(log(value / limit)), default=None)
        return Speedup(
            value=value,
            low=exp(low) if low > -inf else None,
            high=exp(high) if high < inf else None,
            confidence=1 - 2 * self._options.alpha,
            resolution=self._options.sampling.resolution,
            rounds=len(values),
            evidence=None if nearest is None else self._strongest[nearest],
            autocorrelation=autocorrelation(values),
            sampling=sampling,
        )

    @property
    def _is_decided(self) -> bool:
        low, high = self._evidence.interval
        decision = verdict.decision(exp(low), exp(min(high, LARGEST_EXPONENT)), self._demand)
        return decision is not None and self._is_outside_exclusions

    @property
    def _is_outside_exclusions(self) -> bool:
        """Whether the interval lies above or below every exclusion."""
        low, high = self._evidence.interval
        return all(low > most or high < least for least, most in self._exclusions)

    @property
    def _is_precise(self) -> bool:
        low, high = self._evidence.interval
        middle = self._evidence.median
        width = log(1 + self._options.sampling.precision)
        return middle - low <= width and high - middle <= width

    def _evidence_against(self, limit: float) -> float:
        """Return the evidence that the median is above or below the limit, whichever is stronger."""
        values, resolution = self._evidence.values, self._evidence.resolution
        above = e_value(values, limit + resolution)
        return max(above, e_value([-value for value in values], resolution - limit))
