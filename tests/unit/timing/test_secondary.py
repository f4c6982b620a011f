"""Copies of each call and single calls: how long they take, in how many rounds, and what keeps them away."""

from array import array
from functools import partial
from itertools import count
from math import inf

import numpy as np
import pytest
from cases import for_each
from msgspec.structs import replace
from walks import simulated, walked

from pytest_gpuperf.analysis.diagnosis import find
from pytest_gpuperf.devices.simulated import (
    Clock,
    SimulatedDevice,
    SimulatedDeviceLost,
    SimulatedOutOfMemory,
    Timing,
)
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Copies, Transfer
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.model.sampling_constants import SamplingPlan

SIZE = 8000  # bytes of an array of a thousand numbers
HOST = np.ones(1000)


def both_ways(device):
    a = device.asarray(HOST)
    return lambda: a + 1


def two_inputs(device):
    """Return a call whose result takes next to no room."""
    a, b = device.asarray(HOST), device.asarray(HOST)
    return lambda: a[:1] + b[:1]


def two_results(device):
    a = device.asarray(HOST)
    return lambda: (a + 1, a + 2)


def three_kernels(device):
    a = device.asarray(HOST)
    return lambda: a * 2 + a + a


def neither(device):
    a = device.xp.ones(1000)
    return lambda: float(a.sum())


def whole_body(device):
    return device.asarray(HOST) + 1


def devices(cpu=2e-3, gpu=1e-3, **timing):
    clock = Clock()
    return simulated("cpu", clock, kernel=cpu), simulated("gpu", clock, kernel=gpu, **timing)


def measured(body=both_ways, demand=None, on=None, *, max_time=10.0, sampling=None, **timing) -> Record:
    found = walked(
        body,
        *(on or devices(**timing)),
        demand or Demand(min=0.1),
        max_time=max_time,
        sampling=sampling or SamplingPlan(),
    )
    assert "aside_failed" not in [note.code for note in found.notes]
    return found


@for_each(
    ("samples", "latencies", "demand"),
    [
        (None, 11, Demand(min=3)),  # blocks of 14 calls until 3 ms were spent
        (7, None, Demand(min=3, latency=True)),  # blocks of 53 calls, as they count for a verdict
    ],
)
def test_beside_a_demand_of_throughput_single_calls_are_sampled_and_of_latency_blocks(
    samples, latencies, demand
):
    found = measured(lambda device: device.launch, demand, gpu=21e-6)
    rounds = found.speedup.rounds
    assert (samples or rounds, latencies or rounds) == (len(found.gpu.samples), len(found.gpu.latencies))
    assert [pytest.approx(21e-6)] * (rounds + (samples or latencies)) == [
        *found.gpu.samples,
        *found.gpu.latencies,
    ]
    assert (rounds, 0) == (len(found.cpu.samples), len(found.cpu.latencies)), "each block is one call"


@for_each(("expected", "seconds", "sampled"), [(7, 1e-9, 0.15), (60, 1.0, 0.15), (60, 1.0, 0.4)])
def test_what_no_limit_rests_on_has_a_round_for_each_stretch_and_sixty_at_most(expected, seconds, sampled):
    plan = SamplingPlan(secondary_time=seconds, record_time=sampled)
    found = measured(demand=Demand(), gpu=21e-6, cpu=42e-6, sampling=plan)
    assert expected == len(found.gpu.latencies)
    # Copies have at most as many as the workload.
    assert min(expected, found.speedup.rounds) == len(found.transfer.samples) == len(found.transfer.loop)
    assert (found.speedup.rounds > 60) == (sampled > 0.15)


@for_each(("looped", "kernel"), [(7, 9e-3), (0, 11e-3)])
def test_only_a_quick_call_is_timed_in_a_loop_with_its_copies_too(looped, kernel):
    found = measured(gpu=kernel, bandwidth=8e6).transfer
    assert [pytest.approx(kernel + 2e-3)] * looped == list(found.loop)
    assert [pytest.approx(2e-3)] * 7 == found.samples


class Nested:
    """An array of the device, as torch's nested tensors are: NumPy has nothing like it."""

    dtype, shape, nbytes = "float32", (), SIZE


class WithNested(SimulatedDevice):
    def holds(self, value):
        return isinstance(value, Nested) or super().holds(value)

    def asnumpy(self, array):
        if isinstance(array, Nested):
            raise TypeError("can't convert it to numpy")
        return super().asnumpy(array)


@for_each("demand", [Demand(), Demand(min=0.1, check=False)])
def test_a_result_that_has_no_form_on_the_host_is_never_copied_and_the_record_says_so(demand):
    def body(device):
        a = device.asarray(HOST)
        return lambda: (a + 1, Nested())[1]

    clock = Clock()
    on = tuple(WithNested(kind, clock=clock, timing=Timing(kernel=1e-3)) for kind in ("cpu", "gpu"))
    found = measured(body, demand, on)
    assert ("passed" if demand.min else "recorded") == found.verdict
    assert (None, None, ()) == (found.transfer.h2d, found.transfer.d2h, tuple(found.transfer.loop))
    assert "an array of the result cannot be copied to the host" in found.transfer.reason


@for_each("max_time", [0.11, 0.12, 0.17])  # in the first and the last the loop comes after the call
def test_a_loop_in_the_rounds_of_the_verdict_is_not_timed_again_and_its_result_is_checked(max_time):
    always, whole = Demand(min=0.1, transfer="always"), SamplingPlan(whole=True)
    found = measured(demand=always, sampling=whole, max_time=max_time)
    assert found.speedup.rounds == len(found.transfer.loop) > 7
    assert (found.status, found.check.agreed) == ("passed", True)


@for_each(("looped", "copied", "seconds"), [(1, 0, 10.0), (6, 0, 22.0), (7, 1, 26.0), (7, 2, 30.0)])
def test_slow_copies_have_only_the_rounds_that_the_test_has_time_for(looped, copied, seconds):
    found = measured(bandwidth=8e3, max_time=seconds, demand=Demand())  # of a second in each direction
    assert (looped, copied) == (len(found.transfer.loop), len(found.transfer.samples))
    assert found.elapsed - found.gpu.setup < seconds + 2.2


@for_each("demand", [Demand(), Demand(min=1, latency=True), Demand(min=1, transfer="always")])
@for_each("wait", [5e-6, 20e-6, 60e-6, 200e-6])
def test_a_call_that_is_waited_for_has_one_wait_whatever_is_demanded(wait, demand):
    found = measured(cpu=310e-6, gpu=40e-6, synchronize=wait, bandwidth=1e12, demand=demand)
    alone, copies = 40e-6 + wait, 2 * SIZE / 1e12
    assert pytest.approx(310e-6 / alone, rel=1e-6) == found.offload.latency.value
    assert pytest.approx(310e-6 / (alone + copies), rel=1e-6) == found.offload.always.value
    of_the_demand = found.offload.never if demand.latency else found.offload.always
    assert of_the_demand == found.speedup or not demand.limits


@for_each("body", [both_ways, two_inputs, two_results])
@for_each("wait", [0.0, 13e-6, 200e-6])
def test_copies_take_the_time_of_their_bytes_and_are_charged_no_wait(wait, body):
    found = measured(body, gpu=30e-6, synchronize=wait, bandwidth=7e9, upload=5e9).transfer
    assert pytest.approx(5e9, rel=1e-6) == found.h2d.bandwidth
    assert pytest.approx(7e9, rel=1e-6) == found.d2h.bandwidth
    assert len(found.loop) == len(found.samples) == 7


def test_a_download_that_waits_for_nothing_takes_no_less_for_it():
    cpu, gpu = devices(synchronize=50e-6, bandwidth=1e9)

    def asnumpy(array):
        gpu.clock.advance(2e-6 + array.nbytes / 1e9)
        return np.array(array.view(np.ndarray))

    gpu.asnumpy = asnumpy
    found = measured(on=(cpu, gpu)).transfer
    assert pytest.approx(SIZE / 1e9, rel=1e-3) == found.d2h.median


def test_small_copies_beside_long_waits_bind_nothing_and_the_launches_do():
    cpu, gpu = devices(cpu=43e-6, gpu=3e-6, launch=9e-6, synchronize=13e-6, bandwidth=7e9)
    found = find(measured(three_kernels, on=(cpu, gpu)), usable=None, pool_threads=None)
    assert {"launch_bound"} == {"launch_bound", "transfer_bound"} & {each.code for each in found}


@for_each(
    ("said", "body"),
    [
        ("nothing is transferred: ", neither),
        ("the whole body is the workload, including its transfers", whole_body),
    ],
)
def test_where_there_is_nothing_to_copy_the_reason_says_so(said, body):
    for found in (measured(body).transfer, measured(body, max_time=1e-9).transfer):
        assert found.reason.startswith(said)
        assert ([], found.bytes) == (found.samples, found.median), "no bytes take no time"
        assert (found.h2d is None, found.made) == ((True, 0) if body is whole_body else (False, SIZE))


@for_each(
    ("said", "demand", "options"),
    [
        ("max_time was reached before the transfers were timed", Demand(), {"cpu": 4.0, "gpu": 4.0}),
        ("every round was dropped", Demand(), {"on": devices()}),
        ("not enough device memory for a second copy of the inputs", Demand(), {"memory": 2.5 * SIZE}),
    ],
)
def test_without_time_rounds_or_room_copies_are_not_timed_and_the_sentence_says_so(said, demand, options):
    for device in options.get("on", ()):
        device.throttle = lambda: ("hot",)
    found = measured(two_inputs, demand, **options).transfer
    assert found.reason.startswith(said)
    assert ([], 2 * SIZE) == (found.samples, found.h2d.bytes)


@for_each(
    ("error", "copies_before"),
    [(SimulatedOutOfMemory, 2), (SimulatedOutOfMemory, 20), (SimulatedDeviceLost, 2)],
)
def test_before_memory_is_given_back_nothing_but_the_inputs_is_held_and_a_lost_device_is_an_error(
    error, copies_before
):
    cpu, gpu = devices(bandwidth=1e6)
    asarray, placed, held = gpu.asarray, count(), []

    def asarray_until_it_fails(host):
        if next(placed) == copies_before:
            raise error(SIZE)
        return asarray(host)

    gpu.asarray = asarray_until_it_fails
    gpu.release = lambda: held.append(gpu.live_bytes)
    if error is SimulatedDeviceLost:
        with pytest.raises(error):
            measured(on=(cpu, gpu))
    else:
        found = measured(on=(cpu, gpu), sampling=SamplingPlan(secondary_time=inf))
        assert found.transfer.reason.startswith("not enough device memory")
        assert [SIZE] == held


@for_each("values", [[1.0] * 1000, np.arange(1000.0)])
def test_what_goes_up_is_what_went_up_first_and_a_list_as_the_array_that_it_becomes(values):
    cpu, gpu = devices()
    asarray, went_up = gpu.asarray, []
    gpu.asarray = lambda value: (went_up.append(value), asarray(value))[1]
    found = measured(lambda seen: partial(np.add, seen.asarray(values), 1), on=(cpu, gpu))
    assert found.transfer.h2d.bytes == SIZE
    assert {np.ndarray} == {type(moved) for moved in went_up[1:]}
    assert went_up[0] is values
    assert (went_up[-1] is values) == (type(values) is np.ndarray)


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
    cpu, gpu = devices()
    if kinds != "the device's own":  # a simulated host knows no other memory
        told = iter(kinds or ())
        gpu.host_memory = lambda host: next(told, None)
    found = measured(two_inputs, on=(cpu, gpu)).transfer
    assert (expected, "pageable") == (found.h2d.memory, found.d2h.memory)


def test_what_copies_add_to_calls_is_what_a_loop_takes_longer_than_the_last_of_them():
    copies = Copies(bytes=8, arrays=1, samples=array("d", [1.0, 2.0]))
    found = Transfer(h2d=copies, d2h=copies)
    assert [2.0, 4.0] == found.beside([9.0, 9.0, 9.0])
    assert [4.0, 6.0] == replace(found, loop=array("d", [5.0, 8.0])).beside([0.5, 1.0, 2.0])
