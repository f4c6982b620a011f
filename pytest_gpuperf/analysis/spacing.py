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

from pytest_gpuperf.analysis import verdict
from pytest_gpuperf.analysis.estimation import SequentialEstimator
from pytest_gpuperf.model.measurement import Confirmation, Round

SAMPLING_SHARE = 0.75
"""The share of max_time that is for the verdict and its precision; the rest is for secondary measurements."""
LARGEST_LEVEL = 1.5
"""A ratio that no spell explains: levels of 1.1 to 1.3 were seen to last."""
ROUNDS_TO_COMPARE = 16
"""Rounds that follow each other near a limit, before it shows whether they are alike."""
_ROUNDS_APART = 12  # in the time of which spells of twenty rounds have mostly ended
_FEWEST_APART = 8  # of rounds in which a spell may end
_CONFIRMING_ROUNDS = 6  # that agree, and confirm
_LONG = 6 * 50  # rounds' time: each of six stretches lasts as long as two spells
ROUNDS_TOGETHER = 11
"""Of which the middle one counts: it is less noisy than any."""
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


def rounds_together(estimator: SequentialEstimator, round_time: float, spent: float) -> int:
    """Return how many rounds are taken at once, of which the middle one counts: it is less noisy than any.

    More than one where all rounds sit apart, and so few would fit in that wide noise left the interval wide.
    Slow rounds, which have no time for pauses, fill the time by themselves.
    """
    options = estimator.options
    if not options.sampling.apart or not pause_before_next(estimator, round_time):
        return 1
    left = (SAMPLING_SHARE * options.max_time - spent) / round_time
    is_noisy = estimator.rounds_for_precision - estimator.taken > left / (_ROUNDS_APART + 2)
    return ROUNDS_TOGETHER if is_noisy and left >= _ROUNDS_APART + 1 + ROUNDS_TOGETHER else 1


class SecondMeasurement(NamedTuple):
    """Rounds far apart: the middle ones of so many `together`, after a `pause` in seconds."""

    pause: float
    together: int


def second_measurement(round_time: float, left: float) -> SecondMeasurement | None:
    """Return what rounds far apart fit into the seconds that are left; None where too few do.

    Of all rounds in the time between two that are far apart the middle one is less noisy than one alone. Slow
    rounds have no time for pauses.
    """
    rounds = left / round_time / (_CONFIRMING_ROUNDS + 2)  # some may not agree at first
    if rounds >= _ROUNDS_APART + 1 + ROUNDS_TOGETHER:
        return SecondMeasurement(_ROUNDS_APART * round_time, ROUNDS_TOGETHER)
    together = min(
        ROUNDS_TOGETHER, int((left / round_time - 2) / _CONFIRMING_ROUNDS)
    )  # two calls end the test
    return SecondMeasurement(0.0, together) if together >= _FEWEST_APART else None


def middle(spell: Sequence[Round], estimator: SequentialEstimator) -> Round:
    """Return the round with the middle speedup; of an even number the last is left out."""
    odd = spell[: len(spell) - 1 + len(spell) % 2]
    return sorted(odd, key=estimator.log_ratio)[len(odd) // 2]


def unconfirmed(estimator: SequentialEstimator) -> frozenset[str]:
    """Return the limits that are missed, and in some round by no more than a spell may explain."""
    return frozenset(name for name, by in estimator.missed.items() if is_near(by))


def is_close(estimator: SequentialEstimator, rounds: float) -> bool:
    """Return whether the estimate is near a limit, and its rounds are near each other in time.

    All together lasted as long as so many `rounds`, with their pauses.
    """
    is_apart = rounds >= _FEWEST_APART * estimator.taken
    return bool(estimator.demand.limits) and not is_apart and estimator.is_within(log(LARGEST_LEVEL))


def depends(estimator: SequentialEstimator, rounds: float) -> bool:
    """Return whether limits near the estimate are met by rounds that did not sit apart and are alike.

    All together lasted as long as so many `rounds`, with their pauses.
    """
    if not is_close(estimator, rounds):
        return False
    alike = estimator.autocorrelation
    return alike is not None and alike > verdict.DEPENDENT and estimator.is_decided and not estimator.missed


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


def is_confirmed_already(estimator: SequentialEstimator, rounds: float) -> bool:
    """Return whether rounds sat apart for so long that they confirm what they miss by themselves."""
    is_long = estimator.options.sampling.apart and rounds >= _LONG
    return is_long and confirmation(estimator, rounds) == "confirmed"


def pause_alone(block_time: float, seconds: float, together: int = 1) -> float:
    """Return the seconds to wait before each block of a device that is sampled alone for so many seconds.

    Or before so many blocks `together`. After a pause a block runs untimed.
    """
    pause = min(_ROUNDS_APART * block_time, seconds / FEWEST_ROUNDS - (together + 1) * block_time)
    return pause if pause >= block_time else 0.0
