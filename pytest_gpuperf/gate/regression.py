"""From a baseline's estimate and a later one to whether a metric got worse."""

from math import inf

from pytest_gpuperf.model.comparison import Metric, Outcome, Tolerance
from pytest_gpuperf.model.measurement import Estimate

Range = tuple[float, float]
"""From where to where a limit may lie: it is as uncertain as the estimate that it is made of."""

LESS_IS_BETTER: frozenset[Metric] = frozenset({"gpu_time", "cpu_time", "memory"})


def compare_intervals(before: Estimate, now: Estimate, tolerance: Tolerance) -> Outcome:
    """Return whether a metric got worse by more than its tolerance: beyond both intervals, or not at all.

    Like a verdict, of the limit baseline x (1 - tolerance), or (1 + tolerance) where less is better; but that
    limit is itself an interval, and "regressed" is that the whole of the new interval lies beyond all of it.
    Each interval misses its value with a chance of at most alpha on either side, so a good run fails with a
    chance of at most twice alpha, whenever its sampling stopped.
    """
    if is_worse(before, now, tolerance):
        return "regressed"
    allowed, gained = limits(before, tolerance)
    less_is_better = tolerance.metric in LESS_IS_BETTER
    if now.is_above(gained[0]) is False if less_is_better else now.is_above(gained[1]):
        return "improved"
    is_allowed = now.upper <= allowed[0] if less_is_better else now.lower >= allowed[1]
    return "not_regressed" if is_allowed else "inconclusive"


def is_worse(before: Estimate, now: Estimate, tolerance: Tolerance) -> bool:
    """Return whether the whole interval of a metric lies beyond all of what its baseline allows."""
    # Both intervals count: a baseline that was lucky must not fail every run that follows.
    low, high = limits(before, tolerance)[0]
    return now.lower > high if tolerance.metric in LESS_IS_BETTER else now.upper < low


def ratio(before: Estimate, now: Estimate) -> Estimate | None:
    """Return now / before, with the interval that both of theirs leave it; None for a baseline of zero."""
    if before.value <= 0:
        return None
    low = None if now.low is None or before.high is None else now.low / before.high
    high = now.high / before.low if now.high is not None and before.low else None
    return Estimate(value=now.value / before.value, low=low, high=high)


def limits(before: Estimate, tolerance: Tolerance) -> tuple[Range, Range]:
    """Return from where to where "worse than allowed" may begin, and "better by as much".

    An estimate that decides lies wholly above or below.
    """
    low, high = before.lower, before.upper
    less, more = 1 - tolerance.share, 1 + tolerance.share
    lower = (low * less, high * less if less else 0.0)  # inf * 0 is no number
    upper = (low * more, high * more)
    return (upper, lower) if tolerance.metric in LESS_IS_BETTER else (lower, upper)


def width(estimate: Estimate) -> float:
    """Return the ratio of an interval's ends; infinite where its lower end is zero or unbounded."""
    return estimate.upper / estimate.low if estimate.low else inf
