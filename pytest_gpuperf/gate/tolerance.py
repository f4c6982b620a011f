"""From texts like `speedup:10%` to what may not get worse, or what is wrong with them."""

from collections.abc import Sequence
from math import inf

from pytest_gpuperf.model.comparison import METRICS, Tolerance

__all__ = ["IMPROVEMENT", "checked", "parse", "tolerance"]

IMPROVEMENT = "improvement"
_BELOW_ALL = frozenset({"speedup", "latency", "always"})  # to lose all of them is to lose 100 %


def parse(text: str) -> Tolerance | str:
    """Return the tolerance in a text, or `improvement`; raise ValueError that says what it should be."""
    if text.partition(":")[0] == IMPROVEMENT and text != IMPROVEMENT:
        raise ValueError(f"{text!r}: improvement takes no percentage; it is beyond each metric's tolerance")
    return IMPROVEMENT if text == IMPROVEMENT else tolerance(text)


def tolerance(text: str) -> Tolerance:
    """Return the tolerance in a text like `speedup:10%`; raise ValueError that says what it should be."""
    metric, colon, percent = text.partition(":")
    known = next((each for each in METRICS if each == metric.strip()), None)
    if known is None:
        known_names = f"{', '.join(METRICS)}, as in speedup:10%, or improvement"
        raise ValueError(f"{metric!r} is no metric; say one of {known_names}")
    try:
        share = float(percent.strip().removesuffix("%")) / 100 if colon else -1.0
    except ValueError:
        share = -1.0
    if share >= 1 and known in _BELOW_ALL:
        raise ValueError(f"{text!r}: {known} cannot lose 100 % or more; say less, as in {known}:10%")
    if not 0 <= share < inf:
        raise ValueError(f"{text!r} has no percentage to tolerate from 0 up, as speedup:10% has")
    return Tolerance(metric=known, share=share)


def checked(asked: Sequence[Tolerance | str]) -> tuple[Tolerance, ...]:
    """Return the tolerances; raise ValueError for a metric with several, and for improvement beyond none."""
    held = tuple(each for each in asked if isinstance(each, Tolerance))
    if asked and not held:
        raise ValueError("improvement is beyond a tolerance; say which, as in speedup:10%, too")
    named = [each.metric for each in held]
    if doubles := [metric for metric in named if named.count(metric) > 1]:
        raise ValueError(f"{doubles[0]} has two tolerances; keep one")
    return held
