"""The time budget of a test: what it waited for others does not count."""

import time
from contextlib import contextmanager

from pytest_gpuperf.timing.lock import LockHold
from pytest_gpuperf.timing.time_budget import TimeBudget


def ticking(*times):
    return iter(times).__next__


def test_waiting_is_not_the_tests_time():
    clock, now = time.perf_counter, []

    @contextmanager
    def acquire():
        begun = clock()
        time.sleep(0.3)
        yield LockHold(waited=clock() - begun)

    budget = TimeBudget(0.2, acquire)
    budget.start(clock)
    with budget.lock():
        now.append(budget.remaining())
    assert 0.1 < now[0] <= 0.2
    assert budget.waited >= 0.3
    assert budget.elapsed < 0.1


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
