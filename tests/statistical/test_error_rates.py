"""How often noise alone leads to a wrong verdict or a false alarm."""

import random
from functools import partial
from itertools import cycle
from math import exp

import numpy as np

from pytest_gpuperf.analysis.changepoint import LEVEL, changes
from pytest_gpuperf.analysis.estimation import SequentialEstimator
from pytest_gpuperf.analysis.evidence import ALPHA
from pytest_gpuperf.analysis.scaling import with_required_speedup
from pytest_gpuperf.analysis.stopping import should_stop
from pytest_gpuperf.analysis.verdict import judge
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.measurement import Round
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.context import TrialContext
from pytest_gpuperf.timing.rounds import RoundSampler
from pytest_gpuperf.timing.scaling_question import ScalingQuestion
from pytest_gpuperf.timing.trial import Trial
from pytest_gpuperf.timing.workload import Workload


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
    assert 0 < wrong["passed"] <= ALPHA * runs
    assert 0 < wrong["failed"] <= ALPHA * runs


class Levels:
    """Noise of a device that is slower by a factor in 40 % of its time, in spells of 20 rounds on average."""

    def __init__(self, factor, clock, round_time, draws):
        self._factor, self._clock, self._draws = factor, clock, draws
        self._rate = (1 + 0.4 / 0.6) / (20 * round_time)  # at which a level is forgotten
        self._slow, self._at = draws.random() < 0.4, clock()

    def __call__(self):
        now = self._clock()
        kept = exp(-self._rate * (now - self._at))
        self._slow, self._at = self._draws.random() < 0.4 + (self._slow - 0.4) * kept, now
        return (self._factor if self._slow else 1.0) * exp(self._draws.gauss(0, 0.01))


def verdict_of(sticky, draws):
    """Return the verdict on a true ratio of 10 at a limit of 10, with levels on one of the devices."""
    clock, cpu, gpu = Clock(), 10e-3, 1e-3
    demand, options = Demand(min=cpu / gpu), RunOptions(sampling=SamplingPlan(precision_time=0.0))

    def side(kind, seconds):
        noise = Levels(1.3 if kind == sticky else 1.0, clock, cpu + gpu, draws)
        device = SimulatedDevice(kind, clock=clock, noise=noise)
        return BlockTimer(workload=Workload(device=device, call=lambda: device.launch(seconds), scope="call"))

    context = TrialContext(
        demand=demand, options=options, order=draws, remaining=lambda: options.max_time - clock()
    )
    sampling = RoundSampler(context)
    sampling.take_interleaved(side("cpu", cpu), side("gpu", gpu))
    return judge(sampling.speedup("interleaved"), demand, options).status


def test_levels_that_last_for_many_rounds_lead_to_few_wrong_verdicts():
    """Rounds next to each other would be wrong in more than 40 % of the runs.

    Within one spell they agree, so the sign test takes them for evidence; 10 % and 1 % are expected.
    """
    runs, draws = 60, random.Random(0)  # noqa: S311 - noise, not secrets
    passed = sum(verdict_of("cpu", draws) == "passed" for _ in range(runs))
    failed = sum(verdict_of("gpu", draws) == "failed" for _ in range(runs))
    assert passed <= 13
    assert failed <= 4


class InTurn:
    """Noise of calls that alternate, as those with two buffers in turn: on average as long as without it."""

    def __init__(self, *factors):
        self._next = cycle(factor * len(factors) / sum(factors) for factor in factors)

    def __call__(self):
        return next(self._next)


class Periodic:
    """Noise of a device that is slower by a factor in a share of each period."""

    def __init__(self, clock, hertz, phase, *, factor=1.3, share=0.6):
        self._clock, self._hertz, self._phase, self._factor, self._share = clock, hertz, phase, factor, share

    def __call__(self):
        return self._factor if (self._clock() * self._hertz + self._phase) % 1 < self._share else 1.0


def verdict_in_step(make_cpu, make_gpu, limit, draws):
    """Return the verdict on calls of 30 and 10 ms with noise that rounds could fall into step with."""
    clock = Clock()
    demand, options = Demand(min=limit), RunOptions(sampling=SamplingPlan(precision_time=0.0))

    def side(kind, seconds, make):
        device = SimulatedDevice(kind, clock=clock, noise=make(clock, draws))
        return BlockTimer(workload=Workload(device=device, call=lambda: device.launch(seconds), scope="call"))

    context = TrialContext(
        demand=demand, options=options, order=draws, remaining=lambda: options.max_time - clock()
    )
    sampling = RoundSampler(context)
    sampling.take_interleaved(side("cpu", 30e-3, make_cpu), side("gpu", 10e-3, make_gpu))
    return judge(sampling.speedup("interleaved"), demand, options).status


def still(clock, draws):
    return lambda: exp(draws.gauss(0, 0.01))


def test_calls_that_alternate_are_no_evidence_on_either_side_of_their_mean():
    """A CPU whose calls take 2x and 4x of the GPU's in turn is 3x as slow; rounds in step saw one of them.

    They led to a wrong verdict in 94 and 99 % of the runs.
    """
    draws = random.Random(1)  # noqa: S311 - noise, not secrets
    for limit, wrong in ((3 / 1.05, "failed"), (3 / 0.95, "passed")):
        found = [verdict_in_step(lambda *_: InTurn(1, 2), still, limit, draws) for _ in range(40)]
        assert found.count(wrong) <= 4


def test_a_device_that_is_slower_four_times_a_second_is_seen_as_it_mostly_is():
    """Rounds near a limit came every quarter of a second, and led to a wrong verdict in 39 % of the runs."""
    draws = random.Random(2)  # noqa: S311 - noise, not secrets
    limit = (30 / 13) / 0.97

    def slower(clock, draws):
        return Periodic(clock, 4.0, draws.random())

    found = [verdict_in_step(still, slower, limit, draws) for _ in range(40)]
    assert found.count("passed") <= 4


def test_the_chance_of_a_false_alarm_is_the_level():
    draws = random.Random(0)  # noqa: S311 - noise, not secrets
    alarms = sum(bool(changes([5.0 * exp(draws.gauss(0, 0.05)) for _ in range(30)])) for _ in range(400))
    assert alarms / 400 <= LEVEL + 3 * (LEVEL / 400) ** 0.5


def scaling_verdict(limit, draws):
    """Return the verdict on a true efficiency of 10 / (4 x 4) on four devices, each call off by 10 %."""
    clock = Clock()
    devices = [SimulatedDevice("gpu", clock=clock, index=index) for index in range(4)]
    counts = (1, 4)

    def body(group):
        def call():
            seconds = (2 + 8 / group.count) * 1e-3 * exp(draws.gauss(0, 0.1))
            for device in group.all:
                device.launch(seconds)

        return call

    asked = Scaling(name="it", mode="strong", count=4, counts=counts, required=limit)
    demand = with_required_speedup(Demand(check=False), asked)
    question = ScalingQuestion(asked)
    trial = Trial(nodeid=f"test_{draws.random()}", demand=demand, question=question, options=RunOptions())
    groups = [DeviceGroup(devices[:count]) for count in counts]
    return trial.compare(lambda group: partial(body, group), *groups).status


def test_wrong_verdicts_on_an_efficiency_at_its_limit_stay_below_alpha():
    """With 2.5 % on either side, 11 or fewer of 200 are expected with a probability of 0.995."""
    draws = random.Random(5)  # noqa: S311 - noise, not a secret
    truth = 10 / (4 * (2 + 8 / 4))
    found = [scaling_verdict(truth, draws) for _ in range(200)]
    assert found.count("passed") <= 11
    assert found.count("failed") <= 11
    assert {scaling_verdict(0.8 * truth, draws) for _ in range(20)} == {"passed"}
    assert {scaling_verdict(1.25 * truth, draws) for _ in range(20)} == {"failed"}
