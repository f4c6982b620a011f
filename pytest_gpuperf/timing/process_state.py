"""Whether the part of a test that runs for one device changes what its workload does on another.

A body may set something for the whole process: a backend, a default dtype, a variable of its module. Both
workloads are timed in turn after both bodies have run, and so the first one would run under what the second
body left.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, inf

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.devices.clock import FINE, seconds_between, step_of
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import GpuPerfError, is_outcome
from pytest_gpuperf.timing.blocks import BlockTimer, timed_block
from pytest_gpuperf.timing.gc_pause import gc_paused
from pytest_gpuperf.timing.processors import OtherWork, Waiting
from pytest_gpuperf.work.first_call import Bind, array_types
from pytest_gpuperf.work.values import Leaf
from pytest_gpuperf.work.workload import NO_WORK, Workload

_REMEDY = "set it in a fixture that restores it, or inside the returned callable"
_CAUSE = "the body of the test sets something for the whole process (a backend, a default, a variable)"
HINT = (
    "the call before it had passed; since then the test has prepared the other device: if the body sets "
    f"something for the whole process (a backend, a default, a variable), {_REMEDY}"
)
"""Of an exception in the first call since another device's body has run."""
_APART = 3.0  # times that no warm-up of a few calls explains
_BLOCKS, _BLOCK_TIME, _MOST_CALLS = 3, 0.5e-3, 1000  # so many blocks, of so many seconds, if calls suffice
_MORE_BLOCKS, _TURNS = 20, 4  # where a change is suspected: blocks, and times that each body runs once more
_FEWEST_TURNS = 2  # of bodies that take long
_AGREE, _SLOW = 1.5, 2e-3  # times; seconds
_SHARE, _LONGEST = 1 / 50, 1 / 8  # of the test's time: for the blocks, and for the longest call that is tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """By which factor a call's time has changed for no known reason, and a sentence on it."""

    factor: float
    text: str
    before: float = 0.0
    """Seconds of a call before, where a busy machine may be the reason."""

    def is_over(self, timer: BlockTimer) -> bool:
        """Return whether a block was seen to be about as fast again as before.

        The timer's `least_time` is no such block: it is divided by threads that the work may not use.
        """
        return self.factor > 1 and timer.calls.fastest < _APART * self.before


@dataclass(kw_only=True)
class StateProbe:
    """The least time of a call of a workload that was prepared first, `before` the other one's body runs.

    In seconds, infinite where a call takes too long to try it, or the clock is too coarse for a few calls. A
    few blocks are timed, of few calls each.
    """

    timer: BlockTimer
    max_time: float
    before: float = inf
    _calls: int = 1

    def __post_init__(self) -> None:
        """Time the workload; one that is a whole body sets what it needs in each call."""
        workload = self.timer.workload
        may_repeat = workload.scope == "call" and workload.restore is None  # else times depend on how often
        may_repeat = may_repeat and step_of(workload.device) <= FINE
        if may_repeat and workload.first_call <= _LONGEST * self.max_time:
            self.before = self._least_time()
            self._calls = min(_MOST_CALLS, ceil(_BLOCK_TIME / max(self.before, 1e-9)))
            if self._calls > 1:
                self.before = self._least_time()

    def change(self, bind: Bind, other: TimedDevice) -> Change | None:
        """Return how the time of a call has changed since the other body has run; None where it has not.

        The workload is warm. Raises GpuPerfError where the time follows the bodies each time that they run
        once more: then they set something for the whole process. Late warm-up does not follow them, and a
        busy machine, where some calls take 20 times as long as others, does not do so in each turn.
        """
        now = self.timer.calls.fastest  # of warm-up, if there was time for it
        if inf in (self.before, now) or max(self.before, now) < NO_WORK:
            return None
        before, self.before = self.before, inf  # after a restart, other work has changed it
        if not _are_apart(before, now):
            return None
        if before > _SLOW and not _are_apart(before, self.timer.calls.second):
            return None  # it changed later than that body has run: the first calls were cold
        kind, others = self.timer.device.info.noun, other.info.noun
        times = f"{units.seconds(now)} after the test has prepared the {others}"
        times = f"{times}, and {units.seconds(before)} before"
        if self._follows(bind, other, slower=now > before):
            raise GpuPerfError(f"a call on the {kind} takes {times}: {_CAUSE}; {_REMEDY}")
        text = (
            f"a call on the {kind} takes {times}: it was not warm yet, the machine was busy, or {_CAUSE}; "
            f"if so, {_REMEDY}"
        )
        return Change(factor=now / before, text=text, before=before)

    def _follows(self, bind: Bind, other: TimedDevice, *, slower: bool) -> bool:
        """Return whether the other body made calls slower (or else faster) than their own, in each turn.

        Bodies that take long run twice more, which is enough: noise of many seconds would show in the rounds.
        Nothing is sure of times that are not only the calls' own.
        """
        device = self.timer.device
        started, waiting, other_work = device.clock(), Waiting(), OtherWork()
        for turn in range(_TURNS):
            if turn >= _FEWEST_TURNS and seconds_between(started, device.clock()) > self.max_time:
                break
            own = self._after_body(bind, device)
            others = None if own is None else self._after_body(bind, other)
            if own is None or others is None:
                return False
            slow, fast = (others, own) if slower else (own, others)
            if slow < _APART * fast:
                return False
        if not self.timer.processors.are_watched:
            return True
        elapsed = seconds_between(started, device.clock())
        waited = min(sum(waiting.by_thread() or ()), other_work.seconds)
        return waited <= noise.MOST_WAITING * elapsed

    def _after_body(self, bind: Bind, device: TimedDevice) -> float | None:
        """Return the least time once the body has run for a device; its callable is not used.

        None where the body raises: it is a set-up, which need not run twice for a device.
        """
        try:
            with device.context():
                bind(device)()
        except Exception as error:
            if is_outcome(error):
                raise
            return None
        return self._least_time(_MORE_BLOCKS)

    def _least_time(self, blocks: int = _BLOCKS) -> float:
        """Return the least time of a call in blocks: in one, where a slow first call took about as long."""
        workload, device, least = self.timer.workload, self.timer.device, inf
        started = device.clock()
        for _ in range(blocks):
            with gc_paused():
                least = min(least, timed_block(workload, self._calls).sample or inf)
            self.timer.calls.made += self._calls
            if blocks == _BLOCKS and least > _SLOW and workload.first_call < _AGREE * least:
                break
            if seconds_between(started, device.clock()) > _SHARE * self.max_time:
                break
        return least


def _are_apart(before: float, now: float) -> bool:
    return max(before, now) >= _APART * min(before, now)


def require_same_types(workload: Workload, values: Iterable[Leaf]) -> None:
    """Refuse results whose arrays are of another library or dtype than those of the first call."""
    for was, now in zip(workload.returned_types, array_types(values), strict=False):
        if was != now:
            on = workload.device.info.noun
            raise GpuPerfError(
                f"on the {on} the first call returned an array of {was}, and later calls one of {now}: "
                f"{_CAUSE}; {_REMEDY}"
            )
