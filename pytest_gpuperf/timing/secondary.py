"""What no limit rests on, measured last: the other of throughput and latency, transfers, blocking calls."""

from collections.abc import Sequence
from itertools import count

from msgspec.structs import replace

from pytest_gpuperf.analysis.looks import STRETCHES
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.measurement import Transfer
from pytest_gpuperf.timing import blocks, transfers, untimed_calls
from pytest_gpuperf.timing.blocks import BlockTimer
from pytest_gpuperf.timing.clock import seconds_between
from pytest_gpuperf.timing.context import TrialContext

NO_TIME = "max_time was reached before the transfers were timed; allow more time with max_time"
NO_ROUNDS = "every round was dropped, so the transfers were not timed"
NO_ROOM = "not enough device memory for a second copy of the inputs, so the transfers were not timed"
_SHORT_CALL = 0.01  # seconds: a longer one is not repeated only to time its copies with it
_MOST_ROUNDS = 60


def probe_and_sample(timers: Sequence[BlockTimer], context: TrialContext) -> None:
    """Probe whether the GPU's call blocks, and sample the other mode, while there is time."""
    untimed_calls.probe_blocking(timers[-1], context.remaining())
    sample_other_mode(timers, context)


def sample_other_mode(timers: Sequence[BlockTimer], context: TrialContext) -> None:
    """Sample blocks where the demand is on latency, and single calls where it is on throughput."""
    if context.remaining() < 0:
        return
    _sample([other for other in other_modes(timers, context) if not other.samples], _MOST_ROUNDS, context)


def other_modes(timers: Sequence[BlockTimer], context: TrialContext) -> list[BlockTimer]:
    """Return timers of blocks where the demand is on latency, and of single calls where it is on throughput.

    Where each block is one call, both modes are the same, and there is no other timer.
    """
    found = []
    for timer in timers:
        per_call = timer.per_call(_in_short_blocks(context.options))
        if per_call is not timer:
            found.append(timer if context.demand.latency else per_call)
    if found:
        blocks.share_calls(*found)
    return found


def time_transfers(
    gpu: BlockTimer, rounds: int, context: TrialContext, loop: BlockTimer | None = None
) -> Transfer:
    """Time the transfers in rounds of their own: at most as many as the workload has.

    So is the loop of calls with their transfers, unless it was in the rounds of the verdict. A slow call is
    not repeated for it: what its transfers take apart is then as exact.
    """
    workload = gpu.workload
    if not rounds or context.remaining() < 0 or not transfers.untimed(workload).bytes:
        return transfers.untimed(workload, NO_TIME if rounds else NO_ROUNDS, loop)
    try:
        return _sampled_transfers(gpu, rounds, context, loop)
    except Exception as error:
        fault = workload.device.fault(error)
        if fault is None or fault.kind != "out_of_memory":
            raise
    # Outside the handler: the traceback of the error would keep the copies alive.
    workload.device.release()
    return transfers.untimed(workload, NO_ROOM, loop)


def _sampled_transfers(
    gpu: BlockTimer, rounds: int, context: TrialContext, loop: BlockTimer | None
) -> Transfer:
    # A function of its own: when it raises, no variable of the caller keeps the copies alive.
    options, rounds = _in_short_blocks(context.options), min(rounds, _MOST_ROUNDS)
    if loop is None and gpu.fastest_sample <= _SHORT_CALL:
        loop = transfers.loop_timer(gpu.workload, options)
        _sample([loop] if loop else [], rounds, context)  # before the others, which hold one more result
    timer = transfers.TransferTimer(gpu.workload, options, loop)
    _sample(timer.timers, rounds, context)
    return timer.transfer


def _in_short_blocks(options: RunOptions) -> RunOptions:
    plan = options.sampling
    return replace(
        options, sampling=replace(plan, block_time=min(plan.block_time, plan.secondary_block_time))
    )


def _sample(timers: Sequence[BlockTimer], max_rounds: int, context: TrialContext) -> None:
    """Take rounds within the secondary time of the plan.

    As many as there are stretches are taken if the test has time left for them.
    """
    if not timers or not max_rounds or context.remaining() < 0:
        return
    clock = timers[0].device.clock
    started = clock()
    take_round = blocks.round_of(timers, context.order)
    for taken in count(1):
        take_round()
        spent = seconds_between(started, clock())
        if taken >= max_rounds or spent / taken > context.remaining():
            return
        if taken >= STRETCHES and spent >= context.options.sampling.secondary_time:
            return
