"""Measure: blocks, warm-up and rounds, on devices whose every time is known."""

import gc
from array import array
from functools import partial
from itertools import count, islice
from random import Random

import pytest

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Plan
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.timing import blocks
from pytest_gpuperf.timing.blocks import Workload


def order() -> Random:
    return Random(0)  # noqa: S311 - an order, not a secret


class Recorder:
    """A device that writes down when its clock was read and when it was waited for."""

    def __init__(self):
        self.steps = []
        self._now = count()

    def clock(self):
        self.steps.append("clock")
        return float(next(self._now))

    def synchronize(self):
        self.steps.append("synchronize")


def simulated(kind="gpu", clock=None, *, kernel=1e-3, noise=None, **timing) -> SimulatedDevice:
    return SimulatedDevice(
        kind, clock=clock or Clock(), timing=Timing(kernel=kernel, **timing), noise=noise or (lambda: 1.0)
    )


def workload_on(device, call=None, **changes) -> Workload:
    return Workload(device=device, call=call or device.launch, scope="call", setup=None, **changes)


def warmed_up(device, call=None, plan=None) -> Workload:
    workload = workload_on(device, call)
    blocks.warm_up(workload, plan or Plan())
    return workload


def test_a_block_is_synchronized_on_both_sides_of_its_calls():
    device = Recorder()
    sample = blocks.block(lambda: device.steps.append("call"), 3, device)
    assert device.steps == ["synchronize", "clock", "call", "call", "call", "synchronize", "clock"]
    assert sample == 1 / 3


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("calls", [1, 7])
def test_a_sample_is_the_time_of_one_call(kind, calls):
    device = simulated(kind)
    assert blocks.block(device.launch, calls, device) == pytest.approx(1e-3)


def test_a_synchronize_is_shared_by_the_calls_of_its_block():
    device = simulated(synchronize=1e-3)
    assert blocks.block(device.launch, 10, device) == pytest.approx(1.1e-3)


def test_work_from_before_the_block_is_not_in_it():
    device = simulated()
    device.launch(5.0)
    assert blocks.block(device.launch, 1, device) == pytest.approx(1e-3)


def test_work_on_a_side_stream_is_in_the_sample():
    device = simulated()
    assert blocks.block(lambda: device.launch(10e-3, stream=1), 1, device) == pytest.approx(10e-3)


@pytest.mark.parametrize("kernel", [1e-7, 1e-6, 1e-5, 0.9e-3])
def test_a_block_of_quick_calls_lasts_the_block_time(kernel):
    workload = warmed_up(simulated(kernel=kernel))
    assert 1e-3 <= workload.block_calls * kernel <= 1.2e-3 + kernel


@pytest.mark.parametrize("kernel", [1.1e-3, 0.5])
def test_a_slow_call_is_a_block_of_its_own(kernel):
    assert warmed_up(simulated(kernel=kernel)).block_calls == 1


def test_the_block_time_is_the_plans():
    workload = warmed_up(simulated(kernel=1e-3), plan=Plan(block_time=50e-3))
    assert 50 <= workload.block_calls <= 60


@pytest.mark.parametrize("cost", [100e-6, 1e-3, 5e-3])
def test_a_block_lasts_twenty_empty_synchronizes(cost):
    workload = warmed_up(simulated(kernel=10e-6, synchronize=cost))
    assert workload.synchronize_cost == pytest.approx(cost)
    assert workload.block_calls * 10e-6 + cost >= 20 * cost


def test_a_block_lasts_a_thousand_steps_of_its_clock(monkeypatch):
    monkeypatch.setattr(blocks, "_resolution", lambda: 15e-6)
    workload = warmed_up(simulated(kernel=1e-3))
    assert 15 <= workload.block_calls <= 20


def test_the_cost_of_an_empty_synchronize_is_its_least():
    device = simulated()
    costs = iter([9.0, 3.0, 5.0, 9.0, 9.0, 1.0, 8.0, 8.0, 9.0, 9.0])
    device.synchronize = lambda: device.clock.advance(next(costs, 0.0))
    workload = warmed_up(device, call=lambda: device.clock.advance(100.0), plan=Plan(max_time=1e4))
    assert workload.synchronize_cost == 1.0


def test_warm_up_ends_when_three_blocks_agree():
    device = simulated()
    times = iter([9e-3, 4e-3, 2.4e-3, 2.08e-3, 2e-3, 2.08e-3, 7e-3])
    workload = warmed_up(device, call=lambda: device.launch(next(times)))
    assert workload.steady
    assert workload.warmup_calls == 1 + 6
    assert next(times) == 7e-3


def test_blocks_that_were_too_short_do_not_count_as_agreeing():
    workload = warmed_up(simulated(kernel=0.6e-3))
    first_call, too_short, agreeing = 1, 1, 3 * 2
    assert workload.warmup_calls == first_call + too_short + agreeing


def test_blocks_that_differ_by_more_than_the_plan_allows_do_not_agree():
    device = simulated()
    times = iter([2e-3, 2.12e-3] * 3 + [2e-3] * 3)
    workload = warmed_up(device, call=lambda: device.launch(next(times)))
    assert workload.warmup_calls == 1 + 9


def test_warm_up_of_an_unsteady_workload_is_bounded_in_time():
    device = simulated()
    times = (10e-3 * (1 + step % 2) for step in count())
    workload = warmed_up(device, call=lambda: device.launch(next(times)))
    assert not workload.steady
    assert 0.1 <= workload.warmup <= 0.1 + 20e-3


def test_warm_up_of_a_quick_workload_has_at_least_three_calls():
    assert warmed_up(simulated(kernel=0.12)).warmup_calls == 3


def test_warm_up_of_a_slow_workload_has_one_more_call():
    workload = warmed_up(simulated(kernel=30.0))
    assert workload.warmup_calls == 2
    assert not workload.steady
    assert workload.warmup == pytest.approx(30)


def test_warm_up_takes_at_most_a_quarter_of_the_time_there_is():
    assert warmed_up(simulated(kernel=0.3), plan=Plan(max_time=1)).warmup_calls == 2
    assert warmed_up(simulated(kernel=0.3), plan=Plan(max_time=10)).warmup_calls == 3


def test_the_time_and_the_calls_of_warm_up_are_counted():
    device = simulated(kernel=2e-3)
    workload = warmed_up(device)
    assert workload.warmup == pytest.approx(device.launches * 2e-3)
    assert workload.warmup_calls == 1 + device.launches


def test_a_workload_that_takes_no_time_is_an_error_and_no_hang(monkeypatch):
    monkeypatch.setattr(blocks, "_MOST_CALLS", 1000)
    calls = count()
    with pytest.raises(GpuPerfError, match="calls take no time that the clock can show"):
        warmed_up(simulated(), call=lambda: next(calls))
    assert next(calls) <= 1 + 100 + 1000, "a block has at most that many calls"


@pytest.mark.parametrize("step", [blocks.sample, partial(blocks.warm_up, plan=Plan())])
def test_the_garbage_collector_is_off_inside_blocks_and_on_again(step):
    device = simulated()
    states = []

    def call():
        states.append(gc.isenabled())
        device.launch()

    step(workload_on(device, call))
    assert set(states) == {False}
    assert gc.isenabled()


@pytest.mark.parametrize("step", [blocks.sample, partial(blocks.warm_up, plan=Plan())])
def test_the_garbage_collector_is_on_again_after_an_exception(step):
    def call():
        raise RuntimeError("in the workload")

    with pytest.raises(RuntimeError, match="in the workload"):
        step(workload_on(simulated(), call))
    assert gc.isenabled()


def test_a_garbage_collector_that_was_off_stays_off():
    gc.disable()
    try:
        blocks.sample(workload_on(simulated()))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_workload_that_raised_is_left_running():
    device = simulated()
    workload = workload_on(device, call=lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        blocks.sample(workload)
    assert workload.running
    assert workload.samples == array("d")


def test_the_result_of_each_call_is_dropped_as_it_comes():
    device = simulated(kernel=1e-5)
    workload = warmed_up(device, call=lambda: device.xp.ones(1000))
    blocks.sample(workload)
    assert workload.block_calls > 50
    assert (0, 8000) == (device.live_bytes, device.peak_bytes)


def test_rounds_have_one_sample_of_each_device():
    clock = Clock()
    cpu = workload_on(simulated("cpu", clock, kernel=10e-3))
    gpu = workload_on(simulated("gpu", clock, kernel=2e-3))
    for taken, _ in enumerate(islice(blocks.rounds([cpu, gpu], order()), 2), start=1):
        assert [pytest.approx(10e-3)] * taken == list(cpu.samples)
        assert [pytest.approx(2e-3)] * taken == list(gpu.samples)


def order_of(seed: int, rounds: int = 40) -> list[str]:
    """Return which device came first in each round."""
    steps = []
    clock = Clock()
    cpu, gpu = simulated("cpu", clock), simulated("gpu", clock)

    def on(device):
        return workload_on(device, call=lambda: (steps.append(device.kind), device.launch()))

    list(islice(blocks.rounds([on(cpu), on(gpu)], Random(seed)), rounds))  # noqa: S311 - as above
    assert all(
        {first, second} == {"cpu", "gpu"} for first, second in zip(steps[::2], steps[1::2], strict=True)
    )
    return steps[::2]


def test_the_order_in_a_round_is_drawn_from_the_seed():
    assert order_of(1) == order_of(1)
    assert order_of(1) != order_of(2)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_device_comes_first_in_about_half_of_the_rounds(seed):
    assert 60 < order_of(seed, 200).count("cpu") < 140


def test_a_measurement_is_what_is_known_by_now():
    device = simulated(kernel=2e-3)
    workload = warmed_up(device)
    blocks.sample(workload)
    found = workload.measurement
    blocks.sample(workload)
    assert found.device == device.info
    assert found.samples == array("d", [workload.samples[0]])
    assert found.median == pytest.approx(2e-3)
    assert (found.warmup_calls, found.steady) == (workload.warmup_calls, True)


def test_without_samples_there_is_no_median():
    assert workload_on(simulated()).measurement.median is None


def test_a_block_that_takes_no_time_is_an_error_and_no_infinite_speedup():
    workload = workload_on(simulated(kernel=0.0), call=lambda: None)
    with pytest.raises(GpuPerfError, match="took no time that the clock can show"):
        blocks.sample(workload)
    assert not workload.samples


def told(monkeypatch, *delays):
    left = iter(delays)
    monkeypatch.setattr(blocks, "waited", lambda: next(left))


def test_the_wait_for_a_processor_is_counted_over_the_blocks_alone(monkeypatch):
    told(monkeypatch, 1.0, 1.5, 7.0, 7.25)
    workload = workload_on(HostDevice("a processor"), call=lambda: sum(range(1000)))
    blocks.sample(workload)
    blocks.sample(workload)
    assert workload.waited == 0.75


def test_a_system_that_does_not_tell_the_wait_has_none(monkeypatch):
    told(monkeypatch, None, None)
    workload = workload_on(HostDevice("a processor"), call=lambda: sum(range(1000)))
    blocks.sample(workload)
    assert workload.waited is None


@pytest.mark.parametrize(
    ("expected", "waited", "fastest"), [(None, 0.2, 1.0), (0.6, 0.4, 1.0), (0.0, 1.5, 1.0), (0.25, 0.0, 0.25)]
)
def test_what_disturbed_the_samples_is_taken_off(expected, waited, fastest):
    workload = workload_on(simulated())
    workload.samples.extend([0.5, 0.5])
    workload.waited, workload.fastest = waited, fastest / 2
    found = workload.interference
    assert expected == (found and pytest.approx(found.own_share))


def test_simulated_time_has_no_wait_in_it():
    workload = workload_on(simulated())
    blocks.sample(workload)
    assert workload.waited is None


def test_a_cpu_keeps_as_many_processors_busy_as_its_threads_worked():
    workload = workload_on(simulated("cpu", kernel=2e-3, threads=3.5), block_calls=4)
    blocks.sample(workload)
    blocks.sample(workload)
    assert workload.measurement.processors == pytest.approx(3.5)


def test_a_cpu_that_waits_keeps_no_processor_busy():
    device = simulated("cpu")
    workload = workload_on(device, call=lambda: device.clock.advance(1e-3))
    blocks.sample(workload)
    assert workload.measurement.processors == 0


def test_processors_are_those_of_the_timed_blocks_alone():
    workload = workload_on(simulated("cpu", threads=2.0))
    blocks.sample(workload)
    workload.device.launch(5.0)
    blocks.sample(workload)
    assert workload.measurement.processors == pytest.approx(2)


def test_without_samples_nobody_tells_the_processors():
    assert workload_on(simulated("cpu")).measurement.processors is None


def test_a_gpu_does_not_tell_the_processors():
    workload = workload_on(simulated("gpu"))
    blocks.sample(workload)
    assert workload.measurement.processors is None


def test_where_a_block_is_one_call_its_samples_are_latencies():
    workload = warmed_up(simulated(kernel=2e-3))
    assert blocks.single(workload, Plan()) is workload
    blocks.sample(workload)
    assert [pytest.approx(2e-3)] == list(workload.measurement.waited_for)
    assert (array("d"), pytest.approx(2e-3)) == (workload.measurement.latencies, workload.measurement.latency)


def test_where_a_block_is_many_calls_its_samples_are_no_latencies():
    workload = warmed_up(simulated(kernel=1e-5))
    blocks.sample(workload)
    assert (array("d"), None) == (workload.measurement.waited_for, workload.measurement.latency)


def test_a_single_call_is_waited_for_and_keeps_its_samples_apart():
    workload = warmed_up(simulated(kernel=10e-6, launch=5e-6))
    single = blocks.single(workload, Plan())
    assert blocks.single(workload, Plan()) is single
    blocks.sample(single)
    blocks.sample(workload)
    calls = workload.block_calls
    assert [pytest.approx(15e-6)] == list(workload.measurement.latencies)
    assert [pytest.approx(10e-6 + 5e-6 / calls)] == list(workload.measurement.samples)


def test_what_is_sampled_aside_is_warmed_up_for_a_quarter_of_its_time():
    device = simulated()
    times = (1e-3 * (1 + step % 2) for step in count(1))
    workload = blocks.timed(lambda: device.launch(next(times)), device, Plan(aside_time=10e-3))
    assert not workload.steady
    assert 2.5e-3 <= workload.warmup < 2.5e-3 + 2e-3


def test_a_fresh_start_gives_up_the_samples_and_what_was_counted_beside_them():
    workload = warmed_up(simulated("cpu", kernel=1e-5, threads=2.0))
    blocks.single(workload, Plan())
    blocks.sample(workload)
    workload.waited, fastest = 1.0, workload.fastest
    workload.start_afresh()
    assert (array("d"), 1, False) == (workload.samples, workload.block_calls, workload.steady)
    assert (None, None, None) == (workload.waited, workload.processor_time, workload.single)
    assert fastest == workload.fastest


def test_a_workload_whose_single_call_raised_is_running():
    workload = warmed_up(simulated(kernel=1e-5))
    single = blocks.single(workload, Plan())
    assert not workload.is_running
    single.call = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        blocks.sample(single)
    assert workload.is_running


def test_a_round_that_is_taken_back_leaves_no_sample_of_any_workload():
    clock = Clock()
    workloads = [workload_on(simulated(kind, clock, kernel=2e-3)) for kind in ("cpu", "gpu")]
    for workload in workloads:
        workload.samples.extend([1.0, 2.0, 3.0])
    blocks.take_back(workloads)
    assert [[1.0, 2.0]] * 2 == [list(workload.samples) for workload in workloads]


def test_three_workloads_come_in_every_order():
    steps = []
    device = simulated()

    def named(name):
        return workload_on(device, call=lambda: (steps.append(name), device.launch()))

    list(islice(blocks.rounds([named(name) for name in "abc"], order()), 60))
    taken = {"".join(steps[first : first + 3]) for first in range(0, len(steps), 3)}
    assert {"abc", "acb", "bac", "bca", "cab", "cba"} == taken
