"""A GPU's clocks: how long they rise after idling, and the untimed work that raises them."""

from dataclasses import replace
from math import inf

import pytest
from cases import for_each

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.gpu_clocks import GpuClocks, clocks_of
from pytest_gpuperf.timing.time_budget import TimeBudget
from pytest_gpuperf.timing.trial import Trial
from pytest_gpuperf.timing.workload import Workload

KERNEL = 1.5e-3


class Clocked(SimulatedDevice):
    """A GPU that is no emulation: after 11 ms without work it is slower by a factor for so long."""

    def __init__(self, *, ramp=0.0, factor=2.0, kernel=KERNEL, clock=None, noise=lambda now: 1.0):
        super().__init__(
            "gpu", clock=clock or Clock(), timing=Timing(kernel=kernel), noise=lambda: self._factor()
        )
        self.info = replace(self.info, emulated=False)
        self._kernel, self._ramp, self._slower, self._spell = kernel, ramp, factor, noise
        self._busy_until, self._since = 0.0, 0.0

    def _factor(self):
        now = self.clock()
        if now - self._busy_until > 11e-3:
            self._since = now
        factor = self._slower if now - self._since < self._ramp else 1.0
        factor *= self._spell(now)
        self._busy_until = now + self._kernel * factor
        return factor


def settled(device, budget=None) -> BlockTimer:
    timer = BlockTimer(workload=Workload(device=device, call=device.launch, scope="call"))
    timer.warm_up(RunOptions())
    if timer.needs_ramp:
        timer.find_ramp(budget or TimeBudget(10.0))
        timer.warm_up(RunOptions())
    return timer


def sample_after(timer, idle) -> float:
    timer.device.pause(idle)
    timer.take_sample()
    return timer.samples[-1]


@for_each("ramp", [5e-3, 30e-3, 0.2])
@for_each("kernel", [0.2e-3, 1e-3, 10e-3])
def test_a_ramp_is_found_and_no_sample_has_any_of_it(ramp, kernel):
    timer = settled(Clocked(ramp=ramp, kernel=kernel))
    assert ramp <= timer.measurement.ramp <= 4 * ramp + 3 * kernel
    assert not timer.is_unsettled
    idling = (0.02, 0.0, 0.05)
    assert [pytest.approx(kernel)] * 3 == [sample_after(timer, idle) for idle in idling]


def test_without_a_ramp_no_block_runs_untimed():
    timer = settled(Clocked())
    assert (0.0, False) == (timer.measurement.ramp, timer.is_unsettled)
    launches = timer.device.launches
    sample_after(timer, 0.02)
    assert timer.device.launches - launches == timer.block_calls


def test_where_the_gpu_has_not_idled_no_block_runs_untimed():
    timer = settled(Clocked(ramp=30e-3))
    sample_after(timer, 0.05)
    launches = timer.device.launches
    sample_after(timer, 0.005)
    assert timer.device.launches - launches == timer.block_calls


def test_a_spell_of_slow_blocks_in_one_of_the_runs_is_no_ramp():
    spell = Clocked(noise=lambda now: 1.3 if 0.05 < now < 0.5 else 1.0)
    assert settled(spell).measurement.ramp == 0.0


def test_a_gpu_that_goes_on_getting_faster_is_unsettled():
    clock = Clock()
    timer = settled(Clocked(clock=clock, ramp=0.4, factor=3.0))
    assert timer.is_unsettled
    assert timer.own_share == 0.0


@for_each(("expected", "seconds"), [(True, 0.2), (False, 7.5)])
def test_where_the_time_does_not_allow_a_ramp_the_gpu_may_be_faster(expected, seconds):
    timer = settled(Clocked(ramp=30e-3))
    timer.afford_ramp(seconds)
    assert expected is timer.is_unsettled
    slow = sample_after(timer, 0.05) > 1.5 * KERNEL
    assert slow is expected


def test_the_time_to_find_a_ramp_is_not_the_tests():
    device, budget = Clocked(ramp=30e-3), TimeBudget(10.0)
    budget.start(device.clock)
    settled(device, budget)
    assert device.clock() > 1.0
    assert budget.remaining() > 9.5


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
    device = Clocked(ramp=30e-3)
    settled(device)
    began = device.clock()
    second = settled(device)
    assert device.clock() - began < 0.2
    assert second.measurement.ramp > 0
    assert settled(Clocked()).measurement.ramp == 0.0


@for_each("device", [SimulatedDevice("gpu", clock=Clock()), SimulatedDevice("cpu", clock=Clock())])
def test_a_cpu_and_an_emulated_gpu_have_no_clocks_of_their_own(device):
    assert clocks_of(device) is None
    timer = settled(device)
    assert (None, False) == (timer.measurement.ramp, timer.is_unsettled)


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
    gpu = Clocked(ramp=20e-3, clock=clock)
    trial = Trial(nodeid="test_it", demand=Demand(min=3, transfer=transfer), options=RunOptions())
    found = trial.record(trial.compare(lambda device: lambda: lambda: device.xp.ones(3), cpu, gpu))
    assert found.gpu.ramp > 0
    assert [pytest.approx(KERNEL)] * len(found.gpu.samples) == list(found.gpu.samples)
    loop = list(found.transfer.loop)
    assert [pytest.approx(KERNEL, rel=1e-3)] * len(loop) == loop
    assert loop


def test_a_test_whose_gpu_never_settles_cannot_fail_for_a_slow_gpu_and_says_why():
    clock = Clock()
    cpu = SimulatedDevice("cpu", clock=clock, timing=Timing(kernel=3e-3))
    gpu = Clocked(ramp=0.4, factor=3.0, clock=clock)
    trial = Trial(nodeid="test_it", demand=Demand(min=20), options=RunOptions())
    found = trial.record(trial.compare(lambda device: lambda: lambda: device.xp.ones(3), cpu, gpu))
    assert ("inconclusive", "gpu_clocks") == (found.status, found.reason_code)
    assert "clocks_not_settled" in [note.code for note in found.notes]
    assert found.speedup.certain.high is None


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
        timer.find_ramp(TimeBudget(10.0))


def test_clocks_are_as_they_were_until_a_ramp_is_known():
    assert not GpuClocks().have_changed(99.0)
