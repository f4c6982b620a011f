"""From everything that was measured of one test to its verdict, and to whether moving the work pays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_gpuperf.analysis import noise, offload, verdict
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.model.demand import Demand, Plan
from pytest_gpuperf.model.measurement import Interference, Measurement, Memory, Neighbours, Transfer
from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.record import Note, Verdict
from pytest_gpuperf.timing.blocks import Workload
from pytest_gpuperf.timing.rounds import RoundSampler

__all__ = ["Judgement", "judge", "memory_of", "of"]

_QUIET = "a quiet machine, or fewer BLAS threads (OPENBLAS_NUM_THREADS), would decide it"
_UNTOLD = "the device does not tell how much memory a call holds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict on the demand, the offload verdict beside it, and doubts about the numbers."""

    verdict: Verdict
    offload: Offload | None
    notes: tuple[Note, ...]


def judge(
    *,
    demand: Demand,
    plan: Plan,
    rounds: RoundSampler,
    sampling: Neighbours,
    cpu: Measurement,
    gpu: Workload,
    copies: Sequence[float],
    transfer: Transfer,
    interference: Interference | None,
) -> Judgement:
    """Return what was found in rounds of live workloads."""
    speedup, memory = rounds.speedup(sampling), memory_of(gpu)
    if speedup is None:
        found = verdict.within(_undecided(rounds, demand), memory, demand)
        notes = (Note(code="gpu_throttled", text=rounds.throttled),) if rounds.throttled else ()
        return Judgement(verdict=found, offload=None, notes=notes)
    seen = OffloadInput(
        demand=demand,
        regime="body" if gpu.scope == "body" else demand.transfer,
        cpu=cpu,
        gpu=gpu.measurement,
        rounds=rounds.rounds,
        speedup=speedup,
        copies=copies,
        transfer=transfer,
    )
    judged = of(seen, plan, memory=memory, interference=interference, throttled=rounds.throttled)
    return replace(judged, notes=(*judged.notes, *_dropped(rounds)))


def of(
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


def memory_of(gpu: Workload) -> Memory:
    """Return what a workload holds on its device at a time: what is there before a call, and what that adds.

    What is there is seen as its inputs, or as what the device held more after the set-up than before it.
    """
    inputs = sum(entry.bytes for entry in gpu.inputs if entry.array() is not None)  # not what was freed since
    freed = sum(entry.bytes for entry in gpu.inputs if entry.array() is None)
    left = max(inputs, (gpu.held or 0) - freed)
    adds = gpu.inspection.memory if gpu.inspection is not None else gpu.memory
    if adds is None:
        return Memory(peak=None, inputs=left, reason=_UNTOLD)
    return Memory(peak=left + adds, inputs=left)


def _undecided(rounds: RoundSampler, demand: Demand) -> Verdict:
    """Return what no round at all says."""
    if rounds.throttled is not None and not demand.limits:
        return Verdict(status="recorded", reason=None)
    if rounds.throttled is not None:
        return Verdict(status="inconclusive", reason=rounds.throttled, reason_code="gpu_throttled")
    return Verdict(status="error", reason="no round was measured: the CPU sibling left no samples")


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


def _dropped(rounds: RoundSampler) -> Iterator[Note]:
    """Yield how many rounds were dropped, where they were few enough for the others to decide."""
    if rounds.dropped and rounds.throttled is None:
        reasons = ", ".join(rounds.throttle)
        text = f"{rounds.dropped} of {rounds.begun} rounds were dropped: the GPU was slowed down ({reasons})"
        yield Note(code="rounds_dropped", text=text)
