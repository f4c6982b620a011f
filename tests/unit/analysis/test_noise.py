"""Disturbances: what samples hold beside the workload, and when a GPU was slowed down too often."""

import pytest

from pytest_gpuperf.analysis.noise import Disturbance, find, stated, throttled

WAITED = "threads waited for a processor, 0.5 s in each second of the CPU's blocks"
WANDERS = "the CPU's times wander: their median is 4 s, a block took 1 s"


@pytest.mark.parametrize(
    ("expected", "samples", "waited", "fastest"),
    [
        (None, [], 9.0, 1.0),
        (None, [1.0, 1.0], 0.5, 1.0),
        (None, [3.0, 3.0], 0.0, 1.0),
        (Disturbance(own=0.5, reason=WAITED), [1.0, 1.0], 1.0, 1.0),
        (Disturbance(own=0.25, reason=WANDERS), [4.0, 1.0, 4.0], 0.0, 1.0),
        (Disturbance(own=0.5, reason=WAITED), [4.0, 4.0], 4.0, 1.0),
    ],
)
def test_a_disturbance_is_the_time_that_was_not_the_workloads(expected, samples, waited, fastest):
    assert expected == find(samples, block_calls=1, waited=waited, fastest=fastest)


def test_more_time_waited_than_was_measured_leaves_nothing():
    assert find([1.0], block_calls=1, waited=2.0, fastest=1.0).own == 0.0


def test_the_time_waited_is_that_of_all_calls_of_a_block():
    assert find([1.0], block_calls=10, waited=1.0, fastest=1.0) is None
    assert find([1.0], block_calls=2, waited=1.0, fastest=1.0).own == 0.5


@pytest.mark.parametrize("reason", [WAITED, WANDERS])
def test_a_note_tells_a_disturbance_and_not_how_large_it_was(reason):
    assert stated(["another", reason]) == Disturbance(own=0.0, reason=reason)
    assert stated([f"not {reason}"]) is None
    assert stated([]) is None


@pytest.mark.parametrize(
    ("expected", "dropped", "begun"),
    [(False, 0, 0), (False, 0, 10), (False, 2, 10), (True, 3, 10), (True, 1, 1), (False, 1, 5), (True, 1, 4)],
)
def test_a_fifth_of_the_rounds_may_be_dropped_and_no_more(expected, dropped, begun):
    assert expected is (throttled(dropped, begun) is not None)


@pytest.mark.parametrize(
    ("expected", "throttle"),
    [
        ("the GPU was slowed down in 3 of 10 rounds; cool it, or give it the power that it may draw", ()),
        ("the GPU was slowed down (heat, power) in 3 of 10 rounds; cool it", ("heat", "power")),
    ],
)
def test_a_slow_gpu_is_said_with_its_numbers_and_the_remedy(expected, throttle):
    assert throttled(3, 10, throttle).startswith(expected)
