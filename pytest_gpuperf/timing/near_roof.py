"""From the calls of one test and plain copies to how near both devices are to their roofs."""

from collections.abc import Callable
from typing import NamedTuple

from pytest_gpuperf.analysis.estimation import estimate_time
from pytest_gpuperf.analysis.looks import Limit
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.model.roof import DeviceRoof, Roof
from pytest_gpuperf.timing import notes
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.copies import Copy, copies_of, device_of_copies
from pytest_gpuperf.timing.cpu_result import CpuResult
from pytest_gpuperf.timing.sides import Sides
from pytest_gpuperf.timing.trial_context import TrialContext

_NOT_ASKED = (
    "no copy was timed to compare with: -v, --gpuperf-html and --gpuperf-markdown ask for one, and bytes= or "
    "min_share= in the marker"
)
_OF_BODY = (
    "which bytes the call moves is not known, for the whole body is the workload; return a callable, or say "
    "bytes=N in the marker"
)
_NO_ARRAYS = (
    "which bytes the call moves is not known, for it names no array, or returns only views; say bytes=N in "
    "the marker"
)
_SMALL = "on the {} a plain copy of {} takes as long as its launch; use larger inputs"
_NO_COPY = "no plain copy could be timed on the {}"
_IMPOSSIBLE = 2.0  # times as fast as a copy: what only reads may be 1.5 times as fast
_IMPOSSIBLE_IN_CACHE = 4.0  # there a core reads twice as many bytes in a cycle as it writes
_NOT_YET = Copy(0.0, bandwidth_limited=True)  # where the test ended before
_NO_COPY = "no plain copy could be timed on the {}"


class ShareLimit(NamedTuple):
    """The smallest share of the GPU's roof that passes, and the bytes and seconds of the copy that is it."""

    least: float
    moved: int
    copy_time: float

    @property
    def limit(self) -> Limit:
        """The limit of copy time over call time."""
        return Limit(self.least, self.least)


class NearRoof:
    """How near the calls of one test are to the roofs of their devices.

    The copies are timed where somebody asks: the marker, or what will be shown of the run.
    """

    def __init__(
        self,
        sides: Sides,
        context: TrialContext,
        add_note: Callable[[Note | None], None],
        *,
        is_asked: bool,
    ) -> None:
        demand, options = context.demand, context.options
        is_shown = options.roofs or demand.bytes is not None or demand.min_share is not None
        self._is_asked = is_asked and is_shown
        self._sides = sides
        self._context = context
        self._add_note = add_note
        self._copies: dict[Kind, Copy | None] = {}
        self._in_cache: set[Kind] = set()

    def time_copies(self) -> None:
        """Time copies of as many bytes as the calls move, on each device that this test measures.

        A limit on the share of a roof that is not known is a GpuPerfError.
        """
        for timer in self._sides.timers if self._is_asked else ():
            self._time_copy(timer)
        gpu, least = self._sides.gpu, self._context.demand.min_share
        if least is not None and gpu is not None and (why_not := self._why_no_share(gpu)) is not None:
            raise GpuPerfError(f"min_share={least:g} needs the share of the roof: {why_not}")

    def _time_copy(self, timer: BlockTimer, *, again: bool = False) -> None:
        if moved := self._moved(timer):
            self._sides.device = timer.device
            device = device_of_copies(timer.device)
            found = copies_of(device).find(moved, device, self._context.options, again=again)
            self._copies[timer.device.kind] = found

    @property
    def limit(self) -> ShareLimit | None:
        """The limit on the share of the GPU's roof, where the marker has one."""
        gpu, copy, least = self._sides.gpu, self._copies.get("gpu"), self._context.demand.min_share
        if gpu is None or copy is None or least is None:
            return None
        return ShareLimit(least, self._moved(gpu) or 0, copy.seconds)

    def require_possible(self) -> None:
        """Look at calls that are faster than such a copy: their data are in a cache, or were counted wrongly.

        They are refused where the marker says how many bytes there are, or has a limit that rests on them:
        not before the copy was timed again, as before a verdict on its share.
        """
        demand = self._context.demand
        for timer in self._sides.timers:
            is_limited = timer is self._sides.gpu and demand.min_share is not None
            if is_limited or self._is_impossible(timer):
                self._time_copy(timer, again=True)
            side = self.side(timer)
            if side is None or not self._is_impossible(timer):
                continue
            text = notes.faster_than_roof(side, timer.workload, is_given=demand.bytes is not None)
            if demand.bytes is not None or demand.min_share is not None:
                raise GpuPerfError(text)
            self._add_note(Note(code="faster_than_roof", text=text))

    def _is_impossible(self, timer: BlockTimer) -> bool:
        """Return whether no code is so fast; see if the data of what is faster than a copy are in a cache."""
        side, device = self.side(timer), device_of_copies(timer.device)
        self._in_cache.discard(timer.device.kind)  # by a copy that was slow before it was timed again
        if side is None or side.share is None or side.copy_time is None or side.share.value <= 1:
            return False
        self._sides.device = timer.device
        if copies_of(device).are_in_cache(side.bytes, side.copy_time, device, self._context.options):
            self._in_cache.add(timer.device.kind)
            return side.share.lower > _IMPOSSIBLE_IN_CACHE
        return side.share.lower > _IMPOSSIBLE

    def side(self, timer: BlockTimer) -> DeviceRoof | None:
        """Return how near one device is to its roof; None where the bytes of a call are not known."""
        moved, kind = self._moved(timer), timer.device.kind
        if not moved:
            return None
        copy, time = self._copies.get(kind), estimate_time(self._sides.sampled(timer).samples)
        return DeviceRoof(
            bytes=moved,
            bandwidth=moved / time.value if time else None,
            copy_time=copy.seconds if copy else None,
            bandwidth_limited=copy is not None and copy.bandwidth_limited,
            share=_share(copy.seconds, time) if copy and copy.bandwidth_limited and time else None,
            cache_resident=kind in self._in_cache,
        )

    def found(self) -> Roof | None:
        """Return how near both devices are to their roofs; None where neither was measured."""
        sides = self._sides
        timers = sides.timers
        if not timers:
            return None
        recorded = sides.cpu.roof if isinstance(sides.cpu, CpuResult) else None
        cpu = self.side(sides.cpu) if isinstance(sides.cpu, BlockTimer) else recorded
        gpu = self.side(sides.gpu) if sides.gpu else None
        is_given = self._context.demand.bytes is not None
        return Roof(
            asked=self._is_asked,
            source="marker" if is_given else "arrays" if cpu or gpu else None,
            cpu=cpu,
            gpu=gpu,
            reason=next(filter(None, map(self._why_no_share, timers)), None),
        )

    def _moved(self, timer: BlockTimer) -> int | None:
        return self._context.demand.bytes or timer.workload.moved_bytes

    def _why_no_share(self, timer: BlockTimer) -> str | None:
        if not self._moved(timer):
            return _OF_BODY if timer.workload.scope == "body" else _NO_ARRAYS
        if not self._is_asked:
            return _NOT_ASKED
        noun, copy = timer.device.info.noun, self._copies.get(timer.device.kind, _NOT_YET)
        if copy is None:
            return _NO_COPY.format(noun)
        return None if copy.bandwidth_limited else _SMALL.format(noun, units.size(self._moved(timer) or 0))


def _share(copy: float, call: Estimate) -> Estimate:
    """Return the share of the roof: a copy's seconds over those of a call, whose range it has."""
    return Estimate(value=copy / call.value, low=copy / call.upper, high=copy / call.lower)
