"""How long a rank may say nothing: by the longest call of its test."""

import pytest

from pytest_gpuperf.session.ranks.patience import Patience


@pytest.fixture
def now(monkeypatch):
    """The time, which a test changes."""
    now = [0.0]
    monkeypatch.setattr("pytest_gpuperf.session.ranks.patience.perf_counter", lambda: now[0])
    return now


def test_it_is_half_a_minute_at_least(now):
    patience = Patience()
    patience.begin(10.0)
    now[0] += 1.5
    patience.note()
    assert 30.0 == patience.seconds


def test_it_is_max_time_and_ten_times_the_longest_call_or_what_came_before_the_first(now):
    patience = Patience()
    patience.begin(10.0)
    now[0] += 4.0
    patience.end_call()
    assert 50.0 == patience.seconds
    now[0] += 100.0  # between two calls
    patience.note()
    patience.begin_call()
    now[0] += 5.0
    patience.note()
    assert 60.0 == patience.seconds
    patience.begin_call()
    now[0] += 1.0
    patience.end_call()
    assert 60.0 == patience.seconds


def test_it_is_that_of_one_test(now):
    patience = Patience()
    patience.begin(10.0)
    now[0] += 100.0
    patience.end_call()
    patience.begin(40.0)
    assert 40.0 == patience.seconds
