"""From two measurements that decide nothing to a sentence with the number that would decide.

It is a `max_time` if the measured ranges would be decided by the smaller factor of more rounds, and else a
tolerance that decides the same numbers. So following one remedy never leads to another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf
from typing import Literal, NamedTuple

from msgspec.structs import replace as changed

from pytest_gpuperf.analysis import looks, noise
from pytest_gpuperf.analysis.looks import Length
from pytest_gpuperf.gate import metric_values, regression, text
from pytest_gpuperf.gate.metric_values import MetricValue
from pytest_gpuperf.gate.tolerance import largest
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Tolerance, most_overlooked
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.metrics import TABLE
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.model.sampling_constants import SLOW_TIME

ENOUGH_TIME = looks.SHARPEST_AFTER / looks.SAMPLING_SHARE
"""The max_time in which calls that are not slow are sampled for as long as decides anything."""
_WITH_UNTIMED, _UNTIMED = 14, 1.14  # rounds from which on some are not timed; what these add
_ALL_OF_THEM = 0.75  # of the planned rounds: a run with fewer ended early, and more time would not be used
_ACCEPT = "mend it, or accept it with gpuperf baseline update --accept-regressions"
_ACCEPT_IN_FOLDER = "mend it, or accept it: remove the reports from before it"
_A_DAY = 86_400.0  # seconds: the longest max_time
_FEWEST = 2  # rounds, which every test takes
_GAINED = 1 / 3  # of the distance from the losses that are seen to the tolerance: less is not worth the time
_MUCH_LONGER = 1.25  # times: a round that is a little longer than the baseline's is noise


class Plan(NamedTuple):
    """The seconds that a run allows a test, and one of slow calls in a check; None where that is no more."""

    max_time: float
    slow_time: float | None = None

    is_marked: bool = False
    """Whether it is what a marker says of its test."""

    def length(self, round_time: float) -> Length:
        """Return how long rounds of so many seconds each are taken."""
        rounds, seconds = looks.planned(round_time, self.max_time, self.slow_time)
        return Length(max(rounds, _FEWEST), max(seconds, _FEWEST * round_time))


def of_marker(max_time: float) -> Plan:
    """Return what a run allows a test whose marker says so."""
    return Plan(max_time, is_marked=True)


def plan_of(record: Record, usual: Plan | None) -> Plan | None:
    """Return what a run allowed a test that it measured: the usual, unless its marker says otherwise."""
    return usual if record.demand.max_time is None else of_marker(record.demand.max_time)


_USUAL = Plan(RunOptions().max_time, SLOW_TIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """A metric of one test, in the baseline and now, both measured in the same conditions.

    `plan` is what the test was allowed now, where that is known. `of_runs` says that `before` is a range over
    several runs.
    """

    nodeid: str
    before: MetricValue
    now: MetricValue
    plan: Plan | None = None
    of_runs: bool = False

    @property
    def factor(self) -> float:
        """How far beyond the limit a loss must lie."""
        look, luck = metric_values.factors(self.before, self.now)
        return luck * (look.misses or inf)

    @property
    def is_too_short(self) -> bool:
        """Whether how long they were measured hides more than the noise of their rounds does."""
        widths = (regression.width(each.estimate) for each in (self.before, self.now))
        has_length = not self.of_runs or self.now.length is not None
        return has_length and self.factor > max(widths)

    def visible(self, tolerance: Tolerance) -> float | None:
        """Return the smallest loss that two such runs find: none where the later one must not fail."""
        if self.now.doubt is not None:
            return None
        look, luck = metric_values.factors(self.before, self.now)
        return regression.visible(self.before.estimate, self.now.estimate, look, tolerance, luck=luck)

    def in_its_time(self) -> "Matched":
        """Return them as they would be if sampling had not ended early: the range is as wide at most."""
        length = self.now.length
        if self.plan is None or length is None or length.round_time is None:
            return self
        planned = self.plan.length(length.round_time)
        longer = Length(max(length.rounds, planned.rounds), max(length.seconds, planned.seconds))
        return replace(self, now=replace(self.now, length=longer))

    def is_decided(self, tolerance: Tolerance) -> bool:
        """Return whether it is clear if a tolerance is kept."""
        look, luck = metric_values.factors(self.before, self.now)
        found = regression.compare_ranges(self.before.estimate, self.now.estimate, look, tolerance, luck=luck)
        return found != "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Longer:
    """The same values after more rounds of the baseline, of the later run, or of both.

    They take this `max_time`, or, where it is None, the time that the later run had. With `by_default` it is
    the usual one, which an option or the ini file made shorter.
    """

    of: Literal["baseline", "run", "both"]
    max_time: int | None
    values: Matched
    by_default: bool = False


def of(values: Matched, tolerance: Tolerance) -> str:
    """Return what would decide whether a tolerance is kept, with its number."""
    longer = list(more_time(values, tolerance))
    decides = next((each for each in longer if each.values.is_decided(tolerance)), None)
    if decides is not None:
        return _told_time(values, decides, tolerance)
    passed, near = _passes(values, tolerance), most_overlooked(tolerance.share)
    # A check that sees next to nothing, for want of time, must not be green by a tolerance alone.
    is_blind = passed is None or passed > near or (values.visible(tolerance) or inf) > near
    if longer and is_blind and (passed is None or values.is_too_short):
        return _told_both(values, longer, tolerance)
    return _told_tolerance(values, tolerance, passed)


# More time.


def enough_time(round_time: float) -> int | None:
    """Return the max_time in which a test with such rounds has twenty, or as many as 7.5 s have.

    With fewer the noise of a run decides whether its losses are seen, and more show hardly smaller ones. None
    where that is more than a max_time may be.
    """
    needed = max(ceil(ENOUGH_TIME), looks.time_for(looks.ENOUGH, round_time))
    return needed if needed <= _A_DAY else None


def more_time(values: Matched, tolerance: Tolerance) -> Iterator[Longer]:
    """Yield what more time makes of them, of the baseline alone, of the run alone, and of both.

    There is one `max_time` for a test, whoever asks. What finds hardly smaller losses is left out.
    """
    seen = values.visible(tolerance)
    for longer in _longer(values):
        then = longer.values.visible(tolerance)
        gained = inf if seen is None or then is None else seen - then
        if longer.values.factor < values.factor and gained >= _GAINED * ((seen or 0.0) - tolerance.share):
            yield longer


def _longer(values: Matched) -> Iterator[Longer]:
    before, now, plan, round_time = values.before, values.now, values.plan, _round_time(values)
    needed = enough_time(round_time) if round_time else None
    if needed is None:
        return
    of_baseline = plan or Plan(needed)
    if (later := _after(before, of_baseline)) is not None:
        max_time = None if plan else needed
        yield Longer(of="baseline", max_time=max_time, values=replace(values, before=later))
    had = (plan.max_time if plan else 0.0) if _takes_all(values) else inf
    if needed <= had:
        return
    is_cut = plan is not None and not plan.is_marked and plan.slow_time is None
    for longer in (_USUAL, Plan(needed)) if is_cut else (Plan(needed),):
        then, both = _after(now, longer), _after(before, longer)
        known = Longer(of="run", max_time=needed, values=values, by_default=longer is _USUAL)
        if then is not None:
            yield replace(known, values=replace(values, now=then))
        if then is not None and both is not None:
            yield replace(known, of="both", values=replace(values, before=both, now=then))


def _round_time(values: Matched) -> float:
    """Return the seconds of a round in the baseline, which all runs have, unless they are longer now."""
    of_both = [each.length.round_time if each.length else None for each in (values.before, values.now)]
    before, now = (each or 0.0 for each in of_both)
    return now if now > _MUCH_LONGER * before else before


def _after(value: MetricValue, plan: Plan) -> MetricValue | None:
    """Return a value as so much time leaves it; None where it has had as much."""
    length = value.length
    if length is None or length.round_time is None:
        return None
    rounds, seconds = plan.length(length.round_time)
    is_counted = plan.slow_time is not None and rounds == looks.ENOUGH  # of slow calls those that are timed
    if length.rounds < _WITH_UNTIMED <= rounds and not is_counted:
        rounds = max(_WITH_UNTIMED - 1, int(rounds / _UNTIMED))
    if rounds <= length.rounds and seconds <= length.seconds:
        return None
    return replace(value, length=Length(max(rounds, length.rounds), max(seconds, length.seconds)))


def _takes_all(values: Matched) -> bool:
    """Return whether the later run took all of its time, so that it would use more.

    With fewer rounds than a look takes nothing was decided early.
    """
    length = values.now.length
    if length is None or length.round_time is None or values.plan is None:
        return True
    if length.rounds < looks.STRETCHES:
        return True
    return length.rounds >= _ALL_OF_THEM * values.plan.length(length.round_time).rounds


def _told_time(values: Matched, longer: Longer, tolerance: Tolerance) -> str:
    """Return by how much smaller losses are found after more time."""
    seen, then = values.visible(tolerance), longer.values.visible(tolerance)
    losses = "no loss" if seen is None else f"losses from {text.whole_percent(seen)}"
    later = "some, perhaps" if then is None else f"losses from {text.whole_percent(then)}"
    at = "" if longer.max_time is None else f" at max_time={longer.max_time}"
    if longer.of == "baseline":
        had = f"the baseline has {_rounds(values.before.length)}"
        return f"{had}: made anew of the same code{at} it shows {later}"
    side = values.now
    if longer.of == "both" and _is_baseline_shorter(values):
        side = values.before
    too = ", for the baseline, too," if longer.of == "both" else ""
    time = "the default max_time" if longer.by_default else f"max_time={longer.max_time}"
    return f"{_rounds(side.length)} {_verb('show', side.length)} {losses}: {time}{too} shows {later}"


def _told_both(values: Matched, longer: Sequence[Longer], tolerance: Tolerance) -> str:
    """Return the time that finds smaller losses, and the tolerance that these numbers pass by then."""
    passed = [(_passes(each.values, tolerance), each) for each in longer]
    known = [(share, each) for share, each in passed if share is not None]
    if not known:
        return _told_time(values, longer[0], tolerance)
    near = most_overlooked(tolerance.share)
    share, each = next(((share, each) for share, each in known if share <= near), known[-1])
    then = f"if these numbers stay, a tolerance of {units.percent(share)} passes them"
    return f"{_told_time(values, each, tolerance)}; {then}"


def _is_baseline_shorter(values: Matched) -> bool:
    """Return whether the baseline, rather than the later run, keeps the factor from being smaller."""
    before, now = values.before.length or Length(0, 0.0), values.now.length or Length(0, 0.0)
    of_longer_before, of_longer_now = looks.of_pair(looks.LONGEST, now), looks.of_pair(before, looks.LONGEST)
    return (of_longer_before.misses or inf, before) < (of_longer_now.misses or inf, now)


def _rounds(length: Length | None) -> str:
    """Return how long a test was measured: `7 rounds in 5.60 s`."""
    if length is None:
        return "few samples"
    return f"{units.count(length.rounds, 'round')} in {units.seconds(length.seconds)}"


def _verb(word: str, length: Length | None) -> str:
    return f"{word}s" if length is not None and length.rounds == 1 else word


# Another tolerance.


def _told_tolerance(values: Matched, tolerance: Tolerance, passed: float | None) -> str:
    """Return which tolerance decides these numbers, and what stands in the way of this one."""
    failed = _fails(values, tolerance)
    before, now = values.before, values.now
    disturbed = now.widened or (f"when the baseline was made {before.widened}" if before.widened else None)
    if disturbed is not None:  # of the later run the numbers say so
        cause = noise.REMEDY if now.widened else f"{disturbed}; {noise.REMEDY}"
        return cause if passed is None else f"{cause}; a tolerance of {units.percent(passed)} would pass it"
    if passed is not None and failed is not None:
        least, most = _lost(values, tolerance)
        told = f"it got worse by {100 * least:.0f} to {100 * most:.0f} %"
        accept = _ACCEPT_IN_FOLDER if values.of_runs else _ACCEPT
        return f"{told}, which decides nothing: repeat it; if that stays, {accept}"
    hidden = _hidden(values, tolerance)
    if passed is not None and passed > most_overlooked(tolerance.share):
        return f"{hidden}: a quieter machine, or a tolerance of {units.percent(passed)}, would decide it"
    if passed is not None:
        return f"{hidden}: a tolerance of {units.percent(passed)} would pass it"
    if failed is not None:
        return f"{hidden}: a tolerance of {units.percent(failed)} would fail it"
    return f"{hidden}: a quieter machine would decide it"


def _hidden(values: Matched, tolerance: Tolerance) -> str:
    """Return what hides losses: a short measurement, or rounds that differ."""
    seen = values.visible(tolerance)
    losses = "every loss" if seen is None else f"losses below {text.whole_percent(seen)}"
    if values.is_too_short:
        is_of_baseline = not values.of_runs and _is_baseline_shorter(values)
        side = values.before if is_of_baseline else values.now
        of_baseline = " of the baseline" if is_of_baseline else ""
        return f"{_rounds(side.length)}{of_baseline} {_verb('hide', side.length)} {losses}"
    before, now = (regression.width(each.estimate) for each in (values.before, values.now))
    whose = "rounds of the baseline" if before > now else "rounds of this run"
    if values.of_runs and before > now:
        whose = "the earlier runs"
    by = f"by {text.whole_percent(max(before, now) - 1)}" if max(before, now) < inf else "without a bound"
    return f"{whose} differ {by}, which hides {losses}"


def _passes(values: Matched, tolerance: Tolerance) -> float | None:
    """Return the smallest tolerance, in whole percent, that these numbers surely keep."""
    look, _ = metric_values.factors(values.before, values.now)
    _, most = _lost(values, tolerance)
    share = _tolerated(most, look.meets, tolerance)
    if not share < largest(tolerance.metric):
        return None
    whole = ceil(100 * share - text.ROUNDED) / 100
    return next((each for each in (whole, whole + 0.01) if _is_fine(values, tolerance, each)), None)


def _fails(values: Matched, tolerance: Tolerance) -> float | None:
    """Return the largest tolerance, in whole percent, that these numbers surely exceed."""
    least, _ = _lost(values, tolerance)
    share = _tolerated(least, 1 / values.factor, tolerance)
    whole = floor(100 * share - text.ROUNDED) / 100 if share > 0 else 0.0
    return whole if whole > 0 and values.is_decided(changed(tolerance, share=whole)) else None


def _is_fine(values: Matched, tolerance: Tolerance, share: float) -> bool:
    return share <= largest(tolerance.metric) and values.is_decided(changed(tolerance, share=share))


def _lost(values: Matched, tolerance: Tolerance) -> tuple[float, float]:
    """Return the least and the greatest loss that the ranges allow, as shares; below zero for a gain."""
    ratio = regression.ratio(values.before.estimate, values.now.estimate)
    if ratio is None:
        return -inf, inf
    if TABLE[tolerance.metric].worse == "more":
        return (ratio.low or 0.0) - 1, (inf if ratio.high is None else ratio.high) - 1
    return 1 - (inf if ratio.high is None else ratio.high), 1 - (ratio.low or 0.0)


def _tolerated(loss: float, meets: float, tolerance: Tolerance) -> float:
    """Return the tolerance of which a loss is at the limit, by the factor that decides."""
    if TABLE[tolerance.metric].worse == "more":
        return (1 + loss) * meets - 1
    return 1 - (1 - loss) / meets
