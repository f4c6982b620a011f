"""Rounds in order: noise and drift of both devices are seen, and a path stays small."""

import re
from array import array
from itertools import accumulate

import pytest
from factories import CPU, GPU, measurement, record, skipped
from figures import is_whole
from hypothesis import given
from strategies import records

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.report.html.rounds import figure

pytestmark = pytest.mark.unit

STEP = re.compile(r"m(-?\d+) ?(-?\d+)z")


def dots(shown, style):
    """Return the places of the dots of a device."""
    path = next(mark.path for mark in shown.marks if mark.style == style)
    steps = [(int(x), int(y)) for x, y in STEP.findall(path)]
    return list(zip(accumulate(x for x, _ in steps), accumulate(y for _, y in steps), strict=True))


def timed(cpu, gpu, **changes):
    return record(cpu=measurement(CPU, *cpu), gpu=measurement(GPU, *gpu), **changes)


def test_each_round_is_a_dot_of_each_device_in_order_and_the_same_ratio_is_as_high_on_both():
    shown = figure(timed([20, 40, 10], [0.2, 0.2, 0.1]))
    cpu, gpu = dots(shown, "cpu"), dots(shown, "gpu")
    assert [x for x, _ in cpu] == [x for x, _ in gpu] == sorted({x for x, _ in cpu})
    (_, middle), (_, slowest), (_, fastest) = cpu
    assert slowest < middle < fastest
    assert pytest.approx(fastest - middle, abs=1) == gpu[2][1] - gpu[1][1]
    finding = "3 rounds in order: CPU 20.0 s (10.0 s to 40.0 s); GPU 200 ms (100 ms to 200 ms)"
    assert finding == shown.finding
    assert shown.caption.endswith("line: the median. The same height is the same ratio on both devices.")


def test_of_many_rounds_some_are_shown_and_the_caption_says_so():
    shown = figure(timed([1.0] * 1000, [2.0] * 1000))
    assert 200 == len(dots(shown, "cpu"))
    assert "1,000 rounds, in order, one of each 5 shown" in shown.caption


def test_single_calls_count_where_they_are_required():
    cpu, gpu = (measurement(device, 9.0, 9.0, latencies=array("d", [1.0, 1.0])) for device in (CPU, GPU))
    assert "CPU 1.00 s" in figure(record(cpu=cpu, gpu=gpu, demand=Demand(latency=True))).finding


def test_without_two_rounds_of_a_device_it_has_no_strip():
    assert [None, None] == [figure(skipped("a")), figure(timed([1.0], [1.0]))]
    alone = figure(record(gpu=None))
    assert "GPU" not in alone.finding
    assert alone.caption.endswith("line: the median.")


@given(records())
def test_any_record_has_a_figure_that_can_be_drawn(found):
    shown = figure(found)
    assert shown is None or is_whole(shown)
