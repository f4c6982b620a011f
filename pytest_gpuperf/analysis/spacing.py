"""From the rounds so far to how long to wait before the next one: near a limit, rounds sit apart in time.

A sign test takes rounds to be independent. A device that stays at one clock, or beside one neighbour, for
many rounds makes them alike, and all rounds of a quick verdict may lie within one such spell. Far from a
limit no spell explains what they show; near it, rounds are so far apart that spells have mostly ended. A
failure near a limit is confirmed by a second measurement, whose rounds are further apart still.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import log
from statistics import median
from typing import NamedTuple

from pytest_gpuperf.analysis.estimation import SequentialEstimator
from pytest_gpuperf.model.measurement import Confirmation

SAMPLING_SHARE = 0.75
"""The share of max_time that is for the verdict and its precision; the rest is for secondary measurements."""
LARGEST_LEVEL = 1.5
"""A ratio that no spell explains: levels of 1.1 to 1.3 were seen to last."""
_ROUNDS_APART = 12  # in the time of which spells of twenty rounds have mostly ended
_CONFIRMING_ROUNDS_APART = 25
_FEWEST_APART = 8  # of rounds in which a spell may end
_CONFIRMING_ROUNDS = 6  # that agree, and confirm
LASTING_ROUNDS = _CONFIRMING_ROUNDS + (_CONFIRMING_ROUNDS - 1) * _ROUNDS_APART
"""Rounds that follow each other, and last as long as six with pauses between them."""
FEWEST_ROUNDS = 30
"""That pauses leave time for: fewer seldom decide what is 5 % from a limit."""


def pause_before_next(estimator: SequentialEstimator, round_time: float) -> float:
    """Return the seconds to wait before the next round, of which each takes `round_time` seconds itself.

    None before the first, and none that is shorter than a round: slow rounds are apart by themselves.
    """
    options = estimator.options
    if not estimator.taken or not (options.sampling.apart or estimator.is_within(log(LARGEST_LEVEL))):
        return 0.0
    # What a verdict needs has to fit in. After a pause each block runs once untimed, so a round with a pause
    # before it takes twice its time more.
    needed = max(options.sampling.precision_rounds, FEWEST_ROUNDS)
    longest = SAMPLING_SHARE * options.max_time / needed - 2 * round_time
    pause = min(_ROUNDS_APART * round_time, longest)
    return pause if pause >= round_time else 0.0


class SecondMeasurement(NamedTuple):
    """Rounds far apart: after a `pause` in seconds each, or the middle ones of so many `together`."""

    pause: float
    together: int


def second_measurement(round_time: float, left: float) -> SecondMeasurement | None:
    """Return what rounds far apart fit into the seconds that are left; None where too few do.

    Slow rounds have no time for pauses: those in the time of a pause are taken, and count as one.
    """
    for_each = left / (_CONFIRMING_ROUNDS + 2)  # some may not agree at first
    pause = min(_CONFIRMING_ROUNDS_APART * round_time, for_each - 2 * round_time)
    if pause >= _ROUNDS_APART * round_time:
        return SecondMeasurement(pause, 1)
    together = min(_ROUNDS_APART, int((left / round_time - 2) / _CONFIRMING_ROUNDS))  # two calls end the test
    return SecondMeasurement(0.0, together) if together >= _FEWEST_APART else None


def unconfirmed(estimator: SequentialEstimator) -> frozenset[str]:
    """Return the limits that are missed, and in some round by no more than a spell may explain."""
    return frozenset(name for name, by in estimator.missed.items() if is_near(by))


def is_near(distances: Sequence[float]) -> bool:
    """Return whether some round lies beyond a limit by no more (a log ratio) than a spell may explain."""
    return min(distances) < log(LARGEST_LEVEL)


def are_sustained(distances: Sequence[float], rounds: float) -> bool:
    """Return whether rounds that cannot be taken again lie beyond a limit for longer than a spell.

    All together lasted as long as so many `rounds`, with their pauses. In each of six stretches that are as
    long as rounds are put apart, the middle one must lie beyond the limit, by a distance above zero.
    """
    count = len(distances)
    if count < _CONFIRMING_ROUNDS or rounds < LASTING_ROUNDS:
        return False
    ends = [count * part // _CONFIRMING_ROUNDS for part in range(_CONFIRMING_ROUNDS + 1)]
    return all(median(distances[begun:ended]) > 0 for begun, ended in pairwise(ends))


def confirmation(estimator: SequentialEstimator, rounds: float) -> Confirmation | None:
    """Return whether rounds that cannot be taken again confirm what they miss; None where that is nothing.

    All together lasted as long as so many `rounds`, with their pauses.
    """
    near = [distances for distances in estimator.missed.values() if is_near(distances)]
    if not near:
        return None
    return "confirmed" if all(are_sustained(distances, rounds) for distances in near) else "not_apart"


def pause_alone(block_time: float, seconds: float) -> float:
    """Return the seconds to wait before each block of a device that is sampled alone for so many seconds."""
    pause = min(_ROUNDS_APART * block_time, seconds / FEWEST_ROUNDS - 2 * block_time)
    return pause if pause >= block_time else 0.0
