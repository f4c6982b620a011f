"""From the timers of rounds to what calls take while a device works alone, as in a loop."""

from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter
from typing import Literal

from pytest_gpuperf.analysis import turns
from pytest_gpuperf.analysis.turns import Alone, Turns
from pytest_gpuperf.devices.clock import seconds_between
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.timing.blocks import LONGEST_ON_HOST, BlockTimer

_WINDOW, _SHARE = 0.05, 0.005  # seconds, and of the time limit: a window is no longer than either
_LONGEST_BLOCK = 2  # windows: longer ones hardly begin as the other device's turn left them
_SHORT_TEST = 4.0  # seconds: in a test of less, devices do not work alone
_SHARE_IN_ALL = 0.17  # of the time limit: rounds take three quarters of it, and warm-up and copies need some
_SETTLED, _EARLY = 1.0, 2.0  # seconds of rounds after which devices work alone: once, and again


class LoneWork:
    """The work of each device alone: once where the answer may rest on it, and again before it does.

    The rounds' `timers` keep what it took. Without timers nothing is asked.
    """

    def __init__(
        self, timers: Sequence[BlockTimer], options: RunOptions, remaining: Callable[[], float]
    ) -> None:
        self._timers = timers
        self._remaining = remaining
        self._window = min(_WINDOW, _SHARE * options.max_time)
        self._left = _SHARE_IN_ALL * options.max_time  # seconds
        is_asked = options.sampling.may_restart and options.max_time >= _SHORT_TEST
        self._next: Literal["begin", "confirm early", "confirm"] | None = "begin" if is_asked else None

    def begin(self, spent: float = inf) -> None:
        """Let each device work alone, once the machine has had time to settle into the rounds."""
        if self._next == "begin" and spent >= _SETTLED:
            is_short = all(timer.block_seconds <= _LONGEST_BLOCK * self._window for timer in self._timers)
            self._next = "confirm early" if is_short and self._ask(self._timers) else None

    def confirm(self, found: Turns | None) -> None:
        """Let the devices that differ do so once more: noise that lasts looks alike."""
        if self._next in {"confirm early", "confirm"} and found is not None:
            differ = zip(self._timers, (found.cpu, found.gpu), strict=True)
            self._next = None
            self._ask([timer for timer, difference in differ if difference is not None])

    def confirm_early(self, found: Callable[[], Turns | None], spent: float) -> None:
        """Confirm while there is time, once: rounds that go on leave too little at their end."""
        if self._next == "confirm early" and spent >= _EARLY:
            self._next = "confirm"
            self.confirm(found())

    def _ask(self, timers: Sequence[BlockTimer]) -> bool:
        """Return whether devices have worked alone: there was time, and each took so many blocks."""
        if not timers or self._remaining() < self._left:
            return False
        window = min(self._window, self._left / (turns.WINDOWS * len(timers)))
        found = []
        for number, timer in enumerate(timers, 1):
            started = timer.device.clock()
            later = (len(timers) - number) * turns.WINDOWS * window
            alone = _work_alone(timer, window, more=(self._left - later) / window - turns.WINDOWS)
            self._left -= seconds_between(started, timer.device.clock())
            if alone is None:
                return False
            found.append(alone)
        for timer, alone in zip(timers, found, strict=True):
            timer.alone.append(alone)
        return True


def _work_alone(timer: BlockTimer, window: float, more: float) -> Alone | None:
    """Let a device work alone, in blocks that are no samples; return what they took.

    It goes on for so many windows `more` at most while times still change. None of blocks that take so long
    that they are too few, and of a clock that shows too little of the host's time.
    """
    clock, windows = timer.device.clock, list[list[float]]()
    quota, started_on_host = timer.device.quota(), perf_counter()
    stopped_before = quota.stopped() if quota else None
    most = turns.WINDOWS + min(more, turns.MOST_WINDOWS - turns.WINDOWS)
    started = begun = clock()
    times = list[float]()
    while seconds_between(started, begun) < (most if _goes_on(windows) else turns.WINDOWS) * window:
        times.append(timer.run_untimed())
        if clock is not perf_counter and perf_counter() - started_on_host > LONGEST_ON_HOST:
            return None
        now = clock()
        block = times[-1] * timer.block_calls
        if seconds_between(begun, now) >= window - block / 2:  # one more would be nearer to two windows
            windows.append(times)
            times, begun = [], now
    if len(windows) < turns.FEWEST_WINDOWS:
        return None
    return Alone.of(windows, is_stopped=quota is not None and quota.stopped() != stopped_before)


def _goes_on(windows: Sequence[Sequence[float]]) -> bool:
    """Return whether times still change, so that more windows may show where they end."""
    return len(windows) >= turns.FEWEST_WINDOWS and not turns.is_settled(windows)
