"""Calls that take another time after more of them: rounds before and after these calls are compared."""

from itertools import chain, count, repeat
from random import Random

import pytest
from cases import for_each
from walks import simulated, warmed_up

from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.late_look import LateLook


def at_first(times, calls=40):
    """Return the noise of a device whose first calls take so many times as long."""
    return chain(repeat(times, calls), repeat(1.0)).__next__


def looked_at(*timers, suspects=None, rounds=7, remaining=10.0) -> LateLook:
    """Return the look of a test after so many rounds, before which it makes its calls ahead."""
    order = Random(0)  # noqa: S311 - an order, not a secret
    look = LateLook(timers, lambda: suspects or timers, order, lambda: remaining)
    for _ in range(rounds):
        look.call_ahead(lambda: None)
        for timer in timers:
            timer.take_sample()
    return look


def timer(**noise) -> BlockTimer:
    return warmed_up(simulated("cpu", kernel=1e-3, **noise))


@for_each(
    ("expected", "change"),
    [(1e-3, 0.5), (1e-3, 0.8), (None, 0.85), (None, 1.15), (1e-3, 1.25), (1e-3, 3.0)],
)
def test_calls_that_take_another_time_later_by_a_fifth_have_changed(expected, change):
    changing, steady = timer(noise=at_first(1 / change)), timer()
    found = looked_at(steady, changing).changed()
    seconds = pytest.approx((1e-3 / change, expected))
    assert (expected and (changing, seconds)) == (found and (found.timer, (found.before, found.now)))


def test_three_slow_rounds_are_no_change_where_six_more_are_as_before():
    calls = count(1)
    stalled = timer(noise=lambda: 2.0 if 50 <= next(calls) <= 52 else 1.0)
    look = looked_at(stalled)
    assert [pytest.approx(each) for each in [1e-3] * 4 + [2e-3] * 3] == list(stalled.samples)
    assert look.changed() is None


@for_each(("seconds", "calls"), [(0.5e-3, 256), (5e-3, 50), (6e-3, 0)])
def test_times_are_late_after_many_calls_where_these_are_short_and_slow_calls_are_not_made(seconds, calls):
    asked = warmed_up(simulated("cpu", kernel=seconds))
    before = asked.calls.made
    looked_at(asked)
    early = asked.calls.made - 3 * asked.block_calls
    assert 0 <= early - max(calls, before + 4 * asked.block_calls) < asked.block_calls


def test_without_time_for_the_calls_ahead_none_is_made():
    asked = timer()
    before = asked.calls.made
    look = looked_at(asked, remaining=0.01)
    assert (before + 7 * asked.block_calls, None) == (asked.calls.made, look.changed())


def test_only_suspects_are_called_ahead():
    asked, other = timer(), timer()
    looked_at(asked, other, suspects=[asked])
    assert asked.calls.made > 50 > other.calls.made


def test_a_test_of_few_rounds_has_no_late_ones():
    assert looked_at(timer(noise=at_first(2.0)), rounds=4).changed() is None
