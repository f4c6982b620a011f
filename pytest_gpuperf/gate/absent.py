"""From a baseline and a run to what the baseline holds and the run does not have."""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from pytest_gpuperf.gate import metrics, text
from pytest_gpuperf.gate.what_fails import Rules
from pytest_gpuperf.model.comparison import AbsenceCause, Absent, Comparison, Metric, Tolerance
from pytest_gpuperf.model.nodeid import without_number
from pytest_gpuperf.model.offload import Point
from pytest_gpuperf.model.record import Record, Report, Run
from pytest_gpuperf.model.scaling import ScalingPoint

GetCause = Callable[[str, Record], AbsenceCause]
"""Returns why a test did not run, from its node id and its record in the baseline."""


def absences(
    base: Report, run: Run, tolerances: Sequence[Tolerance], cause: GetCause, rules: Rules
) -> Iterator[Absent]:
    """Yield each metric of a test, and each group, that the baseline holds and the run does not have.

    Every result of a test that ran several times is asked.
    """
    results = _by_test(run.records)
    answered: set[str] = set()
    for nodeid, records in _by_test(base.run.records).items():
        for tolerance in tolerances:
            before = next((each for each in records if metrics.is_held(each, tolerance.metric)), None)
            if before is not None:
                answered.add(nodeid)
                metric, found = tolerance.metric, results[nodeid]
                if not any(map(_had_its_turn, found)):
                    why = "ended" if _is_cut_off(found) else cause(nodeid, before)
                    yield Absent(name=nodeid, metric=metric, cause=why, reason=None)
                turns = (_absence(now, metric, rules) for now in found if _had_its_turn(now))
                yield from filter(None, turns)
    yield from _lost_groups(base, results, answered, cause)


def not_measured(before: Record, now: Record, tolerances: Sequence[Tolerance]) -> Iterator[Absent]:
    """Yield the metrics that a test has in the baseline, and not in this run although it ran."""
    for tolerance in tolerances:
        metric = tolerance.metric
        may_lack_it = now.status == "skipped" or now.expected_failure
        if not may_lack_it and metrics.is_held(before, metric) and not metrics.has(now, metric):
            yield _not_measured(now, metric)


def is_excused(now: Record, compared: Comparison, rules: Rules) -> bool:
    """Return whether an outcome that fails does not fail its test, because xfail expects a failure."""
    return now.expected_failure and rules.would_fail(compared.outcome)


def _by_test(records: Iterable[Record]) -> defaultdict[str, list[Record]]:
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[without_number(record.nodeid)].append(record)
    return found


def _absence(now: Record, metric: Metric, rules: Rules) -> Absent | None:
    """Return that a test which ran has not been compared by a metric, or only as xfail expects."""
    found = (each for each in now.comparisons if each.metric == metric and each.outcome != "new")
    compared = next(found, None)
    if compared is not None and not is_excused(now, compared, rules):
        return None
    if now.expected_failure:
        reason = (compared or now).reason
        return Absent(name=now.nodeid, metric=metric, cause="excused", reason=reason)
    if now.status == "skipped":
        return Absent(name=now.nodeid, metric=metric, cause="skipped", reason=now.reason)
    return _not_measured(now, metric)


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
