"""From the reports of pairs of processes, base and head, to what changed between the two."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log
from statistics import median
from typing import NamedTuple

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.gate import fingerprint, metric_values, regression, text
from pytest_gpuperf.gate.baseline import Comparer, comparison_of
from pytest_gpuperf.gate.remedy import Matched
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Comparison, GateNote, Outcome, Tolerance
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.metrics import METRICS, TABLE, Metric
from pytest_gpuperf.model.record import Record, Report

FEW, MANY = 6, 12
"""Pairs at which there is a look: by chance all 6 are on one side once in 64, and 11 of 12 once in 315."""
DEFAULT = tuple(Tolerance(metric=each, share=0.05) for each in METRICS if TABLE[each].device)
"""What must not get worse, where no option says it: what each device takes."""
_SAME = Estimate(value=1.0, low=1.0, high=1.0)
_LEAST_SHOWN = 1e-4
_STEP = 0.954  # the median distance of two values of a normal distribution, in its standard deviations


class Pair(NamedTuple):
    """The reports of two processes, one after the other, each with a fresh start."""

    base: Report
    head: Report


class _Values(NamedTuple):
    """A metric in one process: the value that nothing has added to, and the middle one."""

    best: float
    middle: float


def pairs_of(base: Sequence[Report], head: Sequence[Report]) -> list[Pair]:
    """Return pairs of the reports of two folders; raise GpuPerfError unless they are of as many processes.

    Those of one folder were measured in the same conditions: a change between two machines is no one's.
    """
    if len(base) != len(head) or len(base) < FEW:
        raise GpuPerfError(
            f"BASE has {units.count(len(base), 'report')} and NEW has {len(head)}; to compare folders, each "
            f"needs as many as the other, and {FEW} or more, one of each process"
        )
    for side in (base, head):
        for report in side[1:]:
            first, other = side[0].run.environment, report.run.environment
            if differences := fingerprint.run_differences(first, other):
                raise GpuPerfError(
                    f"{report.name} and {side[0].name} were not measured in the same conditions: "
                    f"{'; '.join(differences)}; measure all processes on one machine"
                )
    return [Pair(*pair) for pair in zip(base, head, strict=True)]


def bracket(ratios: Sequence[float]) -> Estimate:
    """Return the median ratio with the range of all, from `MANY` on without the least and the greatest.

    The sign test's interval of the median, which rests on no form of the noise (Conover, Practical
    Nonparametric Statistics, 3.2).
    """
    ordered = sorted(ratios)
    out = 1 if len(ordered) >= MANY else 0
    return Estimate(value=median(ordered), low=ordered[out], high=ordered[-1 - out])


@dataclass(frozen=True, slots=True, kw_only=True)
class PairComparer(Comparer):
    """Compares the tests of head with those of base over `pairs`; the `baseline` is base's first report."""

    pairs: Sequence[Pair]

    def compare(self, now: Record, tolerances: Iterable[Tolerance]) -> tuple[Comparison, ...]:
        """Return how each metric of a test, which head's first process has, compares with base's."""
        found = Comparer.compare(self, now, tolerances)
        is_new = bool(found) and all(each.outcome == "new" for each in found)
        return found[:1] if is_new else found  # of the test: it need not be said of each metric

    def compare_metric(self, now: Record, tolerance: Tolerance) -> Comparison:
        """Compare by the first pair that has the metric on both sides: one process may have failed."""
        metric = tolerance.metric
        of_both = zip(*(self._values(now.nodeid, metric, side) for side in (0, 1)), strict=True)
        # Where no pair has it on both sides, the first one says why.
        place = next((place for place, values in enumerate(of_both) if all(values)), 0)
        if place == 0:
            return Comparer.compare_metric(self, now, tolerance)
        base, head = self.pairs[place]
        known = replace(self, baseline=Report(name=self.baseline.name, run=base.run))
        return Comparer.compare_metric(known, head.records[now.nodeid], tolerance)

    def compare_values(self, values: Matched, tolerance: Tolerance) -> Comparison:
        """Return what follows from the values of all processes, of which these are the first two's."""
        of_base, of_head = (self._values(values.nodeid, tolerance.metric, side) for side in (0, 1))
        known = [(base, head) for base, head in zip(of_base, of_head, strict=True) if base and head]
        if not known:  # memory of 0 bytes, which has no ratio and no noise
            return Comparer.compare_values(self, values, tolerance)
        base, head = (_over_processes(side) for side in zip(*known, strict=True))
        best = bracket([head.best / base.best for base, head in known])
        outcome = outcome_of(best, bracket([head.middle / base.middle for base, head in known]), tolerance)
        if len(known) < FEW:
            outcome = "inconclusive"
        reason = None
        if outcome != "not_regressed":
            over = f"over {units.count(len(known), 'pair')} of processes"
            reason = text.describe(base, head, tolerance, outcome, ratio=best, over=over)
        if outcome == "inconclusive":
            reason = f"{reason}; {text.FEW_PAIRS if len(known) < FEW else text.MORE_PAIRS}"
        seen = regression.visible(_SAME, best, looks.EXACT, tolerance)
        return comparison_of(tolerance, outcome, reason, baseline=base, found=head, ratio=best, visible=seen)

    def _values(self, nodeid: str, metric: Metric, side: int) -> list[_Values | None]:
        return [_values_of(pair[side].records.get(nodeid), metric) for pair in self.pairs]

    def notes(self, compared: Iterable[Record]) -> Iterator[GateNote]:
        """Yield by how much the processes of one side differ, if any were compared."""
        known = [(record.nodeid, each) for record in compared for each in record.comparisons if each.ratio]
        found = [
            (moves, name)
            for name, each in known
            if TABLE[each.metric].unit != "bytes"  # of memory there is no noise
            and (moves := self._spread(name, each.metric)) is not None
        ]
        if found:
            usual, (most, name) = median(moves for moves, _ in found), max(found)
            told = f"from process to process the values of a test differ by {_digits(usual)} (median)"
            most_of = f", and by {_digits(most)} ({name})" if most >= _LEAST_SHOWN else ""
            yield GateNote(code="processes_differ", text=f"{told}{most_of}")

    def _spread(self, nodeid: str, metric: Metric) -> float | None:
        """Return the standard deviation of a metric from process to process, as a share; None for too few.

        It rests on the distances between consecutive processes of one side: a slow drift adds little to them.
        """
        steps: list[float] = []
        for side in (0, 1):
            logs = [log(values.best) for values in self._values(nodeid, metric, side) if values]
            steps += [abs(one - other) for one, other in pairwise(logs)]
        return exp(median(steps) / _STEP) - 1 if steps else None


def outcome_of(best: Estimate, middle: Estimate, tolerance: Tolerance) -> Outcome:
    """Return whether a metric got worse; that it did not must hold for the middle values, too.

    The fastest block of a process may miss what slows down every second call.
    """
    outcome = regression.compare_ranges(_SAME, best, looks.EXACT, tolerance)
    of_middle = regression.compare_ranges(_SAME, middle, looks.EXACT, tolerance)
    if outcome == "not_regressed" and of_middle not in ("not_regressed", "improved"):
        return "inconclusive"
    return outcome


def _values_of(record: Record | None, metric: Metric) -> _Values | None:
    """Return a metric of one process; of a time its fastest block, to which no neighbour has added."""
    if record is None or not metric_values.is_held(record, metric):
        return None
    if metric in metric_values.TIMES:
        samples = metric_values.samples_of(record, metric)
        return _Values(min(samples), median(samples))
    found = metric_values.estimate_of(record, metric)
    return None if found is None or found.value <= 0 else _Values(found.value, found.value)


def _digits(share: float) -> str:
    """Return a share in percent with the digits that it is known to."""
    return (
        units.percent(float(f"{share:.2g}"))
        if share >= _LEAST_SHOWN
        else f"less than {units.percent(_LEAST_SHOWN)}"
    )


def _over_processes(values: Sequence[_Values]) -> Estimate:
    best = [each.best for each in values]
    return Estimate(value=median(best), low=min(best), high=max(best))
