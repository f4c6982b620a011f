"""From a baseline and the planned time of each test to the losses that the check cannot find."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pytest_gpuperf.gate import metrics, remedy, text
from pytest_gpuperf.gate.remedy import Matched, Plan
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Metric, Tolerance, most_overlooked
from pytest_gpuperf.model.nodeid import without_number
from pytest_gpuperf.model.record import Record, Report

_IN_ROUNDS: tuple[Metric, ...] = ("speedup", "efficiency", "gpu_time", "cpu_time")
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blind:
    """A test in which the check cannot find a loss near the tolerance, and what would help.

    `by` names what has to be longer, up to `needed` seconds, or `noise` if no time helps, and `others` if other
    programs disturbed the baseline. A test whose marker sets `max_time` (`is_marked`) needs a new value there;
    an option has no effect on it.
    """

    nodeid: str
    tolerance: Tolerance
    visible: float | None
    seconds: float
    round_time: float
    max_time: float
    is_marked: bool
    by: Literal["baseline", "run", "both", "noise", "others"]
    needed: float = 0.0

    @property
    def by_option(self) -> bool:
        """Whether the usual max_time, as an option, is enough for it."""
        return self.needed <= remedy.ENOUGH_TIME and not self.is_marked


def foresee(
    base: Report,
    tolerances: Sequence[Tolerance],
    plan: Plan,
    selected: Collection[str] | None = None,
    typed: Sequence[str] = (),
) -> list[str]:
    """Return lines on the tests, of the `selected` ones or all, in which the check cannot find such losses.

    Memory has no noise, and what is not measured in the rounds has no time that is known before. `typed` are
    the options of ours with which the run was begun.
    """
    blind = (
        each
        for record in base.run.records
        if selected is None or without_number(record.nodeid) in selected
        for tolerance in tolerances
        for each in _looked_at(record, tolerance, plan)
    )
    return [*_lines(base.name, [each for each in blind if each is not None], typed)]


def _looked_at(record: Record, tolerance: Tolerance, plan: Plan) -> Iterator[_Blind | None]:
    """Yield whether the check will be blind to losses of a test, if that can be known."""
    if tolerance.metric in _IN_ROUNDS and metrics.is_held(record, tolerance.metric):
        for values in _expected(record, tolerance, plan):
            yield _blind(values, tolerance, plan.max_time)


def _expected(record: Record, tolerance: Tolerance, plan: Plan) -> Iterator[Matched]:
    """Yield the baseline's value beside the same one after the time that is planned, if that is known."""
    before = metrics.value_of(record, tolerance.metric) if tolerance.metric in _IN_ROUNDS else None
    round_time = before.length.round_time if before and before.length else None
    if before is None or round_time is None:
        return
    now = replace(before, length=plan.of(record).length(round_time))
    yield Matched(nodeid=record.nodeid, before=before, now=now, plan=plan.of(record))


def _blind(values: Matched, tolerance: Tolerance, of_run: float) -> _Blind | None:
    """Return what would help a test in which the check finds no loss near the tolerance; None if it does."""
    near, seen = most_overlooked(tolerance.share), values.visible(tolerance)
    if seen is not None and seen <= near:
        return None
    length = values.before.length
    assert length and length.round_time and values.plan, "it was planned"  # noqa: PT018, S101 - for mypy
    round_time, had = length.round_time, values.plan.max_time

    def sees(of_baseline: float, of_now: float) -> bool:
        before = remedy.after(values.before, of_baseline) or values.before
        now = replace(values.now, length=Plan(of_now).length(round_time))
        found = replace(values, before=before, now=now).visible(tolerance)
        return found is not None and found <= near

    known = _Blind(
        nodeid=values.nodeid,
        tolerance=tolerance,
        visible=seen,
        seconds=length.seconds,
        round_time=round_time,
        max_time=had,
        is_marked=had != of_run,
        by="others" if values.before.widened else "noise",
    )
    if sees(had, had):
        return replace(known, by="baseline")
    longer = [each for each in remedy.times(round_time) if each > had]
    if (needed := next((each for each in longer if sees(0.0, each)), None)) is not None:
        return replace(known, by="run", needed=needed)
    if (needed := next((each for each in longer if sees(each, each)), None)) is not None:
        return replace(known, by="both", needed=needed)
    return known


def _lines(name: str, blind: Sequence[_Blind], typed: Sequence[str]) -> Iterator[str]:
    """Yield a line for each thing that helps."""
    of_baseline = [each for each in blind if each.by == "baseline"]
    if of_baseline:
        seconds = units.seconds(max(each.seconds for each in of_baseline))
        shown = f"it shows {_losses(of_baseline)}, not {_allowed(of_baseline)}"
        count = units.count(len({each.nodeid for each in of_baseline}), "test")
        sampled = f"was sampled for at most {seconds} in {count}"
        yield f"the baseline {name} {sampled}: {shown}. Make one with: {text.to_create(typed)}"
    for by in ("run", "both"):
        too = ", for the baseline, too" if by == "both" else ""
        short = [each for each in blind if each.by == by and each.by_option]
        if short:
            at = f"with max_time={min(each.max_time for each in short):g} this check finds"
            takes = f"it takes --gpuperf-max-time={remedy.ENOUGH_TIME:g}{too}"
            yield f"{at} {_losses(short)}, not {_allowed(short)}, in {_named(short)}: {takes}"
        slow = [each for each in blind if each.by == by and not each.by_option]
        if slow:
            at = f"at max_time={min(each.max_time for each in slow):g}"
            had = f"{_tests(slow)} too few rounds {at}, where this check finds {_losses(slow)}"
            named = [
                f"{each.nodeid} ({units.seconds(each.round_time)} a round) takes max_time={each.needed:g}"
                for each in slow
            ]
            yield f"{had}: {units.first_few(named, _MOST_NAMED)} in its marker{too}"
    disturbed = [each for each in blind if each.by == "others"]
    if disturbed:
        found = f"this check finds {_losses(disturbed)}, not {_allowed(disturbed)}, in {_named(disturbed)}"
        cause = f"other programs disturbed these when the baseline {name} was made"
        yield f"{found}: {cause}. Make one on a quieter machine with: {text.to_create(typed)}"
    noisy = [each for each in blind if each.by == "noise"]
    if noisy:
        found = f"whatever max_time is, this check finds {_losses(noisy)}, not {_allowed(noisy)}"
        yield f"{found}, in {_named(noisy)}: their rounds differ that much in the baseline {name}"


def _losses(blind: Sequence[_Blind]) -> str:
    seen = [each.visible for each in blind if each.visible is not None]
    return f"losses from {text.whole_percent(max(seen))}" if len(seen) == len(blind) else "no loss at all"


def _allowed(blind: Sequence[_Blind]) -> str:
    return units.percent(min(each.tolerance.share for each in blind))


def _named(blind: Sequence[_Blind]) -> str:
    """Return how many tests these are of, and the first names."""
    names = dict.fromkeys(each.nodeid for each in blind)
    return f"{units.count(len(names), 'test')} ({units.first_few(names, _MOST_NAMED)})"


def _tests(blind: Sequence[_Blind]) -> str:
    return units.count(len({each.nodeid for each in blind}), "test has", "tests have")
