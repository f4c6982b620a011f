"""From the timers of rounds to what calls take while a device works alone, as in a loop."""

from collections.abc import Callable, Sequence
from math import ceil, inf
from time import perf_counter

from pytest_gpuperf.analysis import turns
from pytest_gpuperf.analysis.turns import Alone, Turns
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.timing.blocks import LONGEST_ON_HOST, BlockTimer
from pytest_gpuperf.timing.time_budget import seconds_between

_WINDOW, _SHARE = 0.05, 0.005  # seconds, and of the time limit: a window is no longer than either
_LONGEST_BLOCK = 2  # windows: longer ones hardly begin as the other device's turn left them
_SHORT_TEST, _TIME_TO_ASK = 4.0, 0.1  # seconds that the time limit must be; of it must be left
_SETTLED, _EARLY = 1.0, 2.0  # seconds of rounds after which devices work alone: once, and again


class LoneWork:
    """The work of each device alone: once where the answer may rest on it, and again before it does.

    The rounds' `timers` keep what it took. Without timers nothing is asked.
    """

    def __init__(
        self, timers: Sequence[BlockTimer], options: RunOptions, remaining: Callable[[], float]
    ) -> None:
        self._timers = timers
        self._options = options
        self._remaining = remaining
        self._may_begin = options.sampling.may_restart and options.max_time >= _SHORT_TEST
        self._may_confirm = self._may_confirm_early = False

    def begin(self, spent: float = inf) -> None:
        """Let each device work alone, once the machine has had time to settle into the rounds."""
        if self._may_begin and spent >= _SETTLED:
            self._may_begin = False
            self._may_confirm = self._may_confirm_early = self._ask(self._timers)

    def confirm(self, found: Turns | None) -> None:
        """Let the devices that differ do so once more: noise that lasts looks alike."""
        if self._may_confirm and found is not None:
            differ = zip(self._timers, (found.cpu, found.gpu), strict=True)
            self._may_confirm = False
            self._ask([timer for timer, difference in differ if difference is not None])

    def confirm_early(self, found: Callable[[], Turns | None], spent: float) -> None:
        """Confirm while there is time, once: rounds that go on leave too little at their end."""
        if self._may_confirm_early and spent >= _EARLY:
            self._may_confirm_early = False
            self.confirm(found())

    def _ask(self, timers: Sequence[BlockTimer]) -> bool:
        """Return whether devices have worked alone: blocks were short enough, and there was time."""
        window = min(_WINDOW, _SHARE * self._options.max_time)
        is_short = all(timer.block_seconds <= _LONGEST_BLOCK * window for timer in self._timers)
        if not is_short or self._remaining() < _TIME_TO_ASK * self._options.max_time:
            return False
        found = [_work_alone(timer, window) for timer in timers]
        for timer, alone in zip(timers, found, strict=True):
            if alone is None or None in found:
                return False
            timer.alone.append(alone)
        return bool(found)


def _work_alone(timer: BlockTimer, window: float) -> Alone | None:
    """Let a device work alone, in blocks that are no samples; return what they took.

    None of a clock that shows too little of the host's time.
    """
    fewest = max(turns.FEWEST_WINDOWS, ceil(turns.WINDOWS * window / max(window, timer.block_seconds)))
    clock, windows = timer.device.clock, list[list[float]]()
    quota, started_on_host = capabilities.quota(timer.device), perf_counter()
    stopped_before = quota.stopped() if quota else None
    while len(windows) < fewest or _goes_on(windows):
        started, times = clock(), list[float]()
        while not times or seconds_between(started, clock()) < window:
            times.append(timer.run_untimed())
            if clock is not perf_counter and perf_counter() - started_on_host > LONGEST_ON_HOST:
                return None
        windows.append(times)
    return Alone.of(windows, is_stopped=quota is not None and quota.stopped() != stopped_before)


def _goes_on(windows: Sequence[Sequence[float]]) -> bool:
    """Return whether times still change, while more windows may show where they end."""
    return turns.WINDOWS <= len(windows) < turns.MOST_WINDOWS and not turns.is_settled(windows)
