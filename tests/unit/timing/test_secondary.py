"""Copies of each call and single calls: how long they take, in how many rounds, and what keeps them away."""

from array import array
from functools import partial
from itertools import count
from math import inf
from random import Random

import numpy as np
import pytest
import walks
from cases import for_each
from msgspec.structs import replace
from walks import warmed_up

from pytest_gpuperf.devices.simulated import (
    Clock,
    SimulatedDevice,
    SimulatedDeviceLost,
    SimulatedOutOfMemory,
)
from pytest_gpuperf.model.demand import Demand, RunOptions, SamplingPlan
from pytest_gpuperf.model.measurement import Copies, Transfer
from pytest_gpuperf.timing import secondary
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.rounds import TrialContext
from pytest_gpuperf.timing.secondary import loop_timer, untimed

SIZE = 8000  # bytes of an array of a thousand numbers
THROUGHPUT, LATENCY = Demand(min=3), Demand(min=3, latency=True)


def plenty():
    return inf


def simulated(kind="gpu", clock=None, *, kernel=21e-6, **timing) -> SimulatedDevice:
    return walks.simulated(kind, clock, kernel=kernel, **timing)


def context(demand=THROUGHPUT, options=None, left=plenty) -> TrialContext:
    return TrialContext(
        demand=demand,
        options=options or RunOptions(),
        order=Random(0),  # noqa: S311 - an order, not a secret
        remaining=left,
    )


def other_mode(timers, demand, options=None, left=plenty) -> None:
    secondary.probe_and_sample(timers, context(demand, options, left))


def samples_of(timer) -> tuple[int, int]:
    """Return how many samples there are of blocks and of single calls."""
    return len(timer.samples), len(timer.per_call_timer.samples)


@for_each(
    ("sampled", "which", "demand"),
    [
        ((0, 11), "latencies", THROUGHPUT),  # blocks of 14 calls until 3 ms were spent
        ((7, 0), "samples", LATENCY),  # blocks of 53 calls, as they count for a verdict
    ],
)
def test_beside_a_demand_of_throughput_single_calls_are_sampled_and_of_latency_blocks(sampled, which, demand):
    timer = warmed_up(simulated())
    other_mode([timer], demand)
    assert sampled == samples_of(timer)
    assert [pytest.approx(21e-6)] * sum(sampled) == list(getattr(timer.measurement, which))


@for_each(("expected", "copied", "in_blocks_of"), [(50e-6, 28, 50e-6), (1e-3, 19, 50e-3)])
def test_what_no_limit_rests_on_has_blocks_of_its_own_no_longer_than_others(expected, copied, in_blocks_of):
    options = RunOptions(sampling=SamplingPlan(secondary_block_time=in_blocks_of))
    timer = warmed_up(simulated(kernel=1e-6))
    other_mode([timer], THROUGHPUT, options)
    assert expected == timer.per_call_timer.block_time
    copies = transfers(prepared(simulated()), options=options)
    assert copied == rounds_of(copies)  # more rounds of shorter blocks in the same time


def test_where_a_block_is_one_call_there_is_no_other_mode():
    clock = Clock()
    cpu, gpu = warmed_up(simulated("cpu", clock, kernel=2e-3)), warmed_up(simulated("gpu", clock))
    launches = cpu.device.launches
    for demand in (THROUGHPUT, LATENCY):
        other_mode([cpu, gpu], demand)
        assert (launches, 0, None) == (cpu.device.launches, len(cpu.samples), cpu.per_call_timer)
    assert (7, 11) == samples_of(gpu)


@for_each(("expected", "seconds"), [(7, 1e-9), (60, 1.0)])
def test_the_other_mode_has_a_round_for_each_stretch_and_sixty_at_most(expected, seconds):
    timer = warmed_up(simulated())
    other_mode([timer], THROUGHPUT, RunOptions(sampling=SamplingPlan(secondary_time=seconds)))
    assert samples_of(timer) == (0, expected)


HOST = np.ones(1000)


def both_ways(device):
    a = device.asarray(HOST)
    return lambda: a + 1


def neither(device):
    a = device.xp.ones(1000)
    return lambda: float(a.sum())


def whole_body(device):
    return device.asarray(HOST) + 1


def prepared(device, body=both_ways):
    return walks.prepared(device, body)


def transfers(workload, rounds=60, options=None, left=plenty, call=inf, loop=None) -> Transfer:
    """Time the transfers of a workload whose call takes so long."""
    timer = BlockTimer(workload=workload, fastest_sample=call)
    return secondary.time_transfers(timer, rounds, context(THROUGHPUT, options, left), loop)


def rounds_of(transfer) -> int:
    h2d, d2h = transfer.h2d, transfer.d2h
    assert len(h2d.samples) == len(d2h.samples)
    return len(h2d.samples)


@for_each(("looped", "kernel"), [(7, 10e-3), (0, 11e-3)])
def test_only_a_quick_call_is_timed_in_a_loop_with_its_copies_too(looped, kernel):
    found = transfers(prepared(simulated(kernel=kernel, bandwidth=8e6)), call=kernel)
    assert [pytest.approx(kernel + 2e-3)] * looped == list(found.loop)
    assert [pytest.approx(2e-3)] * 7 == found.samples


@for_each("left", [plenty, lambda: -1.0])
def test_a_loop_that_was_in_the_rounds_of_the_verdict_is_not_timed_again(left):
    workload = prepared(simulated(kernel=1e-3))
    loop = loop_timer(workload, RunOptions())
    loop.take_sample()
    found = transfers(workload, call=1e-3, loop=loop, left=left)
    assert list(loop.samples) == list(found.loop)
    assert len(loop.samples) == 1


@for_each(("expected", "rounds", "seconds"), [(1, 1, 3e-3), (7, 60, 3e-3), (60, 600, inf)])
def test_copies_have_at_most_as_many_rounds_as_the_workload_had_and_sixty(expected, rounds, seconds):
    options = RunOptions(sampling=SamplingPlan(secondary_time=seconds))
    assert expected == rounds_of(transfers(prepared(simulated(bandwidth=5e6)), rounds, options))


@for_each(("expected", "rounds_left"), [(1, 0.5), (1, 1.5), (2, 2.5), (3, 3.5)])
def test_slow_copies_have_only_the_rounds_that_the_test_has_time_for(expected, rounds_left):
    device = simulated(bandwidth=8e3)
    workload = prepared(device)
    warm_up, a_round = 2.0, 2.0  # a copy of 1 s in each direction
    until = device.clock() + warm_up + rounds_left * a_round
    assert expected == rounds_of(transfers(workload, left=lambda: until - device.clock()))


@for_each(
    ("reason", "said", "body"),
    [
        (None, "nothing is transferred: ", neither),
        (secondary.TIMED_WITH_BODY, "the whole body is the workload, including its transfers", whole_body),
    ],
)
def test_where_there_is_nothing_to_copy_the_reason_says_so(reason, said, body):
    workload = prepared(simulated(), body)
    launches = workload.device.launches
    found = untimed(workload, "no GPU was measured")
    assert found == transfers(workload) == transfers(workload, left=lambda: -1.0)
    assert launches == workload.device.launches
    assert reason in (None, found.reason)
    assert found.reason.startswith(said)
    assert ([], found.bytes) == (found.samples, found.median), "no bytes take no time"
    assert (found.h2d is None, found.made) == ((True, 0) if body is whole_body else (False, SIZE))
    assert loop_timer(workload, RunOptions()) is None


@for_each(
    ("reason", "said", "options", "memory"),
    [
        (secondary.NO_TIME, "max_time was reached", {"left": lambda: -1e-9}, inf),
        (secondary.NO_ROUNDS, "every round was dropped", {"rounds": 0}, inf),
        (secondary.NO_ROOM, "not enough device memory for a second copy of the inputs", {}, 2.5 * SIZE),
    ],
)
def test_without_time_rounds_or_room_copies_are_not_timed_and_the_sentence_says_so(
    reason, said, options, memory
):
    device = simulated(memory=memory)
    workload = prepared(device)
    launches = device.launches
    assert transfers(workload, **options).reason == reason
    assert reason.startswith(said)
    assert device.released == (memory < inf)
    assert memory < inf or launches == device.launches


@for_each("copies_before", [0, 20])
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
    endless = RunOptions(sampling=SamplingPlan(secondary_time=inf))
    assert transfers(workload, options=endless).reason == secondary.NO_ROOM
    assert [SIZE] == held


@for_each("error", [ValueError("another"), SimulatedDeviceLost("gone")])
def test_any_other_error_of_a_copy_passes_through(error):
    device = simulated()
    workload = prepared(device)

    def asarray(host):
        raise error

    device.asarray = asarray
    with pytest.raises(type(error), match=str(error)):
        transfers(workload)
    assert device.released == 0


@for_each("values", [[1.0] * 1000, np.arange(1000.0)])
def test_what_goes_up_is_what_went_up_first_and_a_list_as_the_array_that_it_becomes(values):
    device, went_up = simulated(), []
    workload = prepared(device, lambda seen: partial(np.add, seen.asarray(values), 1))
    asarray = device.asarray
    device.asarray = lambda value: (went_up.append(value), asarray(value))[1]
    assert transfers(workload, rounds=1).h2d.bytes == SIZE
    assert {np.ndarray} == {type(moved) for moved in went_up}
    assert (went_up[0] is values) == (type(values) is np.ndarray)


@for_each(
    ("expected", "kinds"),
    [
        ("pinned", ["pinned", "pinned"]),
        ("pageable", ["pinned", "pageable"]),
        (None, ["pinned", None]),
        ("pageable", ["pageable", None]),
        ("pageable", "the device's own"),
        (None, None),
    ],
)
def test_one_array_in_pageable_memory_makes_the_whole_of_it_so(expected, kinds):
    def body(device):
        a, b = device.asarray(HOST), device.asarray(HOST)
        return lambda: a + b

    device = simulated()
    if kinds != "the device's own":  # a simulated host knows no other memory
        told = iter(kinds or ())
        device.host_memory = (lambda host: next(told)) if kinds else None
    found = transfers(prepared(device, body), rounds=1)
    assert (expected, "pageable") == (found.h2d.memory, found.d2h.memory)


def test_a_loop_leaves_its_result_to_be_checked():
    sampled = BlockTimer(workload=prepared(simulated(), both_ways))
    loop_timer(sampled.workload, RunOptions(), sampled).take_sample()
    assert sampled.last_result.tolist() == [2.0] * 1000


def test_what_copies_add_to_calls_is_what_a_loop_takes_longer_than_the_last_of_them():
    copies = Copies(bytes=8, arrays=1, samples=array("d", [1.0, 2.0]))
    found = Transfer(h2d=copies, d2h=copies)
    assert [2.0, 4.0] == found.beside([9.0, 9.0, 9.0])
    assert [4.0, 6.0] == replace(found, loop=array("d", [5.0, 8.0])).beside([0.5, 1.0, 2.0])
