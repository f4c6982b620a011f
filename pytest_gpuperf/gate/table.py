"""What became of everything that a baseline holds, and what of it fails: one table for pytest and compare.

| outcome          | the run has                                                    | fails                  |
| ---------------- | -------------------------------------------------------------- | ---------------------- |
| `regressed`      | a value that is surely worse than the tolerance allows         | always                 |
| `improved`       | a value that is surely better by as much                       | with `improvement`     |
| `not_regressed`  | a value within the tolerance                                   | never                  |
| `inconclusive`   | a value that could be either                                   | with fail=doubt        |
| `not_comparable` | a value from other conditions                                  | with strict            |
| `not_measured`   | the test, without this metric                                  | always                 |
| `gone`           | no such test: renamed, moved, unmarked; a group without tests  | unless allow=missing   |
| `hidden`         | a test that configuration left out                             | unless allow=missing   |
| `skipped`        | a test or file that skipped itself, or an expected regression  | unless allowed, as for |
|                  |                                                                | no-gpu without a GPU   |
| `narrowed`       | a test that the command line left out                          | with strict            |
| `ended`          | a test that the session did not reach                          | always                 |

Nothing fails with fail=nothing. What the baseline does not hold is `new`, and no row of the table.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any

from pytest_gpuperf.gate import metrics, text
from pytest_gpuperf.model.comparison import (
    AbsenceCause,
    Absent,
    Comparison,
    GateOptions,
    Metric,
    Outcome,
    Tolerance,
)
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.nodeid import without_number
from pytest_gpuperf.model.offload import Point
from pytest_gpuperf.model.record import Record, Report, Run
from pytest_gpuperf.model.scaling import ScalingPoint

GetCause = Callable[[str, Record], AbsenceCause]
"""Returns why a test did not run, from its node id and its record in the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the options make of an outcome, in a run that has a GPU or not."""

    run: RunOptions
    gate: GateOptions = field(default_factory=GateOptions)
    has_gpu: bool = True

    def fails(self, outcome: Outcome | AbsenceCause) -> bool:
        """Return whether an outcome fails: that of a comparison its test, that of an absence the run."""
        return self.enforced and _FAILS[outcome](self)

    @property
    def enforced(self) -> bool:
        """Whether anything can fail."""
        return self.gate.is_gate and self.run.fail != "nothing"

    @property
    def allows_missing(self) -> bool:
        """Whether tests may be missing."""
        return "missing" in self.gate.allow

    @property
    def allows_skips(self) -> bool:
        """Whether tests may skip themselves."""
        return self.allows_missing or (not self.has_gpu and "no-gpu" in self.gate.allow)


_FAILS: dict[Outcome | AbsenceCause, Callable[[Rules], bool]] = {
    "regressed": lambda _: True,
    "improved": lambda rules: rules.gate.improvements,
    "not_regressed": lambda _: False,
    "inconclusive": lambda rules: rules.run.fail == "doubt",
    "not_comparable": lambda rules: rules.gate.strict,
    "new": lambda _: False,
    "not_measured": lambda _: True,
    "gone": lambda rules: not rules.allows_missing,
    "hidden": lambda rules: not rules.allows_missing,
    "skipped": lambda rules: not rules.allows_skips,
    "narrowed": lambda rules: rules.gate.strict and not rules.allows_missing,
    "ended": lambda _: True,
}

Answer = Comparison | Absent


def answers(base: Report, run: Run, tolerances: Sequence[Tolerance], cause: GetCause) -> Iterator[Answer]:
    """Yield what became of each metric of each test, and of each group, that the baseline holds.

    Every result of a test that ran several times answers.
    """
    results: dict[str, list[Record]] = defaultdict(list)
    for record in run.records:
        results[without_number(record.nodeid)].append(record)
    held: dict[str, Record] = {}
    for record in base.run.records:
        held.setdefault(without_number(record.nodeid), record)
    for nodeid, before in held.items():
        for tolerance in tolerances:
            if metrics.is_held(before, tolerance.metric):
                metric, found = tolerance.metric, results[nodeid]
                if not any(map(_had_its_turn, found)):
                    why = "ended" if any(each.is_cut_off for each in found) else cause(nodeid, before)
                    yield Absent(name=nodeid, metric=metric, cause=why, reason=None)
                yield from (_answer(now, metric) for now in found if _had_its_turn(now))
    yield from _lost_groups(base, results)


def lost(before: Record, now: Record, tolerances: Sequence[Tolerance]) -> Iterator[Absent]:
    """Yield the metrics that a test has in the baseline, and not in this run although it ran."""
    for tolerance in tolerances:
        metric = tolerance.metric
        may_lack_it = now.status == "skipped" or now.expected_failure
        if not may_lack_it and metrics.is_held(before, metric) and not metrics.has(now, metric):
            yield _not_measured(now, metric)


def _answer(now: Record, metric: Metric) -> Answer:
    found = (each for each in now.comparisons if each.metric == metric and each.outcome != "new")
    compared = next(found, None)
    if compared is not None and not is_excused(now, compared):
        return compared
    if now.expected_failure:
        reason = f"it is expected to fail (xfail): {(compared or now).reason}"
        return Absent(name=now.nodeid, metric=metric, cause="skipped", reason=reason)
    if now.status == "skipped":
        return Absent(name=now.nodeid, metric=metric, cause="skipped", reason=now.reason)
    return _not_measured(now, metric)


def is_excused(now: Record, compared: Comparison) -> bool:
    """Return whether a test's regression does not fail it, because its failure is expected."""
    return now.expected_failure and compared.outcome == "regressed"


def _not_measured(now: Record, metric: Metric) -> Absent:
    reason = f"this run has no {text.METRIC_NAMES[metric]}: {now.reason or now.status}"
    return Absent(name=now.nodeid, metric=metric, cause="not_measured", reason=reason)


def _lost_groups(base: Report, results: dict[str, list[Record]]) -> Iterator[Absent]:
    """Yield the groups of which tests ran, but not as a group: a marker is gone, and its requirement too."""
    sized = ((each.name, each.curve, attrgetter("size_group")) for each in base.run.thresholds)
    scaled = ((each.name, each.points, attrgetter("scaling")) for each in base.run.scalings)
    for name, points, group_of in chain[tuple[str, Sequence[Point | ScalingPoint], Any]](sized, scaled):
        found = (record for point in points for record in results[without_number(point.nodeid)])
        ran = list(filter(_had_its_turn, found))
        if ran and not any(map(group_of, ran)):
            yield Absent(name=name, metric=None, cause="gone", reason=None)


def _had_its_turn(record: Record) -> bool:
    return not (record.is_deselected or record.is_cut_off)
