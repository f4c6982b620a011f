"""Sampling: which rounds are kept, which are dropped, and when there are enough of them."""

from dataclasses import replace
from functools import partial
from itertools import count
from random import Random

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.analysis import looks, verdict
from pytest_gpuperf.analysis.looks import Limit
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.measurement import Round
from pytest_gpuperf.timing import untimed_calls
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.checks import CpuResult
from pytest_gpuperf.timing.context import TrialContext
from pytest_gpuperf.timing.rounds import RoundSampler
from pytest_gpuperf.timing.transfers import loop_timer

# The seven rounds of a first look, and none for precision.
SEVEN = RunOptions(sampling=SamplingPlan(precision_time=0.0))
FIRST = looks.planned("quick")[0]
END = looks.last(99, 7, 7.5, 0.025)
HOT = "power cap"


def order() -> Random:
    return Random(0)  # noqa: S311 - an order, not a secret


def hot_in(*rounds):
    """Say that the GPU is slowed down in these rounds, counted from 1."""
    states = count(1)
    return lambda: (HOT,) if next(states) in rounds else ()


def always():
    return (HOT,)


def adding(device):
    a = device.asarray(np.ones(1000))
    return lambda: a + 1


class Bench:
    """A CPU and a GPU on one clock, and the rounds of one demand.

    Each direction copies 8000 bytes: 2 ms up, 8 ms down.
    """

    def __init__(
        self,
        *,
        cpu=10e-3,
        gpu=1e-3,
        demand=None,
        options=SEVEN,
        throttle=tuple,
        allowed=10.0,
        limits=(),
        gpu_noise=lambda clock: 1.0,
    ):
        self.clock = Clock()
        here = SimulatedDevice("cpu", clock=self.clock, timing=Timing(kernel=cpu))
        timing = Timing(kernel=gpu, bandwidth=1e6, upload=4e6)
        there = SimulatedDevice(
            "gpu", clock=self.clock, timing=timing, throttle=throttle, noise=lambda: gpu_noise(self.clock)
        )
        self.cpu, self.gpu = (
            BlockTimer(workload=untimed_calls.first_call(lambda seen: partial(adding, seen), device)[0])
            for device in (here, there)
        )
        begun = self.clock()
        context = TrialContext(
            demand=demand or Demand(min=1e-3),
            options=options,
            order=order(),
            remaining=lambda: begun + allowed - self.clock(),
        )
        self.sampling = RoundSampler(context, limits)

    @property
    def timers(self) -> list[BlockTimer]:
        return [self.cpu, self.gpu]

    def interleaved(self, loop=None) -> RoundSampler:
        self.sampling.take_interleaved(self.cpu, self.gpu, loop)
        return self.sampling

    def against(self, *cpu_samples, loop=None, look=END) -> RoundSampler:
        recorded = CpuResult(
            measurement=self.cpu.measurement,
            samples=cpu_samples,
            look=look,
            own_share=1.0,
            result=[],
            interference=None,
            restarted=False,
        )
        self.sampling.take_against(recorded, self.gpu, loop)
        return self.sampling

    def loop(self) -> BlockTimer:
        return loop_timer(self.gpu.workload, RunOptions())


def stepping(timer, times) -> None:
    """Let each call of a workload take the next of these times."""
    timer.workload = replace(timer.workload, call=lambda: timer.device.launch(next(times)))


def kept(sampling) -> list[tuple[float, float]]:
    return [(taken.cpu, taken.gpu) for taken in sampling.rounds]


def judged(bench, demand) -> str | None:
    return verdict.decision(bench.sampling.speedup, demand)


def test_rounds_are_of_both_devices_until_a_look_decides():
    bench = Bench()
    found = bench.interleaved()
    assert [(pytest.approx(10e-3), pytest.approx(1e-3))] * 7 == kept(found)
    assert (7, 0, (), None) == (found.begun, found.dropped, found.throttle, found.throttled)
    assert kept(found) == list(zip(bench.cpu.samples, bench.gpu.samples, strict=True))
    assert found.speedup.value == pytest.approx(10)


def test_a_round_is_preceded_by_a_wait_of_at_most_a_quarter_of_it():
    found = Bench().interleaved()
    assert 7 * 11e-3 < found.elapsed <= 7 * 11e-3 * 1.25


def test_now_and_then_each_side_runs_untimed_so_that_nothing_falls_into_step():
    bench = Bench(demand=Demand(min=10))  # at the true ratio: hopeless, after some stretches of the last look
    starts = {kind: starts_of(timer.device) for kind, timer in zip(("cpu", "gpu"), bench.timers, strict=True)}
    rounds = len(bench.interleaved().rounds)
    untimed = {kind: len(each) - rounds for kind, each in starts.items()}
    assert untimed["cpu"] == untimed["gpu"]
    assert 0.04 < untimed["cpu"] / rounds < 0.25


def test_rounds_without_copies_have_none():
    assert [0.0] * 7 == [taken.copies for taken in Bench().interleaved().rounds]


def test_before_the_first_round_there_is_nothing():
    sampling = Bench().sampling
    assert ([], 0, 0, None) == (sampling.rounds, sampling.begun, sampling.dropped, sampling.elapsed)
    assert (None, None) == (sampling.speedup, sampling.throttled)


def test_a_round_that_raised_was_begun_and_those_before_it_stay():
    bench = Bench()
    stepping(bench.gpu, (1e-3 / left for left in (2, 1, 0)))
    with pytest.raises(ZeroDivisionError):
        bench.interleaved()
    assert (3, 2) == (bench.sampling.begun, len(bench.sampling.rounds))
    assert bench.gpu.is_running


# Looks


@for_each(
    ("expected", "look", "demand"),
    [
        ("passed", "first", Demand(min=4.9)),
        ("passed", "eighth", Demand(min=5.1)),
        ("passed", "eighth", Demand(min=8.2)),
        ("passed", "quarter", Demand(min=8.5)),
        ("passed", "end", Demand(min=9.3)),
        ("passed", "end", Demand(max=10.8)),
        ("failed", "quarter", Demand(min=15.5)),
        ("failed", "quarter", Demand(max=6.5)),
        ("failed", "end", Demand(min=14.0)),
        ("failed", "end", Demand(min=10.8)),
    ],
)
def test_the_nearer_a_limit_the_later_the_look_that_decides_it(expected, look, demand):
    bench = Bench(demand=demand)
    found = bench.interleaved()
    assert (look, True) == (found.look.name, found.is_decided)
    assert judged(bench, demand) == expected
    assert found.speedup.decided_by.look == look
    longest = {"first": 0.0, "eighth": 1 / 8, "quarter": 1 / 4, "end": 1.0}[look] * 7.5
    assert longest - 0.05 <= found.elapsed <= longest + 0.2


@for_each(("look", "limit"), [("first", 4.9), ("quarter", 5.1), ("quarter", 6.6), ("end", 6.8), ("end", 9.3)])
def test_passes_that_are_to_be_sure_take_longer(look, limit):
    bench = Bench(demand=Demand(min=limit), options=replace(SEVEN, passes="sure"))
    assert bench.interleaved().look.name == look
    assert judged(bench, Demand(min=limit)) == "passed"


def test_a_limit_that_stretches_lie_on_both_sides_of_ends_the_rounds_early_and_undecided():
    bench = Bench(demand=Demand(min=10.0), gpu_noise=lambda clock: 1.05 if clock() % 4 < 2 else 0.95)
    found = bench.interleaved()
    assert not found.is_decided
    assert judged(bench, Demand(min=10.0)) is None
    assert found.speedup.decided_by is None
    assert found.elapsed < 5.0


def test_every_limit_must_be_decided():
    bench = Bench(demand=Demand(min=3), limits=[Limit(9.2, 9.3)])
    assert bench.interleaved().look.name == "end"


def test_a_range_of_limits_around_the_value_is_hopeless_at_once():
    found = Bench(demand=Demand(min=3), limits=[Limit(9.0, 11.0)]).interleaved()
    assert not found.is_decided
    assert found.elapsed < 2.0


def test_no_round_begins_that_could_not_end_within_the_sampling_time():
    found = Bench(cpu=0.4, gpu=0.04, demand=Demand(min=9.3)).interleaved()
    assert 7.5 - 0.44 * 1.25 < found.elapsed <= 7.5


def test_slow_rounds_wait_for_nothing():
    found = Bench(cpu=0.4, gpu=0.04, demand=Demand(min=9.3)).interleaved()
    assert len(found.rounds) * 0.44 <= found.elapsed <= (len(found.rounds) + 7) * 0.44 * 1.001


def test_fewer_rounds_than_stretches_decide_what_is_far_from_them():
    for limit, expected in ((3.0, "passed"), (5.0, None), (30.0, "failed")):
        bench = Bench(cpu=2.0, gpu=0.2, demand=Demand(min=limit))
        found = bench.interleaved()
        assert (3, "few_rounds") == (len(found.rounds), found.look.name)
        assert judged(bench, Demand(min=limit)) == expected


def test_a_test_without_a_limit_is_sampled_for_a_while_where_it_is_not_clear_which_device_wins():
    bench = Bench(cpu=1.0e-3, gpu=1.01e-3, demand=Demand(), options=RunOptions())
    assert 1.0 <= bench.interleaved().elapsed < 1.01


def test_a_run_that_makes_a_baseline_takes_all_of_the_sampling_time():
    options = RunOptions(sampling=SamplingPlan(whole=True))
    found = Bench(options=options).interleaved()
    assert 7.48 < found.elapsed <= 7.5
    assert ("end", 1.01) == (found.look.name, found.speedup.certain.factor)


def test_a_clear_case_goes_on_for_its_precision_time_and_no_longer():
    noise = Random(1)  # noqa: S311 - noise, not a secret
    bench = Bench(
        cpu=2e-3, gpu=1e-4, options=RunOptions(), gpu_noise=lambda _: noise.lognormvariate(0.0, 0.3)
    )
    assert 0.03 <= bench.interleaved().elapsed < 0.04


def test_rounds_that_decide_go_on_while_they_may_not_stop():
    bench = Bench()
    asked = count(1)
    bench.sampling.take_interleaved(bench.cpu, bench.gpu, may_stop=lambda: next(asked) > 4)
    assert bench.sampling.begun == 11


def test_a_short_time_limit_lets_nothing_fail_that_a_spell_may_explain():
    bench = Bench(demand=Demand(min=12.0), options=replace(SEVEN, max_time=2.0), allowed=2.0)
    assert bench.interleaved().look.misses == 1.35
    assert judged(bench, Demand(min=12.0)) is None


# Dropped rounds


def test_rounds_of_a_gpu_that_was_slowed_down_are_dropped_from_all_workloads_alike():
    bench = Bench(throttle=hot_in(2, 5))
    found = bench.interleaved()
    assert kept(found) == list(zip(bench.cpu.samples, bench.gpu.samples, strict=True))
    assert (9, 2, (HOT,)) == (found.begun, found.dropped, found.throttle)
    assert found.speedup.rounds == 7


def test_rounds_are_dropped_from_the_copies_too():
    bench = Bench(throttle=hot_in(2, 5))
    loop = bench.loop()
    found = bench.interleaved(loop)
    assert [7, 7, 7] == [len(timer.samples) for timer in (*bench.timers, loop)]
    assert [pytest.approx(11e-3)] * 7 == list(loop.samples)
    assert [pytest.approx(10e-3)] * 7 == [taken.copies for taken in found.rounds]


def test_a_round_is_dropped_for_what_the_gpu_counted_in_it_and_not_for_its_state_after_it():
    bench = Bench(throttle=lambda: (HOT,))
    counted = {"nanoseconds": 0, "asked": 0}

    def counters():
        counted["asked"] += 1
        counted["nanoseconds"] += 7 * (counted["asked"] == 4)  # the second round's, after it
        return {HOT: counted["nanoseconds"]}

    bench.gpu.device.throttle_counters = counters
    found = bench.interleaved()
    assert (8, 1, (HOT,)) == (found.begun, found.dropped, found.throttle)


def test_the_time_of_dropped_rounds_is_time_spent():
    assert Bench(throttle=hot_in(2, 5)).interleaved().elapsed >= 9 * 11e-3


def test_all_reasons_for_which_it_was_slowed_down_are_told_each_once():
    states = iter([("b", "a"), (), ("b",), ("c",), *[()] * 50])
    found = Bench(throttle=lambda: next(states)).interleaved()
    assert (3, ("a", "b", "c")) == (found.dropped, found.throttle)


@for_each(
    ("expected", "begun", "dropped"),
    [(False, 10, 0), (False, 10, 2), (True, 10, 3), (False, 60, 12), (True, 60, 13), (True, 1, 1)],
)
def test_more_than_a_fifth_of_dropped_rounds_is_a_reason_and_fewer_are_none(expected, begun, dropped):
    sampling = Bench().sampling
    sampling.begun, sampling.dropped, sampling.throttle = begun, dropped, (HOT,)
    assert expected is (sampling.throttled is not None)


def test_the_reason_names_what_slowed_it_down_and_what_to_do():
    found = Bench(demand=Demand(min=9.3), throttle=hot_in(*range(1, 60, 2))).interleaved()
    assert found.throttled == (
        "the GPU was slowed down (power cap) in 13 of 25 rounds; improve its cooling or raise its power limit"
    )


def test_a_gpu_that_is_always_slowed_down_ends_without_a_speedup():
    bench = Bench(throttle=always)
    found = bench.interleaved()
    assert (13, 13, []) == (found.begun, found.dropped, found.rounds)
    assert found.speedup is None
    assert "in 13 of 13 rounds" in found.throttled
    assert [0, 0] == [len(timer.samples) for timer in bench.timers]


def test_dropped_rounds_take_no_longer_than_the_time_allowed():
    found = Bench(cpu=3.0, gpu=1.0, throttle=always, allowed=20.0).interleaved()
    assert (2, []) == (found.begun, found.rounds)  # of 4 s each: a third has no place in 7.5 s


def test_two_rounds_are_taken_whatever_they_cost_dropped_or_not():
    for throttle in (tuple, hot_in(1), always):
        assert Bench(cpu=30.0, throttle=throttle, allowed=1.0).interleaved().begun == 2


# Samples recorded before


def test_rounds_against_siblings_are_compared_with_all_that_they_left():
    bench = Bench(gpu=2e-3)
    found = bench.against(*[0.1] * 3, *[0.2] * 11)
    assert [pytest.approx(2e-3)] * len(found.rounds) == list(bench.gpu.samples)
    assert len(bench.cpu.samples) == 0
    speedup = found.speedup
    assert ("siblings", pytest.approx(100)) == (speedup.sampling, speedup.value)
    assert (pytest.approx(50), pytest.approx(100)) == (speedup.low, speedup.high)


def test_a_sibling_without_samples_leaves_no_round():
    bench = Bench()
    assert (0, []) == (bench.against().begun, bench.sampling.rounds)
    assert len(bench.gpu.samples) == 0


@for_each(("expected", "look"), [("passed", END), (None, FIRST)])
def test_samples_of_a_short_time_allow_no_later_look(expected, look):
    demand = Demand(min=9.3)
    bench = Bench(demand=demand)
    bench.against(*[10e-3] * 99, look=look)
    assert bench.sampling.look.name == look.name
    assert judged(bench, demand) == expected


def test_rounds_against_siblings_have_their_copies():
    bench = Bench(throttle=hot_in(2))
    loop = bench.loop()
    found = bench.against(0.1, 0.2, 0.3, loop=loop)
    assert Round(cpu=0.1, gpu=pytest.approx(1e-3), copies=pytest.approx(10e-3)) == found.rounds[0]
    assert [pytest.approx(11e-3)] * len(found.rounds) == list(loop.samples)


# Copies


@for_each(
    ("expected", "demand"),
    [
        (10 / (1 + 10), Demand(transfer="always")),
        (10 / (1 + 10), Demand(transfer="once", calls=1)),
        (10 / (1 + 10 / 4), Demand(transfer="once", calls=4)),
        (10 / (1 + 10 / 1000), Demand(transfer="once", calls=1000)),
    ],
)
def test_copies_enter_the_estimate_shared_by_the_calls(expected, demand):
    bench = Bench(cpu=10e-3, gpu=1e-3, demand=demand)
    found = bench.interleaved(bench.loop())
    assert found.speedup.value == pytest.approx(expected)
    assert {10e-3} == {round(taken.copies, 9) for taken in found.rounds}


def noting(steps, timer, call):
    steps.append(id(timer))
    return call()


def test_all_workloads_of_a_round_come_in_an_order_drawn_afresh():
    bench = Bench()
    loop, steps = bench.loop(), []
    for timer in (*bench.timers, loop):
        timer.workload = replace(timer.workload, call=partial(noting, steps, timer, timer.workload.call))
        timer.block_calls = 1
    bench.interleaved(loop)
    rounds = [tuple(steps[first : first + 3]) for first in range(0, len(steps), 3)]
    assert {3} == {len(set(taken)) for taken in rounds}
    assert len(set(rounds)) > 3


def test_a_fresh_start_gives_up_every_round():
    sampling = Bench(throttle=hot_in(1)).interleaved()
    sampling.restart()
    assert ([], 0, 0, ()) == (sampling.rounds, sampling.begun, sampling.dropped, sampling.throttle)
    assert (None, None) == (sampling.elapsed, sampling.speedup)


def test_rounds_after_a_fresh_start_have_three_quarters_of_what_is_left():
    bench = Bench(demand=Demand(min=9.3))
    bench.clock.advance(4.0)
    left = bench.sampling._context.remaining()
    bench.sampling.restart()
    assert bench.sampling.seconds == pytest.approx(0.75 * left)
    assert bench.interleaved().elapsed == pytest.approx(0.75 * left, rel=0.02)


def test_an_error_in_a_late_round_keeps_the_samples_before_it():
    bench = Bench(demand=Demand(min=9.3))
    launch, calls = bench.gpu.device.launch, count(1)

    def launch_or_raise(*arguments, **changes):
        if next(calls) > 40:
            raise RuntimeError("broken")
        launch(*arguments, **changes)

    bench.gpu.device.launch = launch_or_raise
    with pytest.raises(RuntimeError, match="broken"):
        bench.interleaved()
    found = bench.sampling.speedup
    assert found.rounds > 30
    assert found.certain.factor == 2.0


def starts_of(device):
    """Return the list to which the device adds the time of each launch."""
    launch, starts = device.launch, []

    def launched(*arguments, **options):
        starts.append(device.clock())
        launch(*arguments, **options)

    device.launch = launched
    return starts


def test_a_clock_of_its_own_that_does_not_pause_is_not_waited_on():
    bench = Bench()
    for device in (bench.cpu.device, bench.gpu.device):
        device.pause = None
    assert bench.interleaved().elapsed == pytest.approx(7 * 11e-3)


# Which sides a first look may have met before they were warm


@for_each(
    ("expected", "demand"),
    [
        (["cpu"], Demand(min=3)),
        (["gpu"], Demand(max=30)),
        (["cpu", "gpu"], Demand(min=3, max=30)),
        ([], Demand(min=8.5)),  # not of the first look
    ],
)
def test_a_side_that_was_still_slow_may_explain_a_verdict_of_the_first_look(expected, demand):
    bench = Bench(demand=demand)
    found = bench.interleaved()
    assert expected == [timer.device.kind for timer in found.maybe_cold(bench.cpu, bench.gpu)]
