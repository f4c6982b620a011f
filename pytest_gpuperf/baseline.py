"""An earlier run, matched with a later one and compared: records in, comparisons out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from pytest_gpuperf import disturbances, fingerprint, regression
from pytest_gpuperf.estimation import estimate
from pytest_gpuperf.model import (
    Comparison,
    DeviceInfo,
    Environment,
    Estimate,
    Kind,
    Measurement,
    Metric,
    Outcome,
    Plan,
    Record,
    Run,
    Speedup,
    Threshold,
    Tolerance,
)

__all__ = ["Baseline", "closest", "compare", "compare_thresholds", "value"]

_SIDES: dict[Metric, tuple[Kind, ...]] = {"cpu": ("cpu",), "gpu": ("gpu",), "memory": ("gpu",)}
_BOTH: tuple[Kind, ...] = ("cpu", "gpu")
_LONGER = "more time (max_time) or a quieter machine would decide it"
_ANEW = "a baseline that was measured longer would decide it: make it anew with --gpuperf-fail-on"


class Baseline:
    """A run that a later one is compared with; `name` is its file's."""

    def __init__(self, name: str, run: Run) -> None:
        self.name = name
        self.run = run

    @cached_property
    def records(self) -> dict[str, Record]:
        """The records by node id."""
        return {record.nodeid: record for record in self.run.records}

    @cached_property
    def thresholds(self) -> dict[str, Threshold]:
        """The thresholds by name."""
        return {threshold.name: threshold for threshold in self.run.thresholds}

    def tests(self, tolerances: Iterable[Tolerance]) -> list[str]:
        """Return the node ids of the tests that have something to compare with."""
        metrics = [tolerance.metric for tolerance in tolerances]
        families = {record.nodeid for record in self.run.records if record.family and record.speedup}
        return [
            record.nodeid
            for record in self.run.records
            if any(value(record, metric) for metric in metrics if metric != "threshold")
            or ("threshold" in metrics and record.nodeid in families)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A metric of a record, and why it decides less than its interval says."""

    estimate: Estimate
    doubt: str | None = None


def compare(
    now: Record, surveyed: Environment, base: Baseline, tolerances: Iterable[Tolerance]
) -> tuple[Comparison, ...]:
    """Return how each metric of a test stands beside its baseline; thresholds are not one test's."""
    elsewhere = {"threshold"}
    if now.pairing is not None and now.pairing.side == "gpu" and now.pairing.partner is not None:
        elsewhere.add("cpu")  # its CPU sibling's own
    asked = [tolerance for tolerance in tolerances if tolerance.metric not in elsewhere]
    before = base.records.get(now.nodeid)
    return tuple(
        found for tolerance in asked if (found := _comparison(now, surveyed, before, base, tolerance))
    )


def compare_thresholds(
    now: Threshold, records: Sequence[Record], surveyed: Environment, base: Baseline, tolerance: Tolerance
) -> Comparison:
    """Return how a family's threshold stands beside its baseline; `records` are the family's."""
    before = base.thresholds.get(now.name)
    if before is None or before.outcome is None:
        return _new(tolerance, base, "has no threshold of this family")
    if now.outcome is None:
        return _told(tolerance, "cannot_tell", f"the threshold is not known: {now.reason}")
    sizes = tuple(f"{name}: {was}, {new}" for name, was, new in _grids(before, now) if was != new)
    pairs = ((record, base.records.get(record.nodeid)) for record in records)
    differences = [_differences(*pair, surveyed, base, tolerance) for pair in pairs if pair[1]]
    unlike = tuple(dict.fromkeys([*sizes, *(each for several in differences for each in several)]))
    if unlike:
        return _incomparable(tolerance, base, unlike)
    low, high, was_low, was_high = (*_bounds(now), *_bounds(before))
    shown = f"the GPU wins from {_size(high)} on, in the baseline from {_size(was_high)}"
    outcome, reason = _of_bounds((was_low, was_high), (low, high), tolerance)
    return replace(
        _told(tolerance, outcome, f"{reason}: {shown}{_rest(outcome, tolerance)}" if reason else None),
        baseline=_bracket(was_low, was_high),
        found=_bracket(low, high),
    )


def closest(bases: Sequence[Baseline], surveyed: Environment, gpu: DeviceInfo | None) -> Baseline | None:
    """Return the first baseline that was made in the same surroundings, or else the first of all."""
    now = fingerprint.surroundings(surveyed, gpu)
    for base in bases:
        before = base.run.environment
        if not fingerprint.unlike(fingerprint.surroundings(before, before.gpu), now):
            return base
    return next(iter(bases), None)


def value(record: Record, metric: Metric) -> Estimate | None:
    """Return a metric with its interval, in seconds, bytes or as a ratio; None where a record has none."""
    if metric in ("cpu", "gpu"):
        return _time(record.cpu if metric == "cpu" else record.gpu, record.alpha)
    if metric == "memory":
        peak = record.memory.peak if record.memory else None
        return None if peak is None else Estimate(value=peak, low=peak, high=peak)
    found: Speedup | None = record.speedup if metric == "speedup" else getattr(record.offload, metric, None)
    return Estimate(value=found.value, low=found.low, high=found.high) if found else None


def _comparison(
    now: Record, surveyed: Environment, before: Record | None, base: Baseline, tolerance: Tolerance
) -> Comparison | None:
    found = _found(now, tolerance.metric)
    if before is None:
        return _new(tolerance, base, "does not know this test") if found else None
    was = _found(before, tolerance.metric)
    if was is None:
        why = f" ({before.status}: {before.reason})" if before.reason else ""
        return _new(tolerance, base, f"has no {tolerance.metric} of this test{why}") if found else None
    if found is None:
        reason = f"there is no {tolerance.metric} in this run: {now.reason or now.status}"
        return replace(_told(tolerance, "cannot_tell", reason), baseline=was.estimate)
    differences = _differences(now, before, surveyed, base, tolerance)
    if differences:
        return replace(
            _incomparable(tolerance, base, differences), baseline=was.estimate, found=found.estimate
        )
    return _judged(was, found, tolerance)


def _judged(was: _Found, now: _Found, tolerance: Tolerance) -> Comparison:
    """Return what the numbers say; a GPU that was slowed down, now or then, does not decide."""
    outcome = regression.judge(was.estimate, now.estimate, tolerance)
    doubt = now.doubt if outcome == "regressed" else was.doubt if outcome == "improved" else None
    if doubt is not None:
        outcome = "cannot_tell"
    reason = None
    if outcome != "not_regressed":
        reason = regression.words(was.estimate, now.estimate, tolerance, outcome)
    if outcome == "cannot_tell":
        reason = f"{reason}; {doubt or _remedy(was.estimate, now.estimate)}"
    return replace(
        _told(tolerance, outcome, reason),
        baseline=was.estimate,
        found=now.estimate,
        ratio=regression.ratio(was.estimate, now.estimate),
    )


def _found(record: Record, metric: Metric) -> _Found | None:
    """Return a metric, its interval as wide as what disturbed the measurement leaves it."""
    found = value(record, metric)
    if found is None or metric == "memory":
        return _Found(estimate=found) if found else None
    own = 1.0 if metric == "gpu" else _own(record)
    rounds = record.speedup.rounds if record.speedup else 0
    slowed = None
    if metric != "cpu":
        slowed = disturbances.throttled(record.dropped_rounds, record.dropped_rounds + rounds)
    low = None if found.low is None or own <= 0 else found.low * own
    return _Found(estimate=replace(found, low=low), doubt=slowed)


def _own(record: Record) -> float:
    """Return the share of the CPU's time that was surely the workload's own."""
    measured = record.cpu
    if measured is None or not measured.samples:
        return 1.0
    found = disturbances.find(
        measured.samples,
        block_calls=measured.block_calls,
        waited=measured.waited or 0.0,
        fastest=min(measured.samples),
    )
    found = found or disturbances.stated(record.notes)
    return found.own if found else 1.0


def _time(measured: Measurement | None, alpha: float) -> Estimate | None:
    if measured is None or not measured.samples or not all(0 < each < inf for each in measured.samples):
        return None
    found = estimate(measured.samples, Plan(alpha=alpha), "siblings")
    return Estimate(value=found.value, low=found.low, high=found.high) if found else None


def _differences(
    now: Record, before: Record | None, surveyed: Environment, base: Baseline, tolerance: Tolerance
) -> tuple[str, ...]:
    if before is None:
        return ()
    kinds = _SIDES.get(tolerance.metric, _BOTH)
    asked = kinds == _BOTH
    was = fingerprint.conditions(before, base.run.environment, kinds, asked)
    return fingerprint.unlike(was, fingerprint.conditions(now, surveyed, kinds, asked))


def _of_bounds(
    was: tuple[float, float], now: tuple[float, float], tolerance: Tolerance
) -> tuple[Outcome, str | None]:
    """Return what a threshold's bounds say, and its first words; the same bounds are no change."""
    if now[0] > was[1] * (1 + tolerance.share):
        return "regressed", "threshold got worse"
    if now[1] < was[0] * (1 - tolerance.share):
        return "improved", "threshold got better"
    if now == was or now[1] <= was[0] * (1 + tolerance.share):
        return "not_regressed", None
    return "cannot_tell", "threshold in doubt"


def _rest(outcome: Outcome, tolerance: Tolerance) -> str:
    return f"; {_LONGER}" if outcome == "cannot_tell" else f"; {100 * tolerance.share:g} % more is allowed"


def _bounds(threshold: Threshold) -> tuple[float, float]:
    """Return the threshold if every doubt were a win, and if every one were a loss."""
    low = high = inf
    for point in sorted(threshold.curve, key=lambda each: each.size, reverse=True):
        if point.won is False:
            break
        low = point.size
    if threshold.smallest_won is not None:
        high = threshold.smallest_won
    return low, high


def _bracket(low: float, high: float) -> Estimate | None:
    """Return a threshold's bounds as an estimate; None where the GPU never wins."""
    if low == inf:
        return None
    known = high if high < inf else low
    return Estimate(value=known, low=low, high=high if high < inf else None)


def _size(size: float) -> str:
    return f"{size:.16g}" if size < inf else "no size measured"


def _grids(before: Threshold, now: Threshold) -> list[tuple[str, str, str]]:
    sizes = [", ".join(f"{point.size:.16g}" for point in each.curve) for each in (before, now)]
    regimes = [f"{each.regime}{' by latency' if each.by_latency else ''}" for each in (before, now)]
    return [("sizes", f"({sizes[0]})", f"({sizes[1]})"), ("transfer", regimes[0], regimes[1])]


def _remedy(was: Estimate, now: Estimate) -> str:
    return _ANEW if _width(was) > _width(now) else _LONGER


def _width(found: Estimate) -> float:
    return found.high / found.low if found.low and found.high is not None else inf


def _new(tolerance: Tolerance, base: Baseline, what: str) -> Comparison:
    return _told(tolerance, "new", f"nothing to compare with: the baseline {base.name} {what}")


def _incomparable(tolerance: Tolerance, base: Baseline, differences: tuple[str, ...]) -> Comparison:
    reason = f"not comparable with the baseline {base.name}: {'; '.join(differences)}"
    return replace(_told(tolerance, "not_comparable", reason), differences=differences)


def _told(tolerance: Tolerance, outcome: Outcome, reason: str | None) -> Comparison:
    return Comparison(metric=tolerance.metric, tolerance=tolerance.share, outcome=outcome, reason=reason)
