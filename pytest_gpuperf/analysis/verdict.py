"""From the range of a speedup and the required limits to a verdict and its reason."""

from math import ceil
from typing import Literal, NamedTuple

from msgspec.structs import replace

from pytest_gpuperf.analysis import looks
from pytest_gpuperf.analysis.estimation import Sampled
from pytest_gpuperf.analysis.looks import Look, Range
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Estimate, Memory, Speedup
from pytest_gpuperf.model.offload import Regime
from pytest_gpuperf.model.record import ReasonCode, Status, Verdict

_WORST_FIRST: tuple[Status, ...] = ("error", "failed", "inconclusive", "skipped", "passed", "recorded")
Decision = Literal["passed", "failed"]


class Pace(NamedTuple):
    """The seconds that a round took, and those that the test was allowed."""

    round_time: float
    max_time: float


def decision(speedup: Speedup, demand: Demand, look: Look) -> Decision | None:
    """Return whether what was seen of a speedup meets the demand; None while it is inconclusive."""
    found = Range(speedup.estimate.lower, speedup.estimate.upper)
    limits = [*looks.limits_of(demand)]
    sides = [looks.decided(limit, found, look) for limit in limits]
    if any(side and limit.is_red(side) for limit, side in zip(limits, sides, strict=True)):
        return "failed"
    return "passed" if all(sides) else None


def judge(
    speedup: Speedup,
    demand: Demand,
    look: Look,
    disturbance: Disturbance | None = None,
    throttled: str | None = None,
    *,
    pace: Pace | None = None,
    state: str | None = None,
    missed: ReasonCode = "speedup_outside_limits",
) -> Verdict:
    """Return the verdict on a measured speedup; every status but passed and recorded has its reason.

    One that rests on samples that are not those of undisturbed loops (`disturbance`) or on a slow GPU
    (`throttled` says why) is inconclusive. With its `pace` the max_time that decides is known. `state` says
    what was found and is required, where that is not called a speedup, and `missed` is the code for that.
    """
    if not demand.limits:
        return Verdict(status="recorded", reason=None)
    state = state or f"required {describe_demand(demand)}, speedup {ratio(speedup)}"
    if throttled is not None:
        return Verdict(status="inconclusive", reason=f"{state}: {throttled}", reason_code="gpu_throttled")
    decided = decision(speedup, demand, look)
    if disturbance and not stands(speedup, disturbance.speedup, demand, look):
        reason = f"{state}: {disturbance.reason}; {disturbance.remedy}"
        return Verdict(status="inconclusive", reason=reason, reason_code=disturbance.code)
    if decided == "passed":
        return Verdict(status="passed", reason=None)
    if decided == "failed":
        return Verdict(status="failed", reason=state, reason_code=missed)
    state += f": inconclusive after {units.count(speedup.rounds, 'round')}"
    found = Range(speedup.estimate.lower, speedup.estimate.upper)
    is_close = any(looks.decided(limit, found, looks.SHARPEST) is None for limit in looks.limits_of(demand))
    if speedup.low is not None and is_close:
        straddled = any(speedup.estimate.is_above(limit) is None for limit in demand.limits)
        where = "on both sides of" if straddled else "too near"
        reason = f"{state}, which lie {where} the limit; use a quieter machine, or move the limit"
        return Verdict(status="inconclusive", reason=reason, reason_code="limit_too_close")
    needed = _time_needed(speedup, demand, pace) if pace else None
    reason = f"{state}; allow more time with max_time{'' if needed is None else f'={needed}'}"
    return Verdict(status="inconclusive", reason=reason, reason_code="not_enough_time")


def _time_needed(speedup: Speedup, demand: Demand, pace: Pace) -> int | None:
    """Return the max_time of so many rounds as decide, if their range stays as it is; None if none do."""
    for rounds in (looks.STRETCHES, looks.ENOUGH, looks.MANY):
        max_time = looks.time_for(rounds, pace.round_time)
        seconds = looks.planned(pace.round_time, max_time).seconds
        if max_time > pace.max_time and decision(speedup, demand, looks.at_end(rounds, seconds)):
            return max_time
    longest = max(ceil(looks.SHARPEST_AFTER / looks.SAMPLING_SHARE), max_time)
    decides = longest > pace.max_time and decision(speedup, demand, looks.SHARPEST)
    return longest if decides else None


def stands(speedup: Speedup, changed: Speedup, demand: Demand, look: Look) -> bool:
    """Return whether a speedup decides the same where it may have been another one."""
    return decision(speedup, demand, look) == decision(changed, demand, look)


def apply_memory_limit(verdict: Verdict, memory: Memory, demand: Demand) -> Verdict:
    """Return a verdict on the speedup combined with the limit on device memory, if there is one."""
    if demand.max_memory is None:
        return verdict
    held, most = units.different_sizes(memory.peak or 0, demand.max_memory)
    limit = f"max_memory is {most}"
    if memory.peak is None:
        reason = f"{limit}, but {memory.reason}; remove the limit for this device"
        return Verdict(status="error", reason=reason, reason_code="memory_not_known")
    if memory.peak <= demand.max_memory:
        return Verdict(status="passed", reason=None) if verdict.status == "recorded" else verdict
    reason = f"the workload holds {held} on the device, {limit}"
    return Verdict(
        status="failed",
        reason=f"{verdict.reason}; {reason}" if verdict.reason else reason,
        reason_code=verdict.reason_code if verdict.status == "failed" else "memory_above_limit",
    )


def judge_share(
    sampled: Sampled,
    least: float,
    disturbance: Disturbance | None,
    throttled: str | None,
    *,
    pace: Pace | None,
    noun: str,
    roof: str,
) -> Verdict:
    """Return the verdict on the share of a GPU's roof, by the copy that is its roof beside its calls.

    `roof` says what that copy moves, and how long it takes.
    """
    share = sampled.speedup()
    if share is None:
        return Verdict(status="recorded", reason=None)
    range_ = units.interval(share.low, share.high, units.measured_percent)
    found = f"{units.measured_percent(share.value)} {range_}"
    return judge(
        share,
        Demand(min=least),
        sampled.look,
        disturbance,
        throttled,
        pace=pace,
        state=f"required at least {units.percent(least)} of the {noun}'s roof ({roof}), found {found}",
        missed="share_below_limit",
    )


def both(one: Verdict, other: Verdict) -> Verdict:
    """Return the verdict on two requirements: the worse one, with the reasons of both."""
    worse = min(one, other, key=lambda each: _WORST_FIRST.index(each.status))
    reasons = [each.reason for each in (one, other) if each.reason]
    return replace(worse, reason="; ".join(reasons) or None)


def describe_regime(demand: Demand, regime: Regime) -> str:
    """Return which copies a speedup includes: `with copies at every call`."""
    words = {
        "never": "with the data on the device",
        "once": f"with one transfer for {units.count(demand.calls or 1, 'call')}",
        "always": "with copies at every call",
        "body": "with the copies that the body makes",
    }[regime]
    return f"per awaited call, {words}" if demand.latency else words


def describe_demand(demand: Demand) -> str:
    """Return the limits: `at least 3x`, `at most 1x`, or both, and which copies the speedup includes."""
    bounds = (("at least", demand.min), ("at most", demand.max))
    limits = " and ".join(f"{bound} {limit:g}x" for bound, limit in bounds if limit is not None)
    if demand.transfer == "never" and not demand.latency:
        return limits
    return f"{limits} {describe_regime(demand, demand.transfer)}"


def ratio(speedup: Speedup | Estimate) -> str:
    """Return a speedup with its range: `2.9x [2.6, 3.2]`."""
    return f"{units.digits(speedup.value)}x {units.interval(speedup.low, speedup.high, units.digits)}"
