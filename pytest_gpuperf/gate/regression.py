"""From a baseline's estimate and a later one to whether a metric got worse."""

from math import inf, log

from pytest_gpuperf.model.comparison import Metric, Moved, Outcome, Tolerance
from pytest_gpuperf.model.measurement import Estimate

Range = tuple[float, float]
"""From where to where a limit may lie: it is as uncertain as the estimate that it is made of."""

STAYED = 0.05
"""Share up to which the times of two runs count as the same: half of what a check allows by default."""

LESS_IS_BETTER: frozenset[Metric] = frozenset({"gpu_time", "cpu_time", "threshold", "memory"})


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


def moved(cpu: Estimate | None, gpu: Estimate | None) -> Moved | None:
    """Return which device's time changed, from the ratios of its times; None while either leaves doubt.

    A time moved if its whole interval lies beyond what counts as the same. It stayed if its interval lies
    within that, or leaves it less than half of the change that the other's surely made (of the logarithms).
    """
    if cpu is None or gpu is None:
        return None
    same = log(1 + STAYED)
    cpu_moved, gpu_moved = _least_change(cpu) > same, _least_change(gpu) > same
    if cpu_moved and gpu_moved:
        return "both"
    cpu_stayed = _most_change(cpu) < max(same, _least_change(gpu) / 2)
    gpu_stayed = _most_change(gpu) < max(same, _least_change(cpu) / 2)
    if cpu_stayed and gpu_stayed:
        return "neither"
    if cpu_moved and gpu_stayed:
        return "cpu"
    return "gpu" if gpu_moved and cpu_stayed else None


def _least_change(ratio: Estimate) -> float:
    """Return the smallest logarithm, without its sign, of what an interval of ratios includes."""
    if ratio.lower > 1:
        return log(ratio.lower)
    return -log(ratio.upper) if 0 < ratio.upper < 1 else 0.0


def _most_change(ratio: Estimate) -> float:
    """Return the largest logarithm, without its sign, of what an interval of ratios includes."""
    if ratio.lower <= 0 or ratio.upper == inf:
        return inf
    return max(abs(log(ratio.lower)), abs(log(ratio.upper)))


def width(estimate: Estimate) -> float:
    """Return the ratio of an interval's ends; infinite where its lower end is zero or unbounded."""
    return estimate.upper / estimate.low if estimate.low else inf
