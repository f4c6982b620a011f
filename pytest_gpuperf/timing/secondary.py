"""What is measured beside the verdict: the other kind of call, and the copies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from pytest_gpuperf.model.demand import Demand, Plan
from pytest_gpuperf.model.measurement import Transfer
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.timing import blocks, inspection, transfers
from pytest_gpuperf.timing.blocks import Workload
from pytest_gpuperf.timing.transfers import TransferTimer

__all__ = ["NO_TIME", "SecondaryResult", "calls_aside", "copies", "look", "other_kind"]

NO_TIME = "time was up before the copies were timed; allow more with max_time"
NO_ROUNDS = "no round was kept that the copies could be set beside: they were not timed"
NO_ROOM = "the device has no room for a second copy of what goes up: the copies were not timed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondaryResult:
    """What was found beside the verdict: timed copies, or what else is known of them; and doubts."""

    copying: TransferTimer | None
    transfer: Transfer | None = None
    notes: tuple[Note, ...] = ()


def look(
    workloads: Sequence[Workload],
    rounds: int,
    demand: Demand,
    plan: Plan,
    order: Random,
    left: Callable[[], float],
    copying: TransferTimer | None,
) -> SecondaryResult:
    """Measure what the verdict does not rest on; what fails there is noted, but for a lost device.

    `rounds` were taken of the workloads, and `copying` beside them, where the demand includes copies.
    """
    gpu = workloads[-1]
    try:
        calls_aside(workloads, demand, plan, order, left)
        timed = copies(gpu, rounds, plan, order, left) if copying is None else copying
    except Exception as error:
        if (fault := gpu.device.fault(error)) is not None and fault.kind == "lost":
            raise
        text = f"beside the verdict not all was measured: {type(error).__name__}: {error}"
        return SecondaryResult(copying=copying, notes=(Note(code="aside_failed", text=text),))
    if isinstance(timed, TransferTimer):
        return SecondaryResult(copying=timed)
    return SecondaryResult(copying=None, transfer=transfers.known(gpu, timed))


def calls_aside(
    workloads: Sequence[Workload], demand: Demand, plan: Plan, order: Random, left: Callable[[], float]
) -> None:
    """Call the GPU's workload behind other work, and sample the other kind of call, while there is time."""
    if left() > 2 * (workloads[-1].latest or 0.0):
        inspection.look_behind(workloads[-1])
    if left() >= 0:
        other_kind(workloads, demand, plan, order, left)


def other_kind(
    workloads: Sequence[Workload], demand: Demand, plan: Plan, order: Random, left: Callable[[], float]
) -> None:
    """Sample blocks where the demand is about single calls, and single calls where it is about blocks."""
    singles = [blocks.single(workload, plan) for workload in workloads]
    pairs = zip(workloads, singles, strict=True)
    other = [block if demand.latency else single for block, single in pairs if single is not block]
    _sample(other, plan.max_rounds, plan, order, left)


def copies(
    gpu: Workload, rounds: int, plan: Plan, order: Random, left: Callable[[], float]
) -> TransferTimer | str | None:
    """Time the copies in rounds of their own: at most as many as the workload had.

    Returns None when there is nothing to copy, and a sentence when they could not be timed.
    """
    if not transfers.known(gpu).bytes:
        return None
    if not rounds:
        return NO_ROUNDS
    if left() < 0:
        return NO_TIME
    try:
        return _timed(gpu, rounds, plan, order, left)
    except Exception as error:
        fault = gpu.device.fault(error)
        if fault is None or fault.kind != "out_of_memory":
            raise
    gpu.device.release()
    return NO_ROOM


def _timed(gpu: Workload, rounds: int, plan: Plan, order: Random, left: Callable[[], float]) -> TransferTimer:
    copying = TransferTimer(gpu, plan)
    _sample(copying.workloads, rounds, plan, order, left)
    return copying


def _sample(
    workloads: Sequence[Workload], rounds: int, plan: Plan, order: Random, left: Callable[[], float]
) -> None:
    """Take rounds in the time that the plan has for it.

    The fewest rounds that give an interval are taken if the test has time left for them.
    """
    if not workloads or not rounds or left() < 0:
        return
    clock = workloads[0].device.clock
    started = clock()
    for taken, _ in enumerate(blocks.rounds(workloads, order), start=1):
        spent = clock() - started
        if taken >= rounds or spent / taken > left():
            return
        if taken >= max(plan.min_rounds, plan.aside_rounds) and spent >= plan.aside_time:
            return
