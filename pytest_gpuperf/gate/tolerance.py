"""From texts like `speedup:10%` to what may not get worse and what is allowed, or what is wrong with them."""

from collections.abc import Sequence
from math import inf
from typing import Final, Literal

from pytest_gpuperf.model.comparison import ALLOWANCES, Allowance, Tolerance
from pytest_gpuperf.model.metrics import METRICS, TABLE, Metric
from pytest_gpuperf.model.other_names import remedy

IMPROVEMENT: Final = "improvement"
FailOn = Tolerance | Literal["improvement"]
"""One value of --gpuperf-fail-on."""
# To a tenth, or ten times as much: a check that allows more would not fail for anything.
_MOST_LOST, _MOST_GAINED = 0.9, 9.0


def parse(text: str) -> FailOn:
    """Return the tolerance in a text, or `improvement`; raise ValueError that names what is expected."""
    if text == IMPROVEMENT:
        return IMPROVEMENT
    name, colon, percent = text.partition(":")
    metric = next((metric for metric in METRICS if metric == name.strip()), None)
    if metric is None:
        example = "as in speedup:10%, or improvement without a percentage"
        names = f"expected one of {', '.join(METRICS)}, {example}"
        raise ValueError(f"{name!r} is not a metric; {remedy('metric', name.strip(), METRICS, names)}")
    number = percent.strip().removesuffix("%")
    try:
        share = float(number) / 100 if colon else -1.0
    except ValueError:
        share = -1.0
    if share >= 0 and not percent.rstrip().endswith("%"):  # 0.1 may mean 10 % or a thousandth
        raise ValueError(f"{text!r} has no unit: write {metric}:{number}% for {number} percent")
    most = largest(metric)
    if most < share < inf:
        raise ValueError(
            f"{text!r} is a check that hardly anything fails: a tolerance of {metric} is at most "
            f"{100 * most:g} %; pass less, as in {metric}:10%"
        )
    if not 0 <= share < inf:
        raise ValueError(
            f"{text!r}: expected METRIC:PERCENT with a percentage of 0 or more, e.g. speedup:10%"
        )
    return Tolerance(metric=metric, share=share)


def largest(metric: Metric) -> float:
    """Return the largest tolerance of a metric that is one."""
    return _MOST_LOST if TABLE[metric].worse == "less" else _MOST_GAINED


def tolerances_of(values: Sequence[FailOn], *, of_pairs: bool = False) -> tuple[Tolerance, ...]:
    """Return the tolerances; raise ValueError for a metric with several, and for improvement without any.

    A process has one first call: only pairs of processes show by how much these differ.
    """
    tolerances = tuple(value for value in values if isinstance(value, Tolerance))
    if values and not tolerances:
        raise ValueError("improvement needs a tolerance to be beyond; add one, as in speedup:10%")
    metrics = [tolerance.metric for tolerance in tolerances]
    if repeated := [metric for metric in metrics if metrics.count(metric) > 1]:
        raise ValueError(f"{repeated[0]} has two tolerances; keep one")
    if not of_pairs and (of_pairs_only := [metric for metric in metrics if TABLE[metric].pairs_only]):
        raise ValueError(
            f"{of_pairs_only[0]} is compared over pairs of processes: gpuperf against REF, or gpuperf "
            "compare BASE/ HEAD/"
        )
    return tolerances


def allowances(text: str) -> frozenset[Allowance]:
    """Return what a comma list allows; raise ValueError for any other word."""
    words = {word.strip() for word in text.split(",")} - {""}
    if unknown := words - {*ALLOWANCES}:
        raise ValueError(f"{min(unknown)!r} is not one of {', '.join(ALLOWANCES)}")
    return frozenset(each for each in ALLOWANCES if each in words)
