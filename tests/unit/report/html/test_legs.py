"""Legs: which device's time moved since the baseline, those that moved first, told by word and shape."""

import pytest
from factories import estimate, record, skipped
from figures import is_whole, numbers, paths, texts
from hypothesis import given
from hypothesis import strategies as st
from strategies import records

from pytest_gpuperf.model.comparison import Legs
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.report.html.legs import MOST, figure

pytestmark = pytest.mark.unit


def ratio(value, low=None, high=None):
    return estimate(value, low or value / 1.1, high or value * 1.1)


def legs(cpu=1.0, gpu=1.0, moved=None):
    return record(legs=Legs(cpu=ratio(cpu), gpu=ratio(gpu), moved=moved))


BUSY = legs(1.6, 1.0, "cpu")


def test_each_device_has_an_interval_and_the_one_that_moved_is_named():
    shown = figure([BUSY], ["test_a"])
    assert {"test_a", "CPU moved", "1.60x", "1.00x", "1x"} <= set(texts(shown))
    assert (
        "Time of a call now over that in the baseline, 1 test: CPU moved in 1; test_a: CPU 1.60x, GPU 1.00x"
    ) == shown.finding


def test_the_interval_of_what_moved_lies_on_one_side_of_1x():
    shown = figure([BUSY], ["test_a"])
    one = numbers(paths(shown, "limit")[0])[0]
    low, high = numbers(paths(shown, "cpu")[-1])[::2]
    assert one < low < high
    low, high = numbers(paths(shown, "gpu")[-1])[::2]
    assert low < one < high


def test_those_that_moved_farthest_are_first_and_those_that_did_not_are_last():
    found = [legs(moved="neither"), legs(), BUSY, legs(1.0, 0.4, "gpu")]
    shown = texts(figure(found, ["same", "doubt", "busy", "faster"]))
    assert ["faster", "busy", "doubt", "same"] == [
        text for text in shown if text in ("same", "doubt", "busy", "faster")
    ]


def test_an_open_interval_ends_at_the_edges():
    loose = record(legs=Legs(cpu=Estimate(value=1.0, low=None, high=None), gpu=None, moved=None))
    assert [8.0, 262.0] == numbers(paths(figure([loose], ["a"]), "cpu")[-1])[::2]


def test_of_many_tests_the_rest_is_counted():
    shown = figure([BUSY] * 50, [f"test_{number}" for number in range(50)])
    assert MOST == sum(text.startswith("test_") for text in texts(shown))
    assert shown.caption.endswith("10 more tests are in the table.")
    assert "50 tests: CPU moved in 50" in shown.finding


def test_a_ratio_of_zero_has_no_place():
    broken = record(legs=Legs(cpu=Estimate(value=0.0, low=None, high=1.0), gpu=ratio(2.0), moved="gpu"))
    assert [] == [path for path in paths(figure([broken], ["a"]), "cpu", filled=True) if path.count("M") > 1]
    assert "0x" not in texts(figure([broken], ["a"]))


def test_without_legs_there_is_no_figure():
    none = record(legs=Legs(cpu=None, gpu=None, moved=None))
    assert figure([], []) is None
    assert figure([skipped("a"), none], ["a", "b"]) is None


@given(st.lists(records(), max_size=3))
def test_any_records_have_a_figure_that_can_be_drawn(found):
    shown = figure(found, ["a" * 99] * len(found))
    assert shown is None or is_whole(shown)
