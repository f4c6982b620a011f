"""A run compared with an earlier one: each metric's change, and the result of a gate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_gpuperf.model.measurement import Estimate

__all__ = [
    "METRICS",
    "Commit",
    "Comparison",
    "GateFailure",
    "GateFailureCode",
    "GateNote",
    "GateNoteCode",
    "GateOptions",
    "GateResult",
    "Metric",
    "Outcome",
    "Remedy",
    "Tolerance",
]

Metric = Literal["speedup", "gpu", "cpu", "latency", "always", "threshold", "memory"]
METRICS: tuple[Metric, ...] = ("speedup", "gpu", "cpu", "latency", "always", "threshold", "memory")
Outcome = Literal["regressed", "improved", "not_regressed", "cannot_tell", "not_comparable", "new"]
"""`new`: the baseline has nothing to compare with, for it does not know the test or has not measured it."""
Remedy = Literal["more_time", "run_with_gate", "new_baseline", "cool_gpu"]
"""What would decide a comparison that is in doubt; `run_with_gate`: this run stopped at its own verdict."""
GateFailureCode = Literal[
    "nothing_measured",
    "all_skipped",
    "tests_unknown",
    "nothing_compared",
    "metric_not_measured",
    "session_ended",
    "tests_missing",
    "test_lost",
]
GateNoteCode = Literal[
    "baseline_incomplete",
    "tests_skipped",
    "threshold_not_compared",
    "not_comparable",
    "regressions_not_enforced",
    "baseline_stale",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How much worse than its baseline a metric may be: `share` 0.1 is 10 %.

    Metrics: the gated `speedup`, the speedup with copies `always` and by `latency`, where more is better; the
    times of a call on `gpu` and `cpu`, the offload `threshold` and the `memory` held, where less is.
    """

    metric: Metric
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One metric of one test compared with its baseline; the reason is None only for `not_regressed`.

    `ratio` is found / baseline with the interval that both intervals leave it. `differences` name what is
    not the same in a comparison that cannot be made: `CPU: EPYC in the baseline, Xeon now`. `remedy` is what
    would decide numbers that are in doubt.
    """

    metric: Metric
    tolerance: float
    outcome: Outcome
    reason: str | None
    remedy: Remedy | None = None
    baseline: Estimate | None = None
    found: Estimate | None = None
    ratio: Estimate | None = None
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The state of the repository that was measured; `changed` says that files differ from it."""

    id: str
    branch: str | None = None
    time: str | None = None
    changed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFailure:
    """Why a run as a whole fails its gate."""

    code: GateFailureCode
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateNote:
    """What to know of a run's comparison with its baseline; it fails nothing."""

    code: GateNoteCode
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """What a run was compared with: the baseline's file and start, and what may not get worse.

    `tolerances` are those that fail; none are a comparison that only reports. `failures` are those of the
    run as a whole, besides the tests' own, `notes` are remarks that fail nothing.
    """

    baseline: str | None
    started: str | None
    tolerances: tuple[Tolerance, ...]
    failures: tuple[GateFailure, ...] = ()
    notes: tuple[GateNote, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """What a run is compared with: options read once.

    `baseline` is a report or a folder of them; with `create` it may be missing, and this run makes it.
    `tolerances` fail a test that got worse beyond doubt, `improvements` one that got better. With `strict` a
    baseline that cannot be compared with fails, too. `allow_no_gpu` and `allow_missing` take back two ways in
    which a gate that measured nothing fails.
    """

    baseline: Path | None = None
    tolerances: tuple[Tolerance, ...] = ()
    improvements: bool = False
    create: bool = False
    strict: bool = False
    allow_no_gpu: bool = False
    allow_missing: bool = False

    @property
    def is_gate(self) -> bool:
        """Whether a change can fail the run; without a gate it is only reported."""
        return bool(self.tolerances) or self.improvements

    @property
    def measures_longer(self) -> bool:
        """Whether tests are measured until a change shows: for a gate, or for the baseline of one."""
        return self.is_gate or self.create

    @property
    def compared(self) -> tuple[Tolerance, ...]:
        """What is compared with the baseline: the speedup, where no option names anything else."""
        return self.tolerances or (Tolerance(metric="speedup", share=0.1),)
