"""What every step of one trial needs besides its workloads."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from pytest_gpuperf.model.demand import Demand, RunOptions

OnRound = Callable[[float], None]
"""Called between rounds, with the seconds that the test may still take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialContext:
    """The limits and options of one test, the random order of its rounds, and the time it has left.

    `remaining` returns the seconds that the test has left, below zero when time is up. A trial passes
    `TimeBudget.remaining`. `on_round` is called after each round, outside what is timed; None where nobody
    watches.
    """

    demand: Demand
    options: RunOptions
    order: Random
    remaining: Callable[[], float]
    on_round: OnRound | None = None
