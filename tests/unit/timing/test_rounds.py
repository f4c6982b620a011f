"""Sampling: which rounds are kept, which are dropped, and when there are enough of them."""

from dataclasses import replace
from itertools import count
from math import inf
from pathlib import Path
from random import Random
from time import perf_counter, thread_time

import factories
import numpy as np
import pytest
from cases import for_each
from factories import within
from msgspec import structs
from walks import prepared, simulated

from pytest_gpuperf.analysis.looks import Limit
from pytest_gpuperf.analysis.verdict import judge
from pytest_gpuperf.devices.clock import let_pass
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.cpu_result import CpuResult
from pytest_gpuperf.timing.rounds import RoundSampler, for_gate, for_test, for_unmarked
from pytest_gpuperf.timing.taken_rounds import TakenRounds
from pytest_gpuperf.timing.trial_context import TrialContext

# As many rounds of 11 ms as fit, whatever they show; they are slow ones, and follow each other without waits.
TEN = RunOptions(max_time=9.5 * 11e-3 / 0.75, sampling=SamplingPlan(whole=True))
# Rounds until the verdict. The whole sampling time is 7.5 s.
QUICK = RunOptions(sampling=SamplingPlan(precision_time=0.0))
LIMIT = Demand(min=10)
HOT = "power cap"


def hot_in(*rounds):
    """Say that the GPU is slowed down in these rounds, counted from 1."""
    states = count(1)
    return lambda: (HOT,) if next(states) in rounds else ()


def always():
    return (HOT,)


class Bench:
    """A CPU and a GPU on one clock, and the rounds of one demand.

    Each direction copies 8000 bytes: 2 ms up, 8 ms down. `steps` are the devices called in each round.
    """

    def __init__(
        self,
        *,
        cpu=10e-3,
        gpu=1e-3,
        demand=None,
        options=TEN,
        limits=(),
        seed=0,
        throttle=tuple,
        allowed=inf,
        gpu_noise=lambda now: 1.0,
    ):
        self.clock = Clock()
        here = simulated("cpu", self.clock, kernel=cpu)
        there = simulated("gpu", self.clock, self._gpu_noise, kernel=gpu, bandwidth=1e6, upload=4e6)
        there.throttle = throttle
        self.gpu_noise, self.begun, self.steps, self.allowed = gpu_noise, 0.0, [[]], allowed
        self.excused = 0.0
        self.cpu, self.gpu = (BlockTimer(workload=prepared(device, self._adding)) for device in (here, there))
        self.begun, self.steps = self.clock(), [[]]
        context = TrialContext(
            demand=demand or Demand(),
            options=options,
            order=Random(seed),  # noqa: S311 - an order, not a secret
            remaining=lambda: self.begun + self.allowed - self.clock(),
            extend=self.extend,
            excuse=self.excuse,
            on_round=lambda _: self.steps.append([]),
        )
        self.sampling = RoundSampler(context, limits)

    def excuse(self, seconds) -> None:
        self.excused += seconds
        self.allowed += seconds

    def extend(self, limit) -> None:
        self.allowed = max(self.allowed, limit)

    def _gpu_noise(self) -> float:
        return self.gpu_noise(self.clock() - self.begun)

    def _adding(self, device):
        a = device.asarray(np.ones(1000))

        def call():
            self.steps[-1].append(device.kind)
            return a + 1

        return call

    def interleaved(self, loop=None, **options) -> TakenRounds:
        self.sampling.take_interleaved(self.cpu, self.gpu, loop, **options)
        return self.sampling.rounds

    def against(self, *cpu_samples, seconds=inf, **options) -> TakenRounds:
        measurement = factories.measurement(factories.CPU, *cpu_samples)
        left = CpuResult(
            measurement=measurement, seconds=seconds, results=[], interference=None, restart_reason=None
        )
        self.sampling.take_against(left, self.gpu, **options)
        return self.sampling.rounds

    def alone(self, seconds, **options) -> TakenRounds:
        self.sampling.take_alone(self.cpu, seconds, **options)
        return self.sampling.rounds

    def loop(self) -> BlockTimer:
        """Return the timer of the GPU's call with copies of its input and its result."""
        workload, device = self.gpu.workload, self.gpu.device

        def with_copies():
            device.asarray(np.ones(1000))
            device.asnumpy(workload.call())

        return BlockTimer(workload=replace(workload, call=with_copies), calls_wait=True)


def stepping(timer, times) -> None:
    """Let each call of a workload take the next of these times."""
    timer.workload = replace(timer.workload, call=lambda: timer.device.launch(next(times)))


def kept(sampling) -> list[tuple[float, float]]:
    return [(taken.cpu, taken.gpu) for taken in sampling.rounds]


@for_each(("expected", "samples", "seconds"), [(20, 25, 30.0), (14, 14, 16.8), (3, 2, 2.4)])
def test_slow_calls_of_a_gpu_variant_have_as_many_rounds_as_its_cpu_variant_left(expected, samples, seconds):
    """Where that left few, the rounds take no longer than those took."""
    bench = Bench(gpu=0.9, options=RunOptions(sampling=SamplingPlan(**SLOW)), allowed=10.0)
    bench.gpu.calls.note_time(0.9)
    assert expected == len(bench.against(*[1.2] * samples, seconds=seconds).rounds)


def test_rounds_of_a_gpu_that_was_slowed_down_are_dropped_from_all_workloads_alike():
    bench = Bench(throttle=hot_in(2, 5))
    other, loop = BlockTimer(workload=bench.cpu.workload), bench.loop()
    stepping(bench.cpu, (step * 1e-3 for step in count(1)))
    stepping(bench.gpu, (step * 1e-4 for step in count(1)))
    found = bench.interleaved(loop, others=[other])
    rounds = [step for step in range(1, found.begun + 1) if step not in (2, 5)]
    assert [pytest.approx(step * 1e-3) for step in rounds] == list(bench.cpu.samples)
    assert [pytest.approx(step * 1e-4) for step in rounds] == list(bench.gpu.samples)
    assert kept(found) == list(zip(bench.cpu.samples, bench.gpu.samples, strict=True))
    assert {len(rounds)} == {len(timer.samples) for timer in (loop, other)}
    assert [pytest.approx(11e-3 - step * 1e-4) for step in rounds] == [taken.copies for taken in found.rounds]
    assert (2, (HOT,), len(rounds)) == (found.dropped, found.throttle, found.speedup().rounds)
    took = sum(step * 1.1e-3 + 11e-3 + 10e-3 for step in range(1, found.begun + 1))
    assert found.elapsed == pytest.approx(took), "time was spent on the dropped ones, too"


def test_a_round_is_dropped_for_what_the_gpu_counted_in_it_and_not_for_its_state_after_it():
    bench = Bench(throttle=always)
    counted = {"nanoseconds": 0, "asked": 0}

    def counters():
        counted["asked"] += 1
        counted["nanoseconds"] += 7 * (counted["asked"] == 4)  # the second round's, after it
        return {HOT: counted["nanoseconds"]}

    bench.gpu.device.throttle_counters = counters
    found = bench.interleaved()
    assert (10, 1, (HOT,)) == (found.begun, found.dropped, found.throttle)


@for_each(
    ("begun", "dropped", "hot"),
    [
        (7, 0, []),
        (8, 1, [1]),
        (10, 2, [1, 2]),
        (15, 3, [1, 2, 3]),
        (25, 13, range(1, 60, 2)),
        (13, 13, range(60)),
    ],
)
def test_sampling_goes_on_until_the_dropped_rounds_are_few_or_thirteen(begun, dropped, hot):
    bench = Bench(demand=Demand(min=3), options=QUICK, throttle=hot_in(*hot))
    found = bench.interleaved()
    assert (begun, dropped) == (found.begun, found.dropped)
    assert {begun - dropped} == {len(kept) for kept in (found.rounds, bench.cpu.samples, bench.gpu.samples)}
    assert (found.speedup() is None) is (begun == dropped)
    slowed = f"the GPU was slowed down (power cap) in 13 of {begun} rounds; improve its cooling or raise its"
    assert found.throttled == (f"{slowed} power limit" if dropped == 13 else None)


@for_each(("allowed", "begun"), [(-1.0, 0), (1.0, 1), (32.0, 2), (70.0, 2)])
def test_two_rounds_or_samples_of_one_device_are_begun_while_there_is_time(allowed, begun):
    """Rounds take 31 s, dropped or not, with a limit or without one, and samples 30 s."""
    for throttle in (tuple, hot_in(1), always):
        for demand in (LIMIT, Demand()):
            bench = Bench(cpu=30.0, demand=demand, options=QUICK, throttle=throttle, allowed=allowed)
            assert bench.interleaved().begun == begun
    assert Bench(cpu=30.0, allowed=allowed).alone(inf).begun == begun


def near(value, **changes):
    """Return a bench whose speedup is so many times its limit, measured until the verdict."""
    return {"gpu": 1e-3 / value, "demand": LIMIT, "options": QUICK, **changes}


def at_first(factor, seconds, then=1.0):
    """Return the noise of a GPU that takes so many times as long for some seconds."""
    return {"gpu_noise": lambda now: factor if now < seconds else then}


def worst(factor):
    """Return the noise of a GPU whose second round of seven is the worst."""
    steps = count()
    return {"gpu_noise": lambda now: factor if next(steps) % 7 == 1 else 1.0}


UNTIL_NARROW = RunOptions(sampling=SamplingPlan(precision=0.05, precision_time=0.2))
LATER = RunOptions(sampling=SamplingPlan(precision=0.0, precision_time=0.3))
FAR = {"demand": Demand(min=3), "options": QUICK}


@pytest.mark.parametrize(
    "rows",
    [
        [
            ("passed", 0.08, near(2.1)),  # seven rounds
            ("passed", 1, near(1.25)),
            ("passed", 2, near(1.15)),
            ("passed", 7.5, near(1.05)),
            ("inconclusive", 7.5, near(1.005)),
            ("failed", 7.5, near(1 / 1.05)),
            ("failed", 7.5, near(1 / 1.4)),
            ("failed", 2, near(1 / 1.6)),
        ],
        # The limit is met by 4 % in the first 0.4 s, and by 30 % then: from 5.6 s on all stretches show it.
        [("passed", 7.5, near(1.3, **at_first(1.25, 0.4)))],
        [
            ("inconclusive", 2 * 7.5 / 7, near(1, **at_first(1.3, 0.6 * 2 * 7.5 / 7, 0.7))),
            ("inconclusive", 2 * 3.5 / 7, near(1, allowed=3.5, **at_first(1.3, 0.6 * 2 * 3.5 / 7, 0.7))),
        ],
        # It misses the limit by a factor of three meanwhile, and meets it by 5 % then.
        [
            ("passed", 7.5, near(1.05, **at_first(3.0, 0.3))),  # less than half of a stretch
            ("inconclusive", 2.5, near(1.05, **at_first(3.0, 1.5))),  # until one of the seven ended after it
            ("failed", 2, near(1.05, **at_first(3.0, inf))),
        ],
        [
            ("passed", 2, {**FAR, "limits": [Limit(16, 17)]}),
            ("passed", 7.5, {**FAR, "limits": [Limit(9.4, 9.6)]}),
            ("passed", 7.5, {**FAR, "limits": [Limit(5, 20), Limit(9.4, 9.6)]}),  # no look decides the first
        ],
        [
            ("passed", 0.08, {**FAR, "options": UNTIL_NARROW, **worst(0.98)}),
            ("passed", 0.2, {**FAR, "options": UNTIL_NARROW, **worst(0.9)}),
            ("passed", 0.2, {**FAR, "options": UNTIL_NARROW, **worst(1.1)}),
        ],
        # Until the range is narrow, seven rounds are twice the limit, and all later ones miss it.
        [("failed", 7.5, near(1, options=LATER, **at_first(0.45, 0.075, 1.2)))],
    ],
    ids=[
        "the nearer to the limit the longer",
        "between two looks nothing is decided",
        "until stretches lie on both sides",
        "a slow spell fails nothing",
        "other limits",
        "until the range is narrow",
        "a verdict that later rounds take back",
    ],
)
def test_with_a_limit_sampling_goes_on_until_a_look_decides_it(rows):
    for expected, seconds, bench in rows:
        found = Bench(**bench).interleaved()
        assert found.elapsed == pytest.approx(seconds, rel=0.2 if expected == "inconclusive" else 0.1), bench
        assert judge(found.speedup(), bench["demand"], found.sampled.look).status == expected, bench


@for_each(
    ("seconds", "value", "price", "plan"),
    [
        (0.08, 10, None, {}),  # it shows on which device the work is faster
        (1, 1.01, None, {}),
        (2, 1.001, None, {"record_time": 2}),
        (7.5, 10, None, {"whole": True}),
        # With a price it shows whether the GPU is faster, and whether it is worth it.
        (0.08, 10, 4, {}),
        (1, 5, 4, {}),
        (1, 1.3, 4, {}),
        (0.1, 2.5, 0.2, {}),
    ],
)
def test_without_a_limit_sampling_takes_a_second_at_most_unless_it_takes_all_its_time(
    seconds, value, price, plan
):
    options = RunOptions(cost_ratio=price, sampling=SamplingPlan(precision_time=0, **plan))
    found = Bench(gpu=10e-3 / value, options=options).interleaved()
    assert found.elapsed == pytest.approx(seconds, rel=0.1)


def held_by_the_cpu(bench, *, seconds=0.05, until=inf) -> None:
    """Let the GPU take 1.5 times as long within so many seconds after the CPU has worked, for a while."""
    cpu, gpu, ended = bench.cpu.workload.device, bench.gpu.workload.device, -inf

    def on_cpu():
        nonlocal ended
        cpu.launch(10e-3)
        ended = bench.clock()

    def on_gpu():
        is_held = ended <= bench.clock() < ended + seconds and bench.clock() - bench.begun < until
        gpu.launch(1.5e-3 if is_held else 1e-3)

    bench.cpu.workload = replace(bench.cpu.workload, call=on_cpu)
    bench.gpu.workload = replace(bench.gpu.workload, call=on_gpu)


@for_each(
    ("times", "demand", "options"),
    [
        (0, Demand(min=4), {}),  # the first look decides it
        (0, Demand(min=21), {}),  # only a later one decides what is as clear
        (1, Demand(min=9), {}),
        (1, Demand(), {"sampling": SamplingPlan(whole=True)}),
        (1, Demand(), {"sampling": SamplingPlan(whole=True, compared=True, record_time=2.0)}),
        (0, Demand(min=9), {"max_time": 3.9}),
        (0, Demand(min=9), {"sampling": SamplingPlan(may_restart=False)}),
    ],
)
def test_each_device_works_alone_once_where_a_first_look_leaves_the_question_open(times, demand, options):
    bench = Bench(demand=demand, options=RunOptions(**options), allowed=RunOptions(**options).max_time)
    found = bench.interleaved()
    assert [times, times] == [len(bench.cpu.alone), len(bench.gpu.alone)]
    assert found.sampled.turns is None


def test_of_calls_of_more_than_a_tenth_of_a_second_nothing_is_asked():
    bench = Bench(cpu=0.11, gpu=0.1, demand=Demand(min=1), allowed=10.0, options=RunOptions())
    for timer in (bench.cpu, bench.gpu):
        timer.calls.note_time(0.11)
    assert bench.interleaved().begun > 20
    assert not bench.cpu.alone


def test_a_device_that_the_other_ones_turn_changes_works_alone_twice_and_decides_nothing_inside_the_factor():
    bench = Bench(demand=Demand(min=9), options=RunOptions(), allowed=10.0)
    held_by_the_cpu(bench)
    found = bench.interleaved()
    assert [1, 2] == [len(bench.cpu.alone), len(bench.gpu.alone)]
    speedup, beside = found.speedup(), found.sampled.in_spite_of(None, None, ("the CPU", "the GPU"))
    assert speedup.value == pytest.approx(20 / 3)
    assert speedup.high < 9 < speedup.certain.high
    assert "turns_differ" == judge(speedup, Demand(min=9), found.sampled.look, beside).reason_code
    assert "failed" == judge(speedup, Demand(min=11), found.sampled.look, beside).status


def test_rounds_that_go_on_to_their_end_have_asked_twice_while_there_was_time():
    bench = Bench(demand=Demand(min=20 / 3), options=RunOptions(), allowed=9.0)
    held_by_the_cpu(bench)
    found = bench.interleaved()
    assert 9.0 - (bench.clock() - bench.begun) < 0.65, "no time is left for it at the end"
    assert found.sampled.turns is not None


def test_a_clock_that_shows_little_of_the_hosts_time_has_no_device_work_alone(monkeypatch):
    monkeypatch.setattr("pytest_gpuperf.timing.alone.LONGEST_ON_HOST", 0.0)
    bench = Bench(demand=Demand(min=9), options=RunOptions(), allowed=10.0)
    bench.interleaved()
    assert not bench.cpu.alone


def test_a_device_that_was_slow_for_a_while_only_works_alone_once_more_and_is_believed():
    bench = Bench(demand=Demand(min=9), options=RunOptions(), allowed=10.0)
    stepping(bench.gpu, (1.5e-3 if 1.2 < bench.clock() - bench.begun < 2.4 else 1e-3 for _ in count()))
    found = bench.interleaved()
    assert 2 == len(bench.gpu.alone)
    assert found.sampled.turns is None


def still_after(*moments, gpu=1e-3, lasting=(10.0,)):
    """Let a GPU's machine stand still when its rounds have lasted for so long, once at each moment."""
    left = list(zip(moments, lasting, strict=True))

    def noise(now):
        if left and now >= left[0][0]:
            return left.pop(0)[1] / gpu
        return 1.0

    return {"gpu": gpu, "gpu_noise": noise}


@for_each(
    ("counted", "cpu", "moment"),
    [(0.5, 10e-3, 0.3), (0.5, 10e-3, 0.0), (2.01, 0.2, 1.0)],  # in the middle, at once, of slow rounds
)
def test_a_round_in_which_the_machine_stood_still_counts_for_ten_typical_ones_or_half_a_second(
    counted, cpu, moment
):
    whole = RunOptions(sampling=SamplingPlan(whole=True, may_restart=False))  # no device works alone
    bench = Bench(cpu=cpu, options=whole)
    bench.gpu_noise = still_after(moment)["gpu_noise"]  # and not in its first call
    found = bench.interleaved()
    assert pytest.approx(10 - counted, abs=0.25) == bench.clock() - bench.begun - found.elapsed
    assert 7.5 == pytest.approx(found.elapsed, abs=2 * cpu)


def test_seven_moments_with_a_standstill_among_them_are_no_seven_seconds_of_evidence():
    bench = Bench(demand=LIMIT, options=QUICK, **still_after(0.3, gpu=1.05e-3))
    found = bench.interleaved()
    assert judge(found.speedup(), LIMIT, found.sampled.look).status == "failed"
    assert bench.clock() - bench.begun > 17  # and not 10.3


def test_a_machine_that_stood_still_in_the_first_round_has_the_time_for_others():
    bench = Bench(options=QUICK, demand=LIMIT, allowed=10.0)
    bench.gpu_noise = still_after(0.0, lasting=(3600.0,))["gpu_noise"]
    assert 7.5 == pytest.approx(bench.interleaved().elapsed, abs=0.1)


@for_each(
    ("excused", "lasting"),
    [
        (0, (1.4,)),  # a hiccup
        (9.5, (10.0,)),
        (9.5, (10.0, 20.0)),  # one of them: slow calls may come as often as they like
        (19.5, (20.0, 10.0)),
    ],
)
def test_the_longest_standstill_uses_up_no_time_of_the_test(excused, lasting):
    whole = RunOptions(sampling=SamplingPlan(whole=True, may_restart=False))
    moments = (0.3, lasting[0] + 1.0)[: len(lasting)]
    bench = Bench(options=whole, **still_after(*moments, lasting=lasting))
    bench.interleaved()
    assert pytest.approx(excused, abs=0.1) == bench.excused


SLOW = {"slow_time": 30.0, "compared": True, "whole": True}


def test_rounds_of_a_gpu_that_was_slowed_down_are_none_of_the_twenty():
    options = RunOptions(sampling=SamplingPlan(**SLOW))
    bench = Bench(cpu=0.3, gpu=0.1, options=options, allowed=10.0, throttle=hot_in(2, 5))
    for timer, call in ((bench.cpu, 0.3), (bench.gpu, 0.1)):
        timer.calls.note_time(call)
    found = bench.interleaved()
    assert (20, 2) == (len(found.rounds), found.dropped)


ONE_OF_MANY = RunOptions(sampling=for_gate(SamplingPlan(), GateOptions(later=True)))


@for_each(
    ("rounds", "seconds", "cpu", "allowed"),
    [
        (100, 0.3, 1e-3, inf),  # and more
        (7, 7 * 0.099, 0.09, inf),  # of 0.1 s or less, so many, however long they last
        (3, 3 * 0.509, 0.5, inf),  # of longer calls
        (2, 2 * 0.509, 0.5, 0.6),
        (0, 0.0, 0.5, -1.0),
    ],
)
def test_one_process_of_many_samples_each_test_for_as_long_whatever_is_decided(rounds, seconds, cpu, allowed):
    for demand in (LIMIT, Demand()):
        bench = Bench(
            cpu=cpu, gpu=9e-3 if cpu > 9e-3 else 1e-6, demand=demand, options=ONE_OF_MANY, allowed=allowed
        )
        for timer in (bench.cpu, bench.gpu):
            timer.calls.note_time(cpu)  # as warm-up does
        found = bench.interleaved()
        assert (rounds, pytest.approx(seconds, rel=0.2)) == (min(found.begun, 100), found.elapsed or 0.0)


def test_one_process_of_many_samples_a_device_alone_as_long_as_both():
    alone = Bench(cpu=1e-3, options=ONE_OF_MANY).alone(0.03)
    assert pytest.approx(0.3, rel=0.02) == alone.elapsed
    against = Bench(gpu=1e-3, options=ONE_OF_MANY).against(*[1e-3] * 100, seconds=7.5)
    assert pytest.approx(0.3, rel=0.02) == against.elapsed


def test_rounds_against_a_variant_take_its_samples_in_turn_and_their_copies():
    bench = Bench(gpu=2e-3, throttle=hot_in(2))
    loop, other = bench.loop(), BlockTimer(workload=bench.gpu.workload)
    found = bench.against(0.1, 0.2, loop=loop, others=[other])
    assert [(0.1, 0.2)[place % 2] for place in range(len(found.rounds))] == [one.cpu for one in found.rounds]
    assert [pytest.approx(2e-3)] * len(found.rounds) == list(bench.gpu.samples)
    assert [pytest.approx(10e-3)] * len(found.rounds) == [one.copies for one in found.rounds]
    assert {len(found.rounds)} == {len(loop.samples), len(other.samples)} == {found.begun - 1}
    assert (0, 1) == (len(bench.cpu.samples), found.dropped)
    assert Bench().against().begun == 0, "without samples of the other"


@for_each(
    ("expected", "seconds", "value", "other", "allowed"),
    [
        ("passed", 0.07, 10 * 2.1, 7.5, inf),
        ("failed", 7.5, 10 / 1.05, 7.5, inf),
        ("inconclusive", 3, 10 / 1.05, 3.0, inf),  # as long as the other variant: more decides no more
        ("inconclusive", 3, 10 / 1.05, 7.5, 3.0),
        ("failed", 2, 10 / 1.6, 3.0, inf),
    ],
)
def test_variants_are_looked_at_by_the_seconds_of_the_shorter_one(expected, seconds, value, other, allowed):
    bench = Bench(gpu=10e-3, demand=LIMIT, options=QUICK, allowed=allowed)
    found = bench.against(*[value * 10e-3] * 28, seconds=other)
    assert [pytest.approx(seconds, rel=0.01)] * 2 == [found.seconds, found.elapsed]
    assert (found.speedup().value, found.speedup().sampling) == (pytest.approx(value), "variants")
    assert judge(found.speedup(), LIMIT, found.sampled.look).status == expected


@for_each(("samples", "seconds"), [(28, 1.0), (7, 7.5)])
def test_variants_are_looked_at_by_the_rounds_of_the_one_with_fewer(samples, seconds):
    found = Bench(gpu=10e-3, demand=LIMIT, options=QUICK).against(*[15 * 10e-3] * samples, seconds=7.5)
    assert found.elapsed == pytest.approx(seconds, rel=0.02), "half as much again as the limit"
    assert len(found.rounds) > 28


@for_each(("samples", "seconds"), [(2, 0.0), (5, 0.095), (299, inf)])  # of two timers, with waits
def test_one_device_alone_is_sampled_for_so_many_seconds_and_no_longer_than_in_rounds(samples, seconds):
    bench = Bench(options=QUICK)
    other = BlockTimer(workload=bench.cpu.workload)
    found = bench.alone(seconds, others=[other])
    assert [samples] * 3 == [found.begun, len(bench.cpu.samples), len(other.samples)]
    assert found.elapsed == pytest.approx(max(2 * 20e-3, min(seconds, 7.5)), rel=0.2)
    assert found.speedup() is None


def test_all_workloads_of_a_round_come_in_an_order_drawn_afresh():
    bench = Bench(options=RunOptions(max_time=2.0, sampling=SamplingPlan(whole=True)))
    loop = bench.loop()
    in_loop = loop.workload.call
    loop.workload = replace(loop.workload, call=lambda: (bench.steps[-1].append("loop"), in_loop())[1])
    bench.interleaved(loop)
    rounds = [tuple(steps) for steps in bench.steps if len(steps) == 4]  # the loop calls the GPU's
    assert len(set(rounds)) == 6


def between(seconds, seed=0) -> tuple[int, list[float], dict[int, list[str]]]:
    """Return how many rounds of so many seconds fit into 7.5 s, and what lies between them.

    That are the waits, and the devices that worked untimed, by the number of rounds before that.
    """
    options = RunOptions(sampling=SamplingPlan(whole=True, may_restart=False))  # no device works alone
    bench = Bench(cpu=0.9 * seconds, gpu=0.1 * seconds, options=options, seed=seed)
    waits, pause = [], bench.gpu.device.pause
    bench.gpu.device.pause = lambda waited: (waits.append(waited), pause(waited))
    bench.interleaved()
    untimed = {number: steps[:-2] for number, steps in enumerate(bench.steps) if len(steps) > 2}
    return bench.sampling.rounds.begun, waits, untimed


@for_each(
    ("seconds", "longest", "rounds"),
    [
        (50e-3, 0.01, 120),
        (20e-3, 0.25 * 24e-3, 300),  # a quarter of a round with what lies between
        (2e-3, 0.01, 1050),  # quick rounds wait longer: 500 are enough
    ],
)
def test_rounds_keep_out_of_step_with_what_is_periodic(seconds, longest, rounds):
    taken, waits, untimed = between(seconds)
    assert taken == pytest.approx(rounds, rel=0.1)
    assert (taken - 7, True) == (len(waits), min(untimed) >= 7), "the first seven follow each other"
    assert 0 <= min(waits) < 0.1 * longest
    assert 0.8 * longest < max(waits) <= 1.05 * longest
    assert len(untimed) == pytest.approx(taken / 8, rel=0.3)
    assert {("cpu", "gpu"), ("gpu", "cpu")} == set(map(tuple, untimed.values()))


def test_slow_rounds_have_no_waits_and_in_about_every_second_stretch_an_untimed_one():
    """Four or five of 0.2 s are a stretch, and one of 0.6 s."""
    found = [between(0.2, seed) for seed in range(20)]
    assert not any(waits for _, waits, _ in found)
    assert sum(len(untimed) for _, _, untimed in found) == pytest.approx(20 * 7 / 2, rel=0.3)
    assert between(0.6) == (13, [], {})


def test_a_wait_on_a_real_clock_keeps_the_processor_at_work():
    begun, worked = perf_counter(), thread_time()
    let_pass(HostDevice("a processor"), 10e-3)
    assert perf_counter() - begun >= 10e-3
    assert thread_time() - worked > 1e-3, "though others may have had most of the time"


PLAN = SamplingPlan()


@for_each(
    ("compared", "whole", "in_rounds", "asked"),
    [
        (False, False, False, GateOptions(strict=True, allow={"missing"})),
        (True, False, False, GateOptions(baseline=Path("base.json"))),
        (True, False, False, GateOptions(improvements=True)),
        (True, True, False, GateOptions(create=True)),
        (True, False, False, GateOptions(tolerances=(within(), within(metric="memory")))),
        (True, True, False, GateOptions(tolerances=(within(metric="cpu_time"),))),
        (True, True, False, GateOptions(tolerances=(within(metric="gpu_time"),))),
        (True, True, True, GateOptions(tolerances=(within(metric="latency"),))),
        (False, False, True, GateOptions(tolerances=(within(metric="latency"),), later=True)),
        (True, True, True, GateOptions(tolerances=(within(metric="with_copies"),))),
    ],
)
def test_a_run_that_is_compared_samples_for_longer_where_no_look_decides(compared, whole, in_rounds, asked):
    changed = {"compared": compared, "whole": whole, "in_rounds": in_rounds}
    of_many = {"sampling_time": 0.3, "may_restart": False} if asked.later else {}
    assert for_gate(PLAN, asked) == structs.replace(PLAN, **changed, **of_many)


@for_each(
    ("whole", "limits", "asked"),
    [
        (False, [Limit(2, 3)], GateOptions(tolerances=(within(),))),
        (True, [], GateOptions(tolerances=(within(),))),
        (True, [], GateOptions(tolerances=(within(metric="efficiency"),))),
        (True, [], GateOptions(baseline=Path("base.json"))),
        (False, [], GateOptions(tolerances=(within(metric="memory"),))),
        (False, [], GateOptions(tolerances=(within(),), later=True)),
        (False, [], GateOptions()),
    ],
)
def test_a_test_that_is_new_to_a_check_takes_all_of_its_time_whatever_its_own_limit(whole, limits, asked):
    assert whole == for_test(PLAN, asked, limits).whole


def test_what_nobody_marked_is_measured_for_a_shorter_time_and_once():
    short = for_unmarked(PLAN, GateOptions())
    assert (0.05, False, False) == (short.record_time, short.whole, short.may_restart)
    assert short.warmup_time < PLAN.warmup_time


@for_each("gate", [GateOptions(create=True), GateOptions(tolerances=(within(),)), GateOptions(later=True)])
def test_what_is_compared_is_measured_as_if_it_were_marked(gate):
    plan = for_gate(PLAN, gate)
    assert plan is for_unmarked(plan, gate)


@for_each(
    ("rounds", "seconds", "cpu", "gpu", "plan"),
    [
        (20, 8.0, 0.3, 0.1, SLOW),
        (20, 16.0, 0.6, 0.2, SLOW),
        (19, 27.9, 1.0, 0.33, SLOW),  # and one is kept for the end of the test
        (9, 26.1, 2.2, 0.7, SLOW),  # what fits into 30 s
        (2, 8.0, 3.0, 1.0, SLOW),  # five do not: as long as ever
        (10, 8.0, 0.6, 0.2, SLOW | {"compared": False}),  # no check
        (10, 8.0, 0.6, 0.2, SLOW | {"slow_time": None}),  # somebody set the limit
        (71, 7.6, 0.08, 0.027, SLOW),
    ],
)
def test_slow_calls_of_a_check_have_twenty_rounds_where_these_fit(rounds, seconds, cpu, gpu, plan):
    options = RunOptions(sampling=SamplingPlan(**plan))
    bench = Bench(cpu=cpu, gpu=gpu, options=options, allowed=10.0)
    for timer, call in ((bench.cpu, cpu), (bench.gpu, gpu)):
        timer.calls.note_time(call)
    found = bench.interleaved()
    assert (rounds, pytest.approx(seconds, rel=0.15)) == (len(found.rounds), found.elapsed)
