"""Sampling: which rounds are kept, which are dropped, and when there are enough of them."""

from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from math import inf
from random import Random

import numpy as np
import pytest
from cases import for_each
from walks import prepared, simulated

from pytest_gpuperf.analysis.estimation import Exclusion
from pytest_gpuperf.analysis.verdict import judge
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.measurement import Round
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.context import TrialContext
from pytest_gpuperf.timing.presets import for_gate
from pytest_gpuperf.timing.rounds import RoundSampler
from pytest_gpuperf.timing.transfers import loop_timer

# Ten rounds of a test without a limit, whatever they show.
TEN = RunOptions(sampling=SamplingPlan(precision=0.0, record_rounds=10, record_time=inf))
QUICK = RunOptions(sampling=SamplingPlan(precision_time=0.0))
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
        options=TEN,
        throttle=tuple,
        allowed=inf,
        gpu_noise=lambda clock: 1.0,
    ):
        self.clock = Clock()
        here = simulated("cpu", self.clock, kernel=cpu)
        timing = Timing(kernel=gpu, bandwidth=1e6, upload=4e6)
        there = SimulatedDevice(
            "gpu", clock=self.clock, timing=timing, throttle=throttle, noise=lambda: gpu_noise(self.clock)
        )
        self.cpu, self.gpu = (BlockTimer(workload=prepared(device, adding)) for device in (here, there))
        begun = self.clock()
        context = TrialContext(
            demand=demand or Demand(),
            options=options,
            order=order(),
            remaining=lambda: begun + allowed - self.clock(),
        )
        self.sampling = RoundSampler(context)

    @property
    def timers(self) -> list[BlockTimer]:
        return [self.cpu, self.gpu]

    def interleaved(self, loop=None) -> RoundSampler:
        self.sampling.take_interleaved(self.cpu, self.gpu, loop)
        return self.sampling

    def against(self, *cpu_samples, loop=None, cpu_lasted=inf) -> RoundSampler:
        self.sampling.take_against(cpu_samples, self.gpu, loop, cpu_lasted=cpu_lasted)
        return self.sampling

    def loop(self) -> BlockTimer:
        return loop_timer(self.gpu.workload, RunOptions())


def stepping(timer, times) -> None:
    """Let each call of a workload take the next of these times."""
    timer.workload = replace(timer.workload, call=lambda: timer.device.launch(next(times)))


def kept(sampling) -> list[tuple[float, float]]:
    return [(taken.cpu, taken.gpu) for taken in sampling.rounds]


def test_rounds_are_of_both_devices_until_there_are_enough():
    bench = Bench()
    found = bench.interleaved()
    assert [(pytest.approx(10e-3), pytest.approx(1e-3))] * 10 == kept(found)
    assert (10, 0, (), None) == (found.begun, found.dropped, found.throttle, found.throttled)
    assert kept(found) == list(zip(bench.cpu.samples, bench.gpu.samples, strict=True))
    assert found.elapsed == pytest.approx(10 * 11e-3)
    assert found.speedup("interleaved").value == pytest.approx(10)


def test_rounds_without_copies_have_none():
    assert [0.0] * 10 == [taken.copies for taken in Bench().interleaved().rounds]


def test_before_the_first_round_there_is_nothing():
    sampling = Bench().sampling
    assert ([], 0, 0, None) == (sampling.rounds, sampling.begun, sampling.dropped, sampling.elapsed)
    assert (None, None) == (sampling.speedup("interleaved"), sampling.throttled)


def test_a_round_that_raised_was_begun_and_those_before_it_stay():
    bench = Bench()
    stepping(bench.gpu, (1e-3 / left for left in (2, 1, 0)))
    with pytest.raises(ZeroDivisionError):
        bench.interleaved()
    assert (3, 2) == (bench.sampling.begun, len(bench.sampling.rounds))
    assert bench.gpu.is_running


def test_rounds_of_a_gpu_that_was_slowed_down_are_dropped_from_all_workloads_alike():
    bench = Bench(throttle=hot_in(2, 5))
    stepping(bench.cpu, (step * 10e-3 for step in count(1)))
    stepping(bench.gpu, (step * 1e-3 for step in count(1)))
    found = bench.interleaved()
    rounds = [step for step in range(1, 13) if step not in (2, 5)]
    assert [(pytest.approx(step * 10e-3), pytest.approx(step * 1e-3)) for step in rounds] == kept(found)
    assert [pytest.approx(step * 10e-3) for step in rounds] == list(bench.cpu.samples)
    assert [pytest.approx(step * 1e-3) for step in rounds] == list(bench.gpu.samples)
    assert (12, 2, (HOT,)) == (found.begun, found.dropped, found.throttle)
    assert found.elapsed == pytest.approx(sum(range(1, 13)) * 11e-3), (
        "time was spent on the dropped ones, too"
    )
    assert found.speedup("interleaved").rounds == 10


def test_rounds_are_dropped_from_the_copies_too():
    bench = Bench(throttle=hot_in(2, 5))
    loop = bench.loop()
    found = bench.interleaved(loop)
    assert [10, 10, 10] == [len(timer.samples) for timer in (*bench.timers, loop)]
    assert [pytest.approx(11e-3)] * 10 == list(loop.samples)
    assert [pytest.approx(10e-3)] * 10 == [taken.copies for taken in found.rounds]


def test_a_round_is_dropped_for_what_the_gpu_counted_in_it_and_not_for_its_state_after_it():
    bench = Bench(throttle=lambda: (HOT,))
    counted = {"nanoseconds": 0, "asked": 0}

    def counters():
        counted["asked"] += 1
        counted["nanoseconds"] += 7 * (counted["asked"] == 4)  # the second round's, after it
        return {HOT: counted["nanoseconds"]}

    bench.gpu.device.throttle_counters = counters
    found = bench.interleaved()
    assert (11, 1, (HOT,)) == (found.begun, found.dropped, found.throttle)


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
    found = Bench(throttle=hot_in(*range(1, 60, 2))).interleaved()
    assert found.throttled == (
        "the GPU was slowed down (power cap) in 13 of 25 rounds; improve its cooling or raise its power limit"
    )


@for_each(("expected", "hot"), [((11, 1), [1]), ((12, 2), [1, 2]), ((15, 3), [1, 2, 3])])
def test_sampling_goes_on_until_the_dropped_rounds_are_few(expected, hot):
    found = Bench(throttle=hot_in(*hot)).interleaved()
    assert expected == (found.begun, found.dropped)
    assert found.throttled is None


def test_sampling_ends_when_a_fifth_of_the_most_rounds_was_dropped():
    found = Bench(
        options=replace(TEN, sampling=replace(TEN.sampling, max_rounds=20)), throttle=hot_in(1, 2, 4, 6, 9)
    ).interleaved()
    assert (9, 5, 4) == (found.begun, found.dropped, len(found.rounds))
    assert "in 5 of 9 rounds" in found.throttled


def test_a_gpu_that_is_always_slowed_down_ends_without_a_speedup():
    bench = Bench(throttle=always)
    found = bench.interleaved()
    assert (13, 13, []) == (found.begun, found.dropped, found.rounds)
    assert found.speedup("interleaved") is None
    assert "in 13 of 13 rounds" in found.throttled
    assert [0, 0] == [len(timer.samples) for timer in bench.timers]


def test_dropped_rounds_take_no_longer_than_the_time_allowed():
    found = Bench(cpu=3.0, gpu=1.0, throttle=always, allowed=20.0).interleaved()
    assert (4, []) == (found.begun, found.rounds)  # of 4 s each, and time for two calls more
    assert Bench(cpu=3.0, gpu=1.0, throttle=hot_in(1, 2), allowed=20.0).interleaved().begun == 4


SLOW_ROUNDS = [(-1.0, 0), (1.0, 1), (32.0, 2), (70.0, 2)]  # of 30 s and 31 s: those for which there is time


@for_each(("allowed", "begun"), SLOW_ROUNDS)
def test_two_rounds_are_begun_while_there_is_time_dropped_or_not(allowed, begun):
    for throttle in (tuple, hot_in(1), always):
        assert Bench(cpu=30.0, throttle=throttle, allowed=allowed).interleaved().begun == begun


@for_each(("allowed", "begun"), SLOW_ROUNDS)
def test_one_device_alone_is_sampled_twice_while_there_is_time(allowed, begun):
    bench = Bench(cpu=30.0, allowed=allowed)
    bench.sampling.take_alone(bench.cpu, inf)
    assert bench.sampling.begun == len(bench.cpu.samples) == begun


def test_a_clear_demand_ends_with_the_precision_time():
    options = RunOptions(sampling=SamplingPlan(precision=0.0, precision_time=0.1))
    assert Bench(demand=Demand(min=3), options=options).interleaved().begun == 10


def test_rounds_against_variants_take_their_samples_one_by_one():
    bench = Bench(gpu=2e-3)
    found = bench.against(0.1, 0.2)
    assert [(0.1, bench.gpu.samples[0]), (0.2, bench.gpu.samples[1])] == kept(found)
    assert [pytest.approx(2e-3)] * 2 == list(bench.gpu.samples)
    assert len(bench.cpu.samples) == 0
    assert found.speedup("variants").sampling == "variants"


@for_each(("begun", "samples"), [(0, 0), (3, 3), (10, 50)])
def test_rounds_against_variants_end_with_their_samples_or_when_there_are_enough(begun, samples):
    bench = Bench()
    found = bench.against(*[0.1] * samples)
    assert [begun] * 3 == [found.begun, len(found.rounds), len(bench.gpu.samples)]


def test_a_dropped_round_takes_the_variants_sample_with_it():
    bench = Bench(throttle=hot_in(2))
    stepping(bench.gpu, iter([1e-3, 2e-3, 3e-3, 4e-3]))
    found = bench.against(0.1, 0.2, 0.3, 0.4)
    approximately = [(each, pytest.approx(each / 100)) for each in (0.1, 0.3, 0.4)]
    assert approximately == kept(found)
    assert [pytest.approx(1e-3), pytest.approx(3e-3), pytest.approx(4e-3)] == list(bench.gpu.samples)
    assert (4, 1) == (found.begun, found.dropped)


def test_rounds_against_variants_have_their_copies():
    bench = Bench(throttle=hot_in(2))
    loop = bench.loop()
    found = bench.against(0.1, 0.2, 0.3, loop=loop)
    assert [Round(cpu=0.1, gpu=pytest.approx(1e-3), copies=pytest.approx(10e-3))] == found.rounds[:1]
    assert [pytest.approx(11e-3)] * 2 == list(loop.samples)


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
    assert found.speedup("interleaved").value == pytest.approx(expected)
    assert [pytest.approx(10e-3)] * 10 == [taken.copies for taken in found.rounds]


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
    assert (None, None) == (sampling.elapsed, sampling.speedup("interleaved"))


def test_a_size_group_goes_on_until_its_speedup_is_told_from_the_threshold():
    rounds = {}
    for exclusions in ((), (Exclusion(1.0, 1.0),)):
        bench = Bench(cpu=1.005e-3, gpu=1e-3)
        context = TrialContext(demand=Demand(min=0.1), options=QUICK, order=order(), remaining=lambda: inf)
        sampling = RoundSampler(context, exclusions)
        sampling.take_interleaved(bench.cpu, bench.gpu)
        rounds[exclusions] = sampling.begun
    assert rounds == {(): 6, (Exclusion(1.0, 1.0),): 60}


def starts_of(device):
    """Return the list to which the device adds the time of each launch."""
    launch, starts = device.launch, []

    def launched(*arguments, **options):
        starts.append(device.clock())
        launch(*arguments, **options)

    device.launch = launched
    return starts


@for_each(("untimed", "pause", "limit"), [((1, 2), 12, 9.5), ((0, 0), 0, 3)])
def test_near_a_limit_each_round_follows_a_pause_and_blocks_that_are_not_sampled(untimed, pause, limit):
    bench = Bench(demand=Demand(min=limit), options=QUICK)
    starts = starts_of(bench.gpu.device)
    bench.interleaved()
    assert len(bench.sampling.rounds) == 6
    fewest, most = (1 + 5 * (each + 1) for each in untimed)
    assert fewest <= len(starts) <= most, "nothing precedes the first round"
    least, longest = (
        (6 + 5 * (share * pause + each)) * 11e-3 for share, each in zip((0.5, 1.5), untimed, strict=True)
    )
    assert 0.999 * least <= bench.sampling.elapsed <= 1.001 * longest


def test_the_blocks_that_are_not_sampled_come_in_an_order_drawn_afresh(monkeypatch):
    untimed = []
    monkeypatch.setattr(BlockTimer, "run_untimed", lambda timer: untimed.append(timer.device.kind))
    bench = Bench(demand=Demand(min=9.5), options=QUICK)
    bench.interleaved()
    pairs = [tuple(untimed[first : first + 2]) for first in range(0, len(untimed), 2)]
    assert {("cpu", "gpu"), ("gpu", "cpu")} == set(pairs)


def in_a_spell(end, **changes):
    """Return a bench whose GPU takes 1.2 times as long until `end`, with a limit that it then misses."""
    bench = Bench(
        demand=Demand(min=9.5),
        options=QUICK,
        gpu_noise=lambda clock: 1.2 if clock() < end else 1.0,
        **changes,
    )
    return bench.interleaved()


@for_each(
    ("expected", "confirmation", "end"), [("failed", "confirmed", inf), ("inconclusive", "contradicted", 1.2)]
)
def test_a_failure_near_a_limit_is_one_if_rounds_far_apart_fail_too(expected, confirmation, end):
    sampling = in_a_spell(end)
    found = sampling.speedup("interleaved")
    assert (found.rounds, found.confirmation) == (6, confirmation)
    assert found.value == pytest.approx(10 / 1.2)
    assert judge(found, Demand(min=9.5), RunOptions()).status == expected


def test_the_samples_of_a_second_measurement_are_not_kept():
    bench = Bench(gpu=1.2e-3, demand=Demand(min=9.5), options=QUICK)
    bench.interleaved()
    assert bench.sampling.speedup("interleaved").confirmation == "confirmed"
    assert [6, 6] == [len(timer.samples) for timer in bench.timers]
    assert bench.cpu.measurement.processors == pytest.approx(1.0), "as many as its samples kept busy"


def test_a_failure_that_there_is_no_time_to_confirm_is_a_doubt():
    assert in_a_spell(inf, allowed=1.2).speedup("interleaved").confirmation == "no_time"


@for_each("ratio", [5.0, 20.0])
def test_far_from_a_limit_nothing_is_confirmed(ratio):
    bench = Bench(gpu=10e-3 / ratio, demand=Demand(min=9.5), options=QUICK)
    assert bench.interleaved().speedup("interleaved").confirmation is None
    assert bench.sampling.elapsed < 0.1


def test_rounds_after_a_restart_need_more_evidence_so_that_all_together_spend_alpha_once():
    bench = Bench(demand=Demand(min=3), options=QUICK)
    assert bench.interleaved().begun == 6
    bench.sampling.restart()
    # of 0.025 a fifth is left for the restart: 0.7 * 2**n + 0.3 * (2**(n + 1) - 1) / (n + 1) >= 200
    assert bench.interleaved().begun == 9


def test_a_second_measurement_that_misses_another_limit_confirms_nothing():
    """At first it misses `min` and the limit of a baseline, and then the baseline's alone."""
    bench = Bench(gpu_noise=lambda clock: 1.3 if clock() < 1.2 else 1.08)
    context = TrialContext(demand=Demand(min=8.5), options=QUICK, order=order(), remaining=lambda: inf)
    sampling = RoundSampler(context, [Exclusion(9.6, 9.8)])
    sampling.take_interleaved(bench.cpu, bench.gpu)
    found = sampling.speedup("interleaved")
    assert (found.value, found.confirmation) == (pytest.approx(10 / 1.3), "contradicted")


def test_a_second_measurement_need_not_tell_what_the_first_did_not_miss():
    """A limit of a baseline around the value would never be told from it."""
    bench = Bench(gpu=1e-3 / 0.95)
    context = TrialContext(demand=Demand(min=10), options=QUICK, order=order(), remaining=lambda: inf)
    sampling = RoundSampler(context, [Exclusion(9.4, 9.6)])
    sampling.take_interleaved(bench.cpu, bench.gpu)
    assert sampling.speedup("interleaved").confirmation == "confirmed"


def test_an_error_in_a_second_measurement_keeps_the_samples_of_the_first():
    bench = Bench(gpu=1.2e-3, demand=Demand(min=9.5), options=QUICK)
    launch, calls = bench.gpu.device.launch, count(1)

    def launch_or_raise(*arguments, **changes):
        if next(calls) > 14:  # 6 rounds, 5 untimed blocks, and 2 rounds with 1 untimed block more
            raise RuntimeError("broken")
        launch(*arguments, **changes)

    bench.gpu.device.launch = launch_or_raise
    with pytest.raises(RuntimeError, match="broken"):
        bench.interleaved()
    found = bench.sampling.speedup("interleaved")
    assert (found.rounds, found.confirmation) == (6, "interrupted")
    assert [6, 6] == [len(timer.samples) for timer in bench.timers]


SLOW = RunOptions(max_time=10, sampling=SamplingPlan(precision_time=0.0))


@for_each(
    ("expected", "seconds", "spell"),
    [
        ("confirmed", 0.08, inf),
        ("contradicted", 0.08, 6 * 0.088),  # ends with the first six rounds
        ("no_time", 0.08, 26 * 0.088),  # lasts on, and more than six would have to agree
        ("no_time", 0.2, inf),
    ],
)
def test_of_slow_rounds_the_middle_ones_of_twelve_confirm_where_there_is_time_for_them(
    expected, seconds, spell
):
    bench = Bench(
        cpu=seconds,
        gpu=seconds / 10,
        demand=Demand(min=9.5),
        options=SLOW,
        allowed=10,
        gpu_noise=lambda clock: 1.2 if clock() < 0.3 + spell else 1.0,
    )
    found = bench.interleaved().speedup("interleaved")
    assert expected == found.confirmation
    assert found.rounds == 6
    assert bench.clock() < 10


def drifting(after):
    """Return the noise of a GPU whose rounds are like their neighbours: 1 to 1.06 and back; then `after`."""

    def noise(clock):
        step = round(clock() / 0.088) % 20
        return after if clock() > 20 * 0.088 else 1 + 0.006 * min(step, 20 - step)

    return noise


@for_each(
    ("expected", "rounds", "seconds", "after"),
    [
        (("confirmed", "passed"), 16, 0.08, 1.0),
        (("dependent", "inconclusive"), 16, 0.08, 1.2),
        ((None, "passed"), 6, 0.01, 1.0),  # these rounds sit apart
    ],
)
def test_slow_rounds_that_are_alike_meet_a_limit_if_others_far_apart_meet_it_too(
    expected, rounds, seconds, after
):
    demand = Demand(min=9)
    bench = Bench(
        cpu=seconds,
        gpu=seconds / 10,
        demand=demand,
        options=SLOW,
        allowed=10,
        gpu_noise=drifting(after) if seconds == 0.08 else lambda clock: 1.0,
    )
    found = bench.interleaved().speedup("interleaved")
    assert expected == (found.confirmation, judge(found, demand, SLOW).status)
    assert rounds == found.rounds


def test_slow_rounds_that_are_not_alike_meet_a_limit_without_others():
    bench = Bench(cpu=0.08, gpu=0.008, demand=Demand(min=9), options=SLOW, allowed=10)
    found = bench.interleaved().speedup("interleaved")
    assert (16, None) == (found.rounds, found.confirmation)
    assert bench.clock() < 0.2 + 16 * 0.088


def test_a_clock_of_its_own_that_does_not_pause_confirms_nothing():
    bench = Bench(gpu=1.2e-3, demand=Demand(min=9.5), options=QUICK)
    for device in (bench.cpu.device, bench.gpu.device):
        device.pause = None
    assert bench.interleaved().speedup("interleaved").confirmation == "no_time"


def test_a_second_measurement_ends_once_it_meets_the_limit():
    missed = [True]  # until the first measurement has ended
    bench = Bench(demand=Demand(min=9.5), options=QUICK, gpu_noise=lambda _: 1.2 if missed else 1.0)
    report = bench.sampling._report_round
    bench.sampling._report_round = lambda *counts: (
        report(*counts),
        bench.sampling.begun < 6 or missed.clear(),
    )
    starts = starts_of(bench.gpu.device)
    assert bench.interleaved().speedup("interleaved").confirmation == "contradicted"
    rounds, untimed = 6 + 6 * 11, 5 + 6  # once or twice as many blocks are untimed
    assert rounds + untimed <= len(starts) <= rounds + 2 * untimed


def test_an_interrupted_second_measurement_of_rounds_that_are_alike_is_no_doubt_of_theirs():
    drift = drifting(after=1.0)

    def drift_and_break(clock):
        if clock() > 22 * 0.088:
            raise KeyboardInterrupt
        return drift(clock)

    known = {"cpu": 0.08, "gpu": 0.008, "demand": Demand(min=9), "options": SLOW, "allowed": 10}
    bench = Bench(gpu_noise=drift_and_break, **known)
    with pytest.raises(KeyboardInterrupt):
        bench.interleaved()
    found = bench.sampling.speedup("interleaved")
    assert (found.rounds, found.confirmation) == (16, "interrupted")


def variants(spell, samples=30, cpu_lasted=300) -> tuple[Bench, RoundSampler]:
    """Return the rounds of variants that miss a limit by a fifth while the GPU is slow, for some seconds."""
    bench = Bench(
        cpu=12e-3,
        demand=Demand(min=10),
        options=RunOptions(),
        gpu_noise=lambda clock: 1.5 if clock() < 0.05 + spell else 1.0,
    )
    return bench, bench.against(*[12e-3] * samples, cpu_lasted=cpu_lasted)


def test_variants_that_miss_a_limit_but_not_by_far_are_sampled_for_three_quarters_of_their_time():
    bench, sampling = variants(inf)
    assert (30, "confirmed") == (len(sampling.rounds), sampling.speedup("variants").confirmation)
    assert bench.clock() == pytest.approx(7.5, rel=0.2)


def test_a_spell_in_which_variants_miss_a_limit_fails_none_of_them():
    _, sampling = variants(0.3)
    assert sampling.speedup("variants").confirmation is None
    assert len(sampling.rounds) < 30


def test_without_samples_of_the_cpu_that_last_or_are_left_variants_wait_for_nothing():
    for samples, cpu_lasted in [(30, 60), (6, 300)]:
        assert variants(inf, samples, cpu_lasted)[0].clock() < 0.5
    assert variants(inf, 30, 60)[1].speedup("variants").confirmation == "not_apart"


def test_few_samples_that_are_left_are_no_farther_apart_than_thirty_would_be():
    bench, sampling = variants(inf, 10)
    assert len(sampling.rounds) == 10
    assert bench.clock() < 10 * 1.5 * 7.5 / 30


def test_variants_far_from_a_limit_end_with_their_verdict():
    bench = Bench(cpu=12e-3, demand=Demand(min=30), options=RunOptions())
    assert len(bench.against(*[12e-3] * 30, cpu_lasted=300).rounds) < 30
    assert bench.clock() < 0.2


@for_each(("cpu", "samples", "together"), [(30e-3, 250, 250), (1e-3, 1100, 11)])
def test_one_device_alone_takes_eleven_samples_for_each_round_of_a_check(monkeypatch, cpu, samples, together):
    """For three quarters of its time, with pauses where there is time for them."""
    plan = for_gate(SamplingPlan(), GateOptions(create=True))
    bench = Bench(cpu=cpu, options=RunOptions(sampling=plan))
    begun, take = [], BlockTimer.take_sample
    monkeypatch.setattr(BlockTimer, "take_sample", lambda timer: begun.append(bench.clock()) or take(timer))
    bench.sampling.take_alone(bench.cpu, inf)
    assert len(bench.cpu.samples) == pytest.approx(samples, abs=1)
    assert bench.clock() < 7.6
    gaps = [later - earlier for earlier, later in pairwise(begun)]
    after_pauses = [place for place, gap in enumerate(gaps, 1) if gap > 1.5 * cpu]
    assert after_pauses == [*range(together, len(begun), together)]


@for_each("seed", range(8))
def test_sums_of_floats_do_not_make_enough_rounds_too_few(seed):
    """66 samples that follow each other last as long as six with pauses, whatever each of them takes."""
    chance = Random(seed)  # noqa: S311 - noise, not a secret
    bench = Bench(cpu=35e-3, demand=Demand(min=3), options=RunOptions())
    stepping(bench.cpu, (35e-3 * chance.lognormvariate(0, 0.1) for _ in count()))
    bench.sampling.take_alone(bench.cpu, inf)
    assert (66, 66.0) == (len(bench.cpu.samples), bench.sampling.lasted)
