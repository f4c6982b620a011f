"""Thresholds: three curves over the size, bands from the intervals, and where the threshold may lie."""

from dataclasses import replace
from itertools import pairwise

import pytest
from cases import for_each
from factories import threshold
from figures import is_whole, numbers, paths, places, texts
from hypothesis import given
from strategies import thresholds

from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.offload import Point
from pytest_gpuperf.report.html.plot import WIDTH, extent
from pytest_gpuperf.report.html.threshold import figure

pytestmark = pytest.mark.unit


def point(size, speedup, **changes):
    """Return a size at which a call takes 1 us for each element on the CPU; copies double the GPU's time."""
    known = {"cpu": size * 1e-6, "gpu": size * 1e-6 / speedup, "nodeid": "a"}
    resident = Estimate(value=speedup, low=speedup / 1.5, high=speedup * 1.5)
    always = Estimate(value=speedup / 2, low=speedup / 3, high=speedup / 1.5)
    return Point(
        **{**known, "size": size, "speedup": resident, "never": resident, "always": always, **changes}
    )


THRESHOLD = threshold(
    at_most=4096,
    status="passed",
    largest_not_won=256,
    smallest_won=1024,
    curve=(point(64, 0.2), point(256, 0.9), point(1024, 3.0), point(4096, 10.0)),
)


def test_each_device_has_a_curve_and_each_size_a_dot_of_its_shape():
    shown = figure(THRESHOLD)
    curves = {style: places(paths(shown, style)[-1]) for style in ("cpu", "gpu", "copies")}
    assert [4, 4, 4] == [len(curve) for curve in curves.values()]
    assert all(gpu[1] > copies[1] for gpu, copies in zip(curves["gpu"], curves["copies"], strict=True))
    assert {"CPU", "GPU", "GPU with copies"} <= set(texts(shown))
    assert {"64", "256", "1024", "4096", "n"} <= set(texts(shown))


def test_bands_are_the_intervals_of_the_speedup():
    shown = figure(THRESHOLD)
    band = places(paths(shown, "gpu", filled=True, faint=True)[0])
    line = places(paths(shown, "gpu")[-1])
    upper, lower = band[:4], band[:3:-1]
    assert all(high[1] < middle[1] < low[1] for high, middle, low in zip(upper, line, lower, strict=True))
    assert [] == paths(shown, "cpu", filled=True, faint=True)


def test_an_unbounded_interval_ends_at_the_edges():
    loose = point(256, 0.9, never=Estimate(value=0.9, low=None, high=None))
    band = places(
        paths(figure(replace(THRESHOLD, curve=(point(64, 0.2), loose))), "gpu", filled=True, faint=True)[0]
    )
    (_, _), (_, top), (_, bottom), (_, _) = band
    assert 140 == pytest.approx(bottom - top, abs=0.2)


def test_a_wide_interval_leaves_room_for_the_times():
    wide = Estimate(value=0.9, low=1e-9, high=1e9)
    heights = [
        [y for _, y in places(paths(figure(replace(THRESHOLD, curve=curve)), "cpu")[-1])]
        for curve in (
            THRESHOLD.curve,
            (THRESHOLD.curve[0], replace(THRESHOLD.curve[1], never=wide), *THRESHOLD.curve[2:]),
        )
    ]
    usual, shown = (max(each) - min(each) for each in heights)
    assert shown > usual / 2


def test_a_time_lies_in_its_band_although_the_median_ratio_is_another():
    off = Estimate(value=0.5, low=0.4, high=0.6)
    shown = figure(replace(THRESHOLD, curve=(point(64, 0.2, never=off), point(256, 2.0, never=off))))
    (one, other, other_low, one_low) = (y for _, y in places(paths(shown, "gpu", filled=True, faint=True)[0]))
    first, second = (y for _, y in places(paths(shown, "gpu")[-1]))
    assert one <= first <= one_low
    assert other <= second <= other_low


def test_a_limit_beyond_all_sizes_has_a_place_of_its_own():
    shown = figure(replace(THRESHOLD, at_most=65536))
    last = places(paths(shown, "cpu")[-1])[-1][0]
    assert numbers(paths(shown, "limit")[0])[0] > last + 20


def test_the_threshold_is_a_line_at_the_upper_end_of_its_doubt():
    shown = figure(THRESHOLD)
    left, _, width, *_ = numbers(paths(shown, "muted", filled=True, faint=True)[0])
    x = numbers(paths(shown, "verdict")[0])[0]
    assert x == pytest.approx(left + width, abs=0.2)
    sizes = [place[0] for place in places(paths(shown, "cpu")[-1])]
    assert [pytest.approx(sizes[1], abs=0.2), pytest.approx(sizes[2], abs=0.2)] == [left, x]


def test_the_finding_names_the_threshold_and_what_is_required():
    assert (
        "The GPU is faster from n=1024 on, and not surely at 256; required at most 4096, passed"
    ) == figure(THRESHOLD).finding
    assert {"GPU faster from 1024", "at most 4096"} <= set(texts(figure(THRESHOLD)))


@for_each(
    ("changes", "said"),
    [
        ({"smallest_won": None, "outcome": "none"}, "not surely faster from any size"),
        ({"smallest_won": None, "outcome": None}, "sizes are missing"),
        ({"outcome": "not_monotone"}, "wins at a smaller size, too"),
        ({"largest_not_won": None}, "the smallest size"),
    ],
)
def test_a_threshold_that_is_not_between_two_sizes_is_told(changes, said):
    assert said in figure(replace(THRESHOLD, **changes)).finding


def test_shared_copies_are_those_that_the_threshold_includes():
    curve = tuple(replace(each, once=each.always, always=None) for each in THRESHOLD.curve)
    assert "GPU, copies shared" in texts(figure(replace(THRESHOLD, regime="once", curve=curve)))


def test_ratios_of_single_calls_draw_no_times_of_calls_in_a_row():
    shown = figure(replace(THRESHOLD, by_latency=True))
    assert [] == paths(shown, "copies") == paths(shown, "gpu", filled=True, faint=True)
    assert "single calls" in shown.caption


def test_a_size_of_zero_is_left_out_and_told():
    shown = figure(replace(THRESHOLD, curve=(point(0, 1.0), *THRESHOLD.curve)))
    assert 4 == len(places(paths(shown, "cpu")[-1]))
    assert shown.caption.endswith("on this axis: 1.")


def test_words_do_not_overlap_where_sizes_are_many():
    curve = tuple(point(1000 + step, 2.0) for step in range(0, 1000, 20))
    below = [word for word in figure(replace(THRESHOLD, curve=curve)).words if word.text.isdigit()]
    assert all(other.x - one.x >= 26 for one, other in pairwise(below))
    assert 3 <= len(below)


@for_each(
    ("at_least", "at_most", "won"),
    [
        (1000, 1100, 1024),
        (300, 4096, 256),
        (4096, 4096, 4096),
        (64, 4096, 64),
    ],
)
def test_no_word_lies_over_the_line_of_another_or_leaves_the_figure(at_least, at_most, won):
    shown = figure(replace(THRESHOLD, at_least=at_least, at_most=at_most, smallest_won=won))
    said = [word for word in shown.words if word.text.startswith(("at ", "GPU faster"))]
    lines = [numbers(path) for style in ("limit", "verdict") for path in paths(shown, style)]
    assert 3 == len(said) == len(lines)
    for word in said:
        begin, end = extent(word)
        assert 0 <= begin <= end <= WIDTH
        assert [] == [x for x, top, bottom in lines if begin < x < end and top < word.y - 4 < bottom]


@for_each("largest", [4096, 987_654_321])
def test_a_size_stands_below_its_point_whatever_its_length(largest):
    shown = figure(replace(THRESHOLD, curve=(*THRESHOLD.curve[:3], point(largest, 9.0))))
    (word,) = (word for word in shown.words if word.text == str(largest))
    assert word.x == pytest.approx(places(paths(shown, "cpu")[-1])[-1][0], abs=0.1)
    assert extent(word)[1] <= WIDTH


@for_each("curve", [(), THRESHOLD.curve[:1], tuple(replace(each, gpu=None) for each in THRESHOLD.curve)])
def test_without_two_sizes_on_a_gpu_there_is_no_figure(curve):
    assert figure(replace(THRESHOLD, curve=curve)) is None


@given(thresholds())
def test_any_threshold_has_a_figure_that_can_be_drawn(found):
    shown = figure(found)
    assert shown is None or is_whole(shown)
