"""The forest plot: one axis for all tests, and marks where their numbers are."""

import re
from xml.etree import ElementTree

from cases import for_each
from factories import comparison, estimate, record, skipped, speedup

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.report.html import figure, forest


def marks(shown, style):
    return [mark for mark in shown.marks if mark.style == style]


def left_end(mark):
    return float(re.match(r"M([\d.]+)", mark.path)[1])


def test_equal_speedups_lie_at_one_place_in_every_row():
    records = [record(speedup=speedup(value, 0.9 * value, 1.1 * value)) for value in (0.5, 4.0, 64.0)]
    shared = forest.scale(records)
    assert 1 == len({left_end(marks(forest.row(each, shared), "limit")[0]) for each in records})
    dots = [left_end(marks(forest.row(each, shared), "passed")[0]) for each in records]
    # 4 is eight times 0.5, and 64 sixteen times 4: their distances are as the logarithms.
    assert abs((dots[2] - dots[1]) / (dots[1] - dots[0]) - 4 / 3) < 0.01
    (mark,) = marks(forest.row(record(demand=Demand(min=2, max=30)), shared), "limit")
    assert 2 == mark.path.count("V")
    assert forest.row(skipped("a.py::test_a"), shared) is None


def test_the_baseline_is_a_ghost_of_its_interval():
    shown = record(comparisons=(comparison("improved", baseline=estimate(5, 4, 6)),))
    assert 1 == len(marks(forest.row(shown, forest.scale([shown])), "baseline"))
    narrow = record(comparisons=(comparison("improved", baseline=estimate(5, 5, 5)),))
    (ghost,) = marks(forest.row(narrow, forest.scale([narrow])), "baseline")
    assert 5 <= float(re.search(r"h([\d.]+)", ghost.path)[1])
    memory = record(comparisons=(comparison("improved", metric="memory"),))
    assert [] == marks(forest.row(memory, forest.scale([memory])), "baseline")


def test_the_legend_has_what_is_drawn():
    assert [] == forest.legend([skipped("a.py::test_a")])
    free = record(demand=Demand(), status="recorded")
    assert ["nothing required", "1x"] == [words for words, _ in forest.legend([free])]
    compared = record(comparisons=(comparison("improved"),))
    assert ["passed", "1x", "required", "baseline"] == [words for words, _ in forest.legend([compared])]


@for_each(
    ("status", "style"),
    [("passed", "passed"), ("failed", "failed"), ("inconclusive", "inconclusive"), ("recorded", "muted")],
)
def test_a_verdict_has_a_colour_and_a_shape(status, style):
    shown = record(status=status, reason=None if status in ("passed", "recorded") else "why")
    *_, mark = forest.row(shown, forest.scale([shown])).marks
    assert (style, True) == (mark.style, mark.outlined)
    assert mark.filled is (status != "inconclusive")
    _, interval, point = mark.path.split("M")
    assert 1 == interval.count("L")
    assert ("L" in point) is (status == "failed")  # a diamond has corners, a circle has arcs


def test_the_plot_in_a_file_of_its_own_is_whole_xml_and_says_what_it_shows():
    at_most = record("a.py::test_c" + "x" * 99, demand=Demand(max=3, transfer="always"))
    records = [record("a.py::test_<a>"), skipped("a.py::test_b"), at_most]
    names = [each.nodeid.partition("::")[2] for each in records]
    plot = ElementTree.fromstring(figure.svg_document(forest.plot(records, names)))
    texts = [element.text for element in plot.iter("{http://www.w3.org/2000/svg}text")]
    assert {"test_<a>", "10.0x [9.00, 11.0] passed", "speedup, log scale"} <= set(texts)
    assert "test_b" not in texts
    assert "test_<a>: speedup 10.0x [9.00, 11.0], required at least 3x, passed" in plot.get("aria-label")
    assert "required at most 3x with copies at every call" in plot.get("aria-label")
    ElementTree.fromstring(figure.svg_document(forest.plot([], [])))
