"""From a baseline's estimate and a later one to whether a metric got worse, and what would decide a doubt."""

from math import inf

from pytest_gpuperf.model.comparison import Metric, Outcome, Remedy, Tolerance
from pytest_gpuperf.model.measurement import Estimate

LESS_IS_BETTER: frozenset[Metric] = frozenset({"gpu", "cpu", "threshold", "memory"})


def compare_intervals(before: Estimate, now: Estimate, tolerance: Tolerance) -> Outcome:
    """Return whether a metric got worse by more than its tolerance: beyond both intervals, or not at all.

    Like a verdict, of the limit baseline x (1 - tolerance), or (1 + tolerance) where less is better; but that
    limit is itself an interval, and "regressed" is that the whole of the new interval lies beyond all of it.
    Each interval misses its value with a chance of at most alpha on either side, so a good run fails with a
    chance of at most twice alpha, whenever its sampling stopped.
    """
    # Both intervals count: a baseline that was lucky must not fail every run that follows.
    low, high = _bounds(now)
    allowed, gained = _limits(before, tolerance)
    if tolerance.metric in LESS_IS_BETTER:
        is_worse, is_better, is_allowed = low > allowed[1], high < gained[0], high <= allowed[0]
    else:
        is_worse, is_better, is_allowed = high < allowed[0], low > gained[1], low >= allowed[1]
    if is_worse:
        return "regressed"
    if is_better:
        return "improved"
    return "not_regressed" if is_allowed else "cannot_tell"


def remedy(before: Estimate, now: Estimate, *, gated: bool) -> Remedy:
    """Return what would decide a doubt: whichever interval is wider has to be narrower.

    `gated` says that the later run was measured for a gate; without one it had time left.
    """
    return "new_baseline" if _width(before) > _width(now) else measure_longer(gated=gated)


def measure_longer(*, gated: bool) -> Remedy:
    """Return how the later run can be measured longer."""
    return "more_time" if gated else "run_with_gate"


def limit_interval(before: Estimate, tolerance: Tolerance) -> tuple[float, float]:
    """Return the interval of the limit, which an estimate that decides lies wholly above or below."""
    return _limits(before, tolerance)[0]


def ratio(before: Estimate, now: Estimate) -> Estimate | None:
    """Return now / before, with the interval that both of theirs leave it; None for a baseline of zero."""
    if before.value <= 0:
        return None
    before_low, before_high = _bounds(before)
    low, high = _bounds(now)
    return Estimate(
        value=now.value / before.value,
        low=low / before_high if now.low is not None and before_high < inf else None,
        high=high / before_low if before_low > 0 and high < inf else None,
    )


def _limits(before: Estimate, tolerance: Tolerance) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return from where to where "worse than allowed" may begin, and "better by as much"."""
    low, high = _bounds(before)
    less, more = 1 - tolerance.share, 1 + tolerance.share
    lower = (low * less, high * less if less else 0.0)  # inf * 0 is no number
    upper = (low * more, high * more)
    return (upper, lower) if tolerance.metric in LESS_IS_BETTER else (lower, upper)


def _width(estimate: Estimate) -> float:
    return estimate.high / estimate.low if estimate.low and estimate.high is not None else inf


def _bounds(estimate: Estimate) -> tuple[float, float]:
    """Return the interval with its open ends as 0 and infinity."""
    low = estimate.low if estimate.low is not None else 0.0
    high = estimate.high if estimate.high is not None else inf
    return low, high
