"""From an interval and a demand to a verdict, and why."""

from math import inf
from typing import Literal

from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand, Plan
from pytest_gpuperf.model.measurement import Estimate, Memory, Speedup
from pytest_gpuperf.model.offload import Regime
from pytest_gpuperf.model.record import Verdict

__all__ = [
    "decision",
    "dependence",
    "interval",
    "is_near",
    "judge",
    "ratio",
    "regime_words",
    "stands",
    "wanted",
    "within",
]

Decision = Literal["passed", "failed"]
_DEPENDENT = 0.3  # lag-1 autocorrelation from which neighbouring rounds are called dependent


def decision(low: float, high: float, demand: Demand) -> Decision | None:
    """Return what an interval of the speedup says about the demand, or None while it is in doubt.

    "Passed" and "the whole interval lies within the limits" are the same statement.
    """
    least = demand.min if demand.min is not None else 0.0
    most = demand.max if demand.max is not None else inf
    if high < least or low > most:
        return "failed"
    if low > least and (high < most or most == inf):
        return "passed"
    return None


def judge(speedup: Speedup, demand: Demand, plan: Plan) -> Verdict:
    """Return the verdict on a measured speedup; every status but passed and recorded has its reason."""
    if not demand.limits:
        return Verdict(status="recorded", reason=None)
    low = speedup.low if speedup.low is not None else 0.0
    high = speedup.high if speedup.high is not None else inf
    decided = decision(low, high, demand)
    if decided == "passed":
        return Verdict(status="passed", reason=None)
    if decided == "failed":
        reason = f"speedup {ratio(speedup)}, wanted {wanted(demand)}"
        return Verdict(status="failed", reason=reason, reason_code="speedup_outside_limits")
    return _doubt(speedup, demand, plan)


def is_near(speedup: Speedup, demand: Demand, share: float) -> bool:
    """Say whether the estimate is within that share of a limit."""
    return any(abs(speedup.value / limit - 1) <= share for limit in demand.limits)


def stands(speedup: Speedup, demand: Demand, own: float) -> bool:
    """Say whether the verdict stays when the CPU's times are cut down to their `own` share.

    Time that the CPU lost to others makes the speedup too large: only "above" can rest on that.
    """
    low = (speedup.low or 0.0) * own
    beyond = [limit for limit in demand.limits if (speedup.low or 0.0) > limit]
    return all(low > limit for limit in beyond)


def dependence(speedup: Speedup) -> str | None:
    """Return the note that neighbouring rounds resemble each other, when they do."""
    if speedup.autocorrelation is None or speedup.autocorrelation <= _DEPENDENT:
        return None
    return (
        f"dependent samples: lag-1 autocorrelation {speedup.autocorrelation:.2f}, so the interval may be "
        "too narrow; look for other work on the machine"
    )


def within(found: Verdict, memory: Memory, demand: Demand) -> Verdict:
    """Return the verdict that counts the memory, too, where the demand limits it."""
    if demand.max_memory is None:
        return found
    limit = f"max_memory is {units.size(demand.max_memory)}"
    if memory.peak is None:
        reason = f"{limit}, and {memory.reason}; leave it out on this device"
        return Verdict(status="error", reason=reason, reason_code="memory_not_known")
    if memory.peak <= demand.max_memory:
        return Verdict(status="passed", reason=None) if found.status == "recorded" else found
    held = f"the workload holds {units.size(memory.peak)} on the device, {limit}"
    return Verdict(
        status="failed",
        reason=f"{found.reason}; {held}" if found.reason else held,
        reason_code=found.reason_code if found.status == "failed" else "memory_above_limit",
    )


def regime_words(demand: Demand, regime: Regime) -> str:
    """Return what a gated speedup includes: `with copies at every call`."""
    words = {
        "never": "with the data on the device",
        "once": f"with one transfer for {demand.calls} calls",
        "always": "with copies at every call",
        "body": "with the copies that the body makes",
    }[regime]
    return f"per call that is waited for, {words}" if demand.latency else words


def wanted(demand: Demand) -> str:
    """Return the demand in words: `at least 3x`, `at most 1x`, or both, and what the speedup includes."""
    parts = []
    if demand.min is not None:
        parts.append(f"at least {demand.min:g}x")
    if demand.max is not None:
        parts.append(f"at most {demand.max:g}x")
    limits = " and ".join(parts)
    if demand.transfer == "never" and not demand.latency:
        return limits
    return f"{limits} {regime_words(demand, demand.transfer)}"


def ratio(speedup: Speedup | Estimate) -> str:
    """Return a speedup with its interval, the digits that tell them apart: `2.9x [2.6, 3.2]`."""
    return f"{units.digits(speedup.value)}x {interval(speedup)}"


def interval(speedup: Speedup | Estimate) -> str:
    """Return a speedup's interval: `[2.6, 3.2]`, a question mark for an unbounded end."""
    ends = ("?" if end is None else units.digits(end) for end in (speedup.low, speedup.high))
    return f"[{', '.join(ends)}]"


def _doubt(speedup: Speedup, demand: Demand, plan: Plan) -> Verdict:
    found = f"speedup {ratio(speedup)}, wanted {wanted(demand)}: in doubt after {speedup.rounds} rounds"
    if speedup.rounds >= plan.max_rounds:
        reason = f"{found}; a steadier machine or a limit further from it would decide it"
        return Verdict(status="inconclusive", reason=reason, reason_code="not_enough_rounds")
    reason = f"{found}; more time (max_time) would decide it"
    return Verdict(status="inconclusive", reason=reason, reason_code="not_enough_time")
