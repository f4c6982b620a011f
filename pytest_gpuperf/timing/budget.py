"""From a limit and a device's clock to the seconds that measuring a test may still take."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter

from pytest_gpuperf.timing.lock import Turn

__all__ = ["TakeTurn", "TimeBudget"]

TakeTurn = Callable[[], AbstractContextManager[Turn]]


class TimeBudget:
    """The time of one test, from its first call on, without what it waited for its turns.

    `take` holds a turn to measure. `doubts` are those of the turns: others may have measured beside it.
    """

    def __init__(self, limit: float, take: TakeTurn | None = None) -> None:
        self.waited = 0.0
        self.doubts: tuple[str, ...] = ()
        self._limit = limit
        self._take: TakeTurn = take or (lambda: nullcontext(Turn()))
        self._clock: Callable[[], float] = perf_counter
        self._started: float | None = None
        self._simulated = False

    def start(self, clock: Callable[[], float]) -> None:
        """Start on the clock of a device, if it has not started on another's."""
        self._simulated = self._simulated or clock is not perf_counter
        if self._started is None:
            self._clock, self._started = clock, clock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold a turn to measure; simulated time passes for one process only, so it needs none."""
        if self._simulated:
            yield
            return
        with self._take() as turn:
            self.waited += turn.waited
            if turn.doubt is not None:
                self.doubts = (turn.doubt,)
            yield

    @property
    def elapsed(self) -> float | None:
        """The seconds spent, None before the start."""
        return None if self._started is None else self._clock() - self._started - self.waited

    def left(self) -> float:
        """Return the seconds left, below zero when they are up."""
        return self._limit - (self.elapsed or 0.0)
