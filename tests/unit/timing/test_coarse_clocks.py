"""Clocks of a device's own: the least time that they show, and what is measured by coarse ones."""

from dataclasses import replace
from math import floor, inf
from time import get_clock_info, perf_counter

import pytest
from cases import for_each
from walks import simulated, timer_on, walked, warmed_up

from pytest_gpuperf.devices.clock import step_of
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.timing import warm_up
from pytest_gpuperf.timing.gpu_clocks import GpuClocks
from pytest_gpuperf.timing.process_state import StateProbe

TICK = 1 / 64  # seconds: the steps of Windows' older clock


class Coarse:
    """A device whose own clock shows multiples of a step of another clock."""

    def __init__(self, device, step, clock=None) -> None:
        self._device, self._step, self._clock = device, step, clock or device.clock

    def clock(self) -> float:
        return floor(self._clock() / self._step + 1e-9) * self._step

    def __getattr__(self, name: str):
        return getattr(self._device, name)


class Still(Coarse):
    """One that cannot pause, whose clock may go by itself."""

    pause = None


def adding(device):
    a = device.asarray([1.0, 2.0])
    return lambda: a + 1


@for_each(
    ("step", "device"),
    [
        (TICK, Coarse(simulated(), TICK)),
        (1e-3, Coarse(simulated(), 1e-3)),
        (1e-9, simulated()),  # it is exact, and the first pause is as short
        (5e-3, Still(simulated(), 5e-3, perf_counter)),  # it goes by itself
        (0, Still(simulated(), 1e-3)),  # it stands still while nobody works
        (get_clock_info("perf_counter").resolution, HostDevice("a processor")),
    ],
)
def test_the_step_of_a_clock_is_found_without_any_work(step, device):
    assert pytest.approx(step, rel=1e-3) == step_of(device)


@for_each(("step", "kernel"), [(1e-3, 0.1e-3), (1e-3, 1.4e-3), (TICK, 6e-3), (TICK, 40e-3)])
def test_a_block_lasts_a_hundred_steps_of_the_devices_own_clock(step, kernel):
    timer = warmed_up(Coarse(simulated(kernel=kernel), step))
    assert 100 * step <= timer.block_calls * kernel * 1.02 <= 150 * step


def test_a_block_of_calls_that_are_waited_for_is_as_long_where_the_clock_is_coarse():
    device = Coarse(simulated(kernel=0.1e-3), 1e-3)
    timer = warm_up.warmed_up(device.launch, device, RunOptions())
    assert timer.block_calls * 0.1e-3 >= 0.1


def test_what_a_clock_does_not_show_took_an_unknown_time_and_no_time_at_all_is_an_error():
    timer = timer_on(Coarse(simulated(kernel=1e-6), 1e-3))
    with pytest.raises(GpuPerfError, match="1 calls took no time that the clock can show"):
        timer.take_sample()
    warm_up.warm_up(timer, RunOptions())
    assert pytest.approx(1e-6, rel=0.3) == timer.calls.fastest  # and not 0, of the first block
    with pytest.raises(
        GpuPerfError, match=r"the clock can show, whose steps are 1\.00 ms: does the workload"
    ):
        warmed_up(Coarse(simulated(kernel=0.0), 1e-3), call=lambda: None)


@for_each(("is_known", "step"), [(True, 1e-9), (False, 1e-3)])
def test_of_a_few_calls_a_coarse_clock_tells_too_little_to_hold_later_ones_against(is_known, step):
    timer = timer_on(Coarse(simulated(kernel=5e-3), step))
    timer.workload = replace(timer.workload, first_call=5e-3)
    assert is_known == (StateProbe(timer=timer, max_time=10.0).before < inf)


@for_each("on", [("cpu",), ("gpu",), ("cpu", "gpu")])
@for_each(
    ("status", "step", "seconds"),
    [("passed", 1e-3, 5e-3), ("inconclusive", TICK, 20e-3)],
)
def test_a_coarse_clock_shows_the_right_speedup_and_decides_what_its_few_rounds_do(status, step, seconds, on):
    clock = Clock()
    clock.advance(0.7 * step)
    devices = [
        simulated(kind, clock, kernel=kernel, bandwidth=1e4)
        for kind, kernel in (("cpu", 3 * seconds), ("gpu", seconds))
    ]
    found = walked(
        adding, *(Coarse(each, step) if each.kind in on else each for each in devices), Demand(min=2.4)
    )
    assert (status, pytest.approx(3, rel=0.02)) == (found.status, found.speedup.value), found.reason
    assert (None, None) == (found.interference, found.restart_reason)


def test_a_gpu_is_brought_to_its_speed_by_blocks_that_a_coarse_clock_does_not_show():
    device = simulated(kernel=0.3e-3)
    timer = timer_on(Coarse(device, 1e-3))
    timer.clocks.gpu = GpuClocks(ramp=20e-3, ended=-1.0)
    timer.raise_clocks()
    assert 66 <= device.launches <= 70
