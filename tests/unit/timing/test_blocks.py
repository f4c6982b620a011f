"""Blocks, warm-up and rounds, on devices whose every time is known."""

import gc
from array import array
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import count, cycle, repeat
from math import ceil
from random import Random
from time import sleep
from types import SimpleNamespace

import pytest
from cases import for_each
from walks import simulated, system, time_block, timer_on, walked, warmed_up

from pytest_gpuperf.analysis.turns import Alone
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.timing import blocks, warm_up
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.rounds import for_unmarked

UNMARKED = RunOptions(sampling=for_unmarked(SamplingPlan(), GateOptions()))


class Recorder(TimedDevice):
    """A device that writes down when its clock was read and when it was waited for."""

    def __init__(self):
        self.steps = []
        self._now = count()

    def clock(self):
        self.steps.append("clock")
        return float(next(self._now))

    def synchronize(self):
        self.steps.append("synchronize")


Recorder.__abstractmethods__ = frozenset()  # it holds no array


class Waiter(Recorder):
    """A device that waits for results; it may have work `left` that no result waits for."""

    def __init__(self, *left):
        super().__init__()
        self.left = [*left]

    def wait(self, result):
        self.steps.append(f"wait for {result}")

    def unfinished(self):
        self.steps.append("look")
        return self.left


@for_each(
    ("steps", "seconds", "device", "calls_wait"),
    [
        ("call, call, synchronize, clock", 1, Recorder(), False),
        ("call, call, wait for None, wait for 2, clock, look", 1, Waiter(), False),
        ("call, wait for 1, call, wait for 2, clock, look", 1, Waiter(), True),
        # Where each call was waited for, what is left is looked for when the time was read.
        ("call, synchronize, call, synchronize, clock, clock, synchronize, clock", 1, Recorder(), True),
        # Of what no result waits for the wait counts, and not to look for it.
        (
            "call, call, wait for None, wait for 2, clock, look, clock, wait for ['b'], clock",
            2,
            Waiter("b"),
            False,
        ),
    ],
)
def test_a_block_is_waited_for_on_both_sides_of_its_calls_by_its_last_result_where_that_is_possible(
    steps, seconds, device, calls_wait
):
    results = count(1)

    def call():
        device.steps.append("call")
        return next(results)

    timed = blocks.waited_for(call, device) if calls_wait else call
    assert seconds / 2 == time_block(timed, 2, device, calls_wait=calls_wait, empty_wait=1.0)
    assert f"synchronize, clock, {steps}" == ", ".join(device.steps)


@for_each("wait", [0.0, 5e-6, 60e-6, 200e-6])
def test_a_loop_of_awaited_calls_takes_their_waits_and_no_more(wait):
    device = simulated(kernel=40e-6, synchronize=wait)
    timer = warm_up.per_call(warmed_up(device), RunOptions())
    timer.take_sample()
    assert timer.block_calls > 1
    assert pytest.approx(40e-6 + wait, rel=1e-9) == timer.samples[0]


@for_each("wait", [0.0, 5e-6])
def test_work_that_piles_up_where_no_call_waits_for_it_counts(wait):
    """As that of another stream, behind calls that wait for the copy of their result alone."""
    device = simulated(kernel=1e-3, synchronize=wait)
    found = time_block(device.launch, 50, device, calls_wait=True, empty_wait=wait)
    assert pytest.approx(1e-3, rel=1e-9) == found


def test_the_cost_of_an_empty_synchronize_is_its_least():
    device = simulated()
    costs = iter([9.0, 3.0, 5.0, 9.0, 9.0, 1.0, 8.0, 8.0, 9.0, 9.0])
    device.synchronize = lambda: device.clock.advance(next(costs, 0.0))
    timer = warmed_up(device, call=lambda: device.clock.advance(100.0), options=RunOptions(max_time=1e4))
    assert timer.warmup.synchronize_cost == 1.0


@pytest.mark.parametrize(
    ("calls", "steady", "times", "max_time"),
    [
        (6, True, [9e-3, 4e-3, 2.4e-3, 2.08e-3, 2e-3, 2.08e-3], 10),
        (1 + 3 * 2, True, repeat(0.6e-3), 10),
        (9, True, [2e-3, 2.12e-3] * 3 + [2e-3] * 3, 10),
        (7, False, cycle([11e-3, 20e-3]), 10),  # 0.1 s are over
        (2, False, repeat(0.12), 10),
        (2, False, repeat(0.3), 10),
        (1, False, repeat(0.3), 1),
        (1, False, repeat(30.0), 10),
    ],
    ids=[
        "until three blocks agree",
        "a block that was too short does not count",
        "nor those that differ by more than the plan allows",
        "an unsteady workload, for a tenth of a second",
        "three calls of a slow one in all",
        "of a slower one, too",
        "one more in a quarter of the time at most",
        "and of a very slow one",
    ],
)
def test_warm_up_ends_when_blocks_agree_or_its_time_is_over(calls, steady, times, max_time):
    device, left = simulated(), iter(times)
    timer = warmed_up(device, lambda: device.launch(next(left)), RunOptions(max_time=max_time))
    assert (1 + calls, steady) == (timer.warmup.calls, timer.warmup.steady)
    assert timer.warmup.elapsed == pytest.approx(device.clock())


@for_each(("most", "wait", "takes"), [(10101, 0.0, 0.0), (1, 1e-6, 1.01)])
def test_a_workload_that_takes_no_time_of_a_simulated_clock_is_an_error_and_no_hang(most, wait, takes):
    calls = count(1)
    with pytest.raises(GpuPerfError, match="calls take no time that the clock can show"):
        warmed_up(simulated(synchronize=wait), call=lambda: (next(calls), sleep(takes)))
    assert next(calls) <= most + 1


def test_what_a_simulated_clock_hardly_sees_is_found_within_seconds_of_the_hosts(monkeypatch):
    host, device = Clock(), simulated()
    monkeypatch.setattr(warm_up, "perf_counter", host)
    with pytest.raises(GpuPerfError, match="calls take no time that the clock can show"):
        warmed_up(device, lambda: (host.advance(50e-6), device.launch(1e-12)))
    assert host() < 4, "40,000 calls in two seconds, and no million"


def filled(device, call=None) -> BlockTimer:
    timer = warmed_up(device, call)
    warm_up.fill_pipeline(timer, RunOptions(), remaining=10.0)
    return timer


@for_each("seconds", [0.2e-3, 0.6e-3, 1e-3, 3e-3])
def test_a_block_is_long_enough_to_show_how_host_and_device_overlap(seconds):
    """The host's part of a call is as long as the device's: alone it takes twice what it takes in a loop."""
    timer = filled(simulated(kernel=seconds, launch=seconds))
    timer.take_sample()
    assert timer.samples[0] == pytest.approx(seconds, rel=0.05)
    assert timer.samples[0] * timer.block_calls <= 0.101
    assert timer.warmup.overlap_left == pytest.approx(1 / (1 + timer.block_calls))


class Polled(SimulatedDevice):
    """A GPU that the host looks for each `every` seconds: by the clock, or from when the wait began."""

    def __init__(self, kernel, every, *, from_wait):
        super().__init__("gpu", clock=Clock(), timing=Timing(kernel=kernel))
        self.every, self.from_wait, self.waited_for = every, from_wait, 0

    def synchronize(self):
        began = self.clock()
        super().synchronize()
        if self.launches > self.waited_for:
            since = began if self.from_wait else 0.0
            self.clock.now = since + ceil((self.clock() - since) / self.every - 1e-9) * self.every
        self.waited_for = self.launches


@for_each("from_wait", [False, True])
@for_each(
    ("every", "kernel"),
    # Blocks of k and 2k calls hide the wait from 1.6 ms on; the last end as the host looks.
    [(1e-3, 0.1e-3), (1e-3, 0.6e-3), (1e-3, 1.6e-3), (1e-3, 5.3e-3), (10e-3, 0.1e-3), (10e-3, 16e-3)],
)
def test_a_block_is_long_beside_the_time_between_two_looks_for_the_device(every, kernel, from_wait):
    timer = filled(Polled(kernel, every, from_wait=from_wait))
    assert timer.block_calls * kernel >= min(30 * every, 0.075)


def test_a_block_that_ends_as_the_host_looks_is_compared_with_one_that_begins_between_two_looks():
    timer = filled(Polled(1.98e-3, 1e-3, from_wait=False))
    assert timer.block_calls * 1.98e-3 >= 30e-3


@for_each(("kernel", "longest"), [(0.1e-3, 7), (4e-3, 3)])  # seconds of a call
def test_an_ordinary_device_has_three_pairs_and_two_blocks_more_of_several_times_as_many_calls_and_of_as_many(
    kernel, longest
):
    device = simulated(kernel=kernel)
    timer = warmed_up(device)
    calls, before = timer.block_calls, device.launches
    warm_up.fill_pipeline(timer, RunOptions(), remaining=10.0)
    assert calls * (3 * (1 + 2) + longest + 1) == device.launches - before


def test_a_wait_that_always_takes_as_long_does_not_go_on_for_ever():
    timer = filled(Polled(1e-9, 4e-3, from_wait=True))
    assert (7**4, None) == (timer.block_calls, timer.warmup.overlap_left)


def test_only_where_the_device_works_on_while_the_host_submits_blocks_are_compared():
    dispatching, asynchronous = simulated("cpu"), simulated("gpu")
    dispatching.wait = lambda result: dispatching.synchronize()  # as JAX's, on a CPU, too
    group = DeviceGroup([simulated("gpu"), simulated("gpu")])  # emulated: its devices wait for each other
    for expected, timer in (
        (True, timer_on(asynchronous)),
        (True, timer_on(dispatching)),
        (False, timer_on(simulated("cpu"))),
        (False, timer_on(asynchronous, calls_wait=True)),
        (False, timer_on(group, group.all[0].launch)),
    ):
        warm_up.warm_up(timer, RunOptions())
        warm_up.fill_pipeline(timer, RunOptions(), remaining=10.0)
        assert expected == (timer.warmup.overlap_left is not None)


@for_each("seed", range(8))
@for_each(
    ("kernel", "spread", "most"),
    [(1e-3, 0.02, 5), (4e-3, 0.02, 1), (40e-3, 0.03, 1), (90e-3, 0.03, 1), (0.3, 0.03, 1)],
)
def test_what_noise_alone_may_show_makes_a_block_five_times_the_least_one_at_most(seed, kernel, spread, most):
    """Of long blocks there are one or two pairs, which show no overlap."""
    draws = Random(seed)  # noqa: S311 - noise, not a secret
    timer = filled(simulated(kernel=kernel, noise=lambda: draws.lognormvariate(0, spread)))
    assert (timer.block_calls <= most, timer.warmup.overlap_left) == (True, 0.0)


def test_what_a_few_blocks_of_a_noisy_machine_seem_to_show_surely_is_looked_at_once_more():
    """Three times that lie close together by chance would show an overlap in 5 of 100 tests."""
    long = 0
    for seed in range(100):
        draws, device, pace = Random(seed), simulated(), [1.0]  # noqa: S311 - noise, not a secret
        synchronize = device.synchronize

        def change_pace(draws=draws, pace=pace, synchronize=synchronize):
            synchronize()
            pace[0] = draws.lognormvariate(0, 0.05)  # of a whole block

        device.synchronize = change_pace
        timer = filled(device, lambda device=device, pace=pace: device.launch(0.14e-3 * pace[0]))
        long += timer.block_calls > 60  # of 7 that fill it, 35 for what noise may hide
    assert long <= 1


@for_each(("options", "remaining"), [(RunOptions(), 0.3), (UNMARKED, 10.0)])
def test_blocks_are_as_short_as_a_short_time_for_them_asks(options, remaining):
    """Of 100 calls otherwise: six blocks fit into 0.05 s, and fifty into what is left."""
    timer = warmed_up(simulated(kernel=1e-3, launch=1e-3))
    warm_up.fill_pipeline(timer, options, remaining)
    assert timer.block_calls < 10


def test_blocks_that_other_work_made_as_long_as_twice_as_many_calls_say_nothing():
    device, made = simulated(), []

    def synchronize():
        device.clock.advance({0: 0.0, 1: 80e-3, 2: 78e-3}[len(made)])
        made.clear()

    device.synchronize = synchronize
    timer = filled(device, lambda: made.append(1))
    assert (timer.block_calls, timer.warmup.overlap_left) == (1, None)


@for_each("step", [BlockTimer.take_sample, partial(warm_up.warm_up, options=RunOptions())])
def test_the_garbage_collector_is_off_inside_blocks_and_on_again_though_one_raised(step):
    device, states = simulated(), []
    step(timer_on(device, lambda: (states.append(gc.isenabled()), device.launch())))
    assert (set(states), gc.isenabled()) == ({False}, True)
    timer = timer_on(simulated(), call=lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        step(timer)
    assert gc.isenabled()
    assert timer.is_running == (step == BlockTimer.take_sample)
    assert timer.samples == array("d")


def test_a_block_that_takes_no_time_is_an_error_and_no_infinite_speedup():
    timer = timer_on(simulated(kernel=0.0), call=lambda: None)
    with pytest.raises(GpuPerfError, match="took no time that the clock can show"):
        timer.take_sample()
    assert not timer.samples


def busy(waited=9.0) -> BlockTimer:
    timer = timer_on(simulated("cpu", kernel=0.5), block_calls=4, keeps_result=True)
    timer.take_sample()
    timer.processors.waited = waited
    return timer


def on_one_thread(threads=2):
    """Let a call on one thread need 0.2 s, which so many threads can share."""
    return system(None, thread_time=count(0.0, 0.2 * 4).__next__, one_thread=lambda: nullcontext(threads))


def test_what_a_call_needs_on_one_thread_is_its_own_however_long_others_kept_it_waiting():
    timer = busy()
    assert timer.interference.own_share == 0.0
    with on_one_thread():
        timer.measure_least_time(remaining=60.0)
    assert timer.measurement.least_time == pytest.approx(0.1)
    assert timer.interference.own_share == pytest.approx(0.2)
    assert len(timer.samples) == 1


def test_the_last_result_is_not_one_of_a_single_thread_which_may_round_in_another_way():
    timer, threads = busy(), ["all"]
    timer.workload = replace(timer.workload, call=lambda: timer.device.launch() or threads[-1])

    @contextmanager
    def one_thread():
        threads.append("one")
        yield 2
        threads.pop()

    with system(None, thread_time=count(0.0, 0.8).__next__, one_thread=one_thread):
        timer.measure_least_time(remaining=60.0)
    assert (pytest.approx(0.1), "all") == (timer.processors.least_time, timer.last_result)


@for_each(
    ("waited", "remaining", "threads"), [(0.1, 60.0, 2), (9.0, 7.9, 2), (9.0, -1.0, 2), (9.0, 60.0, None)]
)
def test_what_a_call_needs_is_measured_only_where_that_matters_and_can_be_had_in_time(
    waited, remaining, threads
):
    timer = busy(waited)
    last = timer.last_result = object()
    with on_one_thread(threads):
        timer.measure_least_time(remaining)
    assert timer.processors.least_time is None
    assert timer.last_result is last


@for_each(
    ("expected", "waited", "fastest"),
    [(None, 0.2, 1.0), (0.6, 0.4, 1.0), (0.25, 0.0, 0.25), (None, None, 0.25)],
)
def test_what_disturbed_the_samples_of_an_emulated_gpu_is_taken_off_where_its_threads_are_seen_to_wait(
    expected, waited, fastest
):
    timer = timer_on(simulated())
    timer.samples.extend([0.5, 0.5])
    timer.processors.waited, timer.calls.fastest = waited, fastest / 2
    found = timer.interference
    assert expected == (found and pytest.approx(found.own_share))


def test_a_restart_discards_what_calls_took_while_no_other_device_worked():
    timer = timer_on(simulated(kernel=1e-3))
    timer.alone.append(Alone.of([[1e-3]] * 10))
    assert pytest.approx(1e-3) == timer.measurement.alone
    timer.restart()
    assert timer.measurement.alone is None


class Watched(SimpleNamespace):
    """What a library did in a first call besides the work."""

    on_cpu, captured, constant = (), None, ()


class Compiling(SimulatedDevice):
    """A device whose library compiles: `compiled` programs so far, and what was watched of a call."""

    compiled = 0
    watched = Watched()

    def compile(self, seconds):
        self.compiled += 1
        self.launch(seconds)

    def compilations(self):
        return self.compiled

    def watch(self):
        return nullcontext(self.watched)


def walk(body, *watched, cpu=10e-3, gpu=1e-3, **options) -> dict[str, str]:
    """Return the notes on a body that passes on a CPU and a GPU that compile."""
    clock, devices = Clock(), []
    for kind, seconds in (("cpu", cpu), ("gpu", gpu)):
        devices.append(Compiling(kind, clock=clock, timing=Timing(kernel=seconds)))
    for device, seen in zip(devices, watched, strict=False):
        device.watched = seen
    record = walked(body, *devices, **options)
    assert max(record.gpu.samples) == pytest.approx(gpu)
    assert len({note.code for note in record.notes}) == len(record.notes), "each is said once"
    return {note.code: note.text for note in record.notes}


def slow_at_first(device, seconds=6.0):
    calls = iter([seconds])
    return lambda: device.launch(next(calls, None))


def compiling(device, *, on, at, seconds=0.5):
    """Return a call that compiles at these numbers of its calls."""
    calls = count(1)

    def work():
        device.launch()
        if next(calls) in at and device.kind == on:
            device.compile(seconds)

    return work


@pytest.mark.parametrize(
    ("code", "said", "body", "watched"),
    [
        ("long_warm_up", "took 12.0 s (6.00 s on the CPU, 6.00 s on the emulated device)", slow_at_first, ()),
        ("recompiles", "in 3 timed blocks", partial(compiling, on="gpu", at=range(24, 27)), ()),
        ("not_on_device", "arrays (65.54KB)", slow_at_first, [Watched(captured="65.54KB")] * 2),
        ("not_on_device", "to the CPU: eig;", slow_at_first, [Watched(), Watched(on_cpu=("eig",))]),
    ],
    ids=["first calls", "compiled in timed blocks", "constants beside arguments", "left to the CPU"],
)
def test_what_a_library_did_beside_the_work_is_noted_and_in_no_sample_or_limit(code, said, body, watched):
    assert said in walk(body, *watched)[code]


@for_each(("seconds", "kernel"), [(0.4, 1e-3), (None, 1e-3), (None, 2.0)])
def test_short_first_calls_and_those_that_take_as_long_as_later_ones_have_no_note(seconds, kernel):
    body = partial(slow_at_first, seconds=seconds)
    assert "long_warm_up" not in walk(body, cpu=2 * kernel, gpu=kernel, max_time=40.0)


@for_each(
    ("said", "body", "watched"),
    [
        ("again and again, in each of 11 timed blocks", partial(compiling, on="cpu", at=range(10**4)), ()),
        ("the compiler does that work; pass them", slow_at_first, [Watched(), Watched(constant=("step",))]),
    ],
)
def test_a_call_that_goes_on_to_compile_or_computes_from_constants_is_an_error(said, body, watched):
    with pytest.raises(GpuPerfError, match=said):
        walk(body, *watched)
