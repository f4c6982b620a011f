"""How often noise alone leads to a wrong verdict or a false alarm."""

import random
from math import exp

import numpy as np

from pytest_gpuperf.analysis.changepoint import LEVEL, changes
from pytest_gpuperf.analysis.estimation import SequentialEstimator
from pytest_gpuperf.analysis.stopping import should_stop
from pytest_gpuperf.analysis.verdict import judge
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.measurement import Round


def test_wrong_verdicts_at_the_limit_stay_below_alpha():
    """Ville: looking after every round, at most alpha of the runs go wrong on either side.

    If twice as many went wrong, this would see it with a probability of 0.9999: 25 or fewer of 50 expected.
    """
    runs, demand = 1000, Demand(min=1)
    options = RunOptions(sampling=SamplingPlan(resolution=0.0, max_rounds=40, precision_time=0.0))
    draws = 0.03 * np.random.default_rng(1).standard_normal((runs, options.sampling.max_rounds))
    wrong = {"passed": 0, "failed": 0, "inconclusive": 0}
    for ratios in np.exp(draws).tolist():
        estimation = SequentialEstimator(demand, options)
        for ratio in ratios:
            estimation.add(Round(cpu=ratio * 1e-3, gpu=1e-3))
            if should_stop(estimation, spent=0.0, left=10.0):
                break
        wrong[judge(estimation.speedup("interleaved"), demand, options).status] += 1
    assert 0 < wrong["passed"] <= options.alpha * runs
    assert 0 < wrong["failed"] <= options.alpha * runs


def test_the_chance_of_a_false_alarm_is_the_level():
    draws = random.Random(0)  # noqa: S311 - noise, not secrets
    alarms = sum(bool(changes([5.0 * exp(draws.gauss(0, 0.05)) for _ in range(30)])) for _ in range(400))
    assert alarms / 400 <= LEVEL + 3 * (LEVEL / 400) ** 0.5
