"""From the newest reports of a folder to each metric's range over runs, and a later run compared with it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import inf
from statistics import median

from msgspec.structs import replace as changed

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.gate import metric_values, regression, remedy, text
from pytest_gpuperf.gate.baseline import Comparer, comparison_of
from pytest_gpuperf.gate.metric_values import MetricValue
from pytest_gpuperf.gate.remedy import Matched
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Comparison, Tolerance
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.metrics import Metric
from pytest_gpuperf.model.record import Record, Report

RUNS = 6
"""Runs that make a range. One more run of the same code lies below it once in seven times."""
_FEWEST = 3  # rounds of a later run that are weighed by the range over runs alone
APART = timedelta(minutes=10)
"""The least time between the starts of two runs: no single disturbance must affect all of them."""


def newest(reports: Iterable[Report]) -> Sequence[Report]:
    """Return the six newest that were made at different times, of reports that are sorted by that.

    Those that began soon after one another count once, as the newest of them. Of fewer there are none.
    """
    chosen: list[Report] = []
    for report in reports:
        if not chosen or chosen[-1].run.start - report.run.start >= APART:
            chosen.append(report)
    return chosen[:RUNS] if len(chosen) >= RUNS else ()


def range_over(records: Iterable[Record], metric: Metric) -> Estimate | None:
    """Return the range of a metric over the runs of these records, around the median of their values.

    None unless six of them have one that is neither open nor doubted. A record that is in several reports, as
    an updated baseline keeps it, is of one run.
    """
    distinct: list[Record] = []
    for record in records:
        if not any(record.cpu == each.cpu and record.gpu == each.gpu for each in distinct):
            distinct.append(record)
    found = [metric_values.value_of(record, metric) for record in distinct]
    known = [each.estimate for each in found if each is not None and each.doubt is None]
    known = [each for each in known if each.lower > 0 and each.upper < inf]
    if len(known) < RUNS:
        return None
    return Estimate(
        value=median(each.value for each in known),
        low=min(each.lower for each in known),
        high=max(each.upper for each in known),
    )


def widened(over: Estimate) -> tuple[Estimate, float]:
    """Return a range over runs as wide as a run that is sampled for long must lie beyond.

    With it is by how much farther it must lie to fail.
    """
    look, alone = looks.of_runs(regression.width(over)), looks.of_runs(1.0)
    kept, failed = look.meets / alone.meets, (look.misses or 1.0) / (alone.misses or 1.0)
    return changed(over, low=over.lower / kept, high=over.upper * kept), failed / kept


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsComparer(Comparer):
    """Compares tests with the range over `earlier` runs, of which the `baseline` is the newest.

    A test that some of them did not measure, or did in other conditions, is compared with the newest alone.
    """

    earlier: Sequence[Comparer]

    def compare_metric(self, now: Record, tolerance: Tolerance) -> Comparison:
        """Return how one metric of a test compares with the range over runs."""
        metric = tolerance.metric
        value, over = metric_values.value_of(now, metric), range_over(self._comparable(now, metric), metric)
        if value is None or over is None:
            return Comparer.compare_metric(self, now, tolerance)
        return self.with_clocks(_compare(_matched(now, over, value), tolerance), now)

    def would_decide(self, now: Record, tolerance: Tolerance) -> str | None:
        """Return what would decide an inconclusive metric beside these runs, or the newest alone."""
        metric = tolerance.metric
        value, over = metric_values.value_of(now, metric), range_over(self._comparable(now, metric), metric)
        if value is None or over is None:
            return Comparer.would_decide(self, now, tolerance)
        return value.doubt or remedy.of(_matched(now, over, value), tolerance)

    def _comparable(self, now: Record, metric: Metric) -> Iterator[Record]:
        for each in self.earlier:
            before = each.baseline.record_of(now)
            if before is not None and not each.differences(now, before, metric):
                yield before


def _matched(now: Record, over: Estimate, value: MetricValue) -> Matched:
    """Return the range over runs beside a later run, at the look that their width leaves."""
    alone = looks.EXACT if value.look == looks.EXACT else looks.SHARPEST
    length = None  # which does not matter
    if value.length is not None and value.length.rounds < _FEWEST:  # they may both be unlucky
        alone, length = value.look, value.length
    look = looks.of_runs(regression.width(over), alone)
    before, later = MetricValue(estimate=over, look=looks.EXACT), replace(value, look=look, length=length)
    return Matched(nodeid=now.nodeid, before=before, now=later, of_runs=True)


def _compare(values: Matched, tolerance: Tolerance) -> Comparison:
    """Return what follows from the numbers; a GPU that is slowed down now does not decide a loss."""
    over, now = values.before.estimate, values.now
    found, look = now.estimate, now.look
    outcome = regression.compare_ranges(over, found, look, tolerance)
    doubt = now.doubt if outcome in ("regressed", "inconclusive") else None
    if doubt is not None:
        outcome = "inconclusive"
    reason: str | None = None
    if outcome != "not_regressed":
        told = f"over {units.count(RUNS, 'earlier run')}"
        widened = now.widened if outcome == "inconclusive" else None
        reason = text.describe(over, found, tolerance, outcome, over=told, widened=widened)
    if outcome == "inconclusive":
        reason = f"{reason}; {doubt or remedy.of(values, tolerance)}"
    known = {"baseline": over, "found": found, "ratio": regression.ratio(over, found)}
    return comparison_of(tolerance, outcome, reason, **known, visible=values.visible(tolerance))
