"""From what the system reports around timed blocks to what took processor time from a workload."""

from functools import cached_property
from math import inf
from time import perf_counter
from typing import NamedTuple

from pytest_gpuperf.devices.environment import other_work, waits
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.timing.gpu_clocks import has_own_clocks

_LEAST_WAIT = 0.01  # of a block's time: a thread that waited less is not counted


class Waiting:
    """How long each thread of this process has waited for a processor since this was made."""

    def __init__(self) -> None:
        self._before = waits()

    def by_thread(self) -> list[float] | None:
        """Return the seconds of each thread; None where the system does not report them."""
        before, now = self._before, waits()
        if before is None or now is None:
            return None
        return [seconds - before.get(thread, 0.0) for thread, seconds in now.items()]


class OtherWork:
    """How long processors have worked for others than this process since this was made."""

    def __init__(self) -> None:
        self._before = other_work()

    @property
    def seconds(self) -> float:
        """The seconds of all processors; infinite where the system does not report them."""
        if self._before is None or (now := other_work()) is None:
            return inf
        return max(0.0, now - self._before)


class Stopped(NamedTuple):
    """A quota of so many processors, and in how many of its periods the process had used it up."""

    processors: float
    periods: int


class Processors:
    """What the processors did while one workload was sampled, for it and for others. Times in seconds.

    For so long have threads `waited` for a processor and processors `worked` for the process, in all timed
    blocks, and `waiting_threads` is the largest number in one of them; None where the system does not report
    them. `others_worked` is how long processors have worked for others since the first block, where that is
    known: threads that waited longer waited for each other. `least_time` is what a call needs in any case.
    """

    def __init__(self, device: TimedDevice) -> None:
        self.waited: float | None = None
        self.worked: float | None = None
        self.others_worked = inf
        self.waiting_threads: int | None = None
        self.least_time: float | None = None
        self._device = device
        self._before_last_block: tuple[float | None, float | None, float] = (None, None, inf)
        self._worked_before: float | None = None
        self._waiting: Waiting | None = None
        self._others: OtherWork | None = None  # since the first block
        self._stopped_before: int | None = None  # periods, before it

    @cached_property
    def are_watched(self) -> bool:
        """Whether a thread that waits for a processor holds up the workload.

        It does not in simulated time, nor on a GPU. Emulated devices wait for each other.
        """
        is_timed_here = self._device.clock is perf_counter and not has_own_clocks(self._device)
        return is_timed_here and not self._device.shares_processors

    @property
    def lost(self) -> float | None:
        """How long threads waited for a processor because of other work, at most; None where not known."""
        return None if self.waited is None else min(self.waited, self.others_worked)

    @property
    def stopped(self) -> Stopped | None:
        """How a quota of processor time has stopped the process since the first sample; None if none did."""
        quota = self._device.quota()
        if quota is None or self._stopped_before is None:
            return None
        periods = (quota.stopped() or 0) - self._stopped_before
        return Stopped(quota.processors, periods) if periods > 0 else None

    def note_before(self, *, is_first: bool) -> None:
        """Note what the system reports before a block."""
        if is_first:
            self._others = OtherWork() if self.are_watched else None
            quota = self._device.quota()
            self._stopped_before = quota.stopped() if quota else None
        self._waiting = Waiting() if self.are_watched else None
        self._worked_before = self._device.processor_time()

    def add_block(self, seconds: float) -> None:
        """Add what the system has reported since the beginning of a block, which took so many seconds."""
        worked_after = self._device.processor_time()
        in_block = self._waiting.by_thread() if self._waiting else None
        self._before_last_block = self.waited, self.worked, self.others_worked
        if self._worked_before is not None and worked_after is not None:
            self.worked = (self.worked or 0.0) + max(0.0, worked_after - self._worked_before)
        if in_block is not None:
            waited, least = sum(in_block), _LEAST_WAIT * seconds
            self.waited = (self.waited or 0.0) + waited
            self.waiting_threads = max(self.waiting_threads or 0, sum(wait > least for wait in in_block))
            others = self._others.seconds if waited > least and self._others is not None else inf
            self.others_worked = others if others < inf else self.others_worked

    def drop_last_block(self) -> None:
        """Discard what the last block added to the sums."""
        self.waited, self.worked, self.others_worked = self._before_last_block

    def restart(self) -> None:
        """Discard what is known of the samples so far."""
        self.waited = self.worked = self.waiting_threads = None
        self.others_worked = inf
