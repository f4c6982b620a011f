"""What the measurements say about moving the work: does it pay, from when on, and what holds it back."""

from typing import Literal

from pytest_gpuperf.model.measurement import Estimate, Speedup
from pytest_gpuperf.model.value import Seconds, Value

Regime = Literal["never", "once", "always", "body"]
DiagnosisCode = Literal[
    "launch_bound",
    "host_synchronization",
    "transfer_bound",
    "cpu_threads",
    "float64",
    "precision_differs",
    "first_call",
    "side_stream",
    "allocation",
    "memory_bound",
    "cpu_code_far_from_roof",
    "cache_resident",
    "communication_bound",
    "serial_part",
    "straggler",
]


class BreakEven(Value, frozen=True, kw_only=True):
    """The number of calls on the same data after which a cost has paid off."""

    transfer: Estimate | None
    """For the copies; null for never, or not known."""
    first_call: Estimate | None
    """For what the first call on the GPU took longer than a later one; null for never."""
    both: Estimate | None
    """For both; null for never, or not known."""
    reason: str | None
    """Why one of these is null."""


class Offload(Value, frozen=True, kw_only=True):
    """Whether moving the work to the GPU is worth it."""

    worth: bool | None
    """Whether the GPU is surely faster, in `regime`, by more than `cost_ratio` (1 without it); null where
    that is unclear."""
    faster: bool | None
    """Whether it is surely faster, whatever it costs; null while in doubt."""
    reason: str
    """The answer, as a sentence."""
    regime: Regime
    """Copies that `worth` and the record's speedup include; body: those that the body makes."""
    by_latency: bool
    """Whether they are those of single calls, each waited for."""
    never: Speedup | None = None
    """Speedup without copies."""
    once: Speedup | None = None
    """Speedup with one transfer for all `calls`; null without `calls`."""
    always: Speedup | None = None
    """Speedup with copies in every call."""
    latency: Speedup | None = None
    """Speedup of single calls, each waited for, without copies that are timed apart."""
    break_even_calls: BreakEven | None = None
    """Calls after which the copies and the first call have paid off; null for a whole body, and where the
    first call was not timed."""


class Diagnosis(Value, frozen=True, kw_only=True):
    """One reason why a speedup is what it is."""

    code: DiagnosisCode
    """Its kind."""
    sentence: str
    """The reason, with its numbers."""


class Point(Value, frozen=True, kw_only=True):
    """One size of the curve of a threshold."""

    size: float
    """The size."""
    nodeid: str
    """Its test."""
    cpu: Seconds | None
    """Median seconds per call on the CPU."""
    gpu: Seconds | None
    """Median seconds per call on the GPU."""
    won: bool | None = None
    """Whether the GPU is faster; null while in doubt, or when it was not measured."""
    speedup: Estimate | None = None
    """Speedup that counts."""
    never: Estimate | None = None
    """Speedup without copies."""
    once: Estimate | None = None
    """Speedup with one transfer for all calls."""
    always: Estimate | None = None
    """Speedup with copies at every call."""
    latency: Estimate | None = None
    """Speedup of single calls, each waited for."""


class Threshold(Value, frozen=True, kw_only=True):
    """The size from which on the GPU is faster."""

    name: str
    """Name of the group."""
    parameter: str
    """Parameter that is the size."""
    at_most: float | None
    """Largest threshold that passes."""
    at_least: float | None
    """Smallest threshold that passes."""
    regime: Regime
    """Copies that the speedups include."""
    by_latency: bool
    """Whether the speedups are those of single calls."""
    status: Literal["passed", "failed", "inconclusive", "recorded", "skipped"]
    """Verdict."""
    reason: str | None
    """Why, as a sentence; null only for passed and recorded."""
    outcome: Literal["bracket", "none", "not_monotone"] | None
    """bracket: the threshold is between two sizes; none: the GPU is not faster from any size on;
    not_monotone: a sure loss above a sure win; null: sizes are missing.
    """
    largest_not_won: float | None
    """Largest size below `smallest_won`, or of all."""
    smallest_won: float | None
    """Smallest size from which on the GPU is surely faster."""
    curve: tuple[Point, ...]
    """Sizes that have a record, smallest first."""
