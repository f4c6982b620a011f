"""From the numbers of one test to its verdict, its offload verdict and the notes on them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pytest_gpuperf.analysis import noise, offload, verdict
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.model.demand import Plan
from pytest_gpuperf.model.measurement import Interference, Memory
from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.record import Note, Verdict

__all__ = ["Judgement", "judge_offline"]

_QUIET = "a quiet machine, or fewer BLAS threads (OPENBLAS_NUM_THREADS), would decide it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict on the demand, the offload verdict beside it, and doubts about the numbers."""

    verdict: Verdict
    offload: Offload | None
    notes: tuple[Note, ...]


def judge_offline(
    seen: OffloadInput,
    plan: Plan,
    *,
    memory: Memory,
    interference: Interference | None,
    throttled: str | None,
) -> Judgement:
    """Return what the numbers say; nothing that was slowed down or disturbed decides by itself."""
    own = interference.own_share if interference else 1.0
    found = _decided(seen, plan, interference, throttled)
    return Judgement(
        verdict=verdict.within(found, memory, seen.demand),
        offload=offload.weigh(replace(seen, own=own, throttled=throttled is not None), plan),
        notes=tuple(_doubts(seen, interference, throttled)),
    )


def _decided(
    seen: OffloadInput, plan: Plan, interference: Interference | None, throttled: str | None
) -> Verdict:
    """Return the verdict on the demand; one that rests on lost time, or on a slow GPU, is a doubt."""
    speedup, demand = seen.speedup, seen.demand
    if not demand.limits:
        return Verdict(status="recorded", reason=None)
    doubt = f"speedup {verdict.ratio(speedup)}, wanted {verdict.wanted(demand)}"
    if throttled is not None:
        return Verdict(status="inconclusive", reason=f"{doubt}: {throttled}", reason_code="gpu_throttled")
    if interference is not None and not verdict.stands(speedup, demand, interference.own_share):
        reason = f"{doubt}: {noise.sentence(interference)}; {_QUIET}"
        return Verdict(status="inconclusive", reason=reason, reason_code="interference")
    return verdict.judge(speedup, demand, plan)


def _doubts(seen: OffloadInput, interference: Interference | None, throttled: str | None) -> Iterator[Note]:
    """Yield what to know about the numbers that decided in spite of it."""
    if (dependence := verdict.dependence(seen.speedup)) is not None:
        yield Note(code="dependent_samples", text=dependence)
    if interference is not None and verdict.stands(seen.speedup, seen.demand, interference.own_share):
        yield Note(code="interference", text=noise.sentence(interference))
    if throttled is not None and not seen.demand.limits:
        yield Note(code="gpu_throttled", text=throttled)
