"""What the charts share: ticks in words, and words that do not overlap or leave the figure."""

from itertools import pairwise

import pytest
from cases import for_each
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.report.html import plot
from pytest_gpuperf.report.html.figure import Word, text_width
from pytest_gpuperf.report.html.plot import Plot
from pytest_gpuperf.report.scale import LinearScale, LogScale

pytestmark = pytest.mark.unit


@for_each(
    ("expected", "text"),
    [
        ("1 ms", plot.time(1e-3)),
        ("20 us", plot.time(2e-5)),
        ("1.5 s", plot.time(1.5)),
        ("10x", plot.ratio(10.0)),
        ("0.5x", plot.ratio(0.5)),
        ("4096", plot.number(4096.0)),
        ("1e+12", plot.number(1e12)),
        ("0.25", plot.number(0.25)),
        ("3", plot.number(3)),
    ],
)
def test_ticks_are_short_words_with_units(expected, text):
    assert expected == text


def test_words_of_a_row_neither_overlap_nor_leave_the_figure():
    words = [
        Word(0, 9, "first", "middle"),
        Word(20, 9, "hidden"),
        Word(318, 9, "last", "middle"),
        Word(280, 9, "x", "end"),
    ]
    shown = plot.row(words)
    assert ["first", "last", "x"] == [word.text for word in shown]
    assert all(
        text_width(word.text) / 2 <= word.x <= plot.WIDTH - text_width(word.text) / 2 for word in shown
    )


def test_words_at_the_left_do_not_overlap():
    box = Plot(left=50, top=0, x=LogScale(1, 2, 100), y=LogScale(1, 100, 40))
    words = box.words_left(range(1, 100), plot.number)
    assert all(low.y - high.y >= plot.LINE for low, high in pairwise(words))
    assert len(words) in (3, 4)


@given(st.floats(1e-25, 1e25), st.floats(1, 1e5))
def test_an_axis_has_two_ticks_at_least_and_seven_at_most(low, ratio):
    scale = LogScale.around([low, low * ratio], 100, include=())
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 7
    assert all(0 <= scale.position(tick) <= 100 for tick in ticks)


@given(st.lists(st.floats(allow_nan=False), max_size=4), st.floats(allow_nan=False))
def test_every_value_has_a_place_on_any_axis(values, value):
    assert 0 <= LogScale.around(values, 100).position(value) <= 100


@given(st.floats(1e-25, 1e25))
def test_an_axis_of_shares_has_ticks_at_equal_distances_from_zero_on(high):
    scale = LinearScale(high, 100)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 7
    places = [scale.position(tick) for tick in ticks]
    assert places == pytest.approx([places[1] * number for number in range(len(ticks))])


@given(st.lists(st.floats(allow_nan=False), max_size=4), st.floats(allow_nan=False))
def test_every_share_has_a_place(values, value):
    estimates = [Estimate(value=each, low=None, high=None) for each in values]
    scale = LinearScale.of_estimates(estimates, 100, farthest=1.5, include=(1.0,))
    assert 0 <= scale.position(value) <= 100
