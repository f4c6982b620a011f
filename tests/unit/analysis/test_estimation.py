"""Estimation: from the times of two devices to a speedup, what was seen of it and what is certain."""

from math import inf

import pytest
from cases import for_each
from factories import sampled
from msgspec.structs import replace

from pytest_gpuperf.analysis.estimation import Sampled, sampled_rounds
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Interference, Round


def variants(cpu, gpu) -> Sampled:
    return Sampled(cpu=cpu, gpu=gpu, seconds=10.0, sampling="variants")


def test_rounds_are_compared_each_for_itself_and_variants_stretch_by_stretch():
    """Both devices slow down together: that shows in no round, and in times that were taken apart it does."""
    cpu, gpu = [10.0, 20.0, 30.0, 40.0], [1.0, 2.0, 3.0, 4.0]
    together, apart = Sampled(cpu=cpu, gpu=gpu, seconds=10.0).speedup(), variants(cpu, gpu).speedup()
    assert (10, 10, 10) == pytest.approx((together.value, together.low, together.high))
    assert (10, 2.5, 40) == pytest.approx((apart.value, apart.low, apart.high))
    assert apart.sampling == "variants"
    # The shorter counts, and the medians are of all samples.
    found = variants([10.0] * 5 + [30.0] * 4, [1.0, 2.0, 4.0])
    assert (5.0, 3, 2.7) == (found.value, found.rounds, found.look.misses)


def test_stretches_of_so_many_rounds_have_a_range_of_those_that_are_full():
    assert (2.0, 4.0) == sampled(2, 2, 2, 4, 4, 4, 9).in_stretches_of(3)
    assert (10 / 4, 20 / 2) == variants([10.0] * 7 + [20.0] * 7, [2, 2, 4, 4, 9]).in_stretches_of(2)


BUSY = Interference(kind="cpu_contention", own_share=0.1, waited=1.9, threads=2)
LOST = replace(BUSY, own_share=0.0)
TIMES = [(40.0, 1.0), (20.0, 2.0), (400.0, 2.0), (100.0, 0.5), (100.0, 4.0), (300.0, 4.0)]


@for_each(
    ("low", "high", "least", "most", "cpu", "gpu"),
    [
        (10 / 5, 400 / 3, 10 / 3, 40.0, BUSY, None),
        (20 / 3, 400 / 0.3, 40.0, 100 / 0.3, None, BUSY),
        (10 / 5, 400 / 0.3, 10 / 3, 100 / 0.3, BUSY, BUSY),
        (None, 400 / 3, 0.0, 40.0, LOST, None),
        (20 / 3, None, 40.0, inf, None, LOST),
    ],
)
def test_the_range_of_a_disturbed_speedup_is_that_of_the_workloads_own_times(
    low, high, least, most, cpu, gpu
):
    """A tenth of the medians, 100 and 3, is the devices' own; six rounds reach from the least to the most.

    More rounds bring the range to medians.
    """
    rounds = [Round(cpu=cpu, gpu=gpu, copies=1.0) for cpu, gpu in TIMES]
    found = sampled_rounds(rounds, Demand(transfer="always"), 10.0)
    shown = found.in_spite_of(cpu, gpu, ("the CPU", "the GPU"))
    assert (found.value, 6) == (shown.speedup.value, shown.speedup.rounds)
    assert (low, high) == tuple(end and pytest.approx(end) for end in (shown.speedup.low, shown.speedup.high))
    assert (least, most) == (pytest.approx(shown.least), pytest.approx(shown.most))
    certain = shown.speedup.certain
    assert (low and low / 1.2, high and high * 1.2) == (
        certain.low and pytest.approx(certain.low),
        certain.high and pytest.approx(certain.high),
    )
