"""The time budget of a test: what it waited for others does not count."""

import time
from contextlib import contextmanager

from pytest_gpuperf.timing.budget import TimeBudget
from pytest_gpuperf.timing.lock import Turn


def ticking(*times):
    return iter(times).__next__


def test_waiting_is_not_the_tests_time():
    clock, now = time.perf_counter, []

    @contextmanager
    def take():
        begun = clock()
        time.sleep(0.3)
        yield Turn(waited=clock() - begun)

    budget = TimeBudget(0.2, take)
    budget.start(clock)
    with budget.turn():
        now.append(budget.left())
    assert 0.1 < now[0] <= 0.2
    assert budget.waited >= 0.3
    assert budget.elapsed < 0.1


def test_simulated_time_needs_no_turn():
    def take():
        raise AssertionError

    simulated, real = ticking(*range(9)), time.perf_counter
    for clocks in ([simulated], [real, simulated], [simulated, real]):
        budget = TimeBudget(1.0, take)
        for clock in clocks:
            budget.start(clock)
        with budget.turn():
            assert budget.waited == 0
