"""From the rounds so far to how long to wait before the next one: near a limit, rounds sit apart in time.

A sign test takes rounds to be independent. A device that stays at one clock, or beside one neighbour, for
many rounds makes them alike, and all rounds of a quick verdict may lie within one such spell. Far from a
limit no spell explains what they show; near it, rounds are so far apart that spells have mostly ended. A
failure near a limit is confirmed by a second measurement, whose rounds are further apart still.
"""

from math import log

from pytest_gpuperf.analysis.estimation import SequentialEstimator
from pytest_gpuperf.analysis.stopping import SAMPLING_SHARE
from pytest_gpuperf.model.demand import RunOptions

LARGEST_LEVEL = 1.5
"""A ratio that no spell explains: levels of 1.1 to 1.3 were seen to last."""
_ROUNDS_APART = 12  # in the time of which spells of twenty rounds have mostly ended
_CONFIRMING_ROUNDS_APART = 25
_FEWEST_ROUNDS = 30  # that pauses leave time for: fewer seldom decide what is 5 % from a limit


def pause_before_next(estimator: SequentialEstimator, round_time: float) -> float:
    """Return the seconds to wait before the next round, of which each takes `round_time` seconds itself.

    None before the first, and none that is shorter than a round: slow rounds are apart by themselves.
    """
    options = estimator.options
    if not estimator.taken or not (options.sampling.apart or estimator.is_within(log(LARGEST_LEVEL))):
        return 0.0
    return _pause(_ROUNDS_APART, round_time, options)


def confirming_pause(round_time: float, options: RunOptions) -> float:
    """Return the seconds to wait before each round of a second measurement."""
    return _pause(_CONFIRMING_ROUNDS_APART, round_time, options)


def unconfirmed(estimator: SequentialEstimator) -> frozenset[str]:
    """Return the limits that are missed, and in some round by no more than a spell may explain."""
    return frozenset(name for name, by in estimator.missed.items() if by < log(LARGEST_LEVEL))


def _pause(rounds: int, round_time: float, options: RunOptions) -> float:
    """Return the time of so many rounds, or less where the rounds that a verdict needs have to fit in.

    After a pause each block runs once untimed, so a round with a pause before it takes twice its time more.
    """
    needed = max(options.sampling.precision_rounds, _FEWEST_ROUNDS)
    longest = SAMPLING_SHARE * options.max_time / needed - 2 * round_time
    pause = min(rounds * round_time, longest)
    return pause if pause >= round_time else 0.0
