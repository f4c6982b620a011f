"""From the numbers of one test to its verdict, its offload verdict and the notes on them."""

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_gpuperf.analysis import offload, structure, verdict
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.measurement import Memory
from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.record import Note, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on a test's demand, its offload verdict, and notes on the numbers."""

    verdict: Verdict
    offload: Offload | None
    notes: tuple[Note, ...]


def judge(measured: OffloadInput, options: RunOptions, memory: Memory) -> Judgement:
    """Return the judgement of what was measured.

    Nothing is decided by samples that interference or a throttled GPU made too slow.
    """
    on_speedup = verdict.judge(
        measured.speedup,
        measured.demand,
        measured.disturbance,
        measured.throttled,
        unsettled=measured.unsettled,
    )
    return Judgement(
        verdict=verdict.apply_memory_limit(on_speedup, memory, measured.demand),
        offload=offload.assess(measured, options),
        notes=tuple(_notes(measured)),
    )


def _notes(measured: OffloadInput) -> Iterator[Note]:
    """Yield notes on disturbances that did not change the verdict."""
    speedup, demand, disturbance = measured.speedup, measured.demand, measured.disturbance
    if disturbance and verdict.decision(disturbance.certain, demand) == verdict.decision(speedup, demand):
        yield Note(code="interference", text=disturbance.reason)
    if measured.throttled is not None and not demand.limits:
        yield Note(code="gpu_throttled", text=measured.throttled)
    yield from structure.notes(measured.evidence)
