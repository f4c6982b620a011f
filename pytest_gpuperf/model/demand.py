"""What a marker asks of a test, and how a run measures."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pytest_gpuperf.model.quantities import Alpha, AtLeastOne, Count, NonNegative, Positive

__all__ = [
    "Demand",
    "Family",
    "InconclusivePolicy",
    "Kind",
    "Pairing",
    "Plan",
    "Selection",
    "Source",
    "Transfers",
]

Kind = Literal["cpu", "gpu"]
Transfers = Literal["never", "always", "once"]
InconclusivePolicy = Literal["warn", "fail", "pass"]
Source = Literal["marker", "pattern", "all"]
"""What asked for a measurement: a marker, a pattern in the ini file, or `--gpuperf-all`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a marker asks of one test; limits are ratios cpu time / gpu time, memory is in bytes."""

    min: Positive | None = None
    """The smallest speedup that passes; the test fails when the speedup is below it beyond doubt."""
    max: Positive | None = None
    """The largest speedup that passes; the test fails when the speedup is above it beyond doubt."""
    transfer: Transfers = "never"
    """Which copies the gated speedup includes."""
    calls: AtLeastOne | None = None
    """Calls per transfer; only with `transfer` `once`."""
    latency: bool = False
    """Whether the gated speedup is that of single calls, each waited for."""
    max_memory: AtLeastOne | None = None
    """The most bytes that the workload may hold on the device."""
    rtol: NonNegative | None = None
    """Elementwise relative tolerance of the result check."""
    atol: NonNegative | None = None
    """Elementwise absolute tolerance of the result check."""
    parity: bool = True
    """Whether both devices must give the same result."""
    max_time: Positive | None = None
    """Seconds that the measurement may take; null for the run's own limit."""
    alpha: Alpha = field(default=0.025, compare=False)
    """Chance of a wrong verdict, per side; an option of the run, and so no part of what a marker asks."""

    @property
    def bare(self) -> bool:
        """Whether nothing was asked: such a test records and never fails."""
        return self == Demand()

    @property
    def limits(self) -> tuple[float, ...]:
        """The limits that were asked for, lowest first; none for a bare marker."""
        return tuple(limit for limit in (self.min, self.max) if limit is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What one test shares with those that differ from it in one size only, and its own size."""

    name: str
    """Name of the family, the same for all its members."""
    parameter: str
    """Name of the parameter that is the size."""
    size: float
    """Size of this test."""
    sizes: tuple[float, ...]
    """Sizes of all members that were collected, smallest first."""
    at_most: float | None = None
    """Largest offload threshold that passes."""
    at_least: float | None = None
    """Smallest offload threshold that passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Which side of a comparison a test is that runs on one device only."""

    side: Kind
    """The device on which the test runs."""
    library: str
    """Library whose arrays the test works on."""
    partner: str | None = None
    """Node id of the CPU sibling that a GPU sibling was compared with; null where there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """How many tests were measured without a marker of their own."""

    pattern: str | None
    """Pattern of node ids in `gpuperf_speedup`; null for `--gpuperf-all`."""
    tests: Count
    """Number of tests that it matched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a run measures: options read once. Times in seconds.

    A block lasts at least `block_time`; warm-up ends when three blocks agree within `steady`, at the latest
    after `warmup_time`. Sampling goes on after the verdict until the interval is within `precision` of its
    value, for at most `precision_time`; without a demand for at most `record_time`. A slow workload that
    has fewer than `precision_rounds` by then may take most of `max_time` for them. What no demand rests on
    (copies, latency) is sampled beside it, for at most `aside_time` each, or `aside_rounds`. A doubt within
    `doubt` of the limit only warns. No interval claims more than the `resolution`. Samples of a slow spell
    are taken again up to `fresh_starts` times. A GPU machine costs `cost_ratio` times a CPU one. `side` is
    the device of tests that do not choose theirs, `lock` the file by which processes take turns to measure,
    `auto` or `none`.
    """

    alpha: float = 0.025
    max_time: float = 10.0
    inconclusive: InconclusivePolicy = "warn"
    report_only: bool = False
    off: bool = False
    require_gpu: bool = False
    gpu: str = "auto"
    side: str | None = None
    cost_ratio: float = 2.5
    lock: str = "auto"
    min_rounds: int = 3
    max_rounds: int = 60
    block_time: float = 1e-3
    steady: float = 0.05
    warmup_time: float = 0.1
    precision: float = 0.05
    precision_time: float = 0.05
    precision_rounds: int = 0
    record_time: float = 1.0
    aside_time: float = 0.01
    aside_rounds: int = 0
    doubt: float = 0.05
    resolution: float = 0.01
    fresh_starts: int = 2
    record_rounds: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The files that a run writes beside its report: summaries, exports by format, a folder for the history.

    `summary` is a file of the CI's to which ours is appended.
    """

    markdown: tuple[Path, ...] = ()
    summary: Path | None = None
    exports: tuple[tuple[str, Path], ...] = ()
    history: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that are written anew."""
        return (*self.markdown, *(path for _, path in self.exports))
