"""What the measurements say about moving the work: does it pay, from when on, and what holds it back."""

from dataclasses import dataclass
from typing import Literal

from pytest_gpuperf.model.measurement import Estimate, Speedup

__all__ = ["BreakEven", "Diagnosis", "GpuLimits", "Link", "Offload", "Point", "Price", "Regime", "Threshold"]

Regime = Literal["never", "once", "always", "body"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """Calls on the same data after which something is earned back; None is never, or not known.

    `transfer` is for the copies, `first_call` for what the GPU's first call took longer than a later one,
    `both` for the two together.
    """

    transfer: Estimate | None
    first_call: Estimate | None
    both: Estimate | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What the bill does: a GPU machine costs `ratio` times a CPU one, so the speedup `needed` is the same.

    `saves` is None while in doubt; `saving_percent` is negative for a loss.
    """

    ratio: float
    needed: float
    saves: bool | None
    saving_percent: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLimits:
    """The seconds per call that the GPU may take for the demand's least speedup, and for the price to pay."""

    demand: float | None
    price: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What the copies of every call cost at least on one kind of link, and so the most it can speed up.

    Bandwidth in bytes per second, in one direction.
    """

    name: str
    bandwidth: float
    seconds: float
    speedup_at_most: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """Whether moving the work pays, in the regime that the marker chose; worth is None while in doubt.

    `never`, `once`, `always`: the speedup with data resident, with one transfer for all calls, and with one
    at every call. `latency`: of single calls, waited for, with data resident.
    """

    worth: bool | None
    reason: str
    regime: Regime
    by_latency: bool
    price: Price
    never: Speedup | None = None
    once: Speedup | None = None
    always: Speedup | None = None
    latency: Speedup | None = None
    break_even_calls: BreakEven | None = None
    gpu_limits: GpuLimits | None = None
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One reason why a speedup is what it is: a code, a sentence, and the numbers behind it."""

    code: str
    sentence: str
    numbers: dict[str, float | int | str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One size of a threshold's curve: seconds per call, and the speedup as gated and per regime.

    `won` says whether the GPU wins there; None is in doubt.
    """

    size: float
    nodeid: str
    cpu: float | None
    gpu: float | None
    won: bool | None = None
    speedup: Estimate | None = None
    never: Estimate | None = None
    once: Estimate | None = None
    always: Estimate | None = None
    latency: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """From which size on the GPU wins: between the largest size not won and the smallest sure win.

    `outcome` is `bracket`, `none` (it never wins for good), `not_monotone` (a sure loss above a sure win), or
    None when sizes are missing.
    """

    name: str
    parameter: str
    at_most: float | None
    at_least: float | None
    regime: Regime
    by_latency: bool
    status: Literal["passed", "failed", "inconclusive", "recorded", "skipped"]
    reason: str | None
    outcome: Literal["bracket", "none", "not_monotone"] | None
    largest_not_won: float | None
    smallest_won: float | None
    curve: tuple[Point, ...]
