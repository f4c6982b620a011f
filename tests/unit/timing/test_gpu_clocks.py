"""A GPU's clocks: brought to those of steady work once, and again after pauses where that matters."""

from dataclasses import replace
from math import inf

import pytest
from cases import for_each

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.gpu_clocks import clocks_of
from pytest_gpuperf.timing.trial import Trial
from pytest_gpuperf.timing.workload import Workload

KERNEL = 1.5e-3


class Clocked(SimulatedDevice):
    """A GPU that is no emulation: the first millisecond of work after 8 ms without any takes longer."""

    def __init__(self, *, after_idling=1.0, slow_until=0.0, clock=None):
        super().__init__(
            "gpu", clock=clock or Clock(), timing=Timing(kernel=KERNEL), noise=lambda: self._factor()
        )
        self.info = replace(self.info, emulated=False)
        self._after_idling, self._slow_until = after_idling, slow_until
        self._busy_until = 0.0

    def _factor(self):
        now = self.clock()
        factor = self._after_idling if now - self._busy_until > 8e-3 else 1.0
        factor *= 2.0 if now < self._slow_until else 1.0
        self._busy_until = now + KERNEL * factor
        return factor


def settled(device, remaining=inf) -> BlockTimer:
    timer = BlockTimer(workload=Workload(device=device, call=device.launch, scope="call"))
    timer.warm_up(RunOptions())
    timer.settle_clocks(RunOptions(), remaining)
    return timer


def sample_after(timer, idle) -> float:
    timer.device.pause(idle)
    timer.take_sample()
    return timer.samples[-1]


@for_each("factor", [1.3, 0.85])
def test_where_pauses_change_the_times_a_block_runs_untimed_after_each_pause(factor):
    timer = settled(Clocked(after_idling=factor))
    assert timer.measurement.depends_on_idling is True
    launches = timer.device.launches
    assert [pytest.approx(KERNEL)] * 3 == [sample_after(timer, idle) for idle in (0.02, 0.0, 0.02)]
    assert timer.device.launches - launches == 5


@for_each("factor", [1.0, 1.015])
def test_where_they_do_not_no_block_runs_untimed(factor):
    timer = settled(Clocked(after_idling=factor))
    assert timer.measurement.depends_on_idling is False
    launches = timer.device.launches
    sample_after(timer, 0.02)
    assert timer.device.launches - launches == 1


def test_clocks_that_rise_late_are_waited_for():
    timer = settled(Clocked(slow_until=0.4))
    assert timer.device.clock() > 0.4
    assert (True, pytest.approx(KERNEL)) == (timer.steady, sample_after(timer, 0.0))


def test_blocks_of_risen_clocks_are_as_long_as_the_plan_says():
    device = Clocked(slow_until=0.1)
    timer = BlockTimer(workload=Workload(device=device, call=lambda: device.launch(30e-6), scope="call"))
    timer.warm_up(RunOptions())
    timer.settle_clocks(RunOptions(), inf)
    timer.take_sample()
    assert timer.samples[0] * timer.block_calls >= 1e-3


def test_the_record_has_the_lowest_and_the_highest_clock_after_timed_blocks():
    device = Clocked()
    timer = settled(device)
    for mhz in (1755, 1980, 1410):
        device.sm_mhz = lambda mhz=mhz: mhz
        timer.take_sample()
    device.sm_mhz = lambda: 345
    timer.run_untimed()
    found = timer.measurement
    assert (1410, 1980) == (found.lowest_sm_mhz, found.highest_sm_mhz)
    timer.restart()
    assert (None, None) == (timer.measurement.lowest_sm_mhz, timer.measurement.highest_sm_mhz)


def test_the_clock_is_read_outside_of_the_timed_block():
    device = Clocked()
    timer = settled(device)
    device.sm_mhz = lambda: device.pause(1.0) or 1980
    timer.take_sample()
    assert [pytest.approx(KERNEL)] == list(timer.samples)


def test_a_gpu_that_does_not_tell_its_clock_has_none():
    timer = settled(Clocked())
    timer.take_sample()
    assert (None, None) == (timer.measurement.lowest_sm_mhz, timer.measurement.highest_sm_mhz)


def test_a_gpu_is_asked_once_in_a_process():
    device = Clocked(after_idling=1.3)
    settled(device)
    launches = device.launches
    second = settled(device)
    assert (3, True) == (device.launches - launches, second.measurement.depends_on_idling)
    assert settled(Clocked()).measurement.depends_on_idling is False


@for_each("device", [SimulatedDevice("gpu", clock=Clock()), SimulatedDevice("cpu", clock=Clock())])
def test_a_cpu_and_an_emulated_gpu_have_no_clocks_of_their_own(device):
    assert clocks_of(device) is None
    timer = settled(device)
    assert (3, None) == (device.launches, timer.measurement.depends_on_idling)


def test_without_time_for_it_the_clocks_are_left_as_they_are():
    timer = settled(Clocked(after_idling=1.3), remaining=1.0)
    assert timer.measurement.depends_on_idling is None


def test_a_long_block_is_of_steady_clocks_by_itself():
    device = Clocked(after_idling=1.3)
    settled(device)
    long = BlockTimer(workload=Workload(device=device, call=lambda: device.launch(0.3), scope="call"))
    long.warm_up(RunOptions())
    launches = device.launches
    sample_after(long, 0.02)
    assert device.launches - launches == 1


def test_a_device_that_cannot_be_remembered_is_asked_in_each_test():
    class Slotted:
        __slots__ = ("info", "kind")

    device = Slotted()
    device.kind, device.info = "gpu", Clocked().info
    assert clocks_of(device) is not clocks_of(device)


@for_each("transfer", ["never", "always"])
def test_a_slow_cpu_beside_it_leaves_a_gpu_at_the_clocks_of_steady_work(transfer):
    clock = Clock()
    cpu = SimulatedDevice("cpu", clock=clock, timing=Timing(kernel=30e-3))
    gpu = Clocked(after_idling=1.3, clock=clock)
    trial = Trial(nodeid="test_it", demand=Demand(min=3, transfer=transfer), options=RunOptions())
    found = trial.record(trial.compare(lambda device: lambda: lambda: device.xp.ones(3), cpu, gpu))
    assert found.gpu.depends_on_idling is True
    assert [pytest.approx(KERNEL)] * len(found.gpu.samples) == list(found.gpu.samples)
    loop = list(found.transfer.loop)
    assert [pytest.approx(KERNEL, rel=1e-3)] * len(loop) == loop
    assert loop


class Stopping(Clock):
    until = inf

    def __call__(self):
        return min(self.now, self.until)


def test_a_clock_that_stands_still_is_an_error_and_not_waited_for():
    device = Clocked(clock=Stopping())
    timer = BlockTimer(workload=Workload(device=device, call=device.launch, scope="call"))
    timer.warm_up(RunOptions())
    device.clock.until = device.clock()
    with pytest.raises(GpuPerfError, match="took no time that the clock can show"):
        timer.settle_clocks(RunOptions(), inf)
