"""A GPU's clocks: for how long they change after it has idled, and the untimed work until then."""

from itertools import chain, repeat
from random import Random
from weakref import WeakSet

import pytest
from cases import for_each
from msgspec.structs import replace
from walks import bound, simulated, trial_of, walked, warmed_up

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.record import Verdict
from pytest_gpuperf.timing import warm_up

KERNEL = 1.5e-3


class Ramping(SimulatedDevice):
    """A GPU that is no emulation: after 8 ms without work it is so many times slower for `ramp` seconds."""

    def __init__(self, ramp=0.0, *, slower=2.0, clock=None, noise=lambda: 1.0):
        super().__init__(
            "gpu",
            clock=clock or Clock(),
            timing=Timing(kernel=KERNEL),
            noise=lambda: self._factor() * noise(),
        )
        self.info = replace(self.info, emulated=False)
        self._ramp, self._slower, self._left, self._busy_until = ramp, slower, ramp, 0.0

    def _factor(self):
        begun = max(self.clock(), self._busy_until)
        if begun - self._busy_until > 8e-3:
            self._left = self._ramp
        factor = self._slower if self._left > 0 else 1.0
        self._left -= KERNEL * factor
        self._busy_until = begun + KERNEL * factor
        return factor


def found_on(device, call=None):
    timer = warmed_up(device, call)
    warm_up.find_ramp(timer, RunOptions())
    return timer


def sample_after(timer, idle) -> float:
    timer.device.pause(idle)
    timer.take_sample()
    return timer.samples[-1]


@for_each("ramp", [3e-3, 5e-3, 30e-3, 200e-3])
@for_each("slower", [2.0, 1.1, 0.85])
def test_after_idling_a_gpu_works_untimed_until_it_is_as_fast_as_in_steady_work(ramp, slower):
    timer = found_on(Ramping(ramp, slower=slower))
    found = timer.measurement.ramp
    assert ramp <= found <= 5 * ramp
    begun = timer.device.clock()
    assert [pytest.approx(KERNEL)] * 3 == [sample_after(timer, idle) for idle in (0.02, 0.0, 0.02)]
    assert timer.clocks.raised == pytest.approx(timer.device.clock() - begun - 0.04 - 3 * KERNEL)
    assert timer.clocks.raised >= 2 * found


@for_each("slower", [1.0, 1.04])
def test_where_idling_does_not_matter_no_block_runs_untimed(slower):
    timer = found_on(Ramping(0.1, slower=slower))
    launches = timer.device.launches
    sample_after(timer, 0.02)
    assert (timer.measurement.ramp, timer.clocks.raised, timer.device.launches - launches) == (0.0, 0.0, 1)


def noisy(clock):
    chance = Random(1)  # noqa: S311 - a simulation
    return lambda: chance.lognormvariate(0, 0.05)


def slow_in_one_run(clock):
    return lambda: 1.5 if clock() < 0.4 else 1.0


def slow_late_in_a_run(clock):
    factors = chain(repeat(1.0, 200), repeat(3.0, 20), repeat(1.0))
    return lambda: next(factors)


@for_each("noise", [noisy, slow_in_one_run, slow_late_in_a_run])
def test_noise_and_other_work_are_no_ramp(noise):
    clock = Clock()
    factors = noise(clock)
    for _ in range(20 if noise is noisy else 1):
        assert found_on(Ramping(clock=clock, noise=factors)).measurement.ramp == 0.0


def test_blocks_of_which_four_take_longer_than_the_work_show_no_ramp():
    device = Ramping(0.2)
    long = found_on(device, lambda: device.launch(0.15))
    assert (long.measurement.ramp, long.warmup.calls) == (None, 3)
    assert found_on(device).measurement.ramp >= 0.2
    launches = device.launches
    sample_after(long, 0.02)
    assert device.launches - launches > 1


def test_after_idling_warm_up_finds_blocks_that_are_long_enough_at_risen_clocks():
    device = Ramping(30e-3)
    found_on(device)
    device.pause(0.05)
    timer = warmed_up(device, lambda: device.launch(30e-6))
    assert timer.block_calls * 30e-6 >= 1e-3
    launches = device.launches
    timer.take_sample()
    assert device.launches - launches == timer.block_calls


class Result:
    """What a call returns."""


def test_each_block_while_clocks_rise_frees_the_result_of_the_one_before():
    device, held, numbers = Ramping(30e-3), WeakSet(), []

    def call():
        device.launch(KERNEL)
        held.add(result := Result())
        numbers.append(len(held))
        return result

    timer = found_on(device, call)
    timer.keeps_result = True
    sample_after(timer, 0.05)
    assert max(numbers) == 1


@for_each("device", [simulated("gpu"), simulated("cpu")])
def test_a_cpu_and_an_emulated_gpu_have_no_clocks_of_their_own(device):
    timer = found_on(device)
    assert (3, None) == (device.launches, timer.measurement.ramp)


def test_the_record_has_the_lowest_and_the_highest_clock_after_timed_blocks():
    device = Ramping()
    timer = found_on(device)
    for mhz in (1755, 1980, 1410):
        device.sm_mhz = lambda mhz=mhz: device.pause(1.0) or mhz  # outside of the block
        timer.take_sample()
    assert [pytest.approx(KERNEL)] * 3 == list(timer.samples)
    device.sm_mhz = lambda: 345
    timer.run_untimed()
    found = timer.measurement
    assert (1410, 1980) == (found.lowest_sm_mhz, found.highest_sm_mhz)
    timer.restart()
    del device.sm_mhz  # a GPU that does not tell its clock
    timer.take_sample()
    assert (None, None) == (timer.measurement.lowest_sm_mhz, timer.measurement.highest_sm_mhz)


class Forgotten(Ramping):
    """A GPU that cannot be remembered."""

    __hash__ = None


@for_each(("expected", "kind"), [([True, False], Ramping), ([True, True], Forgotten)])
def test_a_gpu_is_asked_once_in_a_process_or_in_each_test(expected, kind):
    device, asked = kind(30e-3), []
    for _ in expected:
        timer, launches = warmed_up(device), device.launches
        warm_up.find_ramp(timer, RunOptions())
        assert timer.measurement.ramp >= 30e-3
        asked.append(device.launches > launches)
    assert expected == asked


@for_each(("transfer", "latency"), [("never", False), ("always", True)])
def test_a_slow_cpu_beside_it_leaves_a_gpu_at_the_clocks_of_steady_work(transfer, latency):
    found = compared(Ramping(30e-3), Demand(min=3, transfer=transfer, latency=latency))
    assert found.gpu.ramp >= 30e-3
    assert [pytest.approx(KERNEL)] * len(found.gpu.samples) == list(found.gpu.samples)
    loop = list(found.transfer.loop)
    assert [pytest.approx(KERNEL, rel=1e-3)] * len(loop) == loop
    assert loop


def test_the_time_limit_of_a_test_does_not_count_how_its_gpus_ramp_was_found():
    found = compared(Ramping(5e-3), Demand(min=3, max_time=0.7))
    assert (found.status, found.speedup.rounds >= 6) == ("passed", True)
    assert found.elapsed > 1.1  # of which a second found the ramp


def test_a_note_says_where_raising_clocks_takes_more_than_a_tenth_of_the_time_limit():
    (note,) = compared(Ramping(200e-3), Demand(min=3)).notes
    assert note.code == "long_warm_up"
    assert "of max_time (10.0 s) went to untimed work" in note.text
    assert "a GPU that idled during the CPU's turn needs 25" in note.text
    assert not compared(Ramping(5e-3), Demand(min=3)).notes


def compared(gpu, demand):
    cpu = simulated("cpu", gpu.clock, kernel=30e-3)
    return walked(lambda device: lambda: device.xp.ones(3), cpu, gpu, demand)


def test_what_low_clocks_add_to_the_first_call_of_a_gpu_variant_is_no_other_work():
    """Kernels take four times as long until the clocks have risen, and the second call follows at once."""
    gpu, demand = Ramping(50e-3, slower=4.0), Demand(check=False)
    cpu = simulated("cpu", gpu.clock, kernel=KERNEL)
    body = bound(lambda device: lambda: [device.launch() for _ in range(10)][:0])
    trial = trial_of(demand)
    trial.compare_with(trial_of(demand).time_alone(body, cpu, seconds=1.0), body, gpu)
    found = trial.record(Verdict(status="recorded", reason=None))
    assert found.gpu.first_call > 2 * found.gpu.median
    assert "work_in_doubt" not in [note.code for note in found.notes]
