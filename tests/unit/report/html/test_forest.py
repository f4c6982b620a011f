"""The forest plot: one axis for all tests, and marks where their numbers are."""

import re
from xml.etree import ElementTree

from cases import for_each
from factories import comparison, estimate, record, skipped, speedup
from msgspec.structs import replace

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.report.html import figure, forest


def marks(shown, style, *, filled=False):
    return [mark for mark in shown.marks if (mark.style, mark.filled) == (style, filled)]


def left_end(mark):
    return float(re.match(r"M([\d.]+)", mark.path)[1])


def test_equal_speedups_lie_at_one_place_in_every_row():
    records = [record(speedup=speedup(value, 0.9 * value, 1.1 * value)) for value in (0.5, 4.0, 64.0)]
    shared = forest.scale(records)
    limits = [left_end(marks(forest.row(each, shared), "limit")[0]) for each in records]
    assert 1 == len(set(limits))
    dots = [left_end(marks(forest.row(each, shared), "passed", filled=True)[0]) for each in records]
    assert dots == sorted(dots)
    # 4 is eight times 0.5, and 64 sixteen times 4: their distances are as the logarithms.
    assert abs((dots[2] - dots[1]) / (dots[1] - dots[0]) - 4 / 3) < 0.01


def test_each_limit_has_its_line():
    both = record(demand=Demand(min=2, max=30))
    (mark,) = marks(forest.row(both, forest.scale([both])), "limit")
    assert 2 == mark.path.count("V")


def test_the_finding_says_in_which_direction_a_limit_is_one():
    at_most = record(demand=Demand(max=3, transfer="always"))
    assert "required at most 3x with copies at every call" in forest.finding(at_most)
    assert "required" not in forest.finding(record(demand=Demand()))


def test_the_baseline_is_a_ghost_of_its_interval():
    compared = comparison("improved", baseline=estimate(5, 4, 6))
    shown = record(comparisons=(compared,))
    assert 1 == len(marks(forest.row(shown, forest.scale([shown])), "baseline", filled=True))
    assert "baseline 5.00x" in forest.finding(shown)
    memory = record(comparisons=(replace(compared, metric="memory"),))
    assert [] == marks(forest.row(memory, forest.scale([memory])), "baseline", filled=True)


@for_each(
    ("status", "style"),
    [("passed", "passed"), ("failed", "failed"), ("inconclusive", "inconclusive"), ("recorded", "muted")],
)
def test_a_verdict_has_a_colour_and_a_shape(status, style):
    shown = record(status=status, reason=None if status in ("passed", "recorded") else "why")
    *_, mark = forest.row(shown, forest.scale([shown])).marks
    assert (style, True) == (mark.style, mark.outlined)
    is_ring = status == "inconclusive"
    assert is_ring is not mark.filled
    _, interval, point = mark.path.split("M")
    assert 1 == interval.count("L")
    assert ("L" in point) is (status == "failed")  # a diamond has corners, a circle has arcs


def test_what_was_not_measured_has_no_plot():
    assert forest.row(skipped("a.py::test_a"), forest.scale([])) is None


def test_the_plot_in_a_file_of_its_own_is_whole_xml_and_says_what_it_shows():
    records = [record("a.py::test_<a>"), skipped("a.py::test_b"), record("a.py::test_c" + "x" * 99)]
    names = [each.nodeid.partition("::")[2] for each in records]
    plot = ElementTree.fromstring(figure.svg_document(forest.plot(records, names)))
    texts = [element.text for element in plot.iter("{http://www.w3.org/2000/svg}text")]
    assert "test_<a>" in texts
    assert "test_b" not in texts
    assert "10.0x [9.00, 11.0] passed" in texts
    assert "test_<a>: speedup 10.0x [9.00, 11.0], required at least 3x, passed" in plot.get("aria-label")
    ElementTree.fromstring(figure.svg_document(forest.plot([], [])))
