"""What the turn of one device changes on the other: shapes for the sides of a world (`worlds.py`).

Each is one mechanism of a machine: clocks that follow use, threads that spin, budgets and caches that both
devices share, a quota of processor time. The world reports all work to a shape, and the shape returns how
long the next call takes.
"""

from dataclasses import dataclass, field
from math import exp, floor
from pathlib import Path

from pytest_gpuperf.devices.environment import Quota as ProcessQuota

_EDGE = 1e-9  # periods: a time at the end of one is in the next


class Coupling:
    """Nothing is changed: the base of the shapes."""

    def work(self, begun: float, seconds: float) -> float:  # noqa: ARG002 - shapes use it
        """Return how long work of so many seconds takes that begins then."""
        return seconds

    def submission(self, begun: float, seconds: float) -> float:  # noqa: ARG002 - shapes use it
        """Return how long the host takes to submit a call then."""
        return seconds

    def worked(self, begun: float, ended: float) -> None:
        """Note work of the device itself."""

    def other_worked(self, begun: float, ended: float) -> None:
        """Note work of the other device."""


@dataclass(kw_only=True)
class Waking(Coupling):
    """A CPU whose clock has fallen after so long without work is slower for its next seconds of work."""

    work_time: float
    factor: float
    idle: float = 10e-3
    _ended: float = -10.0
    _slow: float = 0.0

    def work(self, begun: float, seconds: float) -> float:
        """Work slowly until the clock has risen."""
        if begun - self._ended > self.idle:
            self._slow = self.work_time
        slow = min(self._slow, seconds * self.factor)
        self._slow -= slow
        return slow + seconds - slow / self.factor

    def worked(self, begun: float, ended: float) -> None:  # noqa: ARG002 - the base has it
        """Note when the device began to idle."""
        self._ended = ended


@dataclass(kw_only=True)
class Governor(Coupling):
    """A clock that is low in each window after one in which the device was used for less than half."""

    window: float
    factor: float = 1.5
    need: float = 0.5
    _used: dict[int, float] = field(default_factory=dict)

    def work(self, begun: float, seconds: float) -> float:
        """Work by the use of the last window."""
        before = self._used.get(floor(begun / self.window) - 1, 0.0)
        return seconds if before >= self.need * self.window else self.factor * seconds

    def worked(self, begun: float, ended: float) -> None:
        """Add the time to its windows."""
        while begun < ended - 1e-12:
            window = floor(begun / self.window + _EDGE)
            until = min(ended, (window + 1) * self.window)
            self._used[window] = self._used.get(window, 0.0) + until - begun
            begun = until


@dataclass(kw_only=True)
class Spinning(Coupling):
    """Threads of the CPU spin for a while after its call, and slow down what the host does for the GPU."""

    spin: float
    factor: float
    _ended: float = -10.0

    def submission(self, begun: float, seconds: float) -> float:
        """Submit slowly while threads spin."""
        return seconds * (self.factor if begun - self._ended < self.spin else 1.0)

    def other_worked(self, begun: float, ended: float) -> None:  # noqa: ARG002 - the base has it
        """Note when the threads began to spin."""
        self._ended = ended


@dataclass(kw_only=True)
class Load(Coupling):
    """Slower by the load of the last seconds: of the other device (a shared budget), or its own (heat)."""

    seconds: float
    slower: float = 0.3
    own: bool = False
    _load: float = 0.0
    _at: float = 0.0

    def work(self, begun: float, seconds: float) -> float:
        """Work by the load until then."""
        self._forget(begun, 0.0)
        return seconds * (1 + self.slower * self._load)

    def worked(self, begun: float, ended: float) -> None:
        """Add to the load what the device did."""
        if self.own:
            self._count(begun, ended)

    def other_worked(self, begun: float, ended: float) -> None:
        """Add to the load what the other device did."""
        if not self.own:
            self._count(begun, ended)

    def _count(self, begun: float, ended: float) -> None:
        self._forget(begun, 0.0)
        self._forget(ended, 1.0)

    def _forget(self, until: float, level: float) -> None:
        self._load = level + (self._load - level) * exp(-max(0.0, until - self._at) / self.seconds)
        self._at = max(self._at, until)


@dataclass(kw_only=True)
class Refill(Coupling):
    """The first call after the other device's turn finds a cache empty that both use."""

    seconds: float
    _is_empty: bool = False

    def work(self, begun: float, seconds: float) -> float:  # noqa: ARG002 - the base has it
        """Fill the cache first."""
        return seconds + (self.seconds if self._is_empty else 0.0)

    def worked(self, begun: float, ended: float) -> None:  # noqa: ARG002 - the base has it
        """Note that the cache is full."""
        self._is_empty = False

    def other_worked(self, begun: float, ended: float) -> None:  # noqa: ARG002 - the base has it
        """Note that the cache is empty."""
        self._is_empty = True


@dataclass(kw_only=True)
class Quota(Coupling):
    """A container that may use so many processors, on average over each period, and has more threads."""

    threads: int
    processors: float = 2.0
    period: float = 0.1
    _used: dict[int, float] = field(default_factory=dict)
    stopped: int = 0

    def limit(self) -> "CountedQuota":
        """Return the quota as a device reports it."""
        return CountedQuota(self.processors, Path(), self)

    def work(self, begun: float, seconds: float) -> float:
        """Stop where the quota of a period is used up, and go on in the next one."""
        now, left = begun, seconds
        while left > 1e-12:
            period = floor(now / self.period + _EDGE)
            ends = (period + 1) * self.period
            free = self.processors * self.period - self._used.get(period, 0.0)
            step = min(left, free / self.threads, ends - now)
            if step <= _EDGE:
                self.stopped += 1
                now = ends
                continue
            self._used[period] = self._used.get(period, 0.0) + step * self.threads
            now, left = now + step, left - step
        return now - begun


@dataclass(frozen=True)
class CountedQuota(ProcessQuota):
    """What a device says of such a quota."""

    of: Quota

    def stopped(self) -> int:
        """Return in how many periods the container was stopped."""
        return self.of.stopped
