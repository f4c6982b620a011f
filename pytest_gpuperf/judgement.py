"""From everything that was measured of one test to its verdict, and to whether moving the work pays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_gpuperf import offload, verdict
from pytest_gpuperf.measure import Disturbance, Workload
from pytest_gpuperf.model import (
    Demand,
    Measurement,
    Memory,
    Offload,
    Plan,
    Speedup,
    Transfer,
    Verdict,
)
from pytest_gpuperf.sampling import Sampling

__all__ = ["Judgement", "judge", "memory_of"]

_QUIET = "a quiet machine, or fewer BLAS threads (OPENBLAS_NUM_THREADS), would decide it"
_UNTOLD = "the device does not tell how much memory a call holds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict on the demand, the offload verdict beside it, and doubts about the numbers."""

    verdict: Verdict
    offload: Offload | None
    notes: tuple[str, ...]


def judge(
    *,
    demand: Demand,
    plan: Plan,
    rounds: Sampling,
    sampling: Literal["interleaved", "siblings"],
    cpu: Measurement,
    gpu: Workload,
    copies: Sequence[float],
    transfer: Transfer,
    disturbance: Disturbance | None,
) -> Judgement:
    """Return what was found; nothing that was slowed down or disturbed decides by itself."""
    speedup = rounds.speedup(sampling)
    if speedup is None:
        return Judgement(verdict=_undecided(rounds), offload=None, notes=())
    found = _decided(speedup, demand, plan, rounds, disturbance)
    observed = offload.Observed(
        demand=demand,
        regime="body" if gpu.scope == "body" else demand.transfer,
        cpu=cpu,
        gpu=gpu.measurement,
        rounds=rounds.rounds,
        speedup=speedup,
        copies=copies,
        transfer=transfer,
        own=disturbance.own if disturbance else 1.0,
        throttled=rounds.throttled is not None,
    )
    return Judgement(
        verdict=verdict.within(found, memory_of(gpu), demand),
        offload=offload.weigh(observed, plan),
        notes=tuple(_doubts(speedup, demand, rounds, disturbance)),
    )


def memory_of(gpu: Workload) -> Memory:
    """Return what a workload holds on its device at a time: its inputs, and the most that a call adds."""
    inputs = sum(entry.bytes for entry in gpu.inputs if entry.array() is not None)  # not what was freed since
    if gpu.inspection is None:
        return Memory(peak=None, inputs=inputs, reason="time was up before a call was watched")
    if gpu.inspection.memory is None:
        return Memory(peak=None, inputs=inputs, reason=_UNTOLD)
    return Memory(peak=inputs + gpu.inspection.memory, inputs=inputs)


def _undecided(rounds: Sampling) -> Verdict:
    """Return what no round at all says."""
    if rounds.throttled is not None:
        return Verdict(status="inconclusive", reason=rounds.throttled)
    return Verdict(status="error", reason="no round was measured: the CPU sibling left no samples")


def _decided(
    speedup: Speedup, demand: Demand, plan: Plan, rounds: Sampling, disturbance: Disturbance | None
) -> Verdict:
    """Return the verdict on the demand; one that rests on lost time, or on a slow GPU, is a doubt."""
    doubt = f"speedup {verdict.ratio(speedup)}"
    if demand.limits:
        doubt += f", wanted {verdict.wanted(demand)}"
    if rounds.throttled is not None:
        return Verdict(status="inconclusive", reason=f"{doubt}: {rounds.throttled}")
    if disturbance is not None and not verdict.stands(speedup, demand, disturbance.own):
        return Verdict(status="inconclusive", reason=f"{doubt}: {disturbance.reason}; {_QUIET}")
    return verdict.judge(speedup, demand, plan)


def _doubts(
    speedup: Speedup, demand: Demand, rounds: Sampling, disturbance: Disturbance | None
) -> Iterator[str]:
    """Yield what to know about the numbers that decided in spite of it."""
    if (dependence := verdict.dependence(speedup)) is not None:
        yield dependence
    if disturbance is not None and verdict.stands(speedup, demand, disturbance.own):
        yield disturbance.reason
    if rounds.dropped and rounds.throttled is None:
        reasons = ", ".join(rounds.throttle)
        yield f"{rounds.dropped} of {rounds.begun} rounds were dropped: the GPU was slowed down ({reasons})"
