"""From a test that was measured to the words of -v, and from those of a run to how long they may take."""

from collections.abc import Iterator, Sequence
from math import ceil

from pytest_gpuperf.analysis.scaling import efficiency_text
from pytest_gpuperf.analysis.verdict import describe_demand, ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.report.words.columns import times_of
from pytest_gpuperf.report.words.verdicts import with_cause

_SOON = 60.0  # seconds, which nobody has to be prepared for


def outcome(record: Record) -> str | None:
    """Return what a finished test has measured: `2.9x [2.8, 3.0], required 3x, failed, 12 rounds in 0.3 s`.

    Of a scaling test it is the efficiency. Its verdict is said unless it passed or only recorded: pytest may
    count it otherwise. None where it has measured nothing.
    """
    scaling = record.scaling
    speedup = scaling.speedup if scaling else record.speedup
    if speedup is None:
        facts = [f"{name} {units.seconds(side.median)}" for name, side in times_of(record) if side.median]
        facts += _ended(record) if facts else ()
    else:
        seen_in = f" in {units.seconds(record.rounds_elapsed)}" if record.rounds_elapsed else ""
        facts = [
            *([*_of_scaling(scaling)] if scaling else [ratio(speedup), _required(record.demand)]),
            *_ended(record),
            units.count(speedup.rounds, "round") + seen_in,
        ]
    if facts and record.elapsed:
        facts.append(units.seconds(record.elapsed))
    return ", ".join(filter(None, facts)) or None


def time_limits(limits: Sequence[float], slow_time: float | None = None) -> str | None:
    """Return how many tests are measured, and for how long at most; None for a run that is short anyway.

    `limits` are those of the tests, in seconds. One of slow calls may take `slow_time`, if that is given.
    """
    longest = sum(limits)
    if longest <= _SOON:
        return None
    tests = units.count(len(limits), "test is", "tests are")
    slow = "" if slow_time is None else f", and for {slow_time:g} s if calls are slow"
    if len(limits) > 1 and len({*limits}) == 1:
        return f"{tests} measured, each for at most {limits[0]:g} s ({_rounded_up(longest)} in all){slow}"
    return f"{tests} measured, for at most {_rounded_up(longest)}{slow}"


def _ended(record: Record) -> Iterator[str]:
    """Yield the verdict and its cause, unless it is that of a test that passed or only recorded."""
    if record.status not in ("passed", "recorded"):
        yield with_cause(record.status, record)
    if record.is_regressed:
        yield "regressed"


def _of_scaling(scaling: Scaling) -> Iterator[str]:
    """Yield the efficiency, and the required one: `efficiency 0.81 [0.79, 0.83]`, `required 0.8`."""
    if scaling.efficiency is not None:
        yield f"efficiency {efficiency_text(scaling.efficiency)}"
    if scaling.is_judged:
        yield f"required {scaling.required:g}"


def _required(demand: Demand) -> str:
    """Return the limits of the speedup: `required 3x`; nothing where there are none."""
    if not demand.limits:
        return ""
    limits = describe_demand(demand)
    # A line has little room, and a limit is a lower one unless something else is said.
    return f"required {limits.removeprefix('at least ') if demand.max is None else limits}"


def _rounded_up(seconds: float) -> str:
    """Return a time that is not exceeded, in a unit for people: `90 s`, `6 min`, `2.5 h`."""
    if seconds < 120:
        return f"{ceil(seconds)} s"
    return f"{ceil(seconds / 60)} min" if seconds < 7200 else f"{ceil(seconds / 360) / 10:g} h"
