"""Estimation: from the times of two devices to a speedup, what was seen of it and what is certain."""

from math import inf
from statistics import median

import pytest
from cases import for_each
from factories import sampled
from msgspec.structs import replace

from pytest_gpuperf.analysis.estimation import Sampled, estimate_time, sampled_rounds
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Bounds, Interference, Neighbours, Round

IN_ORDER = [2.0, 2.1, 2.2, 1.9, 1.8, 2.0, 2.4]  # the median of each of seven stretches
STRETCHES = [ratio for middle in IN_ORDER for ratio in (9.0, middle, 0.1, middle)]


def of(cpu, gpu, seconds: float = 10.0, sampling: Neighbours = "interleaved") -> Sampled:
    return Sampled(cpu=cpu, gpu=gpu, seconds=seconds, sampling=sampling)


@for_each(
    ("factor", "ratios", "seconds"),
    [
        (1.01, STRETCHES, 7.5),
        (1.5, STRETCHES, 7.4),
        (2.0, STRETCHES, 0.1),
        (1.1, IN_ORDER, 7.5),
        (2.7, [1.8, 2.1, 2.4], 7.5),
        (4.9, [1.8, 2.4], 7.5),
    ],
)
def test_a_speedup_is_the_median_with_what_was_seen_and_what_a_limit_beyond_would_be_missed_by(
    factor, ratios, seconds
):
    found = sampled(*ratios, seconds=seconds).speedup()
    assert (1.8, 2.4) == pytest.approx((found.low, found.high))
    assert (median(ratios), len(ratios)) == (pytest.approx(found.value), found.rounds)
    assert (1.8 / factor, 2.4 * factor) == pytest.approx((found.certain.low, found.certain.high))


def test_without_a_round_there_is_no_speedup_and_one_has_no_range():
    assert sampled().speedup() is None
    found = sampled(2.0).speedup()
    assert (None, None, Bounds(low=None, high=None)) == (found.low, found.high, found.certain)


def test_rounds_are_compared_each_for_itself_and_variants_stretch_by_stretch():
    """Both devices slow down together: that shows in no round, and in times that were taken apart it does."""
    cpu, gpu = [10.0, 20.0, 30.0, 40.0], [1.0, 2.0, 3.0, 4.0]
    together, apart = of(cpu, gpu).speedup(), of(cpu, gpu, sampling="variants").speedup()
    assert (10, 10, 10) == pytest.approx((together.value, together.low, together.high))
    assert (10, 2.5, 40) == pytest.approx((apart.value, apart.low, apart.high))
    assert apart.sampling == "variants"


def test_of_two_variants_the_shorter_counts_and_the_medians_are_of_all_samples():
    found = of([10.0] * 5 + [30.0] * 4, [1.0, 2.0, 4.0], sampling="variants")
    assert (5.0, 3) == (found.value, found.rounds)
    assert found.look.misses == 2.7
    assert found.seen == pytest.approx((10 / 4, 30 / 1))


def test_stretches_of_so_many_rounds_have_a_range_of_those_that_are_full():
    assert (2.0, 4.0) == sampled(2, 2, 2, 4, 4, 4, 9).in_stretches_of(3)
    cpu = [10.0] * 7 + [20.0] * 7
    assert (10 / 4, 20 / 2) == of(cpu, [2, 2, 4, 4, 9], sampling="variants").in_stretches_of(2)


# What shows although other work took time from the samples of a device.

BUSY = Interference(kind="cpu_contention", own_share=0.1, waited=1.9, threads=2)
LOST = replace(BUSY, own_share=0.0)
ALWAYS = Demand(transfer="always")
TIMES = [(40.0, 1.0), (20.0, 2.0), (400.0, 2.0), (100.0, 0.5), (100.0, 4.0), (300.0, 4.0)]
DISTURBED = [Round(cpu=cpu, gpu=gpu, copies=1.0) for cpu, gpu in TIMES]


@for_each(
    ("low", "high", "cpu", "gpu", "demand"),
    [
        (10 / 5, 400 / 3, BUSY, None, ALWAYS),
        (10 / 4.2, 400 / 2.2, BUSY, None, Demand(transfer="once", calls=5)),
        (20 / 3, 400 / 0.3, None, BUSY, ALWAYS),
        (10 / 5, 400 / 0.3, BUSY, BUSY, ALWAYS),
        (None, 400 / 3, LOST, None, ALWAYS),
        (20 / 3, None, None, LOST, ALWAYS),
    ],
)
def test_the_range_of_a_disturbed_speedup_is_that_of_the_workloads_own_times(low, high, cpu, gpu, demand):
    """A tenth of the medians, 100 and 3, is the devices' own; six rounds reach from the least to the most."""
    found = sampled_rounds(DISTURBED, demand, 10.0)
    shown = found.in_spite_of(cpu, gpu).speedup
    assert (shown.value, shown.rounds) == (found.value, 6)
    assert (low, high) == tuple(end and pytest.approx(end) for end in (shown.low, shown.high))
    assert shown.certain.low == (low and pytest.approx(low / 2.7))
    assert shown.certain.high == (high and pytest.approx(high * 2.7))


@for_each(
    ("least", "most", "cpu", "gpu"),
    [
        (10 / 3, 40.0, BUSY, None),
        (40.0, 100 / 0.3, None, BUSY),
        (0.0, 40.0, LOST, None),
        (40.0, inf, None, LOST),
    ],
)
def test_more_rounds_bring_the_range_of_a_disturbed_speedup_to_medians(least, most, cpu, gpu):
    shown = sampled_rounds(DISTURBED, ALWAYS, 10.0).in_spite_of(cpu, gpu)
    assert (least, most) == (pytest.approx(shown.least), pytest.approx(shown.most))
    assert "CPU" in shown.reason or "GPU" in shown.reason


def test_nothing_is_disturbed_without_other_work_or_without_rounds():
    assert sampled_rounds(DISTURBED, ALWAYS, 10.0).in_spite_of(None, None) is None
    assert sampled().in_spite_of(BUSY, None) is None


# Times of one device.


def test_the_time_of_a_device_is_the_median_with_the_range_of_its_stretches():
    assert estimate_time([]) is None
    found = estimate_time([4.0, 1.0, 2.0])
    assert (2.0, 1.0, 4.0) == (found.value, found.low, found.high)
    found = estimate_time(STRETCHES)
    assert (2.0, 1.8, 2.4) == (found.value, found.low, found.high)
