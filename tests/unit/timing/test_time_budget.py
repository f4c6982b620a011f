"""The time budget of a test: what it waited for others does not count."""

import time
from contextlib import contextmanager

import pytest
from cases import for_each

from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.timing import time_budget
from pytest_gpuperf.timing.lock import LockHold
from pytest_gpuperf.timing.time_budget import TimeBudget


def ticking(*times):
    return iter(times).__next__


def test_waiting_is_not_the_tests_time():
    clock, now = time.perf_counter, []

    @contextmanager
    def acquire():
        begun = clock()
        time.sleep(0.15)
        yield LockHold(waited=clock() - begun)

    budget = TimeBudget(0.1, acquire)
    budget.start(clock)
    with budget.lock():
        now.append(budget.remaining())
    assert 0.02 < now[0] <= 0.1
    assert budget.waited >= 0.15
    assert budget.elapsed < 0.08


def test_simulated_time_needs_no_lock():
    def acquire():
        raise AssertionError

    simulated, real = ticking(*range(9)), time.perf_counter
    for clocks in ([simulated], [real, simulated], [simulated, real]):
        budget = TimeBudget(1.0, acquire)
        for clock in clocks:
            budget.start(clock)
        with budget.lock():
            assert budget.waited == 0


@for_each(("limit", "allowed"), [(1.0, 30.0), (60.0, 60.0)])
def test_simulated_time_is_up_when_the_host_has_taken_too_long(limit, allowed, monkeypatch):
    simulated, host = Clock(), Clock()
    monkeypatch.setattr(time_budget, "perf_counter", host)
    budget = TimeBudget(limit)
    budget.start(simulated)
    host.now = allowed
    assert budget.remaining() == limit
    host.now = allowed + 0.1
    assert budget.remaining() == pytest.approx(-0.1)
    simulated.now = limit + 2.0
    assert budget.remaining() == -2.0


def test_a_real_clock_alone_has_the_limit_and_no_other(monkeypatch):
    host = Clock()
    monkeypatch.setattr(time_budget, "perf_counter", host)
    budget = TimeBudget(100.0)
    budget.start(host)
    host.now = 90.0
    assert budget.remaining() == 10.0


def test_what_has_no_limit_is_part_of_the_time_and_uses_none_of_it_up():
    clock = Clock()
    budget = TimeBudget(10.0)
    budget.start(clock)
    clock.now += 1
    with budget.without_limit():
        clock.now += 20
    assert (budget.elapsed, budget.remaining()) == (21.0, 9.0)
