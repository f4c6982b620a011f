"""From samples to what disturbed them: a CPU whose threads waited, a slow spell, a GPU slowed down."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["MOST_DROPPED", "Disturbance", "find", "stated", "throttled"]

MOST_DROPPED = 0.2
"""Of all rounds: with more of them a speedup is not of this GPU as it should be."""

_DISTURBED = 0.25  # of the blocks' time spent waiting for a processor
_WANDERING = 3  # a median so many times the fastest block is not of one and the same work
_WAITING = "threads waited for a processor"
_WANDERS = "the CPU's times wander"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """The share of the measured time that was the workload's own, and what took the rest."""

    own: float
    reason: str


def find(samples: Sequence[float], *, block_calls: int, waited: float, fastest: float) -> Disturbance | None:
    """Return what samples hold beside the workload; `waited` and `fastest` are in seconds."""
    timed = sum(samples) * block_calls
    if timed <= 0:
        return None
    middle = median(samples)
    waiting = waited / timed
    if waiting > _DISTURBED:
        reason = f"{_WAITING}, {waiting:.1f} s in each second of the CPU's blocks"
        return Disturbance(own=max(0.0, 1 - waiting), reason=reason)
    if middle > _WANDERING * fastest:
        reason = f"{_WANDERS}: their median is {middle:.2g} s, a block took {fastest:.2g} s"
        return Disturbance(own=fastest / middle, reason=reason)
    return None


def stated(notes: Iterable[str]) -> Disturbance | None:
    """Return the disturbance that a record's notes name; what share was the workload's own is not known."""
    reason = next((note for note in notes if note.startswith((_WAITING, _WANDERS))), None)
    return Disturbance(own=0.0, reason=reason) if reason is not None else None


def throttled(dropped: int, begun: int, throttle: Iterable[str] = ()) -> str | None:
    """Return why rounds decide nothing, when too many of those that were begun had to be dropped."""
    if dropped <= MOST_DROPPED * begun:
        return None
    named = ", ".join(throttle)
    slowed = f"the GPU was slowed down{f' ({named})' if named else ''} in {dropped} of {begun} rounds"
    return f"{slowed}; cool it, or give it the power that it may draw"
