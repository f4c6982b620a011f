"""From the records of a run to offload thresholds: the size from which the GPU wins, and how sure that is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import inf
from typing import Literal

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.looks import Limit, Range, Side
from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.model.demand import SizeGroup
from pytest_gpuperf.model.measurement import Speedup
from pytest_gpuperf.model.offload import Point, Threshold
from pytest_gpuperf.model.record import Record

_Status = Literal["passed", "failed", "inconclusive", "recorded", "skipped"]
_WORST_FIRST: tuple[_Status, ...] = ("failed", "inconclusive", "passed")
_REGIMES = ("never", "once", "always", "latency")
_MEASURE_LONGER = "allow more time with max_time, or use a quieter machine"
_RUN_ALL = "run all sizes of the group in one process"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    """All sizes, smallest first, and each in words; the threshold lies between `low` and `high`.

    `gpu` is what the device is called that may win.
    """

    points: Sequence[Point]
    gpu: str
    labels: Mapping[float, str] = field(default_factory=dict)

    @property
    def low(self) -> float:
        """The threshold if every inconclusive size were a win; infinite when the largest size is lost."""
        tail = takewhile(lambda point: point.won is not False, reversed(self.points))
        return min((point.size for point in tail), default=inf)

    @property
    def high(self) -> float:
        """The threshold if every inconclusive size were a loss; infinite when the largest size is not won."""
        tail = takewhile(lambda point: point.won is True, reversed(self.points))
        return min((point.size for point in tail), default=inf)

    @property
    def largest_not_won(self) -> float | None:
        return max((point.size for point in self.points if point.size < self.high), default=None)

    @property
    def outcome(self) -> Literal["bracket", "none", "not_monotone"]:
        won = self.where(won=True)
        lost = self.where(won=False)
        if won and lost and won[0].size < lost[-1].size:
            return "not_monotone"
        return "bracket" if self.high < inf else "none"

    def where(self, *, won: bool | None) -> list[Point]:
        return [point for point in self.points if point.won is won]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """One required limit of the threshold; `start` is the size that its decision begins at."""

    bound: Literal["at_least", "at_most"]
    size: float
    start: float
    status: _Status


def find(records: Iterable[Record]) -> tuple[Threshold, ...]:
    """Return the offload threshold of each size group, in order of first appearance.

    It is the smallest measured size from which the GPU wins at all larger measured sizes, too: the
    definition of GPU-BLOB (github.com/UoB-HPC/GPU-BLAS-Offload-Benchmark), with uncertainty added. A size is
    won or lost when a look decides that its speedup, in the regime of its demand, is above or below 1. That
    the threshold is reported too low takes a wrong win at the one size that decides; that it is reported too
    high, one wrong loss among all sizes.
    """
    size_groups: dict[str, SizeGroup] = {}
    members: dict[str, dict[float, Record]] = {}
    for record in records:
        if record.size_group is None:
            continue
        size_groups.setdefault(record.size_group.name, record.size_group)
        by_size = members.setdefault(record.size_group.name, {})
        other = by_size.get(record.size_group.size)
        # A CPU variant, which was only timed, is replaced by its GPU variant.
        if other is None or record.gpu or (other.gpu is None and record.status != "recorded"):
            by_size[record.size_group.size] = record
    return tuple(_threshold(size_group, members[name]) for name, size_group in size_groups.items())


def side_that_fails(size_group: SizeGroup) -> Side:
    """Return the side of 1 on which the speedup of a member makes its size group fail."""
    sizes, most = size_group.sizes, size_group.at_most
    must_win = most is not None and size_group.size >= _start(size for size in sizes if size <= most)
    must_lose = size_group.at_least is not None
    if must_win and must_lose:
        return "either"
    return "below" if must_win else "above" if must_lose else "neither"


def _threshold(size_group: SizeGroup, records: Mapping[float, Record]) -> Threshold:
    first = next(iter(records.values()))
    points = {size: _point(size, records[size]) for size in sorted(records)}
    curve = _Curve(
        points=[
            points.get(size) or Point(size=size, nodeid="", cpu=None, gpu=None) for size in size_group.sizes
        ],
        gpu=next((record.gpu_noun for record in records.values() if record.gpu), "GPU"),
        labels={size: _label(size_group.parameter, size, records.get(size)) for size in size_group.sizes},
    )
    missing = [size for size in size_group.sizes if _speedup(records.get(size)) is None]
    status, reason = _evaluate(size_group, curve)
    if missing and status not in ("passed", "failed"):  # what is certain does not depend on them
        status, reason = _incomplete(size_group, records, missing)
    regimes = (record.offload.regime for record in records.values() if record.offload)
    return Threshold(
        name=size_group.name,
        parameter=size_group.parameter,
        at_most=size_group.at_most,
        at_least=size_group.at_least,
        regime=next(regimes, first.demand.transfer),
        by_latency=first.demand.latency,
        status=status,
        reason=reason,
        outcome=None if missing else curve.outcome,
        largest_not_won=None if missing else curve.largest_not_won,
        smallest_won=None if missing or curve.high == inf else curve.high,
        curve=tuple(points.values()),
    )


def _speedup(record: Record | None) -> Speedup | None:
    """Return the speedup that counts: that of a failed measurement or of a wrong result does not."""
    if record is None or record.status in ("error", "skipped"):
        return None
    return None if record.check and record.check.agreed is False else record.speedup


def _label(parameter: str, size: float, record: Record | None) -> str:
    """Return one size with its speedup, or why that is missing."""
    speedup = _speedup(record)
    if record is None or speedup is None:
        return f"{_assignments(parameter, size)} ({_why_missing(record)})"
    doubt = ""
    if _won(record) is None and speedup.estimate.is_above(1) is not None:
        doubt = ", too near 1 for so short a measurement"
        if record.interference or record.gpu_interference:
            doubt = ", on a busy machine"
    return f"{_assignments(parameter, size)} ({ratio(speedup)}{doubt})"


def _won(record: Record) -> bool | None:
    """Return whether the GPU wins by the offload verdict, if there is one: it trusts no disturbed samples.

    A side on which the group fails takes what a failure takes.
    """
    speedup, size_group = record.speedup, record.size_group
    if speedup is None or (record.offload is not None and record.offload.faster is None):
        return None
    limit = Limit(1.0, 1.0, side_that_fails(size_group) if size_group else "neither")
    found = Range(speedup.estimate.lower, speedup.estimate.upper)
    side = looks.decided(limit, found, looks.at_end(speedup.rounds, record.rounds_elapsed or 0.0))
    return None if side is None else side == "above"


def _limits(required: SizeGroup, curve: _Curve) -> list[_Limit]:
    sizes = [point.size for point in curve.points]
    limits = []
    if required.at_least is not None:
        start = _start(size for size in sizes if size < required.at_least)
        status = _status(curve, start, above="passed", below="failed")
        limits.append(_Limit(bound="at_least", size=required.at_least, start=start, status=status))
    if required.at_most is not None:
        start = _start(size for size in sizes if size <= required.at_most)
        status = _status(curve, start, above="failed", below="passed")
        limits.append(_Limit(bound="at_most", size=required.at_most, start=start, status=status))
    return limits


def _start(below: Iterable[float]) -> float:
    """Return the size that the decision on a limit begins at, of those `below` it."""
    return max(below, default=-inf)


def _status(curve: _Curve, start: float, *, above: _Status, below: _Status) -> _Status:
    """Return `above` or `below`, by where the threshold certainly lies; otherwise it is inconclusive."""
    if curve.low > start:
        return above
    return below if curve.high <= start else "inconclusive"


def _evaluate(size_group: SizeGroup, curve: _Curve) -> tuple[_Status, str | None]:
    parameter = size_group.parameter
    limits = _limits(size_group, curve)
    decided = {limit.status for limit in limits}
    status: _Status = next((worst for worst in _WORST_FIRST if worst in decided), "recorded")
    if status in ("passed", "recorded"):
        return status, None
    open_limits = [limit for limit in limits if limit.status == status]
    if status == "failed":
        why = ["but " + " and ".join(_failure(parameter, limit, curve) for limit in open_limits)]
    else:
        # A limit depends on the sizes from its start on: more time for others would not help.
        start = min(limit.start for limit in open_limits)
        doubts = [point.size for point in curve.where(won=None) if point.size >= start]
        labels = ", ".join(curve.labels[size] for size in doubts)
        why = [f"inconclusive at {labels}; {_MEASURE_LONGER}"]
    if curve.outcome == "not_monotone":
        won = _assignments(parameter, *(point.size for point in curve.where(won=True)))
        lost = _assignments(parameter, *(point.size for point in curve.where(won=False)))
        why.append(f"not monotone: it wins at {won} and loses at {lost}")
    below = -inf if curve.largest_not_won is None else curve.largest_not_won
    if between := [limit.size for limit in open_limits if below < limit.size < curve.high]:
        why.append(f"add {_assignments(parameter, *between)} to the parameters to narrow it down")
    required = " and ".join(f"{limit.bound.replace('_', ' ')} {_exactly(limit.size)}" for limit in limits)
    return status, f"offload threshold of {parameter}: required {required}, {'; '.join(why)}"


def _failure(parameter: str, limit: _Limit, curve: _Curve) -> str:
    """Return why a limit failed: the GPU wins too early, too late, or not up to the largest size."""
    last = curve.points[-1]
    lost = curve.where(won=False)
    if limit.bound == "at_least":
        return f"the {curve.gpu} wins from {curve.labels[curve.high]} on"
    if lost:
        text = f"the {curve.gpu} loses at {curve.labels[lost[-1].size]}"
    else:
        text = f"{_assignments(parameter, curve.points[0].size)} is the smallest size"
    if curve.high < inf:
        return f"{text}; it wins from {_assignments(parameter, curve.high)} on"
    if last in lost:
        return f"{text}, the largest size"
    return f"{text}; inconclusive at the largest, {curve.labels[last.size]}"


def _incomplete(
    size_group: SizeGroup, records: Mapping[float, Record], missing: list[float]
) -> tuple[_Status, str]:
    """Return the status of a curve with missing sizes, and the reasons, each with its sizes."""
    if all(record.status == "skipped" for record in records.values()):
        return "skipped", "; ".join(dict.fromkeys(_why_missing(record) for record in records.values()))
    sizes: dict[str, list[float]] = {}
    for size in missing:
        sizes.setdefault(_why_missing(records.get(size)), []).append(size)
    absent = ", ".join(
        f"{_assignments(size_group.parameter, *group)} ({why})" for why, group in sizes.items()
    )
    return "inconclusive", f"offload threshold of {size_group.parameter}: no speedup at {absent}; {_RUN_ALL}"


def _why_missing(record: Record | None) -> str:
    check = record.check.reason if record and record.check else None
    return (record.reason if record else None) or check or "not run"


def _point(size: float, record: Record) -> Point:
    speedup = _speedup(record)
    offload = record.offload
    regimes: dict[str, Speedup | None] = {record.demand.transfer: speedup}
    if speedup and offload:
        regimes = {name: getattr(offload, name) for name in _REGIMES}
    return Point(
        size=size,
        nodeid=record.nodeid,
        cpu=record.cpu.median if record.cpu else None,
        gpu=record.gpu.median if record.gpu else None,
        won=_won(record) if speedup else None,
        speedup=speedup.estimate if speedup else None,
        **{name: found.estimate for name, found in regimes.items() if found},
    )


def _assignments(parameter: str, *sizes: float) -> str:
    return ", ".join(f"{parameter}={_exactly(size)}" for size in sizes)


def _exactly(size: float) -> str:
    """Return a size that can be read back: integers in full, other numbers with all their digits."""
    if float(size).is_integer():
        return str(int(size))
    return f"{size:g}" if float(f"{size:g}") == size else str(size)
