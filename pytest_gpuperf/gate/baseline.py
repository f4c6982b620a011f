"""An earlier run, matched with a later one: what is compared, and what the later one does not have."""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from pytest_gpuperf.gate import fingerprint, metric_values, regression, remedy, text
from pytest_gpuperf.gate.fingerprint import Conditions
from pytest_gpuperf.gate.metric_values import MetricValue
from pytest_gpuperf.gate.remedy import Matched, Plan
from pytest_gpuperf.gate.what_fails import Rules
from pytest_gpuperf.model.comparison import AbsenceCause, Absent, Comparison, Outcome, Tolerance
from pytest_gpuperf.model.demand import KINDS, Kind
from pytest_gpuperf.model.metrics import TABLE, Metric
from pytest_gpuperf.model.nodeid import without_number
from pytest_gpuperf.model.offload import Point
from pytest_gpuperf.model.record import Environment, Record, Report, Run
from pytest_gpuperf.model.scaling import ScalingPoint

GetCause = Callable[[str, Record], AbsenceCause]
"""Returns why a test did not run, from its node id and its record in the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparer:
    """Compares the results of a run with a baseline; `environment` is the run's.

    `plan` is what it allows a test whose marker says nothing, where that is known.
    """

    baseline: Report
    environment: Environment
    plan: Plan | None = None
    _conditions: dict[tuple[Kind, ...], list[Conditions]] = field(default_factory=dict, init=False)
    """Those of the baseline's devices and of the run's, which all tests share: there may be 10,000."""

    def compare(self, now: Record, tolerances: Iterable[Tolerance]) -> tuple[Comparison, ...]:
        """Return how each metric of a test compares with its baseline."""
        compared = (each for each in tolerances if metric_values.is_held(now, each.metric))
        return tuple(self.compare_metric(now, tolerance) for tolerance in compared)

    def compare_metric(self, now: Record, tolerance: Tolerance) -> Comparison:
        """Return how one metric of a test compares with its baseline."""
        metric, name = tolerance.metric, self.baseline.name
        value = metric_values.value_of(now, metric)
        before = self.baseline.record_of(now)
        earlier = metric_values.value_of(before, metric) if before else None
        if before is None or earlier is None or value is None:
            missing = "does not have this test"
            if before is not None:
                cause = f" ({before.status}: {before.reason})" if before.reason else ""
                missing = f"has no {TABLE[metric].words} of this test{cause}"
            return comparison_of(tolerance, "new", f"nothing to compare with: the baseline {name} {missing}")
        if differences := self.differences(now, before, metric):
            reason = f"not comparable with the baseline {name}: {'; '.join(differences)}"
            found = {"baseline": earlier.estimate, "found": value.estimate, "differences": differences}
            return comparison_of(tolerance, "not_comparable", reason, **found)
        return self.with_clocks(self.compare_values(self._matched(now, earlier, value), tolerance), now)

    def with_clocks(self, compared: Comparison, now: Record) -> Comparison:
        """Return a comparison whose reason, if it has one, also names other clocks of the GPU."""
        before = self.baseline.record_of(now)
        row = TABLE[compared.metric]
        if before is None or compared.reason is None or row.device == "cpu" or row.unit == "bytes":
            return compared
        clocks = text.other_clocks(before.gpu, now.gpu)
        return replace(compared, reason=f"{compared.reason}; {clocks}") if clocks else compared

    def would_decide(self, now: Record, tolerance: Tolerance) -> str | None:
        """Return what would decide an inconclusive metric of a test; None where its reason alone says it."""
        before, value = self.baseline.record_of(now), metric_values.value_of(now, tolerance.metric)
        earlier = metric_values.value_of(before, tolerance.metric) if before else None
        if earlier is None or value is None:
            return None
        return value.doubt or remedy.of(self._matched(now, earlier, value), tolerance)

    def _matched(self, now: Record, before: MetricValue, value: MetricValue) -> Matched:
        plan = remedy.plan_of(now, self.plan)
        return Matched(nodeid=now.nodeid, before=before, now=value, plan=plan)

    def compare_values(self, values: Matched, tolerance: Tolerance) -> Comparison:
        """Return what follows from the numbers of a test, which can be compared."""
        return _compare_values(values, tolerance)

    def differences(self, now: Record, before: Record, metric: Metric) -> tuple[str, ...]:
        """Return which conditions of a metric differ between the runs."""
        # Of a metric of one device the other may have changed between the runs.
        kinds = (device,) if (device := TABLE[metric].device) else KINDS
        if kinds not in self._conditions:
            runs = self.baseline.run.environment, self.environment
            self._conditions[kinds] = [fingerprint.device_conditions(each, kinds) for each in runs]
        of_baseline, of_run = self._conditions[kinds]
        then = fingerprint.record_conditions(of_baseline, before, kinds)
        later = fingerprint.record_conditions(of_run, now, kinds)
        return fingerprint.differences(then, later, fingerprint.OF_BASELINE)


def _compare_values(values: Matched, tolerance: Tolerance) -> Comparison:
    """Return what follows from the numbers; a GPU that was slowed down, now or then, does not decide.

    It may have been better than it was measured: now, so that nothing got worse, or then, so that it did.
    """
    before, now = values.before, values.now
    earlier, later, (look, luck) = before.estimate, now.estimate, metric_values.factors(before, now)
    outcome = regression.compare_ranges(earlier, later, look, tolerance, luck=luck)
    doubt = now.doubt if outcome in ("regressed", "inconclusive") else None
    if doubt is None and before.doubt is not None and outcome != "regressed":
        doubt = f"when the baseline was made {before.doubt}"
    if doubt is not None:
        outcome = "inconclusive"
    reason: str | None = None
    if outcome == "inconclusive":
        would_decide = doubt or remedy.of(values, tolerance)
        numbers = text.describe(earlier, later, tolerance, outcome, widened=now.widened)
        reason = f"{numbers}; {would_decide}"
    elif outcome != "not_regressed":
        reason = text.describe(earlier, later, tolerance, outcome)
    found = {"baseline": earlier, "found": later, "ratio": regression.ratio(earlier, later)}
    # What was decided early would have been sampled on for a loss that is nearer to the tolerance.
    seen = (values if outcome == "inconclusive" else values.in_its_time()).visible(tolerance)
    return comparison_of(tolerance, outcome, reason, **found, visible=seen)


def has_same_conditions(baseline: Report, environment: Environment) -> bool:
    """Return whether a baseline was made in such an environment, with a GPU where there is one."""
    before = baseline.run.environment
    lacks_gpu = environment.gpu is not None and before.gpu is None
    return not lacks_gpu and not fingerprint.run_differences(before, environment)


def comparable_tests(run: Run, tolerances: Sequence[Tolerance]) -> list[str]:
    """Return the node ids of the tests that have something to compare with."""
    return [record.nodeid for record in run.records if is_comparable(record, tolerances)]


def is_comparable(record: Record, tolerances: Iterable[Tolerance]) -> bool:
    """Return whether a record has any of the metrics that later runs are compared with."""
    return any(metric_values.is_held(record, tolerance.metric) for tolerance in tolerances)


def comparison_of(tolerance: Tolerance, outcome: Outcome, reason: str | None, **values: Any) -> Comparison:
    """Return the comparison by a tolerance; `values` are its other fields."""
    return Comparison(
        metric=tolerance.metric, tolerance=tolerance.share, outcome=outcome, reason=reason, **values
    )


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
            before = next((each for each in records if metric_values.is_held(each, tolerance.metric)), None)
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
        if not may_lack_it and metric_values.is_held(before, metric) and not metric_values.has(now, metric):
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
    reason = f"this run has no {TABLE[metric].words} of it, as the baseline has{told}"
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
