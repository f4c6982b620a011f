"""From the numbers of one test to its verdict, its offload verdict and the notes on them."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from math import log
from statistics import fmean, median

from msgspec.structs import replace

from pytest_gpuperf.analysis import noise, offload, verdict
from pytest_gpuperf.analysis.estimation import Sampled, with_copies
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Memory
from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.record import Note, Record, Verdict

_FEWEST_FOR_TOTALS = 60  # rounds: fewer show no calls that are as rare
_DIFFERENT = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on a test's demand, its offload verdict, and notes on the numbers."""

    verdict: Verdict
    offload: Offload | None
    notes: tuple[Note, ...]


def judge_apart(record: Record, options: RunOptions) -> Record:
    """Return a record of two runs, one on each device, with its speedup and the verdict on it.

    The runs have samples, and the GPU's those of the copies that the demand includes.
    """
    cpu, gpu, demand, dropped = record.cpu, record.gpu, record.demand, record.dropped_rounds
    if cpu is None or gpu is None:
        raise GpuPerfError("one of the two devices was not measured")
    on_cpu, on_gpu = cpu.samples_for(demand), gpu.samples_for(demand)
    copies = record.transfer.beside(on_gpu) if record.transfer else []
    included = copies if demand.transfer != "never" else []
    times = [with_copies(*each, demand) for each in zip(on_gpu, included or repeat(0.0), strict=False)]
    seconds = record.rounds_elapsed or 0.0
    sampled = Sampled(cpu=on_cpu, gpu=times, seconds=seconds, sampling="variants")
    interference = noise.worst_in_report(cpu, record.interference, latency=demand.latency)
    gpu_interference = noise.worst_in_report(gpu, record.gpu_interference, latency=demand.latency)
    speedup = sampled.speedup()
    assert speedup is not None, "there are samples of both"  # noqa: S101 - for mypy
    measured = OffloadInput(
        demand=demand,
        regime="body" if record.scope == "body" else demand.transfer,
        cpu=cpu,
        gpu=gpu,
        alone=on_gpu[: len(times)],
        sampled=sampled,
        speedup=speedup,
        copies=copies[: len(times)],
        transfer=record.transfer,
        disturbance=sampled.in_spite_of(interference, gpu_interference),
        throttled=noise.throttle_reason(dropped, dropped + len(on_gpu)),
    )
    judged = judge_offline(measured, options, record.memory or Memory(peak=None))
    return replace(
        record,
        status=judged.verdict.status,
        reason=judged.verdict.reason,
        reason_code=judged.verdict.reason_code,
        interference=interference,
        gpu_interference=gpu_interference,
        speedup=speedup,
        offload=judged.offload,
        notes=tuple(dict.fromkeys([*record.notes, *judged.notes])),
    )


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
