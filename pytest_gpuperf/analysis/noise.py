"""From samples to what disturbed them: a CPU whose threads waited, a slow spell, a GPU slowed down."""

from collections.abc import Iterable, Sequence
from statistics import median

from pytest_gpuperf.model.measurement import Interference

__all__ = ["MOST_DROPPED", "find", "sentence", "throttled", "worst"]

MOST_DROPPED = 0.2
"""Of all rounds: with more of them a speedup is not of this GPU as it should be."""

_DISTURBED = 0.25  # of the blocks' time spent waiting for a processor
_WANDERING = 3  # a median so many times the fastest block is not of one and the same work


def find(samples: Sequence[float], *, block_calls: int, waited: float, fastest: float) -> Interference | None:
    """Return what samples hold beside the workload; `waited` and `fastest` are in seconds."""
    timed = sum(samples) * block_calls
    if timed <= 0:
        return None
    middle = median(samples)
    waiting = waited / timed
    if waiting > _DISTURBED:
        return Interference(kind="cpu_contention", own_share=max(0.0, 1 - waiting), waited=waiting)
    if middle > _WANDERING * fastest:
        share = fastest / middle
        return Interference(kind="unstable_cpu_times", own_share=share, median=middle, fastest=fastest)
    return None


def worst(*found: Interference | None) -> Interference | None:
    """Return the interference that leaves the workload the smallest share, None of none."""
    return min(filter(None, found), key=lambda each: each.own_share, default=None)


def sentence(interference: Interference) -> str:
    """Return an interference in words, with its numbers."""
    if interference.kind == "cpu_contention":
        waited = interference.waited or 0.0
        return f"threads waited for a processor, {waited:.1f} s in each second of the CPU's blocks"
    middle, fastest = interference.median or 0.0, interference.fastest or 0.0
    return f"the CPU's times wander: their median is {middle:.2g} s, a block took {fastest:.2g} s"


def throttled(dropped: int, begun: int, throttle: Iterable[str] = ()) -> str | None:
    """Return why rounds decide nothing, when too many of those that were begun had to be dropped."""
    if dropped <= MOST_DROPPED * begun:
        return None
    named = ", ".join(throttle)
    slowed = f"the GPU was slowed down{f' ({named})' if named else ''} in {dropped} of {begun} rounds"
    return f"{slowed}; cool it, or give it the power that it may draw"
