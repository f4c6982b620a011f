"""Break-even: the lines cross where the offload says, and the interval is shaded."""

from array import array
from itertools import pairwise

import pytest
from cases import for_each
from factories import CPU, GPU, copies, measurement, offload, record, skipped
from figures import is_whole, numbers, paths, places, texts
from hypothesis import given
from msgspec.structs import replace
from strategies import records

from pytest_gpuperf.model.measurement import Copies, Estimate, Transfer
from pytest_gpuperf.model.offload import BreakEven
from pytest_gpuperf.report.html.break_even import figure

pytestmark = pytest.mark.unit

CALLS = Estimate(value=20, low=16, high=25)


def moved():
    return Transfer(h2d=copies(0.05), d2h=copies(0.05))


def even(both=CALLS, reason=None, first_call=None, **changes):
    """Return a record of 10 ms on a CPU, 1 ms on a GPU, 80 ms for its first call and 100 ms of copies."""
    gpu = measurement(GPU, 1e-3, first_call=0.081, block_calls=1)
    known = offload(
        break_even_calls=BreakEven(transfer=None, first_call=first_call, both=both, reason=reason),
    )
    return record(
        **{"cpu": measurement(CPU, 1e-2), "gpu": gpu, "transfer": moved(), "offload": known, **changes}
    )


def crossing(shown):
    """Return the place where the lines of both devices meet."""
    cpu, gpu = (places(paths(shown, style)[-1]) for style in ("cpu", "gpu"))
    for (one, one_later), (other, other_later) in zip(pairwise(cpu), pairwise(gpu), strict=True):
        if one[1] >= other[1] and one_later[1] <= other_later[1]:
            return one[0], one_later[0]
    return None


def test_the_lines_cross_at_the_break_even():
    shown = figure(even())
    (rule,) = paths(shown, "verdict")
    left, right = crossing(shown)
    assert left - 1 <= numbers(rule)[0] <= right + 1


def test_the_interval_is_shaded_around_the_break_even():
    (shade,) = paths(figure(even()), "muted", filled=True, faint=True)
    left, _, width, *_ = numbers(shade)
    (rule,) = paths(figure(even()), "verdict")
    assert left < numbers(rule)[0] < left + width


def test_an_unbounded_interval_is_shaded_to_the_edge():
    (shade,) = paths(figure(even(both=replace(CALLS, high=None))), "muted", filled=True, faint=True)
    left, _, width, *_ = numbers(shade)
    assert 308 == pytest.approx(left + width)


def test_the_finding_and_the_words_name_the_number_of_calls():
    shown = figure(even())
    assert "The GPU's start-up pays off after 20 calls [16, 25]" == shown.finding
    assert "20 calls [16, 25]" in texts(shown)
    assert (
        "its copies (100 ms), once, and what its first call took longer than a later one (80.0 ms)"
        in shown.caption
    )


def test_without_times_of_the_copies_the_first_call_counts_alone():
    found = even(both=None, first_call=Estimate(value=9, low=8, high=10), transfer=None)
    assert "9 calls [8, 10]" in figure(found).finding
    assert "copies" not in figure(found).caption


def test_what_has_paid_off_after_one_call_needs_no_figure():
    assert figure(even(both=Estimate(value=1, low=0, high=1))) is None
    assert figure(even(both=Estimate(value=1, low=0, high=2))) is not None


def test_a_first_call_that_is_quicker_than_a_later_one_costs_nothing():
    gpu = measurement(GPU, 1e-3, first_call=0.5e-3, block_calls=1)
    assert "(0 ns)" in figure(even(gpu=gpu)).caption


def test_copies_that_are_quicker_than_none_by_noise_are_free():
    quick = figure(even(transfer=replace(moved(), loop=array("d", [0.9e-3]))))
    nothing = Copies(bytes=0, arrays=0)
    free = figure(even(transfer=Transfer(h2d=nothing, d2h=nothing)))
    assert "copies" not in quick.caption
    assert paths(free, "gpu")[-1] == paths(quick, "gpu")[-1]


@for_each("calls", [1.7e308, 2.0**50, 5e-324])
def test_any_number_of_calls_can_be_drawn(calls):
    for high in (None, max(calls, 2.0), 1.7e308):
        assert is_whole(figure(even(both=Estimate(value=calls, low=None, high=high))))


@for_each("found", [skipped("a"), record(), even(cpu=None), even(both=None), even(gpu=measurement(GPU))])
def test_without_a_break_even_there_is_no_figure(found):
    assert figure(found) is None


@given(records())
def test_any_record_has_a_figure_that_can_be_drawn(found):
    shown = figure(found)
    assert shown is None or is_whole(shown)
