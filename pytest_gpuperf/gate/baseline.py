"""An earlier run, matched with a later one and compared: records in, comparisons out."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf

from pytest_gpuperf.gate import fingerprint, metrics, regression
from pytest_gpuperf.gate.metrics import MetricValue
from pytest_gpuperf.model.comparison import Comparison, Metric, Outcome, Remedy, Tolerance
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.measurement import DeviceInfo, Estimate
from pytest_gpuperf.model.offload import Threshold
from pytest_gpuperf.model.record import Environment, Record, Run

__all__ = ["Baseline", "closest", "compare", "compare_thresholds", "is_alike"]

_SIDES: dict[Metric, tuple[Kind, ...]] = {"cpu": ("cpu",), "gpu": ("gpu",), "memory": ("gpu",)}
_BOTH: tuple[Kind, ...] = ("cpu", "gpu")


class Baseline:
    """A run that a later one is compared with; `name` is its file's."""

    def __init__(self, name: str, run: Run) -> None:
        self.name = name
        self.run = run
        self._tests: dict[tuple[Tolerance, ...], list[str]] = {}
        self._around: dict[tuple[Kind, ...], tuple[Environment, tuple[str, ...]]] = {}

    @cached_property
    def records(self) -> dict[str, Record]:
        """The records by node id."""
        return {record.nodeid: record for record in self.run.records}

    @cached_property
    def thresholds(self) -> dict[str, Threshold]:
        """The thresholds by name."""
        return {threshold.name: threshold for threshold in self.run.thresholds}

    def unlike(self, surveyed: Environment, kinds: tuple[Kind, ...]) -> tuple[str, ...]:
        """Return how an environment differs from the baseline's: the same for all tests, and found once."""
        known = self._around.get(kinds)
        if known is None or known[0] is not surveyed:
            was = fingerprint.environment_conditions(self.run.environment, kinds)
            known = self._around[kinds] = (
                surveyed,
                fingerprint.differences(
                    was, fingerprint.environment_conditions(surveyed, kinds), fingerprint.BASELINE_DIFFERENCE
                ),
            )
        return known[1]

    def tests(self, tolerances: Iterable[Tolerance]) -> list[str]:
        """Return the node ids of the tests that have something to compare with."""
        asked = tuple(tolerances)
        if asked not in self._tests:
            self._tests[asked] = self._with_any(asked)
        return self._tests[asked]

    def _with_any(self, tolerances: Iterable[Tolerance]) -> list[str]:
        asked = [tolerance.metric for tolerance in tolerances]
        families = {record.nodeid for record in self.run.records if record.family and record.speedup}
        return [
            record.nodeid
            for record in self.run.records
            if any(metrics.has(record, metric) for metric in asked if metric != "threshold")
            or ("threshold" in asked and record.nodeid in families)
        ]


def compare(
    now: Record, surveyed: Environment, base: Baseline, tolerances: Iterable[Tolerance], *, gated: bool
) -> tuple[Comparison, ...]:
    """Return how each metric of a test stands beside its baseline; thresholds are not one test's.

    `gated` says that this run was measured for a gate.
    """
    elsewhere = {"threshold"}
    if now.pairing is not None and now.pairing.side == "gpu" and now.pairing.partner is not None:
        elsewhere.add("cpu")  # its CPU sibling's own
    asked = [tolerance for tolerance in tolerances if tolerance.metric not in elsewhere]
    before = base.records.get(now.nodeid)
    return tuple(
        found
        for tolerance in asked
        if (found := _comparison(now, surveyed, before, base, tolerance, gated=gated))
    )


def compare_thresholds(
    now: Threshold,
    records: Sequence[Record],
    surveyed: Environment,
    base: Baseline,
    tolerance: Tolerance,
    *,
    gated: bool,
) -> Comparison:
    """Return how a family's threshold stands beside its baseline; `records` are the family's."""
    before = base.thresholds.get(now.name)
    if before is None or before.outcome is None:
        return _new(tolerance, base, "has no threshold of this family")
    if now.outcome is None:
        return _told(tolerance, "cannot_tell", f"the threshold is not known: {now.reason}")
    grids = ((name, was, new) for name, was, new in _grids(before, now) if was != new)
    sizes = tuple(fingerprint.BASELINE_DIFFERENCE.format(*each) for each in grids)
    pairs = ((record, base.records.get(record.nodeid)) for record in records)
    differences = [_differences(*pair, surveyed, base, tolerance) for pair in pairs]
    unlike = tuple(dict.fromkeys([*sizes, *(each for several in differences for each in several)]))
    if unlike:
        return _incomparable(tolerance, base, unlike)
    low, high, was_low, was_high = (*_bounds(now), *_bounds(before))
    shown = f"the GPU wins {_from(high)}, in the baseline {_from(was_high)}"
    outcome, reason = _of_bounds((was_low, was_high), (low, high), tolerance)
    remedy = regression.longer(gated=gated) if outcome == "cannot_tell" else None
    if reason is not None:
        reason = f"{reason}: {shown}; {_rest(outcome, tolerance, remedy)}"
    return replace(
        _told(tolerance, outcome, reason),
        remedy=remedy,
        baseline=_bracket(was_low, was_high),
        found=_bracket(low, high),
    )


def closest(bases: Sequence[Baseline], surveyed: Environment, gpu: DeviceInfo | None) -> Baseline | None:
    """Return the first baseline that was made in the same surroundings, or else the first of all.

    One that was made without a GPU is none for a run that has one.
    """
    alike = (base for base in bases if is_alike(base, surveyed, gpu))
    return next(alike, next(iter(bases), None))


def is_alike(base: Baseline, surveyed: Environment, gpu: DeviceInfo | None) -> bool:
    """Say whether a baseline was made in such surroundings, with a GPU where there is one."""
    before = base.run.environment
    if gpu is not None and before.gpu is None:
        return False
    was, now = fingerprint.run_conditions(before, before.gpu), fingerprint.run_conditions(surveyed, gpu)
    return not fingerprint.differences(was, now)


def _comparison(
    now: Record,
    surveyed: Environment,
    before: Record | None,
    base: Baseline,
    tolerance: Tolerance,
    *,
    gated: bool,
) -> Comparison | None:
    found, name = metrics.found(now, tolerance.metric), regression.NAMES[tolerance.metric]
    if before is None:
        return _new(tolerance, base, "does not know this test") if found else None
    was = metrics.found(before, tolerance.metric)
    if was is None:
        why = f" ({before.status}: {before.reason})" if before.reason else ""
        return _new(tolerance, base, f"has no {name} of this test{why}") if found else None
    if found is None and now.status == "skipped":
        return None
    if found is None:
        reason = f"there is no {name} in this run: {now.reason or now.status}"
        return replace(_told(tolerance, "cannot_tell", reason), baseline=was.estimate)
    differences = _differences(now, before, surveyed, base, tolerance)
    if differences:
        return replace(
            _incomparable(tolerance, base, differences), baseline=was.estimate, found=found.estimate
        )
    return _judged(was, found, tolerance, gated=gated)


def _judged(was: MetricValue, now: MetricValue, tolerance: Tolerance, *, gated: bool) -> Comparison:
    """Return what the numbers say; a GPU that was slowed down, now or then, does not decide.

    It may have been better than it was measured: now, so that nothing got worse, or then, so that it did.
    """
    outcome = regression.judge(was.estimate, now.estimate, tolerance)
    doubt = now.doubt if outcome in ("regressed", "cannot_tell") else None
    if doubt is None and was.doubt is not None and outcome != "regressed":
        doubt = f"when the baseline was made {was.doubt}"
    if doubt is not None:
        outcome = "cannot_tell"
    reason: str | None = None
    remedy: Remedy | None = None
    if outcome != "not_regressed":
        reason = regression.words(was.estimate, now.estimate, tolerance, outcome)
    if outcome == "cannot_tell":
        wide = f"; it reaches so far down because {now.widened}" if now.widened else ""
        remedy = "cool_gpu" if doubt else regression.remedy(was.estimate, now.estimate, gated=gated)
        reason = f"{reason}{wide}; {doubt or regression.REMEDIES[remedy]}"
    return Comparison(
        metric=tolerance.metric,
        tolerance=tolerance.share,
        outcome=outcome,
        reason=reason,
        remedy=remedy,
        baseline=was.estimate,
        found=now.estimate,
        ratio=regression.ratio(was.estimate, now.estimate),
    )


def _differences(
    now: Record, before: Record | None, surveyed: Environment, base: Baseline, tolerance: Tolerance
) -> tuple[str, ...]:
    if before is None:
        return ()
    kinds = _SIDES.get(tolerance.metric, _BOTH)
    asked = kinds == _BOTH
    around = base.unlike(surveyed, kinds)
    if fingerprint.condition_inputs(before, kinds) == fingerprint.condition_inputs(now, kinds):
        return around
    was = fingerprint.record_conditions(before, kinds, of_speedup=asked)
    here = fingerprint.record_conditions(now, kinds, of_speedup=asked)
    return (*around, *fingerprint.differences(was, here, fingerprint.BASELINE_DIFFERENCE))


def _of_bounds(
    was: tuple[float, float], now: tuple[float, float], tolerance: Tolerance
) -> tuple[Outcome, str | None]:
    """Return what a threshold's bounds say, and its first words; the same bounds are no change."""
    if now[0] > was[1] * (1 + tolerance.share):
        return "regressed", "threshold got worse"
    if now[1] < was[0] * (1 - tolerance.share):
        return "improved", "threshold got better"
    known = now[1] < inf or now[0] == inf  # it wins somewhere for sure, or it never wins
    if (now == was and known) or now[1] <= was[0] * (1 + tolerance.share):
        return "not_regressed", None
    return "cannot_tell", "threshold in doubt"


def _rest(outcome: Outcome, tolerance: Tolerance, remedy: Remedy | None) -> str:
    if remedy is not None:
        return regression.REMEDIES[remedy]
    if outcome == "improved":
        return "the baseline is stale"
    return f"{100 * tolerance.share:g} % more is allowed"


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


def _from(size: float) -> str:
    return f"from {size:.16g} on" if size < inf else "for sure at no size"


def _grids(before: Threshold, now: Threshold) -> list[tuple[str, str, str]]:
    sizes = [", ".join(f"{point.size:.16g}" for point in each.curve) for each in (before, now)]
    regimes = [f"{each.regime}{' by latency' if each.by_latency else ''}" for each in (before, now)]
    return [("sizes", f"({sizes[0]})", f"({sizes[1]})"), ("transfer", regimes[0], regimes[1])]


def _new(tolerance: Tolerance, base: Baseline, what: str) -> Comparison:
    return _told(tolerance, "new", f"nothing to compare with: the baseline {base.name} {what}")


def _incomparable(tolerance: Tolerance, base: Baseline, differences: tuple[str, ...]) -> Comparison:
    reason = f"not comparable with the baseline {base.name}: {'; '.join(differences)}"
    return replace(_told(tolerance, "not_comparable", reason), differences=differences)


def _told(tolerance: Tolerance, outcome: Outcome, reason: str | None) -> Comparison:
    return Comparison(metric=tolerance.metric, tolerance=tolerance.share, outcome=outcome, reason=reason)
