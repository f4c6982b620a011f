"""Interference: what samples hold beside the workload, and when a GPU was slowed down too often."""

import pytest
from factories import measurement

from pytest_gpuperf.analysis.noise import describe, detect, throttle_reason, worst_in_report
from pytest_gpuperf.model.measurement import DeviceInfo, Interference

CONTENTION = Interference(kind="cpu_contention", own_share=0.5, waited=0.5)
CPU = DeviceInfo(kind="cpu", backend="numpy", name="EPYC", library="numpy 2.4.1")
UNSTABLE = Interference(kind="unstable_cpu_times", own_share=0.25, median=4.0, fastest=1.0)


@pytest.mark.parametrize(
    ("expected", "samples", "waited", "fastest"),
    [
        (None, [], 9.0, 1.0),
        (None, [1.0, 1.0], 0.5, 1.0),
        (None, [3.0, 3.0], 0.0, 1.0),
        (CONTENTION, [1.0, 1.0], 1.0, 1.0),
        (UNSTABLE, [4.0, 1.0, 4.0], 0.0, 1.0),
        (CONTENTION, [4.0, 4.0], 4.0, 1.0),
    ],
)
def test_interference_is_the_time_that_was_not_the_workloads(expected, samples, waited, fastest):
    assert expected == detect(samples, block_calls=1, waited=waited, fastest=fastest)


def test_more_time_waited_than_was_measured_leaves_nothing():
    assert detect([1.0], block_calls=1, waited=2.0, fastest=1.0).own_share == 0.0


def test_the_time_waited_is_that_of_all_calls_of_a_block():
    assert detect([1.0], block_calls=10, waited=1.0, fastest=1.0) is None
    assert detect([1.0], block_calls=2, waited=1.0, fastest=1.0).own_share == 0.5


def test_of_several_the_worst_leaves_the_workload_the_smallest_share():
    quiet, unstable = measurement(CPU, 1.0, 1.0), measurement(CPU, 4.0, 1.0, 4.0)
    assert worst_in_report(unstable, None) == worst_in_report(unstable, CONTENTION) == UNSTABLE
    assert worst_in_report(quiet, CONTENTION) == CONTENTION
    assert worst_in_report(quiet, None) is None


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("CPU contention: threads waited for a processor, 0.5 s per second of measurement", CONTENTION),
        ("unstable CPU timings: the median is 4 s, the fastest block took 1 s", UNSTABLE),
    ],
)
def test_an_interference_is_said_with_its_numbers(expected, found):
    assert expected == describe(found)


@pytest.mark.parametrize(
    ("expected", "dropped", "begun"),
    [(False, 0, 0), (False, 0, 10), (False, 2, 10), (True, 3, 10), (True, 1, 1), (False, 1, 5), (True, 1, 4)],
)
def test_a_fifth_of_the_rounds_may_be_dropped_and_no_more(expected, dropped, begun):
    assert expected is (throttle_reason(dropped, begun) is not None)


@pytest.mark.parametrize(
    ("expected", "throttle"),
    [
        ("the GPU was slowed down in 3 of 10 rounds; improve its cooling or raise its power limit", ()),
        ("the GPU was slowed down (heat, power) in 3 of 10 rounds; improve its cooling", ("heat", "power")),
    ],
)
def test_a_slow_gpu_is_said_with_its_numbers_and_the_remedy(expected, throttle):
    assert throttle_reason(3, 10, throttle).startswith(expected)


def test_without_samples_a_report_shows_no_interference():
    assert worst_in_report(measurement(CPU), CONTENTION) is None
