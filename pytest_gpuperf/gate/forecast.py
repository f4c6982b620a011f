"""From a baseline and the planned time of each test to the losses that the check cannot find."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.gate import metric_values, remedy, text
from pytest_gpuperf.gate.metric_values import MetricValue
from pytest_gpuperf.gate.remedy import Longer, Matched, Plan
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Tolerance, most_overlooked
from pytest_gpuperf.model.metrics import TABLE
from pytest_gpuperf.model.nodeid import without_number
from pytest_gpuperf.model.record import Record, Report

_CAUSES = ("baseline", "run", "both", "few", "others", "noise")
_MOST_NAMED = 3
_ROOM = 5 / 6  # of what a check may overlook: what is advised must hold in a run whose rounds differ by more
_MAX_TIME = "--gpuperf-max-time="
_GPU = "--gpuperf-gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blind:
    """A test in which the check cannot find a loss near the tolerance, and what would help.

    `helps` is more time, if any surely does: else its rounds differ too much. Of too few of them nobody knows
    what more would show, and `may_help` is the time for more. It takes `round_time` for one of them, and the
    run allows it `max_time`. The check finds losses from `visible` on; where no time helps, after the most
    that is worth it.
    """

    values: Matched
    tolerance: Tolerance
    round_time: float
    max_time: float
    helps: Longer | None
    visible: float | None
    may_help: Longer | None = None

    @property
    def by(self) -> str:
        """What has to be longer; `noise` if nothing, `others` if other programs disturbed the baseline.

        It is `few` if the baseline has too few rounds to tell.
        """
        if self.helps is not None:
            return self.helps.of
        if self.values.before.widened:
            return "others"
        return "few" if self.may_help else "noise"

    @property
    def time(self) -> Longer | None:
        """The time that helps, or may."""
        return self.helps or self.may_help


def foresee(
    base: Report,
    tolerances: Sequence[Tolerance],
    plan: Plan,
    tests: Mapping[str, float | None],
    typed: Sequence[str] = (),
) -> list[str]:
    """Return lines on those of the `tests` in which the check cannot find such losses.

    The tests are those that are about to run, with the `max_time` of their markers. Memory has no noise, and
    what is not measured in the rounds has no time that is known before. `typed` are the options of ours with
    which the run was begun: on a machine without a GPU they may leave out the device of the baseline.
    """
    devices = [word for word in base.run.arguments if word.startswith(f"{_GPU}=")]
    if not any(word.startswith(_GPU) for word in typed):
        typed = [*typed, *devices]
    return [*_lines(base.name, _all_blind(base, tolerances, plan, tests), typed)]


def of_new(base: Report, tolerances: Sequence[Tolerance], plan: Plan, typed: Sequence[str] = ()) -> list[str]:
    """Return lines on the tests of a baseline that was just made in which its checks find no such losses."""
    blind = _all_blind(base, tolerances, plan, times(base))
    again = f"; then delete {base.name}, and run this command again"
    limit = _limit(typed)
    return [
        *_of_time([each for each in blind if each.helps], limit, again),
        *_of_few(base.name, [each for each in blind if each.by == "few"], limit, again),
        *_of_noise(base.name, [each for each in blind if each.by in ("others", "noise")]),
    ]


def times(base: Report) -> dict[str, float | None]:
    """Return the tests of a baseline with the `max_time` of their markers then."""
    return {without_number(each.nodeid): each.demand.max_time for each in base.run.records}


def _all_blind(
    base: Report, tolerances: Sequence[Tolerance], usual: Plan, tests: Mapping[str, float | None]
) -> list[_Blind]:
    found = []
    for record in base.run.records:
        if (nodeid := without_number(record.nodeid)) in tests:
            max_time = tests[nodeid]
            plan = usual if max_time is None else remedy.of_marker(max_time)
            found += [_blind(record, tolerance, plan) for tolerance in tolerances]
    return [each for each in found if each is not None]


def _blind(record: Record, tolerance: Tolerance, plan: Plan) -> _Blind | None:
    """Return what would help a test in which the check finds no loss near the tolerance; None if it does."""
    if TABLE[tolerance.metric].rounds == "asked" or not metric_values.is_held(record, tolerance.metric):
        return None
    before = metric_values.value_of(record, tolerance.metric)
    round_time = before.length.round_time if before and before.length else None
    if before is None or round_time is None:
        return None
    now = replace(before, length=plan.length(round_time), doubt=None)
    values = Matched(nodeid=record.nodeid, before=before, now=now, plan=plan)
    near, seen = most_overlooked(tolerance.share), values.visible(tolerance)
    if seen is not None and seen <= near:
        return None
    longer = [(each, each.values.visible(tolerance) or inf) for each in remedy.more_time(values, tolerance)]
    helps = next((each for each, then in longer if then <= _ROOM * near), None)
    least = min([then for _, then in longer], default=inf)
    of_more = [each for each, _ in longer if helps is None and not _has_stretches(values.before)]
    may_help = next((each for each in of_more if _has_stretches(each.values.before)), None)
    return _Blind(
        values=values,
        tolerance=tolerance,
        round_time=round_time,
        max_time=plan.max_time,
        helps=helps,
        visible=seen if helps or may_help else min(seen or inf, least),
        may_help=may_help,
    )


def _has_stretches(value: MetricValue) -> bool:
    """Return whether there are enough rounds for the medians that make a range, and not their extremes."""
    return value.length is not None and value.length.rounds >= looks.STRETCHES


def _lines(name: str, blind: Sequence[_Blind], typed: Sequence[str]) -> Iterator[str]:
    """Yield a line for each thing that helps, and at last how a baseline is made anew, if one is to be."""
    limit = _limit(typed)
    by = {cause: [each for each in blind if each.by == cause] for cause in _CAUSES}
    if of_baseline := by["baseline"]:
        lengths = (each.values.before.length for each in of_baseline)
        seconds = units.seconds(max(length.seconds for length in lengths if length))
        shown = f"it shows {_losses(of_baseline)} in {_named(of_baseline)}"
        yield f"the baseline {name} was sampled for at most {seconds}: {shown}. Make a new one"
    yield from _of_time(by["run"], limit, "")
    yield from _of_time(by["both"], limit, ", for the baseline, too")
    yield from _of_few(name, by["few"], limit)
    yield from _of_noise(name, [*by["others"], *by["noise"]])
    if of_baseline or by["both"] or by["few"] or by["others"]:
        is_cut = any(each.time and each.time.by_default for each in blind)
        command = text.to_create([word for word in typed if not (is_cut and word == limit)])
        yield (
            f"for a new baseline check out the code that {name} is of on its machine, delete {name}, and "
            f"run: {command}"
        )


def _of_few(name: str, few: Sequence[_Blind], limit: str | None, again: str = "") -> Iterator[str]:
    """Yield what is said of tests with so few rounds that nobody knows what more would show."""
    cut = [each for each in few if each.time and each.time.by_default]
    slow = [each for each in few if each.time and each.time.of == "both" and each not in cut]
    brief = [each for each in few if each not in cut and each not in slow]
    for tests, takes in ((brief, ""), (cut, f"; {_usual(limit)}"), (slow, f"; {_needed(slow)}")):
        if tests:
            found = f"this check finds {_losses(tests)} in {_named(tests)}"
            unknown = f"the baseline {name} has too few rounds to say what more of them find"
            yield f"{found}: {unknown}. Make a new one{takes}{again}"


def _usual(limit: str | None) -> str:
    return f"leave out {limit}" if limit else "leave gpuperf_max_time out of the ini file"


def _needed(slow: Sequence[_Blind]) -> str:
    """Return which tests take which time."""
    return units.first_few(dict.fromkeys(map(_needs, slow)), _MOST_NAMED)


def _of_noise(name: str, blind: Sequence[_Blind]) -> Iterator[str]:
    """Yield what is said of tests that no time helps."""
    if disturbed := [each for each in blind if each.by == "others"]:
        found = f"this check finds {_losses(disturbed)} in {_named(disturbed)}"
        cause = f"other programs disturbed these when the baseline {name} was made"
        yield f"{found}: {cause}. Make a new one on a quieter machine"
    if noisy := [each for each in blind if each.by == "noise"]:
        found = f"whatever max_time is, this check finds {_losses(noisy)} in {_named(noisy)}"
        cause = f"their rounds differ that much in the baseline {name}"
        yield f"{found}: {cause}. Six reports in a folder may show smaller ones"


def _of_time(blind: Sequence[_Blind], limit: str | None, too: str) -> Iterator[str]:
    """Yield what is said of tests that take more time, and what else they take."""
    cut = [each for each in blind if each.helps and each.helps.by_default]
    if cut:
        at = f"with max_time={min(each.max_time for each in cut):g} this check finds"
        yield f"{at} {_losses(cut)} in {_named(cut)}: {_usual(limit)}{too}"
    slow = [each for each in blind if each not in cut]
    if slow:
        at = f"at max_time={min(each.max_time for each in slow):g}"
        tests = units.count(len({each.values.nodeid for each in slow}), "test has", "tests have")
        had = f"{tests} too few rounds {at}, where this check finds {_losses(slow, with_allowed=False)}"
        yield f"{had}: {_needed(slow)}{too}"


def _needs(slow: _Blind) -> str:
    name, needed = slow.values.nodeid, slow.time.max_time if slow.time else None
    return f"{name} ({units.seconds(slow.round_time)} a round) takes max_time={needed} in its marker"


def _limit(typed: Sequence[str]) -> str | None:
    """Return the option of a time limit, if one was typed."""
    return next((word for word in typed if word.startswith(_MAX_TIME)), None)


def _named(blind: Sequence[_Blind]) -> str:
    """Return how many tests these are of, and the first names."""
    names = dict.fromkeys(each.values.nodeid for each in blind)
    return f"{units.count(len(names), 'test')} ({units.first_few(names, _MOST_NAMED)})"


def _losses(blind: Sequence[_Blind], *, with_allowed: bool = True) -> str:
    """Return from where on losses are found, and how much is allowed: `losses from 57 %, not 10 %,`."""
    seen = [each.visible if each.visible is not None else inf for each in blind]
    if max(seen) == inf:
        return "no loss"
    allowed = units.percent(min(each.tolerance.share for each in blind))
    return f"losses from {text.whole_percent(max(seen))}{f', not {allowed},' if with_allowed else ''}"
