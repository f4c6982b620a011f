"""Asides: what is measured beside the verdict, in how many rounds, and what keeps it from being measured."""

from functools import partial
from itertools import count
from math import inf
from random import Random

import numpy as np
import pytest

from pytest_gpuperf.devices.simulated import (
    Clock,
    SimulatedDevice,
    SimulatedDeviceLost,
    SimulatedOutOfMemory,
    Timing,
)
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.timing import blocks, inspection, secondary
from pytest_gpuperf.timing.blocks import Workload
from pytest_gpuperf.timing.transfers import TransferTimer

SIZE = 8000  # bytes of an array of a thousand numbers
THROUGHPUT, LATENCY = Demand(min=3), Demand(min=3, latency=True)


def order() -> Random:
    return Random(0)  # noqa: S311 - an order, not a secret


def plenty():
    return inf


def simulated(kind="gpu", clock=None, *, kernel=21e-6, **timing) -> SimulatedDevice:
    return SimulatedDevice(kind, clock=clock or Clock(), timing=Timing(kernel=kernel, **timing))


def warmed_up(device) -> Workload:
    workload = Workload(device=device, call=device.launch, scope="call")
    blocks.warm_up(workload, RunOptions())
    return workload


def other_kind(workloads, demand, plan=None, left=plenty) -> None:
    secondary.other_kind(workloads, demand, plan or RunOptions(), order(), left)


def samples_of(workload) -> tuple[int, int]:
    """Return how many samples there are of blocks and of single calls."""
    return len(workload.samples), len(workload.single.samples)


def test_beside_a_demand_of_throughput_single_calls_are_sampled():
    workload = warmed_up(simulated())
    other_kind([workload], THROUGHPUT)
    assert samples_of(workload) == (0, 9)  # blocks of 53 calls until 10 ms were spent
    assert [pytest.approx(21e-6)] * 9 == list(workload.measurement.latencies)


def test_beside_a_demand_of_latency_blocks_are_sampled():
    workload = warmed_up(simulated())
    other_kind([workload], LATENCY)
    assert samples_of(workload) == (9, 0)
    assert [pytest.approx(21e-6)] * 9 == list(workload.measurement.samples)


def test_both_devices_are_sampled_in_the_same_rounds():
    clock = Clock()
    workloads = [warmed_up(simulated(kind, clock)) for kind in ("cpu", "gpu")]
    other_kind(workloads, THROUGHPUT)
    assert [(0, 5), (0, 5)] == [samples_of(workload) for workload in workloads]


@pytest.mark.parametrize("demand", [THROUGHPUT, LATENCY])
def test_where_a_block_is_one_call_there_is_no_other_kind(demand):
    workload = warmed_up(simulated(kernel=2e-3))
    launches = workload.device.launches
    other_kind([workload], demand)
    assert (launches, 0, None) == (workload.device.launches, len(workload.samples), workload.single)


def test_of_two_devices_only_the_one_with_longer_blocks_is_sampled():
    clock = Clock()
    cpu, gpu = warmed_up(simulated("cpu", clock, kernel=2e-3)), warmed_up(simulated("gpu", clock))
    other_kind([cpu, gpu], THROUGHPUT)
    assert (0, (0, 9)) == (len(cpu.samples), samples_of(gpu))


def test_the_latency_of_a_single_call_includes_its_launch_and_its_synchronize():
    workload = warmed_up(simulated(kernel=10e-6, launch=5e-6, synchronize=2e-6))
    other_kind([workload], THROUGHPUT)
    blocks.sample(workload)
    at_the_blocks_end = 2e-6 / workload.single.block_calls
    assert workload.measurement.latency == pytest.approx(5e-6 + 10e-6 + 2e-6 + at_the_blocks_end)
    assert workload.measurement.median == pytest.approx(10e-6 + (5e-6 + 2e-6) / workload.block_calls)


def test_the_other_kind_has_at_most_as_many_rounds_as_the_plan_allows():
    workload = warmed_up(simulated())
    other_kind([workload], THROUGHPUT, RunOptions(sampling=SamplingPlan(max_rounds=4)))
    assert samples_of(workload) == (0, 4)


def test_the_other_kind_has_the_rounds_that_a_gate_on_it_needs_though_its_time_is_used_up():
    workload = warmed_up(simulated())
    other_kind(
        [workload], THROUGHPUT, RunOptions(sampling=SamplingPlan(secondary_time=1e-9, secondary_rounds=7))
    )
    assert samples_of(workload) == (0, 7)


def test_the_other_kind_has_three_rounds_though_they_take_longer_than_an_aside_may():
    workload = warmed_up(simulated())
    other_kind([workload], THROUGHPUT, RunOptions(sampling=SamplingPlan(secondary_time=1e-9)))
    assert samples_of(workload) == (0, 3)


def test_another_round_is_taken_only_when_the_test_has_time_for_it():
    workload = warmed_up(simulated())
    single = blocks.single(workload, RunOptions())
    clock = workload.device.clock
    until = clock() + 2.5 * single.block_calls * 21e-6
    other_kind([workload], THROUGHPUT, left=lambda: until - clock())
    assert samples_of(workload) == (0, 2)


def adding(device):
    a = device.asarray(np.ones(1000))
    return lambda: a + 1


def prepared(device, body=adding) -> Workload:
    """Prepare a body that takes the device."""
    return inspection.prepare(lambda seen: partial(body, seen), device)[0]


def copies(workload, rounds=60, plan=None, left=plenty):
    return secondary.copies(workload, rounds, plan or RunOptions(), order(), left)


def rounds_of(copying) -> int:
    assert isinstance(copying, TransferTimer)
    h2d, d2h = copying.transfer.h2d, copying.transfer.d2h
    assert len(h2d.samples) == len(d2h.samples)
    return len(h2d.samples)


def test_copies_are_timed_in_rounds_of_their_own():
    found = copies(prepared(simulated(bandwidth=5e6)))
    assert rounds_of(found) == 4  # of 1.6 ms in each direction, until 10 ms were spent
    assert (found.transfer.median, found.transfer.reason) == (pytest.approx(3.2e-3), None)


@pytest.mark.parametrize(("expected", "rounds"), [(1, 1), (2, 2), (3, 3), (4, 4), (4, 60)])
def test_copies_have_at_most_as_many_rounds_as_the_workload_had(expected, rounds):
    assert expected == rounds_of(copies(prepared(simulated(bandwidth=5e6)), rounds))


def test_copies_have_three_rounds_though_they_take_longer_than_an_aside_may():
    assert rounds_of(copies(prepared(simulated(bandwidth=8e3)))) == 3


@pytest.mark.parametrize(("expected", "rounds_left"), [(1, 0.5), (1, 1.5), (2, 2.5), (3, 3.5)])
def test_slow_copies_have_only_the_rounds_that_the_test_has_time_for(expected, rounds_left):
    device = simulated(bandwidth=8e3)
    workload = prepared(device)
    warm_up, a_round = 2.0, 2.0  # a copy of 1 s in each direction
    until = device.clock() + warm_up + rounds_left * a_round
    assert expected == rounds_of(copies(workload, left=lambda: until - device.clock()))


def no_copies(device):
    a = device.xp.ones(1000)
    return lambda: float(a.sum())


def whole_body(device):
    return device.asarray(np.ones(1000)) + 1


@pytest.mark.parametrize("body", [no_copies, whole_body])
def test_where_there_is_nothing_to_copy_there_is_nothing_to_say(body):
    workload = prepared(simulated(), body)
    launches = workload.device.launches
    assert copies(workload) is None
    assert copies(workload, left=lambda: -1.0) is None
    assert launches == workload.device.launches


def test_without_time_copies_are_not_timed_and_the_sentence_says_so():
    workload = prepared(simulated())
    launches = workload.device.launches
    assert copies(workload, left=lambda: -1e-9) == secondary.NO_TIME
    assert secondary.NO_TIME == "time was up before the copies were timed; allow more with max_time"
    assert launches == workload.device.launches


def test_without_rounds_copies_are_not_timed_and_the_sentence_says_so():
    workload = prepared(simulated())
    launches = workload.device.launches
    assert copies(workload, rounds=0) == secondary.NO_ROUNDS
    assert "no round was kept" in secondary.NO_ROUNDS
    assert launches == workload.device.launches


def test_without_room_for_them_copies_are_not_timed_and_the_sentence_says_so():
    device = simulated(memory=2 * SIZE + SIZE // 2)
    workload = prepared(device)
    assert copies(workload) == secondary.NO_ROOM
    assert secondary.NO_ROOM.startswith("the device has no room for a second copy of what goes up")
    assert device.released == 1


def test_with_room_for_them_nothing_is_given_back():
    device = simulated(memory=3 * SIZE)
    assert rounds_of(copies(prepared(device))) > 2
    assert device.released == 0


@pytest.mark.parametrize("copies_before", [0, 20])
def test_before_memory_is_given_back_nothing_but_the_inputs_is_held(copies_before):
    device = simulated(bandwidth=1e6)
    workload = prepared(device)
    asarray, placed, held = device.asarray, count(), []

    def asarray_until_full(host):
        if next(placed) == copies_before:
            raise SimulatedOutOfMemory(SIZE)
        return asarray(host)

    device.asarray = asarray_until_full
    device.release = lambda: held.append(device.live_bytes)
    assert copies(workload, plan=RunOptions(sampling=SamplingPlan(secondary_time=inf))) == secondary.NO_ROOM
    assert [SIZE] == held


@pytest.mark.parametrize("error", [ValueError("another"), SimulatedDeviceLost("gone")])
def test_any_other_error_of_a_copy_passes_through(error):
    device = simulated()
    workload = prepared(device)

    def asarray(host):
        raise error

    device.asarray = asarray
    with pytest.raises(type(error)) as caught:
        copies(workload)
    assert caught.value is error
    assert device.released == 0
