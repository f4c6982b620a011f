"""The ranks of one launch as one device: what a scaling test with `ranks` works on, and how it is timed."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import monotonic, perf_counter, sleep
from typing import Any
from weakref import WeakKeyDictionary, finalize

import numpy as np

from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.protocol import Observation, TimedDevice
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.launch import Launch
from pytest_gpuperf.model.scaling import RankBlocks
from pytest_gpuperf.session.ranks.results import gathered, unpacked
from pytest_gpuperf.session.ranks.roles import FirstRank
from pytest_gpuperf.timing.blocks import timed_calls
from pytest_gpuperf.work.first_call import Bind
from pytest_gpuperf.work.values import Leaf
from pytest_gpuperf.work.workload import ResettableCall

BODY = 0
"""The key of a test's body among the calls that all ranks make."""
_LEAD = 1e-3  # seconds from the message on a block's start to it: ranks that sleep need a tenth of them
_ASLEEP = 0.2e-3  # seconds before it, from which a rank does not sleep any more


class RankGroup(DeviceGroup):
    """Ranks that work on one test together: `count` of them, of which this process is number `rank`.

    Each has a `device` of its own. An array on the group is this rank's part or copy.
    """

    def __init__(self, device: TimedDevice, rank: int, count: int, barrier: Callable[[], None]) -> None:
        super().__init__([device])
        self.device = device
        self.rank = rank
        self.count = count
        self.name = device.name if count == 1 else f"{count} x {device.name}"
        self.wait, self.submit = device.wait, device.submit
        self.unpack = device.unpack  # type: ignore[method-assign,assignment]  # its arrays are this rank's
        self._barrier = barrier

    @property
    def native(self) -> Any:
        """The library's own object for this rank's device."""
        return self.device.native

    @property
    def group(self) -> Any:
        """The process group of these ranks; None where the suite has not initialised torch.distributed."""
        return _native_groups.get(self.count, (None, None))[1]

    def barrier(self) -> None:
        """Wait until all of these ranks are here, not for their devices."""
        self._barrier()

    def asarray(self, host: Any, *, shard: int | None = None) -> Any:
        """Return this rank's part of `host`: of equal ones along the axis `shard`; a copy without it.

        GpuPerfError where the axis does not exist, or the ranks cannot share it equally.
        """
        if shard is None:
            return self.device.asarray(host)
        parts = np.split(np.asarray(host), self.count, axis=self.divisible_axis(host, shard))
        return self.device.asarray(parts[self.rank])

    def asnumpy(self, array: Any) -> Any:
        """Return an array of this rank's device on the host."""
        return self.device.asnumpy(array)

    def unfinished(self) -> list[Any]:
        """Return the arrays of this rank's device that are not ready."""
        return self.device.unfinished()

    def observe(self) -> Any:
        """Observe this rank's device."""
        return self.device.observe()

    def jointly(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Return a call of the test's body that all ranks make; of one rank it is the call itself."""
        return call

    def gathered(self, values: list[Leaf]) -> list[Leaf]:
        """Return the values of this rank's last result on the host, each as the only part of one."""
        return gathered(values)


class MeasuredRanks(RankGroup):
    """The same on rank 0 of several: whatever calls it makes, the other ranks of the group make, too.

    A call is announced, and what the others say of it is read before the next one, or once this device is
    waited for.
    """

    def __init__(self, device: TimedDevice, ranks: FirstRank, launch: Launch, count: int) -> None:
        super().__init__(device, 0, count, lambda: ranks.barrier(count))
        self._ranks, self._calls = ranks, ranks.calls
        self._launch = launch
        self._keys: WeakKeyDictionary[Any, tuple[int, Callable[[], Any]]] = WeakKeyDictionary()
        self._dropped: list[int] = []
        self._compiled = 0  # programs, by other ranks
        self._idle: list[int] = []  # other ranks without an input
        self._found: list[_Times] = []
        self.time_calls, self.compilations = self._time_calls, self._compilations  # type: ignore[method-assign]

    @property
    def blocks(self) -> RankBlocks | None:  # type: ignore[override]  # it grows
        """What the blocks so far showed of the ranks; None before the first."""
        if not self._found:
            return None
        skews = [each.skew for each in self._found if each.skew is not None]
        slowest, most = Counter(each.slowest for each in self._found).most_common(1)[0]
        return RankBlocks(
            launcher=self._launch.launcher,
            ranks=self.count,
            blocks=len(self._found),
            skew=median(skews) if skews else None,
            slowest=slowest,
            slowest_share=most / len(self._found),
            slowest_excess=median(each.excess for each in self._found),
        )

    def jointly(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Return a call of the test's body that all ranks make, and whose callable all make as well."""
        return self._joint(call, BODY)

    def synchronize(self) -> None:
        """Wait for this rank's device, and for the others' if they make a call."""
        self.device.synchronize()
        self._calls.settle()

    def gathered(self, values: list[Leaf]) -> list[Leaf]:
        """Return the values of this rank's last result with those of the others."""
        self._calls.settle()
        self._tell({"do": "result"})
        answers = self._ranks.hear("result", self.count)
        return gathered(values, [unpacked(each["places"], each.get("data", b"")) for each in answers])

    def idle(self, arrays: Iterable[Any]) -> list[int]:
        """Return the numbers of the ranks that hold none of these arrays, or none at all."""
        own = [] if any(map(self.device.holds, arrays)) else [0]
        return [*own, *self._idle]

    def at_work(self, results: Iterable[Any]) -> set[int]:
        """Return the numbers of the ranks that worked in the last call, or have a part of its result."""
        own = {0} if any(map(self.device.holds, results)) else set()
        return own | {number for number, worked in enumerate(self.worked) if worked}

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Observe this rank's device; others observe theirs, and it is not known yet whether these worked."""
        with self.device.observe() as observation:
            yield observation
        self.worked = [observation.worked, *[False] * (self.count - 1)]

    def _compilations(self) -> int:
        """Return how many programs the libraries of all ranks have compiled so far."""
        return self.device.compilations() + self._compiled

    def _joint(self, call: Callable[[], Any], key: int) -> Callable[[], Any]:
        """Return a function that announces a call and makes it; what searches it finds the call itself."""

        def joint_call() -> Any:
            self._calls.settle()
            self._ranks.require(self.count)
            key_of_result = self._calls.next_key()
            self._tell({"do": "call", "key": key, "as": key_of_result})
            try:
                result = call()  # which may wait for its device, but not for what the others say of it
            finally:
                self._calls.unanswered = self._hear_of_call
            is_made = key == BODY and callable(result)
            return self._joint_result(result, key_of_result) if is_made else result

        joint_call.__wrapped__ = call  # type: ignore[attr-defined]  # as functools.wraps does
        self._keys[joint_call] = key, call
        if key != BODY:
            finalize(joint_call, self._dropped.append, key)
        return joint_call

    def _joint_result(self, made: Any, key: int) -> Any:
        if not ask.is_really(made, ResettableCall):
            return self._joint(made, key)
        return ResettableCall(self._joint(made.call, key), self._joint(made.reset, -key))

    def _tell(self, message: dict[str, Any]) -> None:
        dropped, self._dropped[:] = [*self._dropped], []
        self._ranks.tell({**message, "count": self.count, "drop": dropped}, self.count)

    def _hear_of_call(self) -> None:
        """Read what the others say of the last call, which was one of this group."""
        answers = self._ranks.hear("done", self.count)
        self.worked[1:] = [bool(each["worked"]) for each in answers]
        self._compiled += sum(each["compiled"] for each in answers)
        if all(each["inputs"] is not None for each in answers):  # of a body that has returned a callable
            self.bytes_elsewhere = sum(each["inputs"] for each in answers)
            self._idle = [number for number, each in enumerate(answers, 1) if not each["inputs"]]

    def _time_calls(
        self, call: Callable[[], Any], calls: int, *, calls_wait: bool = False, empty_wait: float = 0.0
    ) -> tuple[float, Any]:
        """Return the seconds of the slowest rank for so many calls, and this rank's last result.

        All ranks wait for their devices, meet, and begin at one moment.
        """
        self._calls.settle()
        if call not in self._keys:  # one of the timer's own, such as that which does nothing
            return timed_calls(self.device, call, calls, calls_wait=calls_wait, empty_wait=empty_wait)
        key, own = self._keys[call]
        self._tell({"do": "block", "key": key, "calls": calls, "empty_wait": empty_wait})
        started: list[float | None] = [None]

        def meet() -> None:
            self._ranks.hear("ready", self.count)
            moment = monotonic() + _LEAD if self._launch.is_on_one_machine else None
            self._ranks.tell({"do": "go", "at": moment}, self.count)
            started[0] = begin_at(moment)

        lasted, result = timed_calls(
            self.device, own, calls, calls_wait=calls_wait, empty_wait=empty_wait, meet=meet
        )
        answers = self._ranks.hear("took", self.count)
        self._compiled += sum(each["compiled"] for each in answers)
        started += [each["started"] for each in answers]
        times = [lasted, *(each["took"] for each in answers)]
        self._found.append(_Times(times, _skew(started)))
        slowest = max(times)
        if self.device.clock is not perf_counter and self.device.pause is not None:
            self.device.pause(slowest - lasted)  # on a clock of its own this rank has waited for it, too
        return slowest, result


@dataclass(frozen=True, slots=True)
class _Times:
    """The seconds of a block on each rank, and from the first start to the last, on one machine."""

    each: list[float]
    skew: float | None

    @property
    def slowest(self) -> int:
        """The rank that took longest."""
        return self.each.index(max(self.each))

    @property
    def excess(self) -> float:
        """By which share of the fastest rank's time the slowest took longer."""
        return max(self.each) / min(self.each) - 1 if min(self.each) > 0 else 0.0


def joint_bind(bind: Bind) -> Bind:
    """Return what binds a test function to ranks, all of which make the calls that rank 0 makes."""

    def bind_jointly(group: Any) -> Callable[[], Any]:
        joint: Callable[[], Any] = group.jointly(bind(group))
        return joint

    return bind_jointly


def _skew(started: Sequence[float | None]) -> float | None:
    """Return the seconds from the first of these moments to the last; None where one is not known."""
    known = [moment for moment in started if moment is not None]
    return max(known) - min(known) if len(known) == len(started) else None


def begin_at(moment: float | None) -> float | None:
    """Wait until a moment of the monotonic clock, which the processes of a machine share; return when it is.

    On several machines there is no such moment: a block begins when the word for it comes.
    """
    if moment is None:
        return None
    if (left := moment - _ASLEEP - monotonic()) > 0:
        sleep(left)
    while (now := monotonic()) < moment:
        pass
    return now


_native_groups: dict[int, tuple[Any, Any]] = {}  # of so many ranks, each with the group of all


def lacks_groups(counts: Iterable[int]) -> bool:
    """Return whether `make_groups` makes any, for which all ranks of the launch must be there."""
    world = _world()
    return world is not None and any(
        _native_groups.get(count, (None, None))[0] is not world for count in counts
    )


def _world() -> Any:
    """Return torch.distributed's group of all ranks; None where the suite has not initialised it."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.group.WORLD


def make_groups(counts: Iterable[int], rank: int) -> None:
    """Make the process groups of so many ranks, where the suite has initialised torch.distributed.

    All ranks of the launch take part in each, in one order: torch names a group by how many a process knows.
    """
    if (world := _world()) is None:
        _native_groups.clear()
        return
    distributed: Any = sys.modules["torch.distributed"]
    if (found := distributed.get_rank()) != rank:
        raise GpuPerfError(
            f"torch.distributed calls this process rank {found}, and its launch calls it rank {rank}; "
            "initialise it with the launch's own numbers, as init_process_group() does"
        )
    for count in sorted({*counts}):
        if _native_groups.get(count, (None, None))[0] is not world:
            timeout = ask.answer(_timeout_of, world)
            _native_groups[count] = world, distributed.new_group(range(count), timeout=timeout)


def _timeout_of(group: Any) -> Any:
    """Return how long a call on a process group may take, which new groups do not take over by themselves.

    PyTorch has no public way to it.
    """
    backends = (ask.answer(group._get_backend, kind) for kind in group._device_types)  # noqa: SLF001
    return min(backend.options._timeout for backend in backends if backend is not None)  # noqa: SLF001
