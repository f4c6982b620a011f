"""From a baseline's estimate and a later one to whether a metric got worse, and the sentence that says so."""

from math import inf

from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Metric, Outcome, Remedy, Tolerance
from pytest_gpuperf.model.measurement import Estimate

__all__ = [
    "LESS_IS_BETTER",
    "NAMES",
    "REMEDIES",
    "amount",
    "apart",
    "beside",
    "change",
    "judge",
    "longer",
    "ratio",
    "remedy",
    "words",
]

LESS_IS_BETTER: frozenset[Metric] = frozenset({"gpu", "cpu", "threshold", "memory"})
NAMES: dict[Metric, str] = {
    "speedup": "speedup",
    "gpu": "GPU time",
    "cpu": "CPU time",
    "latency": "speedup by latency",
    "always": "speedup with copies",
    "threshold": "threshold",
    "memory": "memory",
}
REMEDIES: dict[Remedy, str] = {  # what slowed a GPU down says itself how to cool it
    "more_time": "more time (max_time) or a quieter machine would decide it",
    "run_with_gate": "measure it with --gpuperf-baseline and --gpuperf-fail-on: without a gate a run stops "
    "at its verdict",
    "new_baseline": "a baseline that was measured longer would decide it: remove it and make it anew with "
    "--gpuperf-fail-on, or give gpuperf baseline update the report of a run that had a gate",
}
_VERBS: dict[Outcome, str] = {"regressed": "got worse", "improved": "got better", "cannot_tell": "in doubt"}


def judge(before: Estimate, now: Estimate, tolerance: Tolerance) -> Outcome:
    """Return whether a metric got worse by more than its tolerance: beyond both intervals, or not at all.

    Like a verdict, of the limit baseline x (1 - tolerance), or (1 + tolerance) where less is better; but that
    limit is itself an interval, and "regressed" is that the whole of the new interval lies beyond all of it.
    Each interval misses its value with a chance of at most alpha on either side, so a good run fails with a
    chance of at most twice alpha, whenever its sampling stopped.
    """
    low, high = _ends(now)
    allowed, gained = _limits(before, tolerance)
    if tolerance.metric in LESS_IS_BETTER:
        if low > allowed[1]:
            return "regressed"
        return "improved" if high < gained[0] else "not_regressed" if high <= allowed[0] else "cannot_tell"
    if high < allowed[0]:
        return "regressed"
    return "improved" if low > gained[1] else "not_regressed" if low >= allowed[1] else "cannot_tell"


def remedy(before: Estimate, now: Estimate, *, gated: bool) -> Remedy:
    """Return what would decide a doubt: whichever interval is wider has to be narrower.

    `gated` says that the later run was measured for a gate; without one it had time left.
    """
    return "new_baseline" if _width(before) > _width(now) else longer(gated=gated)


def longer(*, gated: bool) -> Remedy:
    """Return how the later run can be measured longer."""
    return "more_time" if gated else "run_with_gate"


def apart(before: Estimate, tolerance: Tolerance) -> tuple[float, float]:
    """Return the interval of the limit, which an estimate that decides lies wholly above or below."""
    return _limits(before, tolerance)[0]


def ratio(before: Estimate, now: Estimate) -> Estimate | None:
    """Return now / before, with the interval that both of theirs leave it; None beside a baseline of zero."""
    (least, most), (low, high) = _ends(before), _ends(now)
    if before.value <= 0:
        return None
    return Estimate(
        value=now.value / before.value,
        low=low / most if now.low is not None and most < inf else None,
        high=high / least if least > 0 and high < inf else None,
    )


def change(found: Estimate) -> str:
    """Return a ratio in words: `-20.0 % [-24.1, -16.3]`, without its interval where it is exact."""
    ends = ", ".join("?" if end is None else _percent(end) for end in (found.low, found.high))
    exact = found.low == found.value == found.high
    return f"{_percent(found.value)} %" if exact else f"{_percent(found.value)} % [{ends}]"


def words(before: Estimate, now: Estimate, tolerance: Tolerance, outcome: Outcome) -> str:
    """Return the numbers of an outcome: `speedup got worse: 8.00x [7.80, 8.20], baseline 10.0x ...`."""
    found = ratio(before, now)
    metric = tolerance.metric
    told = f"{NAMES[metric]} {_VERBS[outcome]}: {beside(metric, now)}, baseline {beside(metric, before)}"
    limit = f"{100 * tolerance.share:g} % {'more' if metric in LESS_IS_BETTER else 'less'} is allowed"
    rest = "the baseline is stale" if outcome == "improved" else limit
    return f"{told}: {change(found)}, {rest}" if found else f"{told}; {rest}"


def beside(metric: Metric, found: Estimate) -> str:
    """Return an estimate in its metric's unit: `8.00x [7.80, 8.20]`, `1.20 ms [1.10 ms, 1.30 ms]`."""
    shown = amount(metric, found.value)
    if metric in ("memory", "threshold"):
        return shown
    bounds = ("?" if end is None else amount(metric, end) for end in (found.low, found.high))
    return f"{shown} [{', '.join(bound.removesuffix('x') for bound in bounds)}]"


def amount(metric: Metric, value: float) -> str:
    """Return a value in its metric's unit: `8.00x`, `1.20 ms`."""
    if metric == "memory":
        return units.size(value)
    if metric == "threshold":
        return f"{value:.16g}"
    return units.seconds(value) if metric in ("cpu", "gpu") else f"{units.digits(value)}x"


def _limits(before: Estimate, tolerance: Tolerance) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return from where to where "worse than allowed" may begin, and "better by as much"."""
    least, most = _ends(before)
    less, more = 1 - tolerance.share, 1 + tolerance.share
    fewer = (least * less, most * less if less else 0.0)  # where all may be lost, of an unbounded end, too
    greater = (least * more, most * more)
    return (greater, fewer) if tolerance.metric in LESS_IS_BETTER else (fewer, greater)


def _width(found: Estimate) -> float:
    return found.high / found.low if found.low and found.high is not None else inf


def _percent(ratio: float) -> str:
    """Return a ratio as a change in percent, with its sign; 0 where it shows none."""
    percent = 100 * (ratio - 1)
    shown = f"{percent:+.0f}" if abs(percent) >= 99.95 else f"{percent:+.1f}"
    return shown if float(shown) else "0"


def _ends(found: Estimate) -> tuple[float, float]:
    return found.low if found.low is not None else 0.0, found.high if found.high is not None else inf
