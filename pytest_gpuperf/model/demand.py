"""What a marker asks of a test, and the options of a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = [
    "Demand",
    "Family",
    "InconclusivePolicy",
    "Kind",
    "Pairing",
    "RunOptions",
    "SamplingPlan",
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

    min: float | None = None
    max: float | None = None
    transfer: Transfers = "never"
    calls: int | None = None
    latency: bool = False
    max_memory: int | None = None
    rtol: float | None = None
    atol: float | None = None
    parity: bool = True
    max_time: float | None = None

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
    """What one test shares with those that differ from it in one size only, and its own size.

    `name` is the same for all members, `sizes` are theirs, smallest first; the threshold that is asked for
    is at most `at_most` and at least `at_least`.
    """

    name: str
    parameter: str
    size: float
    sizes: tuple[float, ...]
    at_most: float | None = None
    at_least: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Which side of a comparison a test is that meets one device only.

    `library` has the arrays it works on; `partner` is the node id of the CPU sibling that a GPU sibling is
    compared with.
    """

    side: Kind
    library: str
    partner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """How many tests were measured without a marker: by a pattern of node ids, or (None) all."""

    pattern: str | None
    tests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """How long and how often a workload is sampled: constants that users do not set. Times in seconds.

    A block lasts at least `block_time`. Warm-up ends when three blocks agree within `warmup_tolerance`, or
    after `warmup_time`. Sampling continues after the verdict until the interval is within `precision`
    of its value, for at most `precision_time`; without a limit for at most `record_time` or `record_rounds`.
    A slow workload with fewer than `precision_rounds` by then may take most of the time limit for them.
    Secondary measurements (copies, latency) that no limit rests on take at most `secondary_time` each, or
    `secondary_rounds`. Samples of a busy machine are taken again up to `max_restarts` times. No interval is
    narrower than the `resolution`. An inconclusive result within `inconclusive_margin` of its
    limit only warns.
    """

    min_rounds: int = 3
    max_rounds: int = 60
    block_time: float = 1e-3
    warmup_tolerance: float = 0.05
    warmup_time: float = 0.1
    precision: float = 0.05
    precision_time: float = 0.05
    precision_rounds: int = 0
    record_time: float = 1.0
    record_rounds: int = 500
    secondary_time: float = 0.01
    secondary_rounds: int = 0
    inconclusive_margin: float = 0.05
    resolution: float = 0.01
    max_restarts: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What users set for a run, read once from the command line and the ini file.

    Either bound of an interval is wrong with a chance of at most `alpha`. `max_time` is the time limit of one
    test in seconds. `default_device` is the device of tests that do not choose one themselves. A GPU machine
    costs `cost_ratio` times as much as a CPU machine. `lock` is the file that lets one process measure at a
    time, `auto` or `none`. `sampling` follows from the other options: a gated run samples more precisely.
    """

    alpha: float = 0.025
    max_time: float = 10.0
    inconclusive: InconclusivePolicy = "warn"
    report_only: bool = False
    off: bool = False
    require_gpu: bool = False
    gpu: str = "auto"
    default_device: str | None = None
    cost_ratio: float = 2.5
    lock: str = "auto"
    sampling: SamplingPlan = SamplingPlan()


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
