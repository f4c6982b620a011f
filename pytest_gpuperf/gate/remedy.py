"""From two measurements that decide nothing to a sentence with the number that would decide.

It is a `max_time` if the measured ranges would be decided by the smaller factor of more rounds, and else a
tolerance that decides the same numbers. So following one remedy never leads to another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf
from typing import NamedTuple

from msgspec.structs import replace as changed

from pytest_gpuperf.analysis import looks, noise
from pytest_gpuperf.analysis.looks import Length
from pytest_gpuperf.gate import metrics, regression, text
from pytest_gpuperf.gate.metrics import MetricValue
from pytest_gpuperf.gate.tolerance import largest
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Tolerance, most_overlooked
from pytest_gpuperf.model.record import Record

ENOUGH_TIME = looks.SHARPEST_AFTER / looks.SAMPLING_SHARE
"""The max_time in which calls that are not slow are sampled for as long as decides anything."""
# The max_time in which there are 7, 20 and 28 rounds, in rounds: from 14 on some are not timed.
_SEVEN, _TWENTY, _MANY = 12, 31, 43
_WITH_UNTIMED, _UNTIMED = 14, 1.14  # rounds from which on some are not timed; what these add
_ALL_OF_THEM = 0.75  # of the planned rounds: a run with fewer ended early, and more time would not be used
_ROUNDED = 1e-6  # percent: a float that is a little more than 10 is 10
_A_DAY = 86_400.0  # seconds: the longest max_time
_FEWEST = 2  # rounds, which every test takes


class Plan(NamedTuple):
    """The seconds that a run allows a test, and one of slow calls in a check; None where that is no more."""

    max_time: float
    slow_time: float | None = None

    def of(self, record: Record) -> "Plan":
        """Return what the run allows this test, whose marker may say otherwise."""
        of_marker = record.demand.max_time
        return self if of_marker is None else Plan(of_marker)

    def length(self, round_time: float) -> Length:
        """Return how long rounds of so many seconds each are taken."""
        rounds, seconds = looks.planned(round_time, self.max_time, self.slow_time)
        return Length(max(rounds, _FEWEST), max(seconds, _FEWEST * round_time))


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """A metric of one test, in the baseline and now, both measured in the same conditions.

    `plan` is what the test was allowed now, where that is known.
    """

    nodeid: str
    before: MetricValue
    now: MetricValue
    plan: Plan | None = None

    @property
    def factor(self) -> float:
        """How far beyond the limit a loss must lie."""
        look, luck = metrics.factors(self.before, self.now)
        return luck * (look.misses or inf)

    @property
    def is_too_short(self) -> bool:
        """Whether how long they were measured hides more than the noise of their rounds does."""
        return self.factor > max(regression.width(each.estimate) for each in (self.before, self.now))

    def visible(self, tolerance: Tolerance) -> float | None:
        """Return the smallest loss that two such runs find."""
        look, luck = metrics.factors(self.before, self.now)
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
        look, luck = metrics.factors(self.before, self.now)
        found = regression.compare_ranges(self.before.estimate, self.now.estimate, look, tolerance, luck=luck)
        return found != "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Longer:
    """The same values after more rounds of the baseline, of the later run, or of both, at this max_time."""

    of: str
    max_time: int
    values: Matched


def of(values: Matched, tolerance: Tolerance) -> str:
    """Return what would decide whether a tolerance is kept, with its number."""
    longer = [each for each in _longer(values) if each.values.factor < values.factor]
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


def times(round_time: float) -> list[int]:
    """Return the max_times, shortest first, from each of which on smaller losses are found."""
    seconds = looks.SHARPEST_AFTER + looks.ROUNDS_AROUND * round_time
    rounds = (_SEVEN * round_time, _TWENTY * round_time, _MANY * round_time)
    found = {ceil(max(ENOUGH_TIME, each) - _ROUNDED) for each in (seconds, *rounds)}
    return sorted(each for each in found if each <= _A_DAY)


def _longer(values: Matched) -> Iterator[_Longer]:
    """Yield what more time makes of them: of the baseline alone, of the run alone, and of both."""
    before, now = values.before, values.now
    for max_time in _times_of(before):
        if (later := after(before, max_time)) is not None:
            yield _Longer(of="baseline", max_time=max_time, values=replace(values, before=later))
    had = (values.plan.max_time if values.plan else 0.0) if _takes_all(values) else inf
    for max_time in _times_of(now):
        if max_time > had and (later := after(now, max_time)) is not None:
            yield _Longer(of="run", max_time=max_time, values=replace(values, now=later))
    for max_time in sorted({*_times_of(before), *_times_of(now)}):
        if max_time <= had:
            continue
        both = after(before, max_time), after(now, max_time)
        if both[0] is not None and both[1] is not None:
            longer = replace(values, before=both[0], now=both[1])
            yield _Longer(of="both", max_time=max_time, values=longer)


def _times_of(value: MetricValue) -> list[int]:
    round_time = value.length.round_time if value.length else None
    return [] if round_time is None else times(round_time)


def after(value: MetricValue, max_time: float) -> MetricValue | None:
    """Return a value as so much time leaves it; None where it has had as much."""
    length = value.length
    if length is None or length.round_time is None:
        return None
    rounds, seconds = looks.planned(length.round_time, max_time)
    if length.rounds < _WITH_UNTIMED <= rounds:
        rounds = max(_WITH_UNTIMED - 1, int(rounds / _UNTIMED))
    if rounds <= length.rounds and seconds <= length.seconds:
        return None
    return replace(value, length=Length(max(rounds, length.rounds), max(seconds, length.seconds)))


def _takes_all(values: Matched) -> bool:
    """Return whether the later run took all of its time, so that it would use more."""
    length = values.now.length
    if length is None or length.round_time is None or values.plan is None:
        return True
    return length.rounds >= _ALL_OF_THEM * values.plan.length(length.round_time).rounds


def _told_time(values: Matched, longer: _Longer, tolerance: Tolerance) -> str:
    """Return by how much smaller losses are found after more time."""
    seen, then = values.visible(tolerance), longer.values.visible(tolerance)
    losses = "no loss" if seen is None else f"losses from {text.whole_percent(seen)}"
    later = "more of them" if then is None else f"losses from {text.whole_percent(then)}"
    if longer.of == "baseline":
        anew = f"made anew of the same code at max_time={longer.max_time}"
        return f"the baseline has {_rounds(values.before.length)}: {anew} it shows {later}"
    side = values.now
    if longer.of == "both" and _is_shorter(values.before, values.now):
        side = values.before
    too = ", for the baseline, too," if longer.of == "both" else ""
    return f"{_rounds(side.length)} show {losses}: max_time={longer.max_time}{too} shows {later}"


def _told_both(values: Matched, longer: Sequence[_Longer], tolerance: Tolerance) -> str:
    """Return the time that finds smaller losses, and the tolerance that these numbers pass by then."""
    passed = [(_passes(each.values, tolerance), each) for each in longer]
    known = [(share, each) for share, each in passed if share is not None]
    if not known:
        return _told_time(values, longer[0], tolerance)
    near = most_overlooked(tolerance.share)
    share, each = next(((share, each) for share, each in known if share <= near), known[-1])
    then = f"with it, a tolerance of {units.percent(share)} would pass it"
    return f"{_told_time(values, each, tolerance)}; {then}"


def _is_shorter(one: MetricValue, other: MetricValue) -> bool:
    return (one.length or Length(0, 0.0)) < (other.length or Length(0, 0.0))


def _rounds(length: Length | None) -> str:
    """Return how long a test was measured: `7 rounds in 5.60 s`."""
    if length is None:
        return "few samples"
    return f"{units.count(length.rounds, 'round')} in {units.seconds(length.seconds)}"


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
        told = f"it got worse by {100 * least:.1f} to {100 * most:.1f} %"
        passing = f"a tolerance of {units.percent(passed)} passes that"
        return f"{told}: {passing}, one of {units.percent(failed)} fails it"
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
        is_of_baseline = _is_shorter(values.before, values.now)
        side = values.before if is_of_baseline else values.now
        of_baseline = " of the baseline" if is_of_baseline else ""
        return f"{_rounds(side.length)}{of_baseline} hide {losses}"
    before, now = (regression.width(each.estimate) for each in (values.before, values.now))
    whose = "the baseline" if before > now else "this run"
    by = f"by {text.whole_percent(max(before, now) - 1)}" if max(before, now) < inf else "without a bound"
    return f"rounds of {whose} differ {by}, which hides {losses}"


def _passes(values: Matched, tolerance: Tolerance) -> float | None:
    """Return the smallest tolerance, in whole percent, that these numbers surely keep."""
    look, _ = metrics.factors(values.before, values.now)
    _, most = _lost(values, tolerance)
    share = _tolerated(most, look.meets, tolerance)
    if not share < largest(tolerance.metric):
        return None
    whole = ceil(100 * share - _ROUNDED) / 100
    return next((each for each in (whole, whole + 0.01) if _is_fine(values, tolerance, each)), None)


def _fails(values: Matched, tolerance: Tolerance) -> float | None:
    """Return the largest tolerance, in whole percent, that these numbers surely exceed."""
    least, _ = _lost(values, tolerance)
    share = _tolerated(least, 1 / values.factor, tolerance)
    whole = floor(100 * share - _ROUNDED) / 100 if share > 0 else 0.0
    return whole if whole > 0 and values.is_decided(changed(tolerance, share=whole)) else None


def _is_fine(values: Matched, tolerance: Tolerance, share: float) -> bool:
    return share <= largest(tolerance.metric) and values.is_decided(changed(tolerance, share=share))


def _lost(values: Matched, tolerance: Tolerance) -> tuple[float, float]:
    """Return the least and the greatest loss that the ranges allow, as shares; below zero for a gain."""
    ratio = regression.ratio(values.before.estimate, values.now.estimate)
    if ratio is None:
        return -inf, inf
    if tolerance.metric in regression.LESS_IS_BETTER:
        return (ratio.low or 0.0) - 1, (inf if ratio.high is None else ratio.high) - 1
    return 1 - (inf if ratio.high is None else ratio.high), 1 - (ratio.low or 0.0)


def _tolerated(loss: float, meets: float, tolerance: Tolerance) -> float:
    """Return the tolerance of which a loss is at the limit, by the factor that decides."""
    if tolerance.metric in regression.LESS_IS_BETTER:
        return (1 + loss) * meets - 1
    return 1 - (1 - loss) / meets
