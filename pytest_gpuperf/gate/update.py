"""From a baseline and the reports of later runs to the next baseline, or to what has to be accepted first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isclose

from msgspec.structs import replace

from pytest_gpuperf.analysis import looks, scaling, threshold
from pytest_gpuperf.gate import fingerprint, regression, text
from pytest_gpuperf.gate.baseline import Comparer, comparison_of, not_measured
from pytest_gpuperf.gate.metric_values import TIMES, estimate_of, has, value_of
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Comparison, GateOptions, Tolerance
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.metrics import TABLE, Metric
from pytest_gpuperf.model.record import Record, Report, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The next baseline, None where it would be the same, and sentences.

    `counts` says how many tests changed, `values` which values were replaced or kept. The `regressions` have
    to be accepted first, and a `refusal` is why the runs cannot be in one baseline.
    """

    run: Run | None
    counts: str
    values: tuple[str, ...]
    regressions: tuple[str, ...]
    refusal: str | None


def plan(baseline: Report | None, reports: Sequence[Report], *, accept: bool, prune: bool) -> Update:
    """Return the update of a baseline with reports in the order of their runs.

    A record replaces the baseline's unless one of its values is worse, however little: many small losses
    would add up to one that no check has seen. A record that was measured for less time, and so shows only
    larger losses, is never the better one. With `accept` a record replaces better ones, too. Raises
    GpuPerfError where nothing was measured, and where an incomplete run would look complete.
    """
    _require_whole(baseline, reports, prune=prune)
    known = baseline.records if baseline else {}
    measured = _latest(reports, known)
    if not measured:
        raise GpuPerfError("the reports measured nothing that a later run could be compared with")
    environments = [report.run.environment for report in reports]
    unlike = fingerprint.run_differences(*([baseline.run.environment] if baseline else []), *environments)
    decisions = [
        _decide(known.get(now.nodeid), now, comparisons, accept=accept, is_alike=not unlike)
        for now, comparisons in (_compared(baseline, reports, measured, prune=prune) if baseline else ())
    ]
    kept = {decision.nodeid for decision in decisions if decision.kept_for}
    taken = {nodeid: record for nodeid, record in measured.items() if nodeid not in kept}
    stay = {  # with prune a marker that is gone is gone
        nodeid: replace(record, size_group=measured[nodeid].size_group) if prune else record
        for nodeid, record in known.items()
        if nodeid in kept or not (prune or nodeid in measured)
    }
    after = stay | taken
    gone = [nodeid for nodeid in known if nodeid not in after]
    new = len(taken.keys() - known.keys())
    counts = f"{units.count(len(taken) - new, 'test')} updated, {new} new, {len(stay)} kept as before"
    if kept:
        counts += f" ({len(kept)} for better values)"
    if gone:
        counts += f", {len(gone)} removed: {units.first_few(gone)}"
    if not any(map(_is_measured, stay.values())):
        unlike = fingerprint.run_differences(*environments)
    remedy = "a folder holds a baseline of each machine, and --prune removes what no report measured"
    records = [after[nodeid] for nodeid in {**known, **taken} if nodeid in after]
    return Update(
        run=_next(reports[-1].run, records) if taken or stay != known else None,
        counts=counts,
        values=tuple(value for decision in decisions for value in decision.values()),
        regressions=tuple(loss for decision in decisions for loss in decision.regressions()),
        refusal=f"runs differ: {'; '.join(unlike)}; {remedy}" if unlike else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """What becomes of a test that was measured anew: its record takes the place of the baseline's, or not.

    Of its `worse` values later runs would be held to less. The baseline's record stays for those that it is
    `kept_for`, if any.
    """

    nodeid: str
    comparisons: Sequence[Comparison]
    worse: Sequence[Comparison]
    kept_for: Sequence[Comparison]

    def values(self) -> Iterator[str]:
        """Return which values were replaced, or are kept."""
        change = "kept instead of" if self.kept_for else "replaced by"
        changed = self.kept_for or self.comparisons
        return filter(None, (_change(self.nodeid, change, each) for each in changed))

    def regressions(self) -> Iterator[str]:
        """Return which losses have to be accepted first."""
        return filter(None, (_regression(self.nodeid, each) for each in self.worse))


def _decide(
    before: Record | None, now: Record, comparisons: Sequence[Comparison], *, accept: bool, is_alike: bool
) -> _Decision:
    """Return whether the baseline's record of a test stays, and for which of its values."""
    worse = [] if accept else [each for each in comparisons if _is_worse(each)]
    # What was measured in other conditions than later runs is no use to them, however good it is.
    is_of_use = is_alike and all(each.outcome != "not_comparable" for each in comparisons)
    kept_for = [each for each in worse if is_of_use and not _shows_less(before, now, each.metric)]
    return _Decision(nodeid=now.nodeid, comparisons=comparisons, worse=worse, kept_for=kept_for)


def _require_whole(baseline: Report | None, reports: Sequence[Report], *, prune: bool) -> None:
    """Raise GpuPerfError where a run would remove what it only did not measure, or look complete."""
    early = next((report.name for report in reports if not report.run.complete), None)
    if early and (baseline is None or prune):
        cause = "its run ended early, and the baseline would look complete"
        remedy = "leave out --prune" if baseline else "update an existing baseline"
        raise GpuPerfError(f"{early} is incomplete: {cause}; run it again to its end, or {remedy}")
    if prune and (partial := next(filter(None, map(_left_out, reports)), None)):
        whole = "run the whole suite (pytest without a path, -k or -m), and repeat this with its report"
        cause = "--prune would remove tests that only did not run"
        raise GpuPerfError(f"{partial}: {cause}; {whole}, or leave out --prune")


def _left_out(report: Report) -> str | None:
    """Return that a run left tests out, on the command line or by configuration; None for a whole one."""
    if report.run.narrowed_by:
        return f"{report.name} is of a part of the suite ({', '.join(report.run.narrowed_by)})"
    deselected = [record.nodeid for record in report.run.records if record.is_deselected]
    return f"{report.name} is of a run that deselected {units.first_few(deselected)}" if deselected else None


def _latest(reports: Iterable[Report], known: Mapping[str, Record]) -> dict[str, Record]:
    """Return the latest measured record of each test; one device's times replace no speedup."""
    # A run with -k, or without a GPU, must not replace what a whole run has measured.
    latest: dict[str, Record] = {}
    for record in (record for report in reports for record in report.run.records):
        before = latest.get(record.nodeid) or known.get(record.nodeid)
        of_cpu = before is not None and has(before, "cpu_time") and has(record, "cpu_time")
        if _has_ratio(record) or ((of_cpu or _is_measured(record)) and not _has_ratio(before)):
            latest[record.nodeid] = record
    return latest


def _is_measured(record: Record | None) -> bool:
    """Return whether a record has a valid speedup or efficiency, or the times of what it ran on alone."""
    if record is None or record.status == "skipped":
        return False
    alone = record.pairing is not None and record.pairing.partner is None
    alone = alone or (record.scaling is not None and record.scaling.is_base)
    return _has_ratio(record) or (alone and any(has(record, each) for each in TIMES))


def _has_ratio(record: Record | None) -> bool:
    """Return whether a record has a valid speedup or parallel efficiency."""
    return record is not None and (has(record, "speedup") or has(record, "efficiency"))


def _compared(
    baseline: Report, reports: Iterable[Report], measured: Mapping[str, Record], *, prune: bool
) -> Iterator[tuple[Record, list[Comparison]]]:
    """Yield how each measured record compares with the baseline, by the tolerances of its run's own check.

    Speedups and efficiencies are always compared: whatever a check is about, they must not get lost unseen.
    What the baseline has and a record has not any more is compared with nothing, unless it is pruned.
    """
    for report in reports:
        own = report.run.gate.tolerances if report.run.gate else ()
        named = {tolerance.metric for tolerance in own}
        tolerances = (*own, *(each for each in GateOptions().compared if each.metric not in named))
        comparer = Comparer(baseline=baseline, environment=report.run.environment)
        for record in (each for each in report.run.records if measured.get(each.nodeid) is each):
            found = [*comparer.compare(record, tolerances)]
            before = None if prune else baseline.record_of(record)
            if before is not None:
                lost = {each.metric for each in not_measured(before, record, tolerances)}
                for each in tolerances:
                    if each.metric in lost:
                        was, cause = estimate_of(before, each.metric), "it is not measured any more"
                        found.append(comparison_of(each, "inconclusive", cause, baseline=was))
            yield record, found


def _is_worse(comparison: Comparison) -> bool:
    """Return whether later runs would be held to less: to a lower end of the range, or to nothing."""
    before, now = comparison.baseline, comparison.found
    if before is None or now is None:
        return before is not None
    less, more = now.lower, before.lower
    if TABLE[comparison.metric].worse == "more":
        less, more = before.upper, now.upper
    return less < more and not isclose(less, more)


def _shows_less(before: Record | None, now: Record, metric: Metric) -> bool:
    """Return whether the earlier record was measured for so much less that it shows only larger losses.

    Few rounds are often narrower than they should be.
    """
    found = [value_of(each, metric) if each else None for each in (before, now)]
    factors = [looks.of_pair(each.length, looks.LONGEST).misses for each in found if each and each.length]
    if len(factors) < len(found):
        return False
    of_before, of_now = (inf if each is None else each for each in factors)
    return of_before > of_now


def _regression(nodeid: str, comparison: Comparison) -> str | None:
    """Return what got worse, or may have in other conditions, for which no check would say it."""
    before, now = comparison.baseline, comparison.found
    if comparison.outcome == "regressed":
        return f"{nodeid}: {comparison.reason}"
    if comparison.outcome != "not_comparable" or before is None or now is None:
        return None
    tolerance = Tolerance(metric=comparison.metric, share=comparison.tolerance)
    outcome = regression.compare_ranges(before, now, looks.EXACT, tolerance)
    if outcome == "not_regressed":
        return None
    return f"{nodeid}: {text.describe(before, now, tolerance, outcome)}; {comparison.reason}"


def _change(nodeid: str, change: str, comparison: Comparison) -> str | None:
    """Return the old and the new value of a metric, and which of them stays; None where they read alike."""
    both = (comparison.baseline, comparison.found)
    was, now = (text.format_metric(comparison.metric, each) if each else "none" for each in both)
    return f"{nodeid}: {TABLE[comparison.metric].words} {was} {change} {now}" if was != now else None


def _next(heading: Run, records: Iterable[Record]) -> Run:
    """Return the baseline of these records, which no check has compared with an earlier one."""
    records = tuple(replace(record, comparisons=()) for record in records)
    thresholds, scalings = threshold.find(records), scaling.curves(records)
    found = replace(heading, records=records, thresholds=thresholds, scalings=scalings)
    return replace(found, gate=None, complete=True)
