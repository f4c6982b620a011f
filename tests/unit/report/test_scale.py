"""Axes: every value has a place on one, and its ticks are few and round."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.report.scale import LinearScale, LogScale


@given(st.floats(1e-25, 1e25), st.floats(1, 1e5))
def test_an_axis_has_two_ticks_at_least_and_five_at_most(low, ratio):
    scale = LogScale.around([low, low * ratio], 100, include=())
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 5
    assert all(0 <= scale.position(tick) <= 100 for tick in ticks)


@given(st.floats(1e-25, 1e25))
def test_an_axis_of_shares_has_ticks_at_equal_distances_from_zero_on(high):
    scale = LinearScale(high, 100)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 5
    places = [scale.position(tick) for tick in ticks]
    assert places == pytest.approx([places[1] * number for number in range(len(ticks))])


@given(st.lists(st.floats(allow_nan=False), max_size=4), st.floats(allow_nan=False))
def test_every_value_has_a_place_on_any_axis(values, value):
    assert 0 <= LogScale.around(values, 100).position(value) <= 100
    assert 0 <= LinearScale.around(values, 100).position(value) <= 100
