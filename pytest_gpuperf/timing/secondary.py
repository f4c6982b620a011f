"""What no limit rests on, measured last: the other of throughput and latency, transfers, blocking calls."""

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gpuperf.model.measurement import Transfer
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.timing import blocks, inspection, transfers
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.context import TrialContext
from pytest_gpuperf.timing.transfers import TransferTimer
from pytest_gpuperf.timing.workload import Workload

NO_TIME = "max_time was reached before the transfers were timed; allow more time with max_time"
NO_ROUNDS = "every round was dropped, so the transfers were not timed"
NO_ROOM = "not enough device memory for a second copy of the inputs, so the transfers were not timed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondaryResult:
    """The timed transfers, or their sizes and why they have no times; and notes on what failed."""

    transfer_timer: TransferTimer | None = None
    transfer: Transfer | None = None
    notes: tuple[Note, ...] = ()


def measure_all(
    timers: Sequence[BlockTimer], rounds: int, context: TrialContext, transfer_timer: TransferTimer | None
) -> SecondaryResult:
    """Measure what the verdict does not rest on; a failure is a note, unless the device was lost.

    `rounds` is how many the workloads have, `transfer_timer` has the transfers if the demand includes them.
    """
    gpu = timers[-1]
    try:
        probe_and_sample(timers, context)
        if transfer_timer is not None:
            return SecondaryResult(transfer_timer=transfer_timer)
        return time_transfers(gpu.workload, rounds, context)
    except Exception as error:
        if (fault := gpu.device.fault(error)) is not None and fault.kind == "lost":
            raise
        text = f"some secondary measurements failed: {type(error).__name__}: {error}"
        return SecondaryResult(transfer_timer=transfer_timer, notes=(Note(code="aside_failed", text=text),))


def probe_and_sample(timers: Sequence[BlockTimer], context: TrialContext) -> None:
    """Probe whether the GPU's call blocks, and sample the other mode, while there is time."""
    gpu = timers[-1]
    if context.remaining() > 2 * (gpu.samples[-1] if gpu.samples else 0.0):
        inspection.probe_blocking(gpu)
    if context.remaining() >= 0:
        sample_other_mode(timers, context)


def sample_other_mode(timers: Sequence[BlockTimer], context: TrialContext) -> None:
    """Sample blocks where the demand is on latency, and single calls where it is on throughput."""
    other_timers = []
    for timer in timers:
        per_call = timer.per_call(context.options)
        if per_call is not timer:  # else each block is one call, and both modes are the same
            other_timers.append(timer if context.demand.latency else per_call)
    _sample(other_timers, context.options.sampling.max_rounds, context)


def time_transfers(gpu: Workload, rounds: int, context: TrialContext) -> SecondaryResult:
    """Time the transfers in rounds of their own: at most as many as the workload has."""
    if not rounds or context.remaining() < 0 or not transfers.untimed(gpu).bytes:
        return SecondaryResult(transfer=transfers.untimed(gpu, NO_TIME if rounds else NO_ROUNDS))
    try:
        return SecondaryResult(transfer_timer=_sampled_transfers(gpu, rounds, context))
    except Exception as error:
        fault = gpu.device.fault(error)
        if fault is None or fault.kind != "out_of_memory":
            raise
    # Outside the handler: the traceback of the error would keep the copies alive.
    gpu.device.release()
    return SecondaryResult(transfer=transfers.untimed(gpu, NO_ROOM))


def _sampled_transfers(gpu: Workload, rounds: int, context: TrialContext) -> TransferTimer:
    # A function of its own: when it raises, no variable of the caller keeps the copies alive.
    timer = TransferTimer(gpu, context.options)
    _sample(timer.timers, rounds, context)
    return timer


def _sample(timers: Sequence[BlockTimer], max_rounds: int, context: TrialContext) -> None:
    """Take rounds within the secondary time of the plan.

    The fewest rounds that give an interval are taken if the test has time left for them.
    """
    if not timers or not max_rounds or context.remaining() < 0:
        return
    plan = context.options.sampling
    min_rounds = max(plan.min_rounds, plan.secondary_rounds)
    clock = timers[0].device.clock
    started = clock()
    for taken, _ in enumerate(blocks.rounds(timers, context.order), start=1):
        spent = clock() - started
        if taken >= max_rounds or spent / taken > context.remaining():
            return
        if taken >= min_rounds and spent >= plan.secondary_time:
            return
