"""From the numbers of one test to its verdict, its offload verdict and the notes on them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from statistics import fmean, median

from pytest_gpuperf.analysis import offload, verdict
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.measurement import Memory
from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.record import Note, Verdict

_FEWEST_FOR_TOTALS = 60  # rounds: fewer show no calls that are as rare
_DIFFERENT = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on a test's demand, its offload verdict, and notes on the numbers."""

    verdict: Verdict
    offload: Offload | None
    notes: tuple[Note, ...]


def judge_offline(measured: OffloadInput, options: RunOptions, memory: Memory) -> Judgement:
    """Return the judgement of stored numbers, which need no live workload.

    Nothing is decided by samples that interference or a throttled GPU made too slow.
    """
    demand, doubts = measured.demand, (measured.disturbance, measured.throttled)
    on_speedup = verdict.judge(measured.speedup, demand, measured.look, *doubts)
    return Judgement(
        verdict=verdict.apply_memory_limit(on_speedup, memory, demand),
        offload=offload.assess(measured, options),
        notes=tuple(_notes(measured)),
    )


def _notes(measured: OffloadInput) -> Iterator[Note]:
    """Yield notes on disturbances that did not change the verdict."""
    demand, disturbance = measured.demand, measured.disturbance
    if (totals := _totals(measured)) is not None:
        yield Note(code="totals_differ", text=totals)
    if disturbance and verdict.stands(measured.speedup, disturbance.speedup, demand, measured.look):
        yield Note(code="interference", text=disturbance.reason)
    if measured.throttled is not None and not demand.limits:
        yield Note(code="gpu_throttled", text=measured.throttled)


def _totals(measured: OffloadInput) -> str | None:
    """Return how the ratio of all times differs from the median ratio, if a loop would feel the difference.

    It must do so without the largest sample of each side, too: one slow call says nothing of others.
    """
    if measured.sampled.rounds < _FEWEST_FOR_TOTALS:
        return None
    speedup, cpu, gpu = measured.speedup.value, measured.sampled.cpu, measured.sampled.gpu
    total = fmean(cpu) / fmean(gpu)
    without_largest = fmean(sorted(cpu)[:-1]) / fmean(sorted(gpu)[:-1])
    is_more = min(total, without_largest) > _DIFFERENT * speedup
    is_less = _DIFFERENT * max(total, without_largest) < speedup
    if not is_more and not is_less:
        return None
    averages = {"CPU": (fmean(cpu), median(cpu)), "GPU": (fmean(gpu), median(gpu))}
    uneven = max(averages, key=lambda name: abs(log(averages[name][0] / averages[name][1])))
    mean, typical = map(units.seconds, averages[uneven])
    return (
        f"all times together give {units.digits(total)}x, and the median is {units.digits(speedup)}x: on the "
        f"{uneven} a call takes {mean} on average and {typical} typically, and a loop pays the average"
    )
