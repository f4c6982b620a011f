"""Rounds in order: drift and two levels are seen, extremes stay, and the path stays small."""

import re
from array import array
from itertools import accumulate

import pytest
from factories import CPU, GPU, measurement, noisy, record, skipped
from figures import is_whole
from hypothesis import given
from strategies import records

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.report.html.rounds import MOST, figure

pytestmark = pytest.mark.unit

STEP = re.compile(r"m(-?\d+) ?(-?\d+)z")


def dots(shown, style):
    """Return the places of the dots of a device."""
    path = next(mark.path for mark in shown.marks if mark.style == style)
    steps = [(int(x), int(y)) for x, y in STEP.findall(path)]
    return list(zip(accumulate(x for x, _ in steps), accumulate(y for _, y in steps), strict=True))


def timed(cpu, gpu, **changes):
    return record(cpu=measurement(CPU, *cpu), gpu=measurement(GPU, *gpu), **changes)


def test_each_round_is_a_dot_of_each_device_in_order():
    shown = figure(timed([0.02, 0.03, 0.01], [0.002, 0.002, 0.002]))
    cpu, gpu = dots(shown, "cpu"), dots(shown, "gpu")
    assert [54, 152, 250] == [x for x, _ in cpu] == [x for x, _ in gpu]
    (_, middle), (_, slowest), (_, fastest) = cpu
    assert slowest < middle < fastest
    assert 1 == len({y for _, y in gpu})


def test_the_same_ratio_is_as_high_on_both_devices():
    cpu, gpu = (dots(figure(timed([10, 20], [0.4, 0.1])), style) for style in ("cpu", "gpu"))
    assert pytest.approx(2 * (cpu[0][1] - cpu[1][1]), abs=2) == gpu[1][1] - gpu[0][1]


def test_a_quiet_device_is_in_the_middle_of_its_strip():
    shown = figure(timed([1, 2], [1, 1.01]))
    assert 72 == pytest.approx(dots(shown, "gpu")[0][1], abs=1)


def test_the_devices_are_told_by_the_shape_of_their_dots():
    assert {"cpu": "round", "gpu": "square"} == {
        mark.style: mark.dots for mark in figure(timed([1, 2], [1, 2])).marks if mark.dots
    }


def test_the_finding_names_both_medians_and_a_drift():
    found = figure(timed([0.02] * 4, [0.001, 0.001, 0.002, 0.002])).finding
    assert (
        "4 rounds in order: CPU 20.0 ms (20.0 ms to 20.0 ms); GPU 1.50 ms (1.00 ms to 2.00 ms), "
        "the second half 100 % slower than the first"
    ) == found


def test_the_path_of_sixty_rounds_is_small():
    shown = figure(
        timed(
            *(
                [1e-3 * next(times) for _ in range(60)]
                for times in (noisy(1, spread=0.1), noisy(2, spread=0.1))
            )
        )
    )
    assert 60 == len(dots(shown, "cpu")) == len(dots(shown, "gpu"))
    assert sum(len(mark.path) for mark in shown.marks) <= 700


def test_of_many_rounds_the_extremes_stay():
    times = [1.0] * 10_000
    times[4321], times[7000], times[7300] = 5.0, 0.2, 3.0
    shown = figure(timed(times, times))
    heights = [y for _, y in dots(shown, "cpu")]
    assert 2 < len(heights) <= MOST
    rounds = [x for x, _ in dots(shown, "cpu")]
    assert sorted(rounds) == rounds
    assert 36 == pytest.approx(max(heights) - min(heights), abs=1)
    assert sum(len(mark.path) for mark in shown.marks) <= 700
    assert "10,000 rounds in order: the fastest and the slowest of each 333, and the median" == shown.caption


def test_single_calls_count_where_they_are_required():
    single = (measurement(device, 9.0, 9.0, latencies=array("d", [1.0, 1.0])) for device in (CPU, GPU))
    cpu, gpu = single
    assert "CPU 1.00 s" in figure(record(cpu=cpu, gpu=gpu, demand=Demand(latency=True))).finding


def test_one_device_has_one_strip():
    shown = figure(record(gpu=None))
    assert ("GPU" in shown.finding, True) == (False, shown.height < figure(record()).height)


def test_without_two_rounds_there_is_no_figure():
    assert [None, None] == [figure(skipped("a")), figure(timed([1.0], [1.0]))]


@given(records())
def test_any_record_has_a_figure_that_can_be_drawn(found):
    shown = figure(found)
    assert shown is None or is_whole(shown)
