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
from pytest_gpuperf.timing.trial import Trial


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


@for_each(("kernel", "calls"), [(0.2e-3, 256), (0.5e-3, 256), (1e-3, 64), (5e-3, 64), (20e-3, 24)])
def test_later_blocks_follow_so_many_calls(kernel, calls):
    device = simulated("cpu", kernel)
    timer = sampled(device)
    assert timer.changed_late(10.0) is None
    assert (
        calls - 1 <= device.launches + 1 <= calls + 2 * timer.block_calls
    )  # with the first call, of the setup


def test_after_many_calls_only_the_later_blocks_are_left():
    device = simulated("cpu", 1e-3)
    timer = sampled(device, samples=100)
    launches = device.launches
    assert timer.changed_late(10.0) is None
    assert device.launches - launches == 3 * timer.block_calls


@for_each("change", [0.5, 0.8, 1.25, 3.0])
def test_calls_that_take_another_time_later_have_changed(change):
    device = simulated("cpu", 1e-3, factors=chain(repeat(1 / change, 40)))
    assert sampled(device).changed_late(10.0) == pytest.approx(1e-3)


@for_each("change", [0.85, 1.0, 1.15])
def test_a_difference_of_less_than_a_fifth_is_no_change(change):
    assert sampled(simulated("cpu", 1e-3, factors=repeat(1 / change, 40))).changed_late(10.0) is None


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


def test_measuring_begins_again_once(monkeypatch):
    """Calls become 2x faster after every 60th one."""
    begun = []
    monkeypatch.setattr(Trial, "_restart", lambda *timers, do=Trial._restart: begun.append(do(*timers)))
    steps = chain.from_iterable(repeat(2.0**-spell, 60) for spell in range(9))
    compared(cpu=3e-3, first=steps)
    assert len(begun) == 1


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
