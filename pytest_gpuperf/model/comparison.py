"""A run compared with an earlier one: each metric's change, and the result of a gate."""

from pathlib import Path
from typing import Literal, get_args

from msgspec.structs import force_setattr

from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.metrics import METRICS, TABLE, Metric
from pytest_gpuperf.model.plain_text import keep_plain, one_line
from pytest_gpuperf.model.value import Count, NonNegative, Said, Text, Value

Outcome = Literal["regressed", "inconclusive", "not_comparable", "improved", "not_regressed", "new"]
"""`new`: the baseline has nothing to compare with, for it does not know the test or has not measured it."""
GateFailureCode = Literal[
    "nothing_measured", "nothing_compared", "tests_missing", "session_ended", "test_lost"
]
AbsenceCause = Literal["not_measured", "gone", "skipped", "excused", "narrowed", "ended"]
"""Why a run has nothing to compare with what the baseline holds; `gate/what_fails.py` explains each."""
LeftOutBy = Literal["paths", "-k", "-m", "--deselect", "--ignore", "--ignore-glob", "--lf", "--sw"]
"""`paths` are those that pytest was given, or the folder that it was called in."""
Allowance = Literal["no-gpu", "missing"]
ALLOWANCES: tuple[Allowance, ...] = get_args(Allowance)
GateNoteCode = Literal["not_comparable", "baseline_stale", "tests_skipped", "processes_differ"]


# A check that finds only losses above three times its tolerance, and above 15 %, compares nothing.
_MOST_VISIBLE, _LEAST_VISIBLE = 3.0, 0.15


def most_overlooked(tolerance: float) -> float:
    """Return the largest loss that a check with such a tolerance may overlook, as a share."""
    return max(_MOST_VISIBLE * tolerance, _LEAST_VISIBLE)


class Tolerance(Value, frozen=True, kw_only=True):
    """How much worse than its baseline a metric may be.

    Metrics: the required `speedup`, the speedup `with_copies` and by `latency`, and the parallel
    `efficiency`, where more is better; the times of a call (`gpu_time`, `cpu_time`, and of the process's
    `first_call` of the test) and the `memory` held, where less is.
    """

    metric: Metric
    """The metric."""
    share: NonNegative
    """Share of the baseline's value: 0.1 is 10 %."""


_BY_DEFAULT = tuple(Tolerance(metric=each, share=0.1) for each in METRICS if TABLE[each].rounds == "decide")


class Comparison(Value, frozen=True, kw_only=True):
    """One metric of one test, compared with its baseline."""

    metric: Metric
    """The metric."""
    tolerance: NonNegative
    """How much worse it may be: 0.1 is 10 %."""
    outcome: Outcome
    """Result; new: the baseline has nothing to compare with."""
    reason: str | None
    """Why, as a sentence; null only for `not_regressed`."""
    baseline: Estimate | None = None
    """Value in the baseline, in the metric's unit; null if missing."""
    found: Estimate | None = None
    """Value in this run; null if missing."""
    ratio: Estimate | None = None
    """`found` / `baseline`; null without one of them."""
    visible: NonNegative | None = None
    """Smallest loss that two such runs find in nine of ten cases: 0.2 is 20 %; null where they find none."""
    differences: tuple[str, ...] = ()
    """Why they cannot be compared: `CPU: EPYC in the baseline, Xeon now`."""

    @property
    def shows_little(self) -> bool:
        """Whether nothing was decided, and only a loss far beyond the tolerance would have been."""
        is_far = self.visible is None or self.visible > most_overlooked(self.tolerance)
        return self.outcome == "inconclusive" and is_far

    def __post_init__(self) -> None:
        """Keep what the baseline's file says from steering a terminal."""
        keep_plain(self, "reason")
        if self.differences:
            force_setattr(self, "differences", tuple(map(one_line, self.differences)))


class Commit(Value, frozen=True, kw_only=True):
    """The state of the repository that was measured."""

    id: Text
    """Hash."""
    branch: str | None = None
    """Branch; null where the commit is on none, or it is not known."""
    time: str | None = None
    """ISO 8601."""
    changed: bool | None = None
    """Whether files differed from it; null when that is not known."""
    url: str | None = None
    """Address of its page, in a CI that names one."""

    @property
    def short(self) -> str:
        """The first seven letters of the hash, as git shows it."""
        return self.id[:7]


class GateFailure(Said, frozen=True, kw_only=True):
    """Why a run as a whole fails its regression check."""

    code: GateFailureCode
    """Its kind."""


class GateNote(Said, frozen=True, kw_only=True):
    """What to know of a run's comparison with its baseline; it fails nothing."""

    code: GateNoteCode
    """Its kind."""


class Absent(Value, frozen=True, kw_only=True):
    """What the baseline holds and this run does not."""

    name: Text
    """Node id, or name of the group of sizes or of numbers of devices."""
    metric: Metric | None
    """The metric; null for a group."""
    cause: AbsenceCause
    """Why the run has no value of it."""
    reason: str | None
    """What the run says of it; null where nothing was said."""

    def __post_init__(self) -> None:
        """Keep what a test or a device says from steering a terminal."""
        keep_plain(self, "reason")


class GateResult(Value, frozen=True, kw_only=True):
    """The regression check of a run."""

    baseline: str | None
    """Path of the baseline, from the run's folder where it is in there; null where there was none."""
    started: str | None
    """Start of the baseline's run."""
    runs: Count = 0
    """Runs of a folder whose range decides, of which the baseline is the newest; 0 where one run decides."""
    tolerances: tuple[Tolerance, ...]
    """What may fail a test; empty for a comparison that only reports."""
    failures: tuple[GateFailure, ...] = ()
    """Failures of the run as a whole."""
    notes: tuple[GateNote, ...] = ()
    """What there is to know; fails nothing."""
    baseline_tests: Count = 0
    """Tests of the baseline that have a metric to compare."""
    absent: tuple[Absent, ...] = ()
    """What of it this run does not have."""


class GateOptions(Value, frozen=True, kw_only=True):
    """What a run is compared with: options read once.

    `baseline` is a report or a folder of them; with `create` it may be missing, and this run makes it.
    `tolerances` fail a test that surely got worse, `improvements` one that got better. With `strict` a
    baseline that cannot be compared with fails, too. `allow` takes back ways in which a gate that measured
    nothing fails. With `later` the run is one process of many, which `gpuperf compare` compares by the
    `tolerances`; now nothing is.
    """

    baseline: Path | None = None
    tolerances: tuple[Tolerance, ...] = ()
    improvements: bool = False
    create: bool = False
    later: bool = False
    strict: bool = False
    allow: frozenset[Allowance] = frozenset()

    @property
    def is_gate(self) -> bool:
        """Whether a change can fail the run; without a gate it is only reported."""
        return (bool(self.tolerances) or self.improvements) and not self.later

    @property
    def compares(self) -> bool:
        """Whether tests are measured until a change shows: since a baseline, or for one."""
        return self.is_gate or self.baseline is not None or self.create

    @property
    def compared(self) -> tuple[Tolerance, ...]:
        """What is compared with the baseline: what rounds decide, where no option names anything else."""
        return self.tolerances or _BY_DEFAULT
