"""Curves of scaling: the efficiency on each number of devices, its interval, and what is required."""

from dataclasses import replace

import pytest
from cases import for_each
from factories import scaling_curve
from figures import is_whole, numbers, paths, places, texts
from hypothesis import given
from strategies import scalings

from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.report.html.scaling import figure

pytestmark = pytest.mark.unit

CURVE = scaling_curve(required=0.8)
ONE, TWO, FOUR = CURVE.points


def heights(shown):
    """Return where the curve's line runs."""
    return [y for _, y in places(paths(shown, "gpu")[-1])]


def test_each_number_of_devices_has_a_place_and_its_twofold_lies_as_far_right():
    shown = figure(CURVE)
    (one, two, four) = (x for x, _ in places(paths(shown, "gpu")[-1]))
    assert four - two == pytest.approx(two - one, abs=0.2)
    assert {"1", "2", "4", "devices"} <= set(texts(shown))


def test_the_line_begins_with_the_fewest_devices_at_the_ideal():
    shown = figure(CURVE)
    (_, ideal), _ = places(paths(shown, "muted")[-1])
    first, *others = heights(shown)
    assert ideal == first
    assert all(each > ideal for each in others)


def test_the_fewest_devices_are_left_out_where_they_were_not_measured():
    unmeasured = replace(ONE, time=None)
    assert 2 == len(heights(figure(scaling_curve(points=(unmeasured, TWO, FOUR)))))


def test_the_axis_of_efficiency_begins_at_zero():
    shown = figure(CURVE)
    zero = next(word for word in shown.words if word.text == "0")
    one = next(word for word in shown.words if word.text == "1" and word.anchor == "end")
    *_, last = heights(shown)
    bottom, top = zero.y - 4, one.y - 4
    assert 0.6 == pytest.approx((bottom - last) / (bottom - top), abs=0.01)


def test_bars_are_the_intervals():
    shown = figure(CURVE)
    bars = numbers(paths(shown, "gpu")[1])
    _, *middle = heights(shown)
    for top, value, bottom in zip(bars[1::3], middle, bars[2::3], strict=True):
        assert top < value < bottom


def test_an_interval_without_ends_reaches_from_the_upper_edge_to_zero():
    open_ended = replace(TWO, efficiency=Estimate(value=0.9, low=None, high=None))
    shown = figure(scaling_curve(points=(ONE, open_ended)))
    _, top, bottom = numbers(paths(shown, "gpu")[1])
    (_, ideal), _ = places(paths(shown, "muted")[-1])
    assert bottom == max(numbers(paths(shown, "axis")[0])[1::3])
    assert top < ideal
    assert bottom - ideal > (bottom - top) / 2  # the values keep more than half of the room


def test_the_required_efficiency_is_a_line_with_its_words():
    shown = figure(CURVE)
    assert 2 == len(paths(shown, "limit"))  # in the legend, and across the plot
    assert "required 0.8" in texts(shown)
    without = figure(replace(CURVE, required=None))
    assert [] == paths(without, "limit")
    assert not any("required" in text for text in texts(without))


@for_each(
    ("mode", "required", "said"),
    [
        ("strong", None, "Strong scaling: the parallel efficiency on 4 devices is 0.60 [0.54, 0.66]"),
        ("weak", None, "Weak scaling: the parallel efficiency on 4 devices is 0.60 [0.54, 0.66]"),
        ("strong", 0.5, "above the required 0.5"),
        ("strong", 0.6, "unclear whether above the required 0.6"),
        ("strong", 0.8, "0.66], below the required 0.8"),
    ],
)
def test_the_finding_names_the_efficiency_on_the_most_devices_and_what_is_required(mode, required, said):
    finding = figure(scaling_curve(mode=mode, required=required)).finding
    assert finding.endswith(said)


def test_a_count_that_was_not_measured_has_its_place_and_no_mark():
    shown = figure(scaling_curve(points=(ONE, TWO, FOUR, replace(ONE, count=8, time=None))))
    assert 3 == len(heights(shown))
    assert "8" in texts(shown)
    assert "on 4 devices" in shown.finding


def test_an_efficiency_above_one_has_room():
    superlinear = replace(TWO, efficiency=Estimate(value=1.6, low=1.5, high=1.7))
    shown = figure(scaling_curve(points=(ONE, superlinear)))
    (_, ideal), _ = places(paths(shown, "muted")[-1])
    assert heights(shown)[-1] < ideal


@for_each("mode", ["strong", "weak"])
def test_the_caption_says_what_efficiency_is(mode):
    assert ("grows with the devices" in figure(scaling_curve(mode=mode)).caption) == (mode == "weak")


def test_without_an_efficiency_there_is_no_figure():
    assert figure(scaling_curve(points=(ONE,))) is None


@given(scalings())
def test_any_curve_has_a_figure_that_can_be_drawn(found):
    shown = figure(found)
    assert shown is None or is_whole(shown)


def test_only_the_most_devices_are_held_to_what_is_required():
    assert figure(CURVE).finding.endswith("below the required 0.8")
    unmeasured = replace(FOUR, efficiency=None, time=None)
    for points in ((ONE, TWO, unmeasured), (ONE, TWO)):
        assert "required" not in figure(scaling_curve(required=0.8, points=points)).finding
