"""Interference: what samples hold beside the workload, and when a GPU was slowed down too often."""

import pytest
from cases import for_each
from factories import CPU, EMULATED, measurement
from golden import assert_golden
from msgspec.structs import replace

from pytest_gpuperf.analysis.noise import (
    describe,
    detect,
    in_short,
    is_watched,
    throttle_reason,
    worst_in_report,
)
from pytest_gpuperf.model.measurement import Interference

CONTENTION = Interference(kind="cpu_contention", own_share=0.5, waited=0.5)
UNSTABLE = Interference(kind="unstable_cpu_times", own_share=0.25, median=4.0, fastest=1.0)


@for_each(
    ("expected", "samples", "waited", "fastest"),
    [
        (None, [], 9.0, 1.0),
        (None, [1.0, 1.0], 0.5, 1.0),
        (None, [3.0, 3.0], 0.0, 1.0),
        (UNSTABLE, [4.0, 1.0, 4.0], 0.0, 1.0),
        (CONTENTION, [2.0, 2.0], 2.0, 1.5),
    ],
)
def test_interference_is_the_time_that_was_not_the_workloads(expected, samples, waited, fastest):
    assert expected == detect(samples, block_calls=1, waited=waited, fastest=fastest)


def test_the_time_waited_is_that_of_all_calls_of_a_block():
    assert detect([1.0], block_calls=10, waited=1.0, fastest=1.0) is None
    assert detect([1.0], block_calls=2, waited=1.0, fastest=1.0).own_share == 0.5
    assert detect([1.0], block_calls=1, waited=2.0, fastest=1.0).own_share == 0.0, "more than was measured"


def contention(own_share, waited, threads):
    return Interference(kind="cpu_contention", own_share=own_share, waited=waited, threads=threads)


@for_each(
    ("expected", "waited", "threads", "least"),
    [
        (0.5, 0.5, 1, None),
        (0.1, 1.9, 2, 0.1),  # both wait for a processor, and one for the other
        (0.0, 1.9, 2, None),
        (0.6, 7.8, 8, 2.0),  # no more than the fastest block
    ],
)
def test_what_is_certainly_the_workloads_own_is_left_without_all_waits_or_is_its_processor_time(
    expected, waited, threads, least
):
    found = detect([1.0], block_calls=1, waited=waited, fastest=0.6, threads=threads, least=least)
    assert contention(pytest.approx(expected), waited, threads) == found


@for_each(
    ("expected", "device", "waited"),
    [
        (True, CPU, None),
        (True, EMULATED, 0.0),
        (False, EMULATED, None),
        (False, replace(EMULATED, emulated=False), 9.0),
    ],
)
def test_work_is_watched_where_it_runs_on_the_cpu(expected, device, waited):
    assert expected is is_watched(device, waited)
    slowed = measurement(device, 4.0, 1.0, 4.0, waited=waited)
    assert expected is (worst_in_report(slowed, None) is not None)


def test_a_report_shows_what_a_call_needs_in_any_case():
    busy = measurement(CPU, 1.0, block_calls=1, waited=1.9, waiting_threads=2, least_time=0.1)
    assert worst_in_report(busy, None) == contention(0.1, 1.9, 2)


def test_of_several_the_worst_leaves_the_workload_the_smallest_share():
    quiet, unstable = measurement(CPU, 1.0, 1.0), measurement(CPU, 4.0, 1.0, 4.0)
    assert worst_in_report(unstable, None) == worst_in_report(unstable, CONTENTION) == UNSTABLE
    assert worst_in_report(quiet, CONTENTION) == CONTENTION
    assert worst_in_report(quiet, None) is None
    assert worst_in_report(measurement(CPU), CONTENTION) is None, "without samples"


@for_each(
    ("expected", "dropped", "begun"),
    [(False, 0, 0), (False, 2, 10), (True, 3, 10), (False, 1, 5), (True, 1, 4)],
)
def test_a_fifth_of_the_rounds_may_be_dropped_and_no_more(expected, dropped, begun):
    assert expected is (throttle_reason(dropped, begun) is not None)


def test_what_disturbed_a_device_is_said_with_its_numbers_and_the_remedy():
    assert describe(None, None) is None
    slow = replace(UNSTABLE, median=2.6e-3, fastest=6.5e-4)
    said = [describe(CONTENTION), describe(contention(0.123, 1.9, 2)), describe(None, slow)]
    said += [describe(UNSTABLE, CONTENTION), in_short(CONTENTION), in_short(UNSTABLE)]
    said += [throttle_reason(3, 10), throttle_reason(3, 10, ("heat", "power"))]
    assert_golden("words/disturbances.txt", "".join(f"{each}\n" for each in said))
