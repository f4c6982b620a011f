"""Whether calls take another time after more of them, as once a compiler has seen enough or a cache is full.

What warms up late counts calls. So the look is made where many of them take little time: of slow ones it is
not (docs/explanation/limits.md).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from random import Random
from statistics import median

from pytest_gpuperf.timing.blocks import BlockTimer

_CALLS = ((256, 0.13), (50, 0.27))  # times are late after so many where these take at most so many seconds
_EARLY = 4  # rounds before that, of the seven of a clear test
_CONFIRMED = 6  # rounds more that must show a difference, too
_AS_BEFORE = 1.2  # a factor: times that differ by less count as equal


@dataclass(frozen=True, slots=True, kw_only=True)
class LateTime:
    """The seconds of a call before and after many more, of the workload that a timer times."""

    timer: BlockTimer
    before: float
    now: float


@dataclass(slots=True)
class LateLook:
    """The rounds of quick tests before and after so many calls more that their times are late.

    Rounds are compared with rounds: blocks of as many calls, each after the other device's. The calls between
    them are untimed, and take at most half of the time that `remaining` returns. They are those of the
    `suspects`, asked when some rounds are taken: of the timers of both devices, those whose shorter calls
    would turn the verdict.
    """

    timers: Sequence[BlockTimer]
    suspects: Callable[[], Iterable[BlockTimer]]
    order: Random
    remaining: Callable[[], float]
    _early: list[int] = field(default_factory=list)
    """How many samples of each timer were early ones; empty before the calls between them."""

    def call_ahead(self, after_block: Callable[[], None]) -> None:
        """Call the suspects until times are late, once some rounds are taken.

        It is no generator, in which a workload's StopIteration would become a RuntimeError.
        """
        if self._early or min(len(timer.samples) for timer in self.timers) < _EARLY:
            return
        self._early = [len(timer.samples) for timer in self.timers]
        for timer in self.suspects():
            seconds = median(timer.samples)
            blocks = ceil((_late_after(seconds) - timer.calls.made) / timer.block_calls)
            if blocks * timer.block_calls * seconds <= self.remaining() / 2:
                for _ in range(blocks):
                    timer.run_untimed()
                    after_block()

    def changed(self) -> LateTime | None:
        """Return the times of calls that now take another one than at first; None where none do."""
        if not self._early:
            return None
        late = [list(timer.samples[early:]) for timer, early in zip(self.timers, self._early, strict=True)]
        if self._first_changed(late) is None:
            return None
        for _ in range(_CONFIRMED):
            for place in self.order.sample(range(len(late)), len(late)):
                late[place].append(self.timers[place].run_untimed())
        return self._first_changed(late)

    def _first_changed(self, late: Sequence[Sequence[float]]) -> LateTime | None:
        for timer, early, times in zip(self.timers, self._early, late, strict=True):
            before = median(timer.samples[:early])
            if not times or not _late_after(before):
                continue
            now = median(times)
            if max(now, before) > _AS_BEFORE * min(now, before):
                return LateTime(timer=timer, before=before, now=now)
        return None


def _late_after(seconds: float) -> int:
    """Return after how many calls, of so many seconds each, times are late; 0 where that takes too long."""
    return next((calls for calls, most in _CALLS if calls * seconds <= most), 0)
