"""From blocks of a device that works alone to what the other device's turn changes of its times.

What is promised of a speedup is the time per call of a loop on each device. Rounds alternate between them. A
clock that falls while its device waits, threads that spin after their work, a power budget that both devices
share, or a cache that the other one has emptied, make a call take another time than in a loop.

A device that begins to work alone is still that of rounds, and becomes that of a loop within some tenths of a
second. So only the last windows of its work count. Noise that lasts as long looks alike: a difference must
show each time that the devices work alone.
docs/explanation/statistics.md has the rates that benchmarks/cells.py found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import fsum, hypot, sqrt
from statistics import fmean, median
from typing import Self

from pytest_gpuperf.analysis.looks import Range
from pytest_gpuperf.model import units

WINDOWS, MOST_WINDOWS, FEWEST_WINDOWS = 10, 14, 5
"""In how many windows a device works alone: more while its times still change, fewer of long blocks."""
_LATE, _LATEST = 5, 3  # windows that count, at most half of them: fewer where times still change
_LAST, _LAST_OF_FEW = 8, 4  # windows that must show no trend
_SETTLED = 0.005  # of the time per call, and two standard errors: a smaller change is no trend
_DIFFERS = 0.03  # of the time per call: a smaller difference is not looked for
_ERRORS = 2.5  # standard errors of the rounds that a difference must exceed besides
_FEWEST, _TIMES = 3, 2  # rounds in their later half; times that a device must differ
_EXCEPTIONS = 1 / 5  # of the windows may be as in rounds: a loop that other work disturbs now and then

IN_SHORT = "calls of a device that works alone take another time"
_OF_LATER = "in turn: the median of the later half of the rounds"  # a table has that of all of them
REMEDY = "keep clocks fixed and threads from spinning, give each call more work, or move the limit"
_AS_IN_ROUNDS = Range(1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """What a device's calls took while it worked alone, in seconds: by medians and means of its windows.

    `is_settled` unless they still changed at the end. Where a quota has stopped the process, which shows in
    one of several blocks, the mean of all of them counts.
    """

    medians: tuple[float, ...]
    means: tuple[float, ...]
    is_settled: bool
    is_stopped: bool = False

    @classmethod
    def of(cls, windows: Sequence[Sequence[float]], *, is_stopped: bool = False) -> Self:
        """Return what windows of blocks show, each block's time in seconds per call."""
        settled = is_settled(windows)
        late = windows[-min(_LATE if settled else _LATEST, len(windows) // 2) :]
        return cls(
            medians=tuple(map(median, late)),
            means=tuple(map(fmean, [chain(*late)] if is_stopped else late)),
            is_settled=settled,
            is_stopped=is_stopped,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a device's time per call in rounds differs from that of its loop.

    A call in rounds takes `in_rounds` seconds, and in a loop between `alone.low` and `alone.high`; where a
    speedup counts copies, these take `copies` seconds besides. It `is_sure` if it has shown twice.
    """

    in_rounds: float
    alone: Range
    is_settled: bool
    is_sure: bool
    copies: float = 0.0

    @property
    def loop(self) -> Range:
        """The least and most that a call may take in a loop, as a share of its time in rounds.

        What still changed when it ended may change as much again.
        """
        power = 1 if self.is_settled else 2
        low, high = ((end + self.copies) / (self.in_rounds + self.copies) for end in self.alone)
        return Range(min(1.0, low**power), max(1.0, high**power))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How each device differs, in turn with the other one, from its loop; None where it does not."""

    cpu: Difference | None
    gpu: Difference | None

    @property
    def speedup(self) -> Range:
        """What a speedup of rounds must be multiplied by, at least and at most, to be that of loops."""
        on_cpu, on_gpu = (side.loop if side else _AS_IN_ROUNDS for side in (self.cpu, self.gpu))
        return Range(on_cpu.low / on_gpu.high, on_cpu.high / on_gpu.low)


def is_settled(windows: Sequence[Sequence[float]]) -> bool:
    """Return whether the times of the last windows show no trend."""
    last = [*map(fmean, windows[-(_LAST if len(windows) >= WINDOWS else _LAST_OF_FEW) :])]
    early, late = last[: len(last) // 2], last[len(last) // 2 :]
    change = max(fmean(early), fmean(late)) / min(fmean(early), fmean(late)) - 1
    return change <= _SETTLED + 2 * hypot(_error(early), _error(late))


def find(
    cpu: Sequence[float], gpu: Sequence[float], alone: tuple[Sequence[Alone], Sequence[Alone]]
) -> Turns | None:
    """Return what the other device's turn changes, by the times of rounds in order; None for nothing."""
    found = Turns(cpu=_difference(cpu, alone[0]), gpu=_difference(gpu, alone[1]))
    return found if found.cpu or found.gpu else None


def sure(found: Turns | None, copies: float = 0.0) -> Turns | None:
    """Return the differences that have shown twice, of calls on the GPU with copies of so many seconds."""
    if found is None:
        return None
    cpu, gpu = (side if side and side.is_sure else None for side in (found.cpu, found.gpu))
    return Turns(cpu=cpu, gpu=gpu and replace(gpu, copies=copies)) if cpu or gpu else None


def typical(alone: Sequence[Alone]) -> float:
    """Return the seconds per call of a typical block while a device worked alone."""
    return median(time for each in alone for time in (each.means if each.is_stopped else each.medians))


def describe(turns: Turns, names: tuple[str, str]) -> str:
    """Return which sides of these names differ, with the times of a call: in turn, and alone."""
    cpu, gpu = names
    sides = ((cpu, gpu, turns.cpu), (gpu, cpu, turns.gpu))
    said = "; ".join(_describe(name, other, found) for name, other, found in sides if found)
    return f"{said} ({_OF_LATER})"


def _describe(name: str, other: str, found: Difference) -> str:
    alone = sqrt(found.alone.low * found.alone.high)
    text = (
        f"a call on {name} takes {units.seconds(found.in_rounds)} in turn with {other}, and "
        f"{units.seconds(alone)} in a loop"
    )
    return text if found.is_settled else f"{text}, which still changed"


def _difference(in_rounds: Sequence[float], alone: Sequence[Alone]) -> Difference | None:
    """Return how a device's times in rounds, in order, differ from those of each of its loops.

    None where they do not. The later half of the rounds counts, as the first ones after a loop are its own.
    Medians of a few calls that differ in turn may differ by chance; their means do not.
    """
    later = in_rounds[len(in_rounds) // 2 :]
    if not alone or len(later) < _FEWEST:
        return None
    in_turn, least = median(later), 1 + _DIFFERS + _ERRORS * _error(later)
    means = [time for each in alone for time in each.means]
    is_stopped = all(each.is_stopped for each in alone)
    times = means if is_stopped else [time for each in alone for time in each.medians]
    found, on_average = Range(min(times), max(times)), fmean(means) / fmean(later)
    in_order, exceptions = sorted(times), int(_EXCEPTIONS * len(times))
    is_slower = in_order[exceptions] > least * in_turn and (is_stopped or on_average > least)
    is_faster = least * in_order[-1 - exceptions] < in_turn and (is_stopped or least * on_average < 1)
    if not is_slower and not is_faster:
        return None
    return Difference(
        in_rounds=in_turn,
        alone=found,
        is_settled=all(each.is_settled for each in alone),
        is_sure=len(alone) >= _TIMES,
    )


def _error(values: Sequence[float]) -> float:
    """Return the relative standard error of a mean."""
    if len(values) < 2:
        return 0.0
    mean = fmean(values)
    variance = fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return sqrt(variance / len(values)) / mean
