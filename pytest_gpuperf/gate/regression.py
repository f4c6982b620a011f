"""From a baseline's estimate and a later one to whether a metric got worse."""

from math import inf
from typing import Literal

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.looks import Limit, Look, Range
from pytest_gpuperf.model.comparison import Outcome, Tolerance
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.metrics import TABLE

_SIDES: tuple[Literal["above"], Literal["below"]] = ("above", "below")


def compare_ranges(
    before: Estimate, now: Estimate, look: Look, tolerance: Tolerance, *, luck: float = 1.0
) -> Outcome:
    """Return whether a metric got worse by more than its tolerance, did not, or got better by as much.

    Like a verdict, of the limit baseline x (1 - tolerance), or (1 + tolerance) where less is better; but that
    limit is itself a range, as wide as the baseline was seen to be. All of what was seen now must lie beyond
    all of it, by the factors of the look at it. A change for the better may fail a run, too, so it takes the
    factor of a failure. A baseline that was sampled for a short time may be lucky, or unlucky, by a factor of
    `luck`, and must not fail all later runs.
    """
    less_is_better = TABLE[tolerance.metric].worse == "more"
    worse, better = _SIDES if less_is_better else _SIDES[::-1]
    allowed, gained = limits(before, tolerance, luck)
    found = Range(now.lower, now.upper)
    if looks.decided(Limit(*gained, better), found, look) == better:
        return "improved"
    if looks.decided(Limit(*allowed, worse), found, look) == worse:
        return "regressed"
    # Exactly as much as is allowed is allowed: memory is often what it was.
    met = found.high * look.meets <= allowed[0] if less_is_better else found.low >= allowed[1] * look.meets
    return "not_regressed" if met else "inconclusive"


def visible(
    before: Estimate, now: Estimate, look: Look, tolerance: Tolerance, *, luck: float = 1.0
) -> float | None:
    """Return the smallest loss, as a share, that a run like the later one finds; None where it finds none.

    The range of that run is as wide as the wider one of these two. It finds nine of ten such losses
    (docs/explanation/statistics.md). It is not below zero, though a value may lie outside of its own range.
    """
    factor = max(width(before), width(now)) * (look.misses or inf) * luck
    if TABLE[tolerance.metric].worse == "more":
        beyond = before.upper / before.value if before.value else 1.0
        loss = (1 + tolerance.share) * beyond * factor - 1
        return max(0.0, loss) if loss < inf else None
    beyond = before.lower / before.value if before.value else 1.0
    kept = (1 - tolerance.share) * beyond / factor
    return max(0.0, 1 - kept) if kept > 0 else None


def ratio(before: Estimate, now: Estimate) -> Estimate | None:
    """Return now / before, with the range that both of theirs leave it; None for a baseline of zero.

    A report that was edited may have a range that ends at zero: then the ratio's is open.
    """
    if before.value <= 0:
        return None
    low = now.low / before.high if now.low is not None and before.high else None
    high = now.high / before.low if now.high is not None and before.low else None
    return Estimate(value=now.value / before.value, low=low, high=high)


def limits(before: Estimate, tolerance: Tolerance, luck: float = 1.0) -> tuple[Range, Range]:
    """Return from where to where "worse than allowed" may begin, and "better by as much".

    An estimate that decides lies wholly above or below. The baseline may be better, or worse, than it
    should by `luck`.
    """
    low, high = before.lower, before.upper
    less, more = 1 - tolerance.share, 1 + tolerance.share
    least_more, most_less = low * more, high * less if less else 0.0  # inf * 0 is no number
    if TABLE[tolerance.metric].worse == "more":
        return Range(least_more, high * more * luck), Range(low * less / luck, most_less)
    return Range(low * less / luck, most_less), Range(least_more, high * more * luck)


def width(estimate: Estimate) -> float:
    """Return the ratio of a range's ends; infinite where its lower end alone is zero, or unbounded."""
    if estimate.upper == estimate.lower:
        return 1.0
    return estimate.upper / estimate.low if estimate.low else inf
