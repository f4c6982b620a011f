"""From rounds to the speedup with its interval, and to what is certain of it by now."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil, exp, inf, log
from statistics import median
from typing import Literal, NamedTuple

from pytest_gpuperf.analysis import noise, verdict
from pytest_gpuperf.analysis.evidence import ALPHA, LARGEST_EXPONENT, Evidence, autocorrelation, e_value
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.model.demand import Demand, Kind, RunOptions, SamplingPlan
from pytest_gpuperf.model.measurement import Confirmation, Estimate, Interference, Neighbours, Round, Speedup

_RESOLUTION = log(1 + SamplingPlan().resolution)
_FIRST_SHARE = 0.8  # of alpha, for the rounds before a restart; six that agree still decide


def alpha_share(*, restarted: bool) -> float:
    """Return the share of alpha that samples may spend: after a restart it is what the first ones leave."""
    return 1 - _FIRST_SHARE if restarted else _FIRST_SHARE


def gpu_time(one_round: Round, demand: Demand) -> float:
    """Return the seconds of a call on the GPU in one round, with the copies that the demand includes."""
    calls = demand.calls if demand.transfer == "once" else None
    return one_round.gpu + one_round.copies / (calls or 1)


def estimate(
    ratios: Iterable[float], options: RunOptions, sampling: Neighbours, *, alpha_share: float = 1.0
) -> Speedup | None:
    """Return the speedup of which ratios, in the order in which they were taken, are samples."""
    rounds = (Round(cpu=ratio, gpu=1.0) for ratio in ratios)
    return estimate_for_demand(rounds, Demand(), options, sampling, alpha_share=alpha_share)


def estimate_time(samples: Iterable[float], alpha: float) -> Estimate | None:
    """Return the median of one device's times, with the interval that `estimate` gives it; None for none.

    Reports have thousands of them: no round and no speedup is made for a time.
    """
    evidence = Evidence(alpha=alpha, resolution=_RESOLUTION)
    for sample in samples:
        evidence.add(log(sample))
    return _estimate(evidence) if evidence.values else None


def _estimate(evidence: Evidence) -> Estimate:
    """Return the median of what was sampled, with its interval."""
    low, high = _few_rounds_interval(evidence) or evidence.interval
    return Estimate(
        value=exp(evidence.median),
        low=exp(low) if low > -inf else None,
        high=exp(high) if high < inf else None,
    )


def _few_rounds_interval(evidence: Evidence) -> tuple[float, float] | None:
    return None if evidence.has_enough_rounds else evidence.few_rounds_interval


def estimate_for_demand(
    rounds: Iterable[Round],
    demand: Demand,
    options: RunOptions,
    sampling: Neighbours,
    *,
    alpha_share: float = 1.0,
) -> Speedup | None:
    """Return the speedup of rounds, in the order in which they were taken, with the copies of the demand.

    It spends `alpha_share` of alpha.
    """
    estimator = SequentialEstimator(demand, options, alpha_share=alpha_share)
    for one_round in rounds:
        estimator.add(one_round)
    return estimator.speedup(sampling)


def undisturbed(
    speedup: Speedup,
    rounds: Sequence[Round],
    demand: Demand,
    options: RunOptions,
    *,
    cpu: Interference | None,
    gpu: Interference | None,
    alpha_share: float = 1.0,
) -> Disturbance | None:
    """Return what is certain of the speedup of rounds although each device's samples were disturbed so.

    Time lost to other work makes the speedup too large on the CPU's side, and too small on the GPU's. So the
    interval's lower end is that of rounds in which the CPU needs no more than its own time, and the upper end
    that of rounds in which the GPU does.
    """
    if cpu is None and gpu is None:
        return None

    def with_own_time(kind: Kind, interference: Interference | None) -> Speedup | None:
        samples = [getattr(each, kind) for each in rounds]
        own = interference.own_share * median(samples) if interference else inf
        if own <= 0:
            return None
        shortened = (
            # A loop with copies may be quicker than a block that waited: they took no negative time.
            each if sample <= own else replace(each, **{kind: own}, copies=max(0.0, each.copies))
            for each, sample in zip(rounds, samples, strict=True)
        )
        return estimate_for_demand(shortened, demand, options, speedup.sampling, alpha_share=alpha_share)

    least, most = with_own_time("cpu", cpu), with_own_time("gpu", gpu)
    low = min(speedup.estimate.lower, least.estimate.lower) if least else 0.0
    high = max(speedup.estimate.upper, most.estimate.upper) if most else inf
    value = speedup.value
    return Disturbance(
        estimate=Estimate(value=value, low=low or None, high=high if high < inf else None),
        medians=Estimate(value=value, low=least.value if least else None, high=most.value if most else None),
        reason=noise.describe(cpu, gpu) or "",
    )


Side = Literal["below", "above", "either", "neither"]


class Exclusion(NamedTuple):
    """A range of speedups that the interval must lie outside of; one on the side that `fails` is red."""

    low: float
    high: float
    fails: Side = "below"


class SequentialEstimator:
    """Estimates the speedup round by round; `stopping` has the rule by which sampling stops.

    Copies count as the demand requires. `exclusions` are ranges of speedups (the limit of a regression check,
    or 1 in a size group) that the interval must lie outside of before sampling stops. It spends
    `alpha_share` of alpha.
    """

    def __init__(
        self,
        demand: Demand,
        options: RunOptions,
        exclusions: Sequence[Exclusion] = (),
        *,
        alpha_share: float = 1.0,
    ) -> None:
        self.demand = demand
        self.options = options
        self._exclusions = [Exclusion(log(low), log(high), fails) for low, high, fails in exclusions]
        resolution = log(1 + options.sampling.resolution)
        self._evidence = Evidence(alpha=alpha_share * ALPHA, resolution=resolution)
        self._strongest = dict.fromkeys(demand.limits, 0.0)

    def add(self, one_round: Round) -> None:
        """Take one more round."""
        self._evidence.add(self.log_ratio(one_round))
        for limit in self._strongest:
            self._strongest[limit] = max(self._strongest[limit], self._evidence_against(log(limit)))

    def log_ratio(self, one_round: Round) -> float:
        """Return the log of the speedup that one round shows, with the copies that the demand includes."""
        return log(one_round.cpu / gpu_time(one_round, self.demand))

    def speedup(self, sampling: Neighbours, *, confirmation: Confirmation | None = None) -> Speedup | None:
        """Return the estimate from the rounds so far, None before the first."""
        values = self._evidence.values
        if not values:
            return None
        found = _estimate(self._evidence)
        nearest = min(self._strongest, key=lambda limit: abs(log(found.value / limit)), default=None)
        return Speedup(
            value=found.value,
            low=found.low,
            high=found.high,
            confidence=1 - 2 * ALPHA,
            resolution=self.options.sampling.resolution,
            rounds=len(values),
            evidence=None if nearest is None else self._strongest[nearest],
            autocorrelation=self.autocorrelation,
            sampling=sampling,
            rule="few_rounds" if _few_rounds_interval(self._evidence) else "sign_test",
            confirmation=confirmation,
        )

    @property
    def taken(self) -> int:
        """How many rounds were taken."""
        return len(self._evidence.values)

    @property
    def autocorrelation(self) -> float | None:
        """The lag-1 autocorrelation of the log ratios; None for too few rounds, or without spread."""
        return autocorrelation(self._evidence.values)

    @property
    def is_decided(self) -> bool:
        """Whether the interval meets or misses the demand, and lies outside every exclusion."""
        low, high = self._evidence.interval
        decision = verdict.decision(exp(low), exp(min(high, LARGEST_EXPONENT)), self.demand)
        return decision is not None and self.is_outside_exclusions

    @property
    def is_outside_exclusions(self) -> bool:
        """Whether the interval lies above or below every exclusion."""
        low, high = self._evidence.interval
        return all(low > most or high < least for least, most, _ in self._exclusions)

    @property
    def missed(self) -> dict[str, list[float]]:
        """How far (a log ratio) each round lies beyond each limit that the interval misses.

        To be on the wrong side of an exclusion is to miss it: it is a regression, or a size at which the GPU
        must win and loses, or must lose and wins.
        """
        low, high = self._evidence.interval
        values, ranges = self._evidence.values, [*enumerate(self._exclusions)]
        floors = {
            f"exclusion {index}": each.low for index, each in ranges if each.fails in ("below", "either")
        }
        ceilings = {
            f"exclusion {index}, above": each.high
            for index, each in ranges
            if each.fails in ("above", "either")
        }
        if self.demand.min is not None:
            floors["min"] = log(self.demand.min)
        if self.demand.max is not None:
            ceilings["max"] = log(self.demand.max)
        below = {name: [end - value for value in values] for name, end in floors.items() if high < end}
        above = {name: [value - end for value in values] for name, end in ceilings.items() if low > end}
        return below | above

    def is_within(self, distance: float) -> bool:
        """Return whether the estimate is as near as that (a log ratio) to a limit or an exclusion."""
        middle = self._evidence.median
        ranges = [*self._exclusions, *(Exclusion(log(limit), log(limit)) for limit in self.demand.limits)]
        return any(least - distance < middle < most + distance for least, most, _ in ranges)

    @property
    def is_precise(self) -> bool:
        """Whether the interval is as narrow as the plan requires."""
        low, high = self._evidence.interval
        middle = self._evidence.median
        width = log(1 + self.options.sampling.precision)
        return middle - low <= width and high - middle <= width

    @property
    def rounds_for_precision(self) -> int:
        """About how many rounds make the interval as narrow as the plan requires; 0 where it has no end."""
        low, high = self._evidence.interval
        if not -inf < low < high < inf:
            return 0
        width = (high - low) / 2 - self._evidence.resolution
        wanted = log(1 + self.options.sampling.precision) - self._evidence.resolution
        return ceil(self.taken * (width / wanted) ** 2)  # it narrows with the square root of the rounds

    def _evidence_against(self, limit: float) -> float:
        """Return the evidence that the median is above or below the limit, whichever is stronger."""
        values, resolution = self._evidence.values, self._evidence.resolution
        above = e_value(values, limit + resolution)
        return max(above, e_value([-value for value in values], resolution - limit))
