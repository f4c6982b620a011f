"""Transfers: which copies a call needs, and how long they take on links of known bandwidth."""

from array import array
from functools import partial
from typing import Any

import numpy as np
import pytest
import walks
from cases import for_each
from factories import Answer
from msgspec.structs import replace
from walks import prepared

from pytest_gpuperf.devices.simulated import SimulatedDevice
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.measurement import Copies, Transfer
from pytest_gpuperf.timing import transfers, untimed_calls
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.transfers import TransferTimer

SIZE = 8000  # bytes of an array of a thousand numbers: 8 ms at a megabyte a second
NOTHING = "nothing is transferred: "


def simulated(*, bandwidth=1e6, **timing) -> SimulatedDevice:
    return walks.simulated(bandwidth=bandwidth, **timing)


def copying(body, *, rounds=1, device=None, **timing) -> TransferTimer:
    """Return the copies of a body, timed so many times."""
    found = TransferTimer(prepared(device or simulated(**timing), body), RunOptions())
    for _ in range(rounds):
        for timer in found.timers:
            timer.take_sample()
    return found


def host() -> np.ndarray:
    return np.ones(1000)


def both_ways(device):
    a = device.asarray(host())
    return lambda: a + 1


def up_only(device):
    a = device.asarray(host())
    return lambda: float(a.sum())


def down_only(device):
    return lambda: device.xp.ones(1000)


def neither(device):
    a = device.xp.ones(1000)
    return lambda: float(a.sum())


def whole(device):
    return device.asarray(host()) + 1


def test_copies_take_their_bytes_over_the_bandwidth_in_each_direction():
    found = copying(both_ways, rounds=2).transfer
    assert (SIZE, 1, SIZE, 1) == (found.h2d.bytes, found.h2d.arrays, found.d2h.bytes, found.d2h.arrays)
    assert [pytest.approx(8e-3)] * 2 == list(found.h2d.samples)
    assert [pytest.approx(8e-3)] * 2 == list(found.d2h.samples)
    assert (pytest.approx(1e6), pytest.approx(1e6)) == (found.h2d.bandwidth, found.d2h.bandwidth)
    assert (16_000, pytest.approx(16e-3)) == (found.bytes, found.median)
    assert found.reason is None


def test_each_direction_has_its_own_bandwidth():
    found = copying(both_ways, bandwidth=1e6, upload=4e6).transfer
    assert (pytest.approx(2e-3), pytest.approx(8e-3)) == (found.h2d.median, found.d2h.median)
    assert (pytest.approx(4e6), pytest.approx(1e6)) == (found.h2d.bandwidth, found.d2h.bandwidth)


def test_quick_copies_are_timed_in_blocks_of_many():
    found = copying(both_ways, bandwidth=8e9)
    assert all(timer.block_calls == 100 for timer in found.timers)
    assert found.transfer.median == pytest.approx(2e-6)


def test_a_copy_is_waited_for_as_a_call_with_copies_has_to_be():
    found = copying(both_ways, rounds=1, synchronize=50e-6).transfer
    of_its_block = 50e-6  # 20 of them and more: a block of one copy
    assert found.h2d.median == pytest.approx(8e-3 + 50e-6 + of_its_block)
    assert found.d2h.median == pytest.approx(8e-3 + 50e-6 + of_its_block)


def test_making_the_result_is_no_copy():
    found = copying(both_ways, kernel=5.0).transfer
    assert found.median == pytest.approx(16e-3)


def test_several_arrays_are_copied_as_one():
    def body(device):
        a, b, c = (device.asarray(part) for part in (host(), np.ones((5, 100)), np.ones(500, "f4")))
        return lambda: (a + 1, b.sum(axis=0), c + 1)

    found = copying(body).transfer
    assert (8000 + 4000 + 2000, 3) == (found.h2d.bytes, found.h2d.arrays)
    assert (8000 + 800 + 2000, 3) == (found.d2h.bytes, found.d2h.arrays)
    assert (pytest.approx(14e-3), pytest.approx(10.8e-3)) == (found.h2d.median, found.d2h.median)


@for_each(
    "pack",
    [
        lambda a, b: (a, b),
        lambda a, b: [a, None, [b]],
        lambda a, b: {"a": a, "b": {"deep": b, "text": "host"}},
        lambda a, b: Answer(a, (b, 3.0)),
        lambda a, b: [{"pair": Answer(a, np.ones(99))}, b],
    ],
)
def test_results_come_down_from_wherever_they_stand(pack):
    def body(device):
        a = device.asarray(host())
        return lambda: pack(a + 1, a[:500] + 1)

    found = copying(body).transfer.d2h
    assert (12_000, 2, pytest.approx(12e-3)) == (found.bytes, found.arrays, found.median)


def watched(device) -> list[Any]:
    """Return a list that grows by what goes up from now on."""
    went_up, asarray = [], device.asarray
    device.asarray = lambda value: (went_up.append(value), asarray(value))[1]
    return went_up


@for_each("values", [[1.0] * 1000, np.arange(1000.0)])
def test_what_goes_up_is_what_went_up_first_and_a_list_as_the_array_that_it_becomes(values):
    device = simulated()
    found = copying(lambda seen: partial(np.add, seen.asarray(values), 1), device=device)
    went_up = watched(device)
    found.timers[0].take_sample()
    (moved,) = went_up
    assert type(moved) is np.ndarray
    assert (moved is values) == (type(values) is np.ndarray)
    assert (SIZE, pytest.approx(8e-3)) == (found.transfer.h2d.bytes, found.transfer.h2d.samples[0])


def test_arrays_that_fixtures_put_up_are_copied_up_too():
    device = simulated()
    brought = device.asarray(host())
    workload, _ = untimed_calls.first_call(
        lambda seen: partial(lambda seen, weights: lambda: weights + 1, seen, weights=brought), device
    )
    found = TransferTimer(workload, RunOptions())
    found.timers[0].take_sample()
    assert (SIZE, pytest.approx(8e-3)) == (found.transfer.h2d.bytes, found.transfer.h2d.samples[0])


@for_each(("up", "down", "body"), [(8e-3, 0.0, up_only), (0.0, 8e-3, down_only)])
def test_a_result_on_the_host_has_nothing_to_come_down_and_arrays_made_on_the_device_nothing_to_go_up(
    up, down, body
):
    found = copying(body)
    copies = found.transfer
    assert len(found.timers) == 1
    assert (pytest.approx(up), pytest.approx(down)) == (copies.h2d.median, copies.d2h.median)
    still = copies.h2d if up == 0 else copies.d2h
    assert (0, 0, array("d"), None) == (still.bytes, still.arrays, still.samples, still.bandwidth)
    assert (copies.median, copies.reason) == (pytest.approx(8e-3), None)


def test_where_nothing_moves_nothing_is_timed_and_the_reason_says_so():
    found = copying(neither)
    assert ([], []) == (found.timers, found.transfer.samples)
    assert (0, 0.0, SIZE) == (found.transfer.bytes, found.transfer.median, found.transfer.made)
    assert found.transfer.reason.startswith(NOTHING)


def test_a_whole_body_has_no_copies_of_its_own_and_says_why():
    found = transfers.untimed(prepared(simulated(), whole))
    assert Transfer(h2d=None, d2h=None, reason=transfers.TIMED_WITH_BODY) == found
    assert found.reason.startswith("the whole body is the workload, including its transfers")
    assert (None, None) == (found.bytes, found.median)


@for_each("body", [both_ways, up_only, down_only])
def test_copies_that_were_not_timed_have_their_bytes_and_the_reason(body):
    found = transfers.untimed(prepared(simulated(), body), "no GPU was measured")
    assert (None, "no GPU was measured") == (found.median, found.reason)
    assert (SIZE if body is not down_only else 0) == found.h2d.bytes
    assert (SIZE if body is not up_only else 0) == found.d2h.bytes


def test_that_nothing_moves_is_a_better_reason_than_that_it_was_not_timed():
    found = transfers.untimed(prepared(simulated(), neither), "no GPU was measured")
    assert found.reason.startswith(NOTHING)
    assert Copies(bytes=0, arrays=0) == found.h2d == found.d2h


def test_the_samples_are_the_seconds_of_both_directions_round_by_round():
    found = copying(both_ways, upload=4e6)
    found.timers[0].samples.append(0.5)
    found.timers[1].samples.append(0.25)
    assert [pytest.approx(10e-3), 0.75] == found.transfer.samples


def test_what_was_measured_by_now_does_not_grow_later():
    found = copying(both_ways)
    by_now = found.transfer
    found.timers[0].take_sample()
    assert (1, 2) == (len(by_now.h2d.samples), len(found.transfer.h2d.samples))


@for_each(
    ("expected", "kinds"),
    [
        ("pinned", ["pinned", "pinned"]),
        ("pageable", ["pinned", "pageable"]),
        ("pageable", ["pageable", "pageable"]),
        (None, [None, None]),
        (None, ["pinned", None]),
        ("pageable", ["pageable", None]),
    ],
)
def test_one_array_in_pageable_memory_makes_the_whole_of_it_so(expected, kinds):
    def body(device):
        a, b = device.asarray(host()), device.asarray(host())
        return lambda: a + b

    device = simulated()
    told = iter(kinds)
    device.host_memory = lambda host: next(told)
    assert expected == copying(body, device=device).transfer.h2d.memory


def test_the_simulated_hosts_memory_is_pageable_and_a_device_that_does_not_tell_leaves_it_open():
    device = simulated()
    device.host_memory = None
    for expected, of in ((("pageable", "pageable"), None), ((None, "pageable"), device)):
        found = copying(both_ways, device=of).transfer
        assert expected == (found.h2d.memory, found.d2h.memory)


def loop_of(body, **timing):
    """Return the seconds of a call with its copies, as a loop makes it."""
    timer = transfers.loop_timer(prepared(simulated(**timing), body), RunOptions())
    timer.take_sample()
    return timer.samples[0]


@for_each(("expected", "body"), [(17e-3, both_ways), (9e-3, up_only), (9e-3, down_only)])
def test_a_loop_has_the_uploads_the_call_and_the_download(expected, body):
    assert loop_of(body, kernel=1e-3) == pytest.approx(expected)


def test_a_loop_waits_once_for_a_call_with_its_copies():
    wait, of_its_block = 50e-6, 50e-6
    for body, time in ((both_ways, 17e-3), (down_only, 9e-3)):
        assert loop_of(body, kernel=1e-3, synchronize=50e-6) == pytest.approx(time + wait + of_its_block)


def test_a_loop_brings_results_down_from_wherever_they_stand():
    def body(device):
        a = device.asarray(host())
        return lambda: {"a": a + 1, "b": [a[:500] + 1, 3.0]}

    assert loop_of(body, kernel=1e-3) == pytest.approx(8e-3 + 2e-3 + 12e-3)


@for_each("body", [neither, whole])
def test_without_copies_of_its_own_a_workload_has_no_loop(body):
    assert transfers.loop_timer(prepared(simulated(), body), RunOptions()) is None


def test_a_loop_holds_one_result_and_the_inputs_twice_and_leaves_its_result_to_be_checked():
    device = simulated()
    sampled = BlockTimer(workload=prepared(device, both_ways), keeps_result=True)
    sampled.take_sample()
    before, device.peak_bytes = sampled.last_result, device.live_bytes
    assert (2 * SIZE, [2.0] * 1000) == (device.live_bytes, before.tolist())
    del before
    transfers.loop_timer(sampled.workload, RunOptions(), sampled).take_sample()
    assert (2 * SIZE, 3 * SIZE) == (device.live_bytes, device.peak_bytes)
    assert sampled.last_result.tolist() == [2.0] * 1000


def test_what_copies_add_to_calls_is_what_a_loop_takes_longer_than_the_last_of_them():
    copies = Copies(bytes=8, arrays=1, samples=array("d", [1.0, 2.0]))
    found = Transfer(h2d=copies, d2h=copies)
    assert [2.0, 4.0] == found.beside([9.0, 9.0, 9.0])
    assert [4.0, 6.0] == replace(found, loop=array("d", [5.0, 8.0])).beside([0.5, 1.0, 2.0])


def test_one_result_and_the_inputs_twice_are_held_while_copies_are_timed():
    device = simulated()
    workload = prepared(device, both_ways)
    device.peak_bytes = device.live_bytes
    found = TransferTimer(workload, RunOptions())
    assert (2 * SIZE, 3 * SIZE) == (device.live_bytes, device.peak_bytes)
    del found
    assert device.live_bytes == SIZE
