"""From everything that was measured of one test to its verdict, and to whether moving the work pays."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_gpuperf.analysis import verdict
from pytest_gpuperf.analysis.judgement import Judgement, judge_offline
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.model.demand import Demand, Plan
from pytest_gpuperf.model.measurement import Interference, Measurement, Memory, Neighbours, Transfer
from pytest_gpuperf.model.record import Note, Verdict
from pytest_gpuperf.timing.blocks import Workload
from pytest_gpuperf.timing.rounds import RoundSampler

__all__ = ["judge", "memory_of"]

_UNTOLD = "the device does not tell how much memory a call holds"


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
    judged = judge_offline(seen, plan, memory=memory, interference=interference, throttled=rounds.throttled)
    return replace(judged, notes=(*judged.notes, *_dropped(rounds)))


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


def _dropped(rounds: RoundSampler) -> Iterator[Note]:
    """Yield how many rounds were dropped, where they were few enough for the others to decide."""
    if rounds.dropped and rounds.throttled is None:
        reasons = ", ".join(rounds.throttle)
        text = f"{rounds.dropped} of {rounds.begun} rounds were dropped: the GPU was slowed down ({reasons})"
        yield Note(code="rounds_dropped", text=text)
