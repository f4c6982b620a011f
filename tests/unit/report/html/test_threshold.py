"""Thresholds: times over the size with the ranges of their speedups, and where the GPU wins."""

import re

import pytest
from cases import for_each
from factories import EMULATED, estimate, measurement, record, run_of, threshold
from figures import is_whole, overlapping, paths, places, texts
from hypothesis import given
from msgspec.structs import replace
from strategies import thresholds

from pytest_gpuperf.model.offload import Point
from pytest_gpuperf.report.html import page
from pytest_gpuperf.report.html import threshold as charts
from pytest_gpuperf.report.summary import threshold_sentence

pytestmark = pytest.mark.unit


def point(size, speedup, **changes):
    """Return a size at which a call takes 1 us for each element on the CPU; copies double the GPU's time."""
    known = {"cpu": size * 1e-6, "gpu": size * 1e-6 / speedup, "nodeid": "a", "size": size}
    resident = estimate(speedup, speedup / 1.5, speedup * 1.5)
    always = estimate(speedup / 2, speedup / 3, speedup / 1.5)
    return Point(**{**known, "speedup": resident, "never": resident, "always": always, **changes})


CURVE = (point(64, 0.2), point(256, 0.9), point(1024, 3.0), point(4096, 10.0))
THRESHOLD = threshold(at_most=4096, status="passed", largest_not_won=256, smallest_won=1024, curve=CURVE)


def figure(found, gpu="GPU"):
    return charts.figure(found, threshold_sentence(found, f"the {gpu}"), gpu)


def test_each_device_has_a_line_with_the_range_of_its_speedup():
    shown = figure(THRESHOLD)
    lines = {style: places(paths(shown, style)[-1]) for style in ("cpu", "gpu", "copies")}
    assert [4, 4, 4] == [len(line) for line in lines.values()]
    assert all(gpu[1] > copies[1] for gpu, copies in zip(lines["gpu"], lines["copies"], strict=True))
    assert {"CPU", "GPU", "GPU with copies", "64", "4096", "size n", "time of a call"} <= set(texts(shown))
    assert [0, 1, 1] == [len(paths(shown, style, filled=True, faint=True)) for style in lines]


def test_a_time_lies_in_its_band_although_the_median_ratio_is_another():
    off = estimate(0.5, 0.4, 0.6)
    shown = figure(replace(THRESHOLD, curve=(point(64, 0.2, never=off), point(256, 2.0, never=off))))
    (one, other, other_low, one_low) = (y for _, y in places(paths(shown, "gpu", filled=True, faint=True)[0]))
    first, second = (y for _, y in places(paths(shown, "gpu")[-1]))
    assert one <= first <= one_low
    assert other <= second <= other_low


def test_the_finding_and_the_words_name_the_threshold_and_its_limits():
    shown = figure(replace(THRESHOLD, at_least=100))
    expected = "passed: the GPU wins from n = 1024 on, not at 256; required at least 100 and at most 4096"
    assert expected == shown.finding
    assert {"GPU faster from 1024", "at least 100", "at most 4096"} <= set(texts(shown))


def test_on_an_emulated_device_each_word_of_the_figure_says_so():
    curve = tuple(replace(each, nodeid="a.py::test_a") for each in CURVE)
    emulated = record("a.py::test_a", gpu=measurement(EMULATED, 1e-3))
    content = page.text(run_of(emulated, thresholds=(replace(THRESHOLD, curve=curve),)))
    shown = content[content.index("Size thresholds") :]
    assert 2 == shown.count("the emulated GPU wins from n = 1024 on")  # for those who see it, and for others
    assert {">emulated GPU<", ">emulated GPU with copies<", ">emulated GPU faster from 1024<"} <= set(
        re.findall(">emulated [^<]*<", shown)
    )
    assert not re.search("(?<!emulated )GPU", shown[: shown.index("Environment")])


def test_the_caption_explains_what_is_drawn():
    assert "the band of the GPU is the CPU's time over the range of the speedup." in figure(THRESHOLD).caption
    assert "Time of a call. The" in figure(threshold()).caption  # without ranges
    grey = "The threshold lies in the grey area."
    assert figure(THRESHOLD).caption.endswith(grey)
    assert grey not in figure(replace(THRESHOLD, largest_not_won=None)).caption


@for_each(("at_least", "at_most", "won"), [(1000, 1100, 1024), (4096, 4096, 4096), (64, 65536, 64)])
def test_all_words_of_a_threshold_are_shown_wherever_they_are(at_least, at_most, won):
    shown = figure(replace(THRESHOLD, at_least=at_least, at_most=at_most, smallest_won=won))
    assert 3 == sum(text.startswith(("at ", "GPU faster")) for text in texts(shown))
    assert [] == overlapping(shown)


def test_the_copies_are_those_that_the_threshold_includes():
    curve = tuple(replace(each, once=each.always, always=None) for each in CURVE)
    assert "GPU, copies shared" in texts(figure(replace(THRESHOLD, regime="once", curve=curve)))
    latency = figure(replace(THRESHOLD, by_latency=True))  # ratios of single calls are not those of the times
    assert [] == paths(latency, "copies") == paths(latency, "gpu", filled=True, faint=True)
    assert "single calls" in latency.caption


def test_a_size_of_zero_is_left_out_and_counted():
    shown = figure(replace(THRESHOLD, curve=(point(0, 1.0), *CURVE)))
    assert 4 == len(places(paths(shown, "cpu")[-1]))
    assert shown.caption.endswith("on this axis: 1.")


@for_each("curve", [(), CURVE[:1], tuple(replace(each, gpu=None) for each in CURVE)])
def test_without_two_sizes_on_a_gpu_there_is_no_figure(curve):
    assert figure(replace(THRESHOLD, curve=curve)) is None


@given(thresholds())
def test_any_threshold_has_a_figure_that_can_be_drawn(found):
    shown = figure(found)
    assert shown is None or (is_whole(shown) and not overlapping(shown))
