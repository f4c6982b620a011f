"""The stopping rule: from what is certain by now, and the time that is left, to whether to sample on."""

from math import inf, log

from pytest_gpuperf.analysis.estimation import SequentialEstimator
from pytest_gpuperf.analysis.evidence import FEWEST_ROUNDS
from pytest_gpuperf.analysis.noise import MOST_DROPPED
from pytest_gpuperf.analysis.spacing import (
    LARGEST_LEVEL,
    LASTING_ROUNDS,
    ROUNDS_TO_COMPARE,
    SAMPLING_SHARE,
    is_close,
)


def should_stop(
    estimator: SequentialEstimator, *, spent: float, left: float, dropped: int = 0, lasted: float = inf
) -> bool:
    """Return whether sampling stops, `spent` seconds after it began and with `left` seconds allowed.

    With its pauses it `lasted` as long as so many rounds. Where all rounds sit apart, they must last longer
    than a spell: what is compared later cannot be measured again. Near a limit that is met, rounds without
    pauses must be enough to show whether they depend on each other.

    It stops when the verdict is certain and the interval precise, or when its time or its rounds are used up.
    Without limits there is no verdict to wait for. `dropped` rounds took time; they are counted only while
    they are too many for the rest to decide.
    """
    options, plan, taken = estimator.options, estimator.options.sampling, estimator.taken
    too_many_dropped = dropped > MOST_DROPPED * (taken + dropped)
    counted = taken + dropped if too_many_dropped else taken
    if _is_out_of_time(counted, spent, left) or dropped > MOST_DROPPED * plan.max_rounds:
        return True
    if too_many_dropped or taken < max(FEWEST_ROUNDS, plan.min_rounds):
        return False
    if spent < SAMPLING_SHARE * options.max_time:
        if plan.apart and lasted < LASTING_ROUNDS:
            return False
        is_few = taken < min(ROUNDS_TO_COMPARE, plan.max_rounds)
        if is_few and is_close(estimator, lasted) and not estimator.missed:  # which is measured once more
            return False
    is_long = taken >= plan.precision_rounds or spent >= SAMPLING_SHARE * options.max_time
    if not estimator.demand.limits:
        # Near the limit of a size group rounds sit apart: more than tell the sides apart would cost seconds.
        longest = plan.precision_time if estimator.is_within(log(LARGEST_LEVEL)) else plan.record_time
        is_enough = estimator.is_precise or (is_long and spent >= longest)
        is_enough = is_enough or taken >= plan.record_rounds
        return is_enough and (estimator.is_outside_exclusions or taken >= plan.max_rounds)
    if taken >= plan.max_rounds:
        return True
    return estimator.is_decided and (estimator.is_precise or (is_long and spent >= plan.precision_time))


def is_used_up(estimator: SequentialEstimator, *, spent: float, left: float, dropped: int = 0) -> bool:
    """Return whether there is no time for another round, or there are as many as may be taken."""
    counted = estimator.taken + dropped
    return counted >= estimator.options.sampling.max_rounds or _is_out_of_time(counted, spent, left)


def _is_out_of_time(counted: int, spent: float, left: float) -> bool:
    # One more round, and the two calls that end the test, must fit into the time that is left: so many rounds
    # as an interval needs are begun, however long they last, while there is time.
    return left < 0 or (counted >= FEWEST_ROUNDS and 2 * spent / counted > left)
