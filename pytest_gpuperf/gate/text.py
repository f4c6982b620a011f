"""From the facts of a comparison, and of what is absent, to sentences."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil, inf

from pytest_gpuperf.analysis import scaling, verdict
from pytest_gpuperf.gate import regression
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import AbsenceCause, Absent, Comparison, GateFailure, Outcome, Tolerance
from pytest_gpuperf.model.measurement import Estimate, Measurement
from pytest_gpuperf.model.metrics import TABLE, Metric
from pytest_gpuperf.model.record import Run

_GROUPS = (2.0, 3.0)  # tolerances: losses that are seen, and those beyond which a check is next to none
_NONE = "none"
_CLOCKS_VARY = 0.05  # from run to run, with the temperature and the power that a kernel takes
_LEAST_TOLERANCE = 0.01  # of one of zero there are no multiples
ROUNDED = 1e-6  # percent: a float that is a little more than 10 is 10
MOST_IN_PERCENT = 10.0
"""The factor from which on a change is written as one."""
# What would decide a doubt between pairs of processes: `remedy.py` has the rest.
MORE_PAIRS = "more pairs of processes, or a quieter machine, would decide it"
FEW_PAIRS = "too few pairs have it in both processes: mend what fails in the others"
_REMOVE = (
    "remove them with a report of the whole suite: run it with --gpuperf-json=report.json, then gpuperf "
    "baseline update --prune {baseline} report.json"
)
_ALLOW_OR_REMOVE = f"pass {{prefix}}allow=missing, or {_REMOVE}"
_MISSING: dict[AbsenceCause, str] = {
    "not_measured": "{count} of the baseline ran without a valid measurement: {first}; "
    f"mend them, or, where that is on purpose, {_REMOVE}",
    "gone": "{count} of the baseline did not run: {names}; renamed, moved, unmarked, removed, or left out "
    "by conftest.py (collect_ignore), the ini file (testpaths, addopts), PYTEST_ADDOPTS or another plugin? "
    f"Run them, {_ALLOW_OR_REMOVE}",
    "skipped": f"{{count}} of the baseline skipped: {{first}}; run them, {{no_gpu}}{_ALLOW_OR_REMOVE}",
    "excused": "{count} of the baseline failed as xfail expects, which excuses no regression: {first}; "
    "mend it, accept it with gpuperf baseline update --accept-regressions, or pass {prefix}allow=missing",
    "narrowed": "the command line ({by}) left out {count} of the baseline, which {prefix}strict forbids: "
    "{names}; run them, or pass {prefix}allow=missing",
}
_FORGOTTEN = (
    "{count} of the baseline did not run: {names}; it was made with {prefix}all, and this run was not: pass "
    "{prefix}all, or {prefix}allow=missing"
)
_MISSING_OF_PAIRS: dict[AbsenceCause, str] = {
    "not_measured": "head ran {count} that base measures, without a valid measurement: {first}; mend them",
    "gone": "head did not run {count} that base measures: {names}; run them, or pass {prefix}allow=missing",
    "skipped": "head skipped {count} that base measures: {first}; run them, {no_gpu}or pass "
    "{prefix}allow=missing",
}
_ABSENT: dict[AbsenceCause, str] = {
    "not_measured": "not measured",
    "gone": "missing",
    "skipped": "skipped",
    "excused": "expected to fail",
    "narrowed": "left out by the command line",
    "ended": "not reached",
}
_CHANGES: dict[Outcome, str] = {
    "regressed": "got worse",
    "improved": "got better",
    "inconclusive": "is inconclusive",
}


# One metric of one test.


def describe(
    before: Estimate,
    now: Estimate,
    tolerance: Tolerance,
    outcome: Outcome,
    *,
    ratio: Estimate | None = None,
    over: str = "",
    widened: str | None = None,
) -> str:
    """Return the numbers of an outcome: `speedup got worse: 8.00x [7.80, 8.20], baseline 10.0x ...`.

    The `ratio` is that of the two values, unless it was found in another way: `over` says in which. `widened`
    is why the new range is wider than its samples alone make it.
    """
    metric = tolerance.metric
    numbers = f"{format_metric(metric, now)}, baseline {format_metric(metric, before)}"
    limit = _consequence(tolerance, outcome, keeps_baseline=not over)
    ratio = ratio or regression.ratio(before, now)
    change = f": {' '.join(filter(None, (format_change(ratio), over)))}, {limit}" if ratio else f"; {limit}"
    cause = f"; the range reaches so low because {widened}" if widened else ""
    return f"{TABLE[metric].words} {_CHANGES[outcome]}: {numbers}{change}{cause}"


def other_clocks(before: Measurement | None, now: Measurement | None) -> str | None:
    """Return that a GPU reached other clocks in its baseline, as one whose clocks are locked or capped does.

    NVML sets a lock and does not tell it.
    """
    first, second = (None if each is None else each.highest_sm_mhz for each in (before, now))
    if not first or not second or abs(second / first - 1) < _CLOCKS_VARY:
        return None
    return f"the GPU's clock reached {second:,} MHz, and {first:,} MHz when the baseline was made"


# A run as a whole.


def to_create(typed: Sequence[str]) -> str:
    """Return the command that makes a baseline that is missing, with the options that the user typed."""
    return shlex.join(["pytest", *typed, "--gpuperf-baseline-missing=create"])


def blind(tests: Mapping[str, str | None]) -> str:
    """Return that the check decided nothing for these tests, and could only have found far larger losses."""
    count = units.count(len(tests), "test")
    return f"in {count} the check cannot find a loss near the tolerance: {with_remedies(tests)}"


def with_remedies(tests: Mapping[str, str | None]) -> str:
    """Return the first tests with what would decide them, where that is known."""
    return units.first_few(f"{name} ({remedy})" if remedy else name for name, remedy in tests.items())


def found_from(run: Run, *, all_names: bool = False) -> str | None:
    """Return from which loss on the check finds one, for each metric, and for how many tests or which."""
    by_metric: dict[Metric, list[tuple[Comparison, str]]] = {}
    for record in run.records:
        for each in record.comparisons:
            if each.ratio is not None:
                by_metric.setdefault(each.metric, []).append((each, record.nodeid))
    some, without = [], []
    for metric, compared in by_metric.items():
        of = f" of {TABLE[metric].words}" if len(by_metric) > 1 else ""
        groups = ", ".join(_visible_groups(compared, all_names=all_names))
        if groups.startswith(_NONE):
            without.append(f"no losses{of}{groups.removeprefix(_NONE)}")
        else:
            some.append(f"{of} from {groups}")
    told = [f"losses{';'.join(some)}"] if some else []
    return f"the check finds {'; '.join([*told, *without])}" if told or without else None


def _visible_groups(compared: Sequence[tuple[Comparison, str]], *, all_names: bool) -> Iterator[str]:
    """Yield groups of tests by their visible loss: up to two and three tolerances, and what is beyond."""
    for least, most in pairwise((-1.0, *_GROUPS, inf)):
        group = [(each, name) for each, name in compared if least < _in_tolerances(each) <= most]
        if not group:
            continue
        seen = [each.visible for each, _ in group if each.visible is not None]
        from_loss = whole_percent(max(seen)) if len(seen) == len(group) else _NONE
        tests, unseen = units.count(len(group), "test"), [name for each, name in group if each.shows_little]
        if unseen:
            some = "" if len(unseen) == len(group) else f"{tests}, "
            most = len(unseen) if all_names else 1
            tests = f"{some}{len(unseen)} not compared: {units.first_few(unseen, most)}"
        if others := [name for each, name in group if all_names and not each.shows_little]:
            tests = f"{tests}: {', '.join(others)}"
        yield f"{from_loss} ({tests})"


def _in_tolerances(compared: Comparison) -> float:
    if compared.visible is None:
        return inf
    return compared.visible / max(compared.tolerance, _LEAST_TOLERANCE)


def absence(
    cause: AbsenceCause,
    absent: Sequence[Absent],
    run: Run,
    baseline: str,
    *,
    prefix: str,
    no_gpu: bool,
    of_pairs: bool,
    forgotten: bool = False,
) -> GateFailure:
    """Return that a run lacks what the baseline holds, all for one cause; `prefix` is that of the options.

    It may have `forgotten` the option by which tests without a marker are in the baseline.
    """
    values = {
        "count": _count(absent),
        "names": units.first_few(_names(absent)),
        "first": _first(absent),
        "by": ", ".join(run.narrowed_by),
        "prefix": prefix,
        "no_gpu": f"on a runner without a GPU pass {prefix}allow=no-gpu, " if no_gpu else "",
        "baseline": shlex.quote(baseline),
    }
    known = _MISSING | _MISSING_OF_PAIRS if of_pairs else _MISSING
    told = _FORGOTTEN if forgotten else known[cause]
    return GateFailure(code="tests_missing", text=told.format(**values))


def skipped(absent: Sequence[Absent]) -> str:
    """Return that tests of the baseline skipped themselves, which is allowed."""
    return f"{_count(absent)} of the baseline skipped: {_first(absent)}"


def not_run(run: Run) -> str | None:
    """Return how many tests of the baseline were compared with nothing, and why; None where all were."""
    gate = run.gate
    if gate is None or not gate.absent:
        return None
    causes: dict[AbsenceCause, list[str]] = {}
    for absent in gate.absent:
        causes.setdefault(absent.cause, []).append(absent.name)
    told = ", ".join(_said(cause, set(names), run) for cause, names in causes.items())
    failed = " failed" if gate.failures else ""
    absent_tests = len({absent.name for absent in gate.absent if absent.metric})
    groups = len({absent.name for absent in gate.absent if absent.metric is None})
    parts = []
    if absent_tests:
        parts.append(f"{absent_tests:,} of {units.count(gate.baseline_tests, 'baseline test')}")
    if groups:
        parts.append(units.count(groups, "group of its tests", "groups of its tests"))
    were = "was" if absent_tests + groups == 1 else "were"
    return f"regression check{failed}: {' and '.join(parts)} {were} not compared: {told}"


def _said(cause: AbsenceCause, names: set[str], run: Run) -> str:
    """Return how many tests are absent for a cause, with their names where no failure has them."""
    if cause == "narrowed":
        detail = ", ".join(run.narrowed_by)
    else:
        detail = "" if run.gate and run.gate.failures else units.first_few(sorted(names))
    return f"{len(names)} {_ABSENT[cause]}{f' ({detail})' if detail else ''}"


def _count(absent: Sequence[Absent]) -> str:
    names = _names(absent)
    nouns = ("test or group", "tests or groups") if any(each.metric is None for each in absent) else ("test",)
    return units.count(len(names), *nouns)


def _names(absent: Sequence[Absent]) -> list[str]:
    """Return the name of each test and group once."""
    return list(dict.fromkeys(each.name if each.metric else f"the group {each.name}" for each in absent))


def _first(absent: Sequence[Absent]) -> str:
    first = absent[0]
    return f"{first.name}: {first.reason}" if first.reason else first.name


# Values.


def whole_percent(share: float) -> str:
    """Return a share in whole percent, rounded up: `15 %`; from ten times as much on that: `12.0x`."""
    if 1 + share >= MOST_IN_PERCENT:
        return f"{units.digits(1 + share)}x"
    return f"{ceil(100 * share - ROUNDED)} %"


def format_change(ratio: Estimate) -> str:
    """Return a ratio as a change: `-20.0 % [-24.1, -16.3]`, without its range where it is exact.

    From a factor of ten on it is one: `12.0x as much [11.0, 13.0]`.
    """
    is_factor = ratio.value >= MOST_IN_PERCENT
    change = f"{units.digits(ratio.value)}x as much" if is_factor else f"{_percent(ratio.value)} %"
    exact = ratio.low == ratio.value == ratio.high
    shown = units.digits if is_factor else _percent
    return change if exact else f"{change} {units.interval(ratio.low, ratio.high, shown)}"


def format_metric(metric: Metric, estimate: Estimate) -> str:
    """Return an estimate in its metric's unit: `8.00x [7.80, 8.20]`, `1.20 ms [1.10 ms, 1.30 ms]`."""
    unit = TABLE[metric].unit
    if unit == "bytes":
        return units.size(estimate.value)
    if unit == "s":
        return f"{units.seconds(estimate.value)} {units.interval(estimate.low, estimate.high, units.seconds)}"
    return scaling.efficiency_text(estimate) if unit == "ratio" else verdict.ratio(estimate)


def _consequence(tolerance: Tolerance, outcome: Outcome, *, keeps_baseline: bool) -> str:
    if outcome == "improved" and keeps_baseline:
        return "the baseline is out of date"
    if outcome == "improved":
        return f"which is more than {units.percent(tolerance.share)}"
    return f"{units.percent(tolerance.share)} {TABLE[tolerance.metric].worse} is allowed"


def _percent(ratio: float) -> str:
    """Return a ratio as a change in percent, with its sign; 0 where it shows none."""
    percent = 100 * (ratio - 1)
    shown = f"{percent:+.0f}" if abs(percent) >= 99.95 else f"{percent:+.1f}"
    return shown if float(shown) else "0"
