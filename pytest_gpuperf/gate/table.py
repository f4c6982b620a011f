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
| `skipped`        | a test or a file that skipped itself                           | unless allow=missing,  |
|                  |                                                                | or no-gpu and no GPU   |
| `excused`        | what fails, of a test that xfail expects to fail               | unless allow=missing   |
| `narrowed`       | a test that the command line left out                          | with strict            |
| `ended`          | a test that the session did not reach                          | always                 |

Nothing fails with fail=nothing. What the baseline does not hold is `new`, and no row of the table.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
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
        return self.enforced and self.would_fail(outcome)

    def would_fail(self, outcome: Outcome | AbsenceCause) -> bool:
        """Return whether an outcome fails where anything does."""
        return _FAILS[outcome](self)

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
    "excused": lambda rules: not rules.allows_missing,
    "narrowed": lambda rules: rules.gate.strict and not rules.allows_missing,
    "ended": lambda _: True,
}

Answer = Comparison | Absent


def answers(
    base: Report, run: Run, tolerances: Sequence[Tolerance], cause: GetCause, rules: Rules
) -> Iterator[Answer]:
    """Yield what became of each metric of each test, and of each group, that the baseline holds.

    Every result of a test that ran several times answers.
    """
    results: dict[str, list[Record]] = defaultdict(list)
    for record in run.records:
        results[without_number(record.nodeid)].append(record)
    answered: set[str] = set()
    held: dict[str, list[Record]] = defaultdict(list)
    for record in base.run.records:
        held[without_number(record.nodeid)].append(record)
    for nodeid, records in held.items():
        for tolerance in tolerances:
            before = next((each for each in records if metrics.is_held(each, tolerance.metric)), None)
            if before is not None:
                answered.add(nodeid)
                metric, found = tolerance.metric, results[nodeid]
                if not any(map(_had_its_turn, found)):
                    why = "ended" if _is_cut_off(found) else cause(nodeid, before)
                    yield Absent(name=nodeid, metric=metric, cause=why, reason=None)
                yield from (_answer(now, metric, rules) for now in found if _had_its_turn(now))
    yield from _lost_groups(base, results, answered, cause)


def not_measured(before: Record, now: Record, tolerances: Sequence[Tolerance]) -> Iterator[Absent]:
    """Yield the metrics that a test has in the baseline, and not in this run although it ran."""
    for tolerance in tolerances:
        metric = tolerance.metric
        may_lack_it = now.status == "skipped" or now.expected_failure
        if not may_lack_it and metrics.is_held(before, metric) and not metrics.has(now, metric):
            yield _not_measured(now, metric)


def _answer(now: Record, metric: Metric, rules: Rules) -> Answer:
    found = (each for each in now.comparisons if each.metric == metric and each.outcome != "new")
    compared = next(found, None)
    if compared is not None and not is_excused(now, compared, rules):
        return compared
    if now.expected_failure:
        reason = (compared or now).reason
        return Absent(name=now.nodeid, metric=metric, cause="excused", reason=reason)
    if now.status == "skipped":
        return Absent(name=now.nodeid, metric=metric, cause="skipped", reason=now.reason)
    return _not_measured(now, metric)


def is_excused(now: Record, compared: Comparison, rules: Rules) -> bool:
    """Return whether an outcome that fails does not fail its test, because xfail expects a failure."""
    return now.expected_failure and rules.would_fail(compared.outcome)


def _not_measured(now: Record, metric: Metric) -> Absent:
    told = f": {now.reason}" if now.reason else ""
    reason = f"this run has no {text.METRIC_NAMES[metric]} of it, as the baseline has{told}"
    return Absent(name=now.nodeid, metric=metric, cause="not_measured", reason=reason)


def _lost_groups(
    base: Report, results: Mapping[str, list[Record]], answered: Container[str], cause: GetCause
) -> Iterator[Absent]:
    """Yield the groups of which no test ran as one of a group: what the group required is gone with it.

    Where none ran at all, and some of them have `answered` for themselves, nothing is left to say.
    """
    sized = ((each.name, each.curve, attrgetter("size_group")) for each in base.run.thresholds)
    scaled = ((each.name, each.points, attrgetter("scaling")) for each in base.run.scalings)
    for name, points, group_of in chain[tuple[str, Sequence[Point | ScalingPoint], Any]](sized, scaled):
        nodeids = [without_number(point.nodeid) for point in points]
        ran = list(filter(_had_its_turn, chain.from_iterable(results.get(each, ()) for each in nodeids)))
        if any(map(group_of, ran)):
            continue
        first = base.records.get(points[0].nodeid) if points else None
        if ran or first is None:
            yield Absent(name=name, metric=None, cause="gone", reason=None)
        elif not any(each in answered or _is_cut_off(results.get(each, ())) for each in nodeids):
            yield Absent(name=name, metric=None, cause=cause(nodeids[0], first), reason=None)


def _had_its_turn(record: Record) -> bool:
    return not (record.is_deselected or record.is_cut_off)


def _is_cut_off(results: Iterable[Record]) -> bool:
    return any(each.is_cut_off for each in results)
