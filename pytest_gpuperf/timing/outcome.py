"""From the live measurement of one test to its verdict, its offload verdict and its memory."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_gpuperf.analysis import verdict
from pytest_gpuperf.analysis.judgement import Judgement, judge_offline
from pytest_gpuperf.analysis.offload import OffloadInput
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Interference, Measurement, Memory, Neighbours, Transfer
from pytest_gpuperf.model.record import Note, Verdict
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.context import TrialContext
from pytest_gpuperf.timing.rounds import RoundSampler

_MEMORY_NOT_REPORTED = "the device does not report how much memory a call needs"


def judge(
    context: TrialContext,
    rounds: RoundSampler,
    *,
    sampling: Neighbours,
    cpu: Measurement,
    gpu: BlockTimer,
    copies: Sequence[float],
    transfer: Transfer,
    interference: Interference | None,
) -> Judgement:
    """Return the verdict on the rounds of live workloads; `copies` are seconds, one for each round."""
    demand = context.demand
    speedup = rounds.speedup(sampling)
    memory = memory_of(gpu)
    if speedup is None:
        judged = verdict.apply_memory_limit(_without_rounds(rounds, demand), memory, demand)
        notes = (Note(code="gpu_throttled", text=rounds.throttled),) if rounds.throttled else ()
        return Judgement(verdict=judged, offload=None, notes=notes)
    offload_input = OffloadInput(
        demand=demand,
        regime="body" if gpu.workload.scope == "body" else demand.transfer,
        cpu=cpu,
        gpu=gpu.measurement,
        rounds=rounds.rounds,
        speedup=speedup,
        copies=copies,
        transfer=transfer,
    )
    judgement = judge_offline(
        offload_input, context.options, memory=memory, interference=interference, throttled=rounds.throttled
    )
    return replace(judgement, notes=(*judgement.notes, *_dropped_rounds(rounds)))


def memory_of(gpu: BlockTimer) -> Memory:
    """Return what a workload holds on its device at its peak: before a call, and what a call adds.

    Before a call it holds its inputs, or what the device held more after the setup than before, if more.
    """
    workload = gpu.workload
    # An input that was freed since, after the setup that made it, is not held.
    inputs = sum(entry.bytes for entry in workload.inputs if entry.array() is not None)
    freed = sum(entry.bytes for entry in workload.inputs if entry.array() is None)
    before = max(inputs, (workload.held_after_setup or 0) - freed)
    added = gpu.inspection.memory if gpu.inspection is not None else workload.first_call_memory
    if added is None:
        return Memory(peak=None, inputs=before, reason=_MEMORY_NOT_REPORTED)
    return Memory(peak=before + added, inputs=before)


def _without_rounds(rounds: RoundSampler, demand: Demand) -> Verdict:
    """Return the verdict of a test that has no rounds."""
    if rounds.throttled is not None and not demand.limits:
        return Verdict(status="recorded", reason=None)
    if rounds.throttled is not None:
        return Verdict(status="inconclusive", reason=rounds.throttled, reason_code="gpu_throttled")
    return Verdict(status="error", reason="no round was measured: the CPU sibling left no samples")


def _dropped_rounds(rounds: RoundSampler) -> Iterator[Note]:
    """Yield a note on dropped rounds, where they were few enough for the others to decide."""
    if rounds.dropped and rounds.throttled is None:
        reasons = ", ".join(rounds.throttle)
        text = f"{rounds.dropped} of {rounds.begun} rounds were dropped: the GPU was slowed down ({reasons})"
        yield Note(code="rounds_dropped", text=text)
