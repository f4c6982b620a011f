"""From readings of a device's clock to the seconds that a test has left, and to those of its rounds."""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from math import inf
from time import perf_counter

from pytest_gpuperf.devices.clock import ClockError, seconds_between
from pytest_gpuperf.timing.lock import LockHold

AcquireLock = Callable[[], AbstractContextManager[LockHold]]
"""Waits for the right to measure and keeps it within the context.

A session passes `MeasurementLock.acquire`, with pytest-timeout's timer paused meanwhile.
"""

_MOST_ON_HOST = 30.0  # seconds by the host's clock of a test whose devices simulate time; its limit if longer
# A round counts for so many typical ones, or so many seconds if that is more: bringing a GPU that idled to
# its speed takes less, and is work. What a round takes beyond that for so many seconds is no hiccup.
_MOST_TYPICAL, _LEAST_CAP, _STANDSTILL = 10, 0.5, 1.0
# Of a limit that others set; in the rest the last results are compared, and the test ends.
_SHARE_OF_OTHERS = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLimit:
    """The time after which somebody else ends a test, of which the first calls and the setup are part.

    `left` returns the seconds that are left of it. Sampling ends before.
    """

    owner: str
    seconds: float
    left: Callable[[], float]

    @property
    def max_time(self) -> float:
        """The seconds that a test can be measured for within the limit, where the first calls take none."""
        return _SHARE_OF_OTHERS * self.seconds

    def remaining(self) -> float:
        """Return the seconds left for sampling."""
        return self.left() - (self.seconds - self.max_time)


class TimeBudget:
    """The time of one test from its first call on, without the time that it waited for the lock.

    What runs `without_limit` is part of the time, and uses none of it up: first calls, for one.
    `warnings` say why other processes may have measured while this test held the lock. Where somebody else
    limits the test, too, it has the shorter time.
    """

    def __init__(
        self, limit: float, acquire_lock: AcquireLock | None = None, other: OtherLimit | None = None
    ) -> None:
        self.waited = 0.0
        self.warnings: tuple[str, ...] = ()
        self._asked = limit
        self._most = inf if other is None else other.max_time
        self._limit = min(limit, self._most)
        self._other = other
        self._unlimited = 0.0
        self._acquire_lock: AcquireLock = acquire_lock or (lambda: nullcontext(LockHold()))
        self._clock: Callable[[], float] = perf_counter
        self._started: float | None = None
        self._started_on_host: float | None = None  # of a simulated clock

    def start(self, clock: Callable[[], float]) -> None:
        """Start on the clock of a device, unless it has started on that of another."""
        if clock is not perf_counter and self._started_on_host is None:
            self._started_on_host = perf_counter()
        if self._started is None:
            self._clock = clock
            self._started = clock()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the measurement lock; simulated time passes in one process only and needs none."""
        lock = nullcontext(LockHold()) if self._started_on_host is not None else self._acquire_lock()
        with lock as hold:
            self.waited += hold.waited
            if hold.warning is not None:
                self.warnings = (hold.warning,)
            yield

    @contextmanager
    def without_limit(self) -> Iterator[None]:
        """Use none of the time up."""
        started = self._elapsed() or 0.0
        yield
        self._unlimited += (self._elapsed() or 0.0) - started

    def extend(self, limit: float) -> None:
        """Raise the limit of the test's time to so many seconds."""
        self._asked = max(self._asked, limit)
        self._limit = min(self._asked, self._most)

    def excuse(self, seconds: float) -> None:
        """Use none of the time up for so many seconds more: the machine stood still."""
        self._unlimited += seconds

    @property
    def elapsed(self) -> float | None:
        """The seconds used; None before the start, and of a clock that cannot be right."""
        try:
            return self._elapsed()
        except ClockError:
            return None

    def remaining(self) -> float:
        """Return the seconds left, below zero when time is up.

        Simulated time is also up when a test has taken too long on the host, to which it is no measure.
        """
        own = self._own_remaining()
        return own if self._other is None else min(own, self._other.remaining())

    @property
    def cut_to(self) -> float | None:
        """The seconds that a shorter limit of somebody else leaves in place of its own; None without one."""
        if self._other is None:
            return None
        used = self._limit - self._own_remaining()
        left = min(self._most, self._other.remaining() + used)
        return left if left < self._asked else None

    @property
    def up_on_host(self) -> float | None:
        """The seconds on the host after which simulated time is up, where it is; None of other time."""
        if self._started_on_host is None:
            return None
        most = max(self._limit, _MOST_ON_HOST)
        return most if perf_counter() - self._started_on_host > most else None

    def _own_remaining(self) -> float:
        left = self._limit + self._unlimited - (self._elapsed() or 0.0)
        return left if self.up_on_host is None else min(left, -1.0)

    def _elapsed(self) -> float | None:
        if self._started is None:
            return None
        return max(0.0, seconds_between(self._started, self._clock()) - self.waited)


class CountedSeconds:
    """The seconds of rounds as evidence: of a round in which the machine stood still, a few typical ones.

    A laptop that was suspended, a virtual machine that was moved or a container that was stopped for an hour
    shows no more of its noise than the rounds do that it ran. `expected` are the seconds of a round as far as
    warm-up has shown, by which the first one is judged.
    """

    def __init__(self, expected: float = inf) -> None:
        self.expected = expected
        self._rounds: list[float] = []  # by their length
        self._sum = 0.0
        self._worked = 0.0  # seconds, in the longest round

    def add(self, seconds: float, worked: float = 0.0) -> None:
        """Count one more round, in which processors have worked for the process for so many seconds."""
        if not self._rounds or seconds > self.longest:
            self._worked = worked
        insort(self._rounds, seconds)
        self._sum += seconds

    @property
    def typical(self) -> float:
        """The median seconds of a round; of an even number the lower one: one of two may have stood still."""
        middle = self._rounds[(len(self._rounds) - 1) // 2]
        return min(middle, self.expected) if len(self._rounds) == 1 else middle

    @property
    def most(self) -> float:
        """The seconds that a round counts for at most."""
        return max(_LEAST_CAP, _MOST_TYPICAL * self.typical)

    @property
    def counted(self) -> float:
        """The seconds of all rounds, of which none counts for more than `most`."""
        beyond = self._rounds[bisect_right(self._rounds, self.most) :]
        return self._sum - sum(seconds - self.most for seconds in beyond)

    @property
    def longest(self) -> float:
        """The seconds of the longest round."""
        return self._rounds[-1]

    @property
    def standstill(self) -> float:
        """For how long the machine stood still: in one round, without as much work, and not in a hiccup."""
        beyond = [seconds - self.most for seconds in self._rounds[-2:] if seconds > self.most]
        idle = beyond[0] - self._worked if len(beyond) == 1 else 0.0
        return idle if idle >= _STANDSTILL else 0.0
