"""From the samples of a CPU to what disturbed them: threads that waited, or a slow spell."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["Disturbance", "find"]

_DISTURBED = 0.25  # of the blocks' time spent waiting for a processor
_WANDERING = 3  # a median so many times the fastest block is not of one and the same work


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """The share of the measured time that was the workload's own, and what took the rest."""

    own: float
    reason: str


def find(samples: Sequence[float], *, block_calls: int, waited: float, fastest: float) -> Disturbance | None:
    """Return what samples hold beside the workload; `waited` and `fastest` are in seconds."""
    if not samples:
        return None
    middle = median(samples)
    waiting = waited / (sum(samples) * block_calls)
    if waiting > _DISTURBED:
        reason = f"threads waited for a processor, {waiting:.1f} s in each second of the CPU's blocks"
        return Disturbance(own=max(0.0, 1 - waiting), reason=reason)
    if middle > _WANDERING * fastest:
        reason = f"the CPU's times wander: their median is {middle:.2g} s, a block took {fastest:.2g} s"
        return Disturbance(own=fastest / middle, reason=reason)
    return None
