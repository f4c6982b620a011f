"""Curves of scaling: the efficiency on each number of devices, and what is required."""

import pytest
from factories import scaling_curve
from figures import is_whole, overlapping, paths, places, texts
from hypothesis import given
from msgspec.structs import replace
from strategies import scalings

from pytest_gpuperf.report.html.scaling import figure

pytestmark = pytest.mark.unit

CURVE = scaling_curve(required=0.8)
ONE, TWO, FOUR = CURVE.points


def counts(points):
    return len(places(paths(figure(replace(CURVE, points=points)), "gpu")[-1]))


def test_the_finding_has_each_efficiency_and_what_is_required():
    said = "efficiency 0.80 [0.72, 0.88] on 2 devices, 0.60 [0.54, 0.66] on 4 devices"
    assert f"Scaling of a.py::test_step (strong), required efficiency 0.8: {said}" == figure(CURVE).finding


def test_the_line_begins_with_the_fewest_devices_if_they_were_measured():
    assert 3 == counts(CURVE.points)
    assert 2 == counts((replace(ONE, time=None), TWO, FOUR))
    assert {"1", "2", "4", "8", "devices"} <= set(
        texts(figure(replace(CURVE, points=(*CURVE.points, replace(ONE, count=8, time=None)))))
    )
    assert figure(replace(CURVE, points=(ONE,))) is None


def test_ideal_and_required_are_lines_across_in_the_legend():
    assert {"ideal", "required 0.8"} <= set(texts(figure(CURVE)))
    assert [] == paths(figure(replace(CURVE, required=None)), "limit")
    (_, ideal), *_ = places(paths(figure(CURVE), "muted")[-1])
    assert ideal == places(paths(figure(CURVE), "gpu")[-1])[0][1]


@pytest.mark.parametrize("mode", ["strong", "weak"])
def test_the_caption_says_what_efficiency_is(mode):
    assert ("grows with the devices" in figure(scaling_curve(mode=mode)).caption) == (mode == "weak")


@given(scalings())
def test_any_curve_has_a_figure_that_can_be_drawn(found):
    shown = figure(found)
    assert shown is None or (is_whole(shown) and not overlapping(shown))
