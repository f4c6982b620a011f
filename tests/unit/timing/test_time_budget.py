"""The time budget of a test, and a clock that goes back or shows no number: an error, never a hang."""

import re
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from math import inf, isfinite, nan
from time import perf_counter

import pytest
from cases import for_each
from msgspec import Struct
from msgspec.structs import fields
from walks import bound, trial_of

from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Record, Verdict
from pytest_gpuperf.timing import time_budget
from pytest_gpuperf.timing.lock import LockHold
from pytest_gpuperf.timing.time_budget import ClockError, TimeBudget, seconds_between


def ticking(*times):
    return iter(times).__next__


@pytest.fixture
def host(monkeypatch) -> Clock:
    """Return the clock of the host, whose time passes only where a test says so."""
    clock = Clock()
    monkeypatch.setattr(time_budget, "perf_counter", clock)
    return clock


def test_waiting_is_not_the_tests_time(host):
    @contextmanager
    def acquire():
        host.now += 15.0
        yield LockHold(waited=15.0)

    budget = TimeBudget(10.0, acquire)
    budget.start(host)
    host.now += 1.0
    with budget.lock():
        host.now += 2.0
        assert (budget.elapsed, budget.remaining(), budget.waited) == (3.0, 7.0, 15.0)


def test_simulated_time_needs_no_lock():
    def acquire():
        raise AssertionError

    simulated, real = ticking(*range(9)), perf_counter
    for clocks in ([simulated], [real, simulated], [simulated, real]):
        budget = TimeBudget(1.0, acquire)
        for clock in clocks:
            budget.start(clock)
        with budget.lock():
            assert budget.waited == 0


@for_each(("limit", "allowed"), [(1.0, 30.0), (60.0, 60.0)])
def test_simulated_time_is_up_when_the_host_has_taken_too_long_and_that_of_a_host_at_its_limit(
    limit, allowed, host
):
    simulated, begun = Clock(), host.now
    budget, of_host = TimeBudget(limit), TimeBudget(limit + 100)
    budget.start(simulated)
    of_host.start(host)
    host.now += allowed
    assert budget.remaining() == limit
    host.now = begun + allowed + 0.1
    assert budget.remaining() == pytest.approx(-0.1)
    simulated.now = limit + 2.0
    assert budget.remaining() == -2.0
    assert of_host.remaining() == pytest.approx(limit + 100 - allowed - 0.1)


OPTIONS = RunOptions(max_time=0.2)
WALKS = {
    "at the limit": Demand(min=10),
    "copies in the rounds": Demand(max=30, transfer="always"),
    "latency": Demand(min=3, latency=True),
}
# A block is a few calls, and so is one of copies: enough for readings of each kind.
TIMINGS = {
    "cpu": Timing(kernel=1e-3, bandwidth=1e5),
    "gpu": Timing(kernel=1e-4, bandwidth=1e5, synchronize=1e-6),
}
FAULTS = {
    "nan": lambda now: nan,
    "inf": lambda now: inf,
    "minus inf": lambda now: -inf,
    "back to the start": lambda now: 0.0,
    "running backwards": lambda now: -now,
}


class Reader:
    """A clock that is read through a fault from one reading on, and may not be read for ever."""

    def __init__(self, clock: Clock, fault, first: int, last: float) -> None:
        self._clock, self._fault, self._first, self._last = clock, fault, first, last
        self.readings = 0

    def __call__(self) -> float:
        self.readings += 1
        assert self.readings < 100_000, "this is a hang"
        now = self._clock()
        return self._fault(now) if self._first <= self.readings <= self._last else now


class Clocked:
    """A simulated device that is read through another clock than the one that it advances."""

    def __init__(self, device: SimulatedDevice, clock: Reader) -> None:
        self._device, self.clock = device, clock

    def __getattr__(self, name: str):
        return getattr(self._device, name)


def walk(demand, fault=float, *, first=0, last=-1) -> tuple[Record, str | None, int]:
    """Return the record of a walk on such a clock, its error, and how often the clock was read."""
    clock = Clock()
    clock.advance(1.0)
    reader = Reader(clock, fault, first, last)
    cpu, gpu = (
        Clocked(SimulatedDevice(kind, clock=clock, timing=timing), reader) for kind, timing in TIMINGS.items()
    )
    trial = trial_of(demand, OPTIONS)
    try:
        found = trial.compare(bound(body), cpu, gpu)
    except GpuPerfError as error:
        trial.discard_estimate()
        return trial.record(Verdict(status="error", reason=str(error))), str(error), reader.readings
    return trial.record(found), None, reader.readings


def body(device):
    a = device.asarray([1.0, 2.0])
    return lambda: a + 1


@cache
def readings(name: str) -> int:
    """Return how often the clock is read in a walk without a fault; the last time is for the record."""
    found, error, read = walk(WALKS[name])
    assert (found.status in ("passed", "inconclusive"), error) == (True, None)
    return read


def numbers(value) -> Iterator[float]:
    """Yield every float in a record."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, Struct):
        for field in fields(value):
            yield from numbers(getattr(value, field.name))
    elif isinstance(value, tuple | list | array):
        for part in value:
            yield from numbers(part)


@for_each("share", [0.0, 0.4, 0.99])
@for_each("fault", FAULTS)
@for_each("name", WALKS)
def test_a_clock_that_breaks_at_any_time_is_an_error_and_what_was_measured_stays(name, fault, share):
    found, error, _ = walk(WALKS[name], FAULTS[fault], first=int(share * readings(name)) + 2, last=inf)
    assert re.search("clock cannot be right: it measured|no time that the clock can show", error)
    assert all(isfinite(number) and number >= 0 for number in numbers(found))
    assert found.elapsed is None


@for_each("fault", ["nan", "inf", "minus inf"])
@for_each("name", WALKS)
def test_one_reading_that_is_no_time_is_an_error_whichever_it_is(name, fault):
    count = readings(name)
    for at in {2, 3, 4, 5, *range(6, count, count // 8), count - 1}:
        found, error, _ = walk(WALKS[name], FAULTS[fault], first=at, last=at)
        assert error or found.status == "error", f"reading {at} of {count}"
        assert all(isfinite(number) and number >= 0 for number in numbers(found))


@for_each("ended", [0.5, -inf, inf, nan])
def test_between_readings_of_a_clock_that_went_wrong_there_is_no_time(ended):
    assert (seconds_between(1.0, 1.0), seconds_between(1.0, 3.0)) == (0, 2)
    with pytest.raises(ClockError, match="cannot be right"):
        seconds_between(1.0, ended)
