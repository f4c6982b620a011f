"""An earlier run, matched with a later one and compared: records in, comparisons out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.gate import fingerprint, metrics, regression, text
from pytest_gpuperf.gate.fingerprint import Conditions
from pytest_gpuperf.gate.metrics import MetricValue
from pytest_gpuperf.model.comparison import Comparison, Metric, Outcome, Tolerance
from pytest_gpuperf.model.demand import KINDS, Kind
from pytest_gpuperf.model.record import Environment, Record, Report, Run

# Metrics of one device: the other may have changed between the runs.
_DEVICES: dict[Metric, tuple[Kind, ...]] = {"cpu_time": ("cpu",), "gpu_time": ("gpu",), "memory": ("gpu",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparer:
    """Compares the results of a run with a baseline; `environment` is the run's."""

    baseline: Report
    environment: Environment
    _conditions: dict[tuple[Kind, ...], list[Conditions]] = field(default_factory=dict, init=False)
    """Those of the baseline's devices and of the run's, which all tests share: there may be 10,000."""

    def compare(self, now: Record, tolerances: Iterable[Tolerance]) -> tuple[Comparison, ...]:
        """Return how each metric of a test compares with its baseline."""
        compared = (each for each in tolerances if metrics.is_held(now, each.metric))
        return tuple(self._compare_metric(now, tolerance) for tolerance in compared)

    def _compare_metric(self, now: Record, tolerance: Tolerance) -> Comparison:
        metric, name = tolerance.metric, self.baseline.name
        value = metrics.value_of(now, metric)
        before = self.baseline.record_of(now)
        earlier = metrics.value_of(before, metric) if before else None
        if before is None or earlier is None or value is None:
            missing = "does not have this test"
            if before is not None:
                cause = f" ({before.status}: {before.reason})" if before.reason else ""
                missing = f"has no {text.METRIC_NAMES[metric]} of this test{cause}"
            return comparison_of(tolerance, "new", f"nothing to compare with: the baseline {name} {missing}")
        if differences := self._differences(now, before, metric):
            reason = f"not comparable with the baseline {name}: {'; '.join(differences)}"
            values = {"baseline": earlier.estimate, "found": value.estimate, "differences": differences}
            return comparison_of(tolerance, "not_comparable", reason, **values)
        return _compare_values(earlier, value, tolerance)

    def _differences(self, now: Record, before: Record, metric: Metric) -> tuple[str, ...]:
        """Return which conditions of a metric differ between the runs."""
        kinds = _DEVICES.get(metric, KINDS)
        if kinds not in self._conditions:
            runs = self.baseline.run.environment, self.environment
            self._conditions[kinds] = [fingerprint.device_conditions(each, kinds) for each in runs]
        of_baseline, of_run = self._conditions[kinds]
        then = fingerprint.record_conditions(of_baseline, before, kinds)
        later = fingerprint.record_conditions(of_run, now, kinds)
        return fingerprint.differences(then, later, fingerprint.OF_BASELINE)


def _compare_values(before: MetricValue, now: MetricValue, tolerance: Tolerance) -> Comparison:
    """Return what follows from the numbers; a GPU that was slowed down, now or then, does not decide.

    It may have been better than it was measured: now, so that nothing got worse, or then, so that it did.
    """
    earlier, later = before.estimate, now.estimate
    outcome = regression.compare_ranges(earlier, later, now.look, tolerance, luck=before.look.meets)
    doubt = now.doubt if outcome in ("regressed", "inconclusive") else None
    if doubt is None and before.doubt is not None and outcome != "regressed":
        doubt = f"when the baseline was made {before.doubt}"
    if doubt is not None:
        outcome = "inconclusive"
    reason: str | None = None
    if outcome == "inconclusive":
        # Whichever is wider, with its factor, has to be narrower.
        then, since = (regression.width(each.estimate) * each.look.meets for each in (before, now))
        remedy = text.NEW_BASELINE if then > since else text.MORE_TIME
        if max(then, since) <= looks.SHARPEST.meets**2:  # as narrow as seven seconds make a range
            remedy = text.TOO_NEAR
        numbers = text.describe(earlier, later, tolerance, outcome, widened=now.widened)
        reason = f"{numbers}; {doubt or remedy}"
    elif outcome != "not_regressed":
        reason = text.describe(earlier, later, tolerance, outcome)
    values = {"baseline": earlier, "found": later, "ratio": regression.ratio(earlier, later)}
    return comparison_of(tolerance, outcome, reason, **values)


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
    return any(metrics.is_held(record, tolerance.metric) for tolerance in tolerances)


def comparison_of(tolerance: Tolerance, outcome: Outcome, reason: str | None, **values: Any) -> Comparison:
    """Return the comparison by a tolerance; `values` are its other fields."""
    return Comparison(
        metric=tolerance.metric, tolerance=tolerance.share, outcome=outcome, reason=reason, **values
    )
