"""Calls that take another time after a quick verdict: later blocks show it, and measuring begins again."""

from itertools import chain, count, repeat

import pytest
import walks
from cases import for_each
from walks import trial_of, warmed_up

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.rounds import for_unmarked


def simulated(kind, kernel, clock=None, factors=()) -> SimulatedDevice:
    """Return a device whose first calls take so many times as long."""
    left = chain(factors, repeat(1.0))
    return walks.simulated(kind, clock, kernel=kernel, noise=lambda: next(left))


def sampled(device, samples=6) -> BlockTimer:
    timer = warmed_up(device)
    for _ in range(samples):
        timer.take_sample()
    return timer


def compared(*, cpu=1e-3, gpu=1e-3, first=(), on="cpu", demand=None, options=None) -> Record:
    clock = Clock()
    devices = [
        simulated(kind, kernel, clock, first if kind == on else ())
        for kind, kernel in (("cpu", cpu), ("gpu", gpu))
    ]
    trial = trial_of(demand or Demand(min=1.25), options)
    return trial.record(trial.compare(lambda device: lambda: device.xp.ones(4), *devices))


UNMARKED = RunOptions(sampling=for_unmarked(SamplingPlan(), GateOptions()))


@for_each(
    ("kernel", "calls", "samples"),
    [(0.2e-3, 256, 6), (0.5e-3, 256, 6), (1e-3, 64, 6), (5e-3, 64, 6), (20e-3, 24, 6), (1e-3, 106, 100)],
)
def test_later_blocks_follow_so_many_calls_and_at_once_after_many_samples(kernel, calls, samples):
    device = simulated("cpu", kernel)
    timer = sampled(device, samples)
    assert timer.changed_late(10.0) is None
    made = device.launches + 1  # with the first call, of the setup
    assert calls - 1 <= made <= calls + 2 * timer.block_calls


@for_each(
    ("expected", "change"),
    [(1e-3, 0.5), (1e-3, 0.8), (None, 0.85), (None, 1.15), (1e-3, 1.25), (1e-3, 3.0)],
)
def test_calls_that_take_another_time_later_by_a_fifth_have_changed(expected, change):
    timer = sampled(simulated("cpu", 1e-3, factors=repeat(1 / change, 40)))
    assert timer.changed_late(10.0) == (expected and pytest.approx(expected))


def test_three_slow_blocks_are_no_change_where_six_more_are_as_before():
    steps = count()
    device = SimulatedDevice(
        "cpu",
        clock=Clock(),
        timing=Timing(kernel=1e-3),
        noise=lambda: 2.0 if next(steps) in range(60, 64) else 1.0,
    )
    timer = sampled(device)
    launches = device.launches
    assert timer.changed_late(10.0) is None
    assert device.launches >= launches + 9 * timer.block_calls


def test_without_time_for_as_many_samples_again_nothing_is_made():
    device = simulated("cpu", 1e-3, factors=repeat(2.0, 40))
    timer = sampled(device)
    launches = device.launches
    assert (None, launches) == (timer.changed_late(0.1), device.launches)


@for_each(("on", "demand"), [("cpu", Demand(min=1.07)), ("gpu", Demand(max=0.93))])
@for_each("slower", [2.2, 5.0])
def test_what_is_slow_in_its_first_calls_is_measured_again(on, demand, slower):
    """They meet the limit by a factor of two, which the first look decides, and later ones miss it."""
    found = compared(on=on, first=repeat(slower, 50), demand=demand)
    assert (found.status, found.speedup.value) == ("failed", pytest.approx(1.0))
    assert found.restart_reason == (
        f"on the {on.upper()} later calls took 1.00 ms each, and the timed ones {slower:.2f} ms"
    )


def test_what_stays_as_it_was_is_measured_once():
    found = compared(cpu=3e-3)
    assert (found.status, found.restart_reason) == ("passed", None)


def test_a_test_without_a_limit_records_what_later_calls_take():
    found = compared(first=repeat(5.0, 50), demand=Demand())
    assert (found.status, found.speedup.value) == ("recorded", pytest.approx(1.0))
    assert found.restart_reason is not None


def test_what_nobody_marked_is_not_looked_at_again():
    found = compared(first=repeat(5.0, 50), demand=Demand(), options=UNMARKED)
    assert (found.restart_reason, found.notes) == (None, ())


def test_a_verdict_that_took_a_quarter_of_a_second_stands():
    found = compared(cpu=60e-3, gpu=1e-3, first=repeat(3.0, 12))
    assert (found.status, found.restart_reason, found.rounds_elapsed > 0.25) == ("passed", None, True)
