"""What the parts of a trial share: what is asked, the random order of rounds, and the time that is left."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.timing.time_budget import OtherLimit

OnRound = Callable[[float], None]
"""Called between rounds, with the seconds that the test may still take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialContext:
    """The limits and options of one test, the random order of its rounds, and the time it has left.

    `remaining` returns the seconds that the test has left, below zero when time is up, and `extend` raises
    its limit to so many, and `excuse` lets so many not count: a trial passes those of its `TimeBudget`.
    `on_round` is called after each round, outside what is timed; None where nobody watches. `other_limit`
    returns the time limit of somebody else where that is the shorter one, and `up_on_host` after how many
    seconds on the host simulated time is up, where it is.
    """

    demand: Demand
    options: RunOptions
    order: Random
    remaining: Callable[[], float]
    extend: Callable[[float], None] = lambda _: None
    excuse: Callable[[float], None] = lambda _: None
    on_round: OnRound | None = None
    other_limit: Callable[[], OtherLimit | None] = lambda: None
    up_on_host: Callable[[], float | None] = lambda: None
