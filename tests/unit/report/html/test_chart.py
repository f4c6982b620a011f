"""Charts: all marks are in the box whatever the values, and no word lies over another or leaves it."""

import pytest
from factories import estimate, estimate_within
from figures import is_whole, numbers, overlapping, paths, places, texts, traced
from hypothesis import given
from hypothesis import strategies as st
from strategies import ESTIMATES, TIMES

from pytest_gpuperf.report.html import chart
from pytest_gpuperf.report.html.chart import Axis, Event, Line

pytestmark = pytest.mark.unit


def drawn(*lines, events=(), ticks=(1.0, 100.0), log=True, name="x"):
    shown = chart.figure(
        lines,
        events,
        across=Axis(name=name, word="{:.4g}".format, log=log),
        ticks=ticks,
        upright=Axis(name="y", word="{:g}x".format, log=log),
        finding="found",
        caption="",
    )
    assert is_whole(shown)
    assert [] == overlapping(shown)
    corners = traced(paths(shown, "axis")[0])
    left, right = min(x for x, _ in corners), max(x for x, _ in corners)
    bottom = max(y for _, y in corners)
    for mark in shown.marks:
        ends = traced(mark.path)
        assert ends
        in_legend = all(0 <= x <= shown.width and 0 <= y < bottom - 124 for x, y in ends)
        in_box = all(left - 4 <= x <= right + 4 and bottom - 124.1 <= y <= bottom + 4 for x, y in ends)
        assert in_legend or in_box, mark
    return shown


def line(*estimates, style="gpu", step=10):
    return Line(
        style=style, name=style, values=[(float(step**at), each) for at, each in enumerate(estimates)]
    )


@given(st.lists(st.lists(ESTIMATES, min_size=1, max_size=5), min_size=1, max_size=3), st.booleans())
def test_any_values_can_be_drawn(values, log):
    styles = ("cpu", "gpu", "copies")
    drawn(*(line(*each, style=style) for each, style in zip(values, styles, strict=False)), log=log)


@given(st.lists(st.tuples(TIMES, st.text("x", max_size=30), st.none() | TIMES), max_size=6))
def test_words_of_events_have_a_row_each_where_they_would_overlap(found):
    events = [Event(at=at, text=text, since=since) for at, text, since in found]
    shown = drawn(line(estimate_within(2.0, 0.1)), events=events)
    assert all(event.text in texts(shown) for event in events[:3])


def test_a_band_is_the_ranges_and_ends_at_the_edges_where_they_are_open():
    shown = drawn(line(estimate_within(2.0, 0.1), estimate(3.0), estimate_within(2.0, 0.1)))
    band = places(paths(shown, "gpu", "band")[0])
    middle = places(paths(shown, "gpu")[0])
    upper, lower = band[:3], band[:2:-1]
    assert all(high[1] < value[1] < low[1] for high, value, low in zip(upper, middle, lower, strict=True))
    assert 120 == pytest.approx(lower[1][1] - upper[1][1], abs=0.2)
    alone, exact = drawn(line(estimate_within(2.0, 0.1))), drawn(line(chart.exact(1.0), chart.exact(2.0)))
    assert [] == paths(alone, "gpu", "band") == paths(exact, "gpu", "band")  # one without a width is a line


def test_a_wide_range_leaves_room_for_the_values():
    heights = [y for _, y in places(paths(drawn(line(estimate(1, 1e-9, 1e9), estimate(9, 8, 10))), "gpu")[0])]
    assert max(heights) - min(heights) > 40


def test_lines_are_known_by_shape_and_legend_and_limits_have_no_dots():
    values = [chart.exact(1.0), chart.exact(2.0)]
    shown = drawn(*(line(*values, style=style) for style in ("cpu", "gpu", "limit")))
    assert {"cpu", "gpu", "limit"} <= set(texts(shown))
    circles, diamonds, none = (paths(shown, style, "area") for style in ("cpu", "gpu", "limit"))
    assert (True, True, []) == ("a" in circles[-1], "L" in diamonds[-1], none)
    assert "gpu" not in texts(drawn(line(*values)))


def test_an_event_is_at_its_value_and_may_lie_in_the_shade():
    shown = drawn(line(*[chart.exact(1.0)] * 3), events=[Event(at=10.0, text="here", since=1.0)])
    first, second, _ = (x for x, _ in places(paths(shown, "gpu")[0]))
    left, _, width, *_ = numbers(paths(shown, "muted", "band")[0])
    (at, *_) = numbers(paths(shown, "limit")[0])
    assert [at, left, width] == pytest.approx([second, first, second - first], abs=0.2)


def test_a_linear_axis_begins_at_zero():
    shown = drawn(line(chart.exact(1.0), chart.exact(0.5), step=2), ticks=(0.0, 2.0), log=False)
    (_, one), (_, half) = places(paths(shown, "gpu")[0])
    zero = max(y for _, y in traced(paths(shown, "axis")[0]))
    assert 2 * (zero - half) == pytest.approx(zero - one, abs=0.2)
