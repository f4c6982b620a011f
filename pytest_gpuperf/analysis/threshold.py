"""From the records of a run to thresholds: from which size on the GPU wins, and how sure that is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf
from typing import Literal

from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.model.demand import Family
from pytest_gpuperf.model.measurement import Estimate, Speedup
from pytest_gpuperf.model.offload import Point, Threshold
from pytest_gpuperf.model.record import Record

__all__ = ["find", "settled_near"]

_State = Literal["won", "lost", "doubtful"]
_Status = Literal["passed", "failed", "inconclusive", "recorded", "skipped"]
_WORST_FIRST: tuple[_Status, ...] = ("failed", "inconclusive", "passed")
_REGIMES = ("never", "once", "always", "latency")
_BOUNDS = {"at_least": "at least", "at_most": "at most"}
_DECIDE = "more time (max_time) or a quieter machine would decide it"
_RUN_ALL = "run all sizes of the family, in one process"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """One size that was measured, with its speedup in numbers and in words."""

    size: float
    value: float
    won: bool | None
    words: str = ""

    @property
    def state(self) -> _State:
        return "doubtful" if self.won is None else "won" if self.won else "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sweep:
    """The sizes that were measured, smallest first; their threshold lies from `low` to `high`."""

    sizes: tuple[_Size, ...]

    @property
    def low(self) -> float:
        """The threshold if every doubt were a win; infinite when the largest size is lost."""
        tail = takewhile(lambda each: each.state != "lost", reversed(self.sizes))
        return min((each.size for each in tail), default=inf)

    @property
    def high(self) -> float:
        """The threshold if every doubt were a loss; infinite when the largest size is not won."""
        tail = takewhile(lambda each: each.state == "won", reversed(self.sizes))
        return min((each.size for each in tail), default=inf)

    @property
    def largest_not_won(self) -> float | None:
        return max((each.size for each in self.sizes if each.size < self.high), default=None)

    @property
    def outcome(self) -> Literal["bracket", "none", "not_monotone"]:
        won, lost = self.in_state("won"), self.in_state("lost")
        if won and lost and won[0].size < lost[-1].size:
            return "not_monotone"
        return "bracket" if self.high < inf else "none"

    def in_state(self, state: _State) -> list[_Size]:
        return [each for each in self.sizes if each.state == state]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """One side of what was asked for; `start` is the smallest size measured that bears on it."""

    bound: Literal["at_least", "at_most"]
    size: float
    start: float
    status: _Status


def find(records: Iterable[Record]) -> tuple[Threshold, ...]:
    """Return the offload threshold of each family, in order of first appearance.

    It is the smallest measured size from which the GPU wins at all larger sizes measured, too: the
    definition of GPU-BLOB (github.com/UoB-HPC/GPU-BLAS-Offload-Benchmark), with doubt added to it. A size is
    won or lost when the whole interval of its speedup, in the regime that its demand gates, is above or
    below 1. Each size's interval holds at its own level alpha. A threshold said to be lower than it is:
    at most alpha, for it takes a wrong win at the one size that decides. Said to be higher: at most k alpha,
    for it takes one wrong loss among k sizes.
    """
    families: dict[str, Family] = {}
    members: dict[str, dict[float, Record]] = {}
    for record in records:
        if record.family is None:
            continue
        families.setdefault(record.family.name, record.family)
        taken = members.setdefault(record.family.name, {})
        rival = taken.get(record.family.size)
        # A CPU sibling, which was only timed, gives way to its GPU sibling.
        if rival is None or record.gpu or (rival.gpu is None and record.status != "recorded"):
            taken[record.family.size] = record
    return tuple(_threshold(family, members[name]) for name, family in families.items())


def settled_near(threshold: Threshold, share: float) -> bool:
    """Say whether an inconclusive threshold may pass with a warning.

    It may when sizes are missing, or when every size in doubt on which a limit hangs has its estimate within
    `share` of 1.
    """
    if threshold.status != "inconclusive" or threshold.outcome is None:
        return threshold.status == "inconclusive"
    curve = ((point, point.speedup) for point in threshold.curve)
    sizes = (_Size(size=point.size, value=found.value, won=point.won) for point, found in curve if found)
    sweep = _Sweep(sizes=tuple(sizes))
    end = inf if threshold.smallest_won is None else threshold.smallest_won
    doubts = [each for each in _doubts(sweep, _limits(threshold, sweep)) if each.size < end]
    return bool(doubts) and all(abs(each.value - 1) <= share for each in doubts)


def _threshold(family: Family, records: Mapping[float, Record]) -> Threshold:
    first, sweep = next(iter(records.values())), _sweep(family, records)
    missing = [size for size in family.sizes if size not in records or _speedup(records[size]) is None]
    status, reason = _judge(family, sweep)
    if missing and status not in ("passed", "failed"):  # what is certain is so whatever they would be
        status, reason = _absence(family, records, missing)
    regimes = (record.offload.regime for record in records.values() if record.offload)
    return Threshold(
        name=family.name,
        parameter=family.parameter,
        at_most=family.at_most,
        at_least=family.at_least,
        regime=next(regimes, first.demand.transfer),
        by_latency=first.demand.latency,
        status=status,
        reason=reason,
        outcome=None if missing else sweep.outcome,
        largest_not_won=None if missing else sweep.largest_not_won,
        smallest_won=None if missing or sweep.high == inf else sweep.high,
        curve=tuple(_point(size, records[size]) for size in sorted(records)),
    )


def _speedup(record: Record) -> Speedup | None:
    """Return the speedup that counts: none of a failed measurement, and none of a wrong answer."""
    wrong = record.parity is not None and record.parity.agreed is False
    return None if wrong or record.status in ("error", "skipped") else record.speedup


def _sweep(family: Family, records: Mapping[float, Record]) -> _Sweep:
    """Return all sizes; one that is missing is in doubt."""
    found = []
    for size in family.sizes:
        record = records.get(size)
        speedup = _speedup(record) if record else None
        if record is None or speedup is None:
            words = f"{_listed(family.parameter, size)} ({_why(record)})"
            found.append(_Size(size=size, value=0.0, won=None, words=words))
        else:
            found.append(_size(family.parameter, size, record, speedup))
    return _Sweep(sizes=tuple(found))


def _size(n: str, size: float, record: Record, speedup: Speedup) -> _Size:
    won, clear = _won(record), _beyond(speedup)
    disturbed = ", on a disturbed machine" if won is None and clear is not None else ""
    return _Size(
        size=size, value=speedup.value, won=won, words=f"{_listed(n, size)} ({ratio(speedup)}{disturbed})"
    )


def _won(record: Record) -> bool | None:
    """Return whether the GPU wins: what the offload verdict says, which trusts no disturbed samples."""
    if record.offload is not None:
        return record.offload.worth
    return _beyond(record.speedup) if record.speedup else None


def _beyond(speedup: Speedup) -> bool | None:
    if speedup.low is not None and speedup.low > 1:
        return True
    return False if speedup.high is not None and speedup.high < 1 else None


def _limits(asked: Family | Threshold, sweep: _Sweep) -> list[_Limit]:
    sizes, found = [each.size for each in sweep.sizes], []
    if asked.at_least is not None:
        start = max((size for size in sizes if size < asked.at_least), default=-inf)
        status = _decision(passed=sweep.low > start, failed=sweep.high <= start)
        found.append(_Limit(bound="at_least", size=asked.at_least, start=start, status=status))
    if asked.at_most is not None:
        start = max((size for size in sizes if size <= asked.at_most), default=-inf)
        status = _decision(passed=sweep.high <= start, failed=sweep.low > start)
        found.append(_Limit(bound="at_most", size=asked.at_most, start=start, status=status))
    return found


def _decision(*, passed: bool, failed: bool) -> _Status:
    return "passed" if passed else "failed" if failed else "inconclusive"


def _doubts(sweep: _Sweep, limits: Sequence[_Limit]) -> list[_Size]:
    """Return the sizes in doubt that keep a limit undecided; more time for another would not help."""
    start = min((limit.start for limit in limits if limit.status == "inconclusive"), default=inf)
    return [each for each in sweep.in_state("doubtful") if each.size >= start]


def _judge(family: Family, sweep: _Sweep) -> tuple[_Status, str | None]:
    n, limits = family.parameter, _limits(family, sweep)
    decided = {limit.status for limit in limits}
    status: _Status = next((one for one in _WORST_FIRST if one in decided), "recorded")
    if status in ("passed", "recorded"):
        return status, None
    open_limits = [limit for limit in limits if limit.status == status]
    if status == "failed":
        why = ["but " + " and ".join(_failure(n, limit, sweep) for limit in open_limits)]
    else:
        why = [f"in doubt at {', '.join(each.words for each in _doubts(sweep, limits))}; {_DECIDE}"]
    if sweep.outcome == "not_monotone":
        won = _listed(n, *(each.size for each in sweep.in_state("won")))
        lost = _listed(n, *(each.size for each in sweep.in_state("lost")))
        why.append(f"not monotone: it wins at {won} and loses at {lost}")
    below = -inf if sweep.largest_not_won is None else sweep.largest_not_won
    if between := [limit.size for limit in open_limits if below < limit.size < sweep.high]:
        why.append(f"{_listed(n, *between)} among the parameters would tell more")
    wanted = " and ".join(f"{_BOUNDS[limit.bound]} {_exactly(limit.size)}" for limit in limits)
    return status, f"offload threshold of {n}: wanted {wanted}, {'; '.join(why)}"


def _failure(n: str, limit: _Limit, sweep: _Sweep) -> str:
    """Return why a limit failed: the GPU wins too early, too late, or never for good."""
    first, last, lost = sweep.sizes[0], sweep.sizes[-1], sweep.in_state("lost")
    if limit.bound == "at_least":
        return f"the GPU wins from {next(e.words for e in sweep.sizes if e.size == sweep.high)} on"
    found = f"the GPU loses at {lost[-1].words}" if lost else f"{_listed(n, first.size)} is the smallest size"
    if sweep.high < inf:
        return f"{found}; it wins from {_listed(n, sweep.high)} on"
    return f"{found}{', the largest size' if last in lost else f'; in doubt at the largest, {last.words}'}"


def _absence(family: Family, records: Mapping[float, Record], missing: list[float]) -> tuple[_Status, str]:
    """Return what missing sizes mean, and why they are; sizes with the same reason together."""
    if all(record.status == "skipped" for record in records.values()):
        return "skipped", "; ".join(dict.fromkeys(_why(record) for record in records.values()))
    sizes: dict[str, list[float]] = {}
    for size in missing:
        sizes.setdefault(_why(records.get(size)), []).append(size)
    absent = ", ".join(f"{_listed(family.parameter, *found)} ({why})" for why, found in sizes.items())
    return "inconclusive", f"offload threshold of {family.parameter}: no speedup at {absent}; {_RUN_ALL}"


def _why(record: Record | None) -> str:
    parity = record.parity.reason if record and record.parity else None
    return (record.reason if record else None) or parity or "not run"


def _point(size: float, record: Record) -> Point:
    speedup, offload = _speedup(record), record.offload
    known: dict[str, Speedup | None] = {record.demand.transfer: speedup}
    if speedup and offload:
        known = {name: getattr(offload, name) for name in _REGIMES}
    return Point(
        size=size,
        nodeid=record.nodeid,
        cpu=record.cpu.median if record.cpu else None,
        gpu=record.gpu.median if record.gpu else None,
        won=_won(record) if speedup else None,
        speedup=_estimate(speedup) if speedup else None,
        **{name: _estimate(found) for name, found in known.items() if found},
    )


def _estimate(speedup: Speedup) -> Estimate:
    return Estimate(value=speedup.value, low=speedup.low, high=speedup.high)


def _listed(n: str, *sizes: float) -> str:
    return ", ".join(f"{n}={_exactly(size)}" for size in sizes)


def _exactly(size: float) -> str:
    """Return a size that can be read back: integers in full, other numbers with all their digits."""
    if float(size).is_integer():
        return str(int(size))
    return f"{size:g}" if float(f"{size:g}") == size else str(size)
