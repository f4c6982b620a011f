"""From the interval of a speedup and the required limits to a verdict and its reason."""

from math import inf
from typing import Literal

from pytest_gpuperf.analysis import noise
from pytest_gpuperf.analysis.noise import Disturbance
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import Confirmation, Estimate, Memory, Speedup
from pytest_gpuperf.model.offload import Regime
from pytest_gpuperf.model.record import ReasonCode, Verdict

Decision = Literal["passed", "failed"]
UNCONFIRMED: dict[Confirmation, str] = {
    "contradicted": "a second measurement, with rounds far apart, did not confirm it",
    "no_time": "time was up before a second measurement, with rounds far apart, could confirm it",
    "interrupted": "a second measurement, with rounds far apart, was interrupted before it could confirm it",
    "not_apart": "its rounds followed each other too closely to be sure",
    "dependent": "its rounds are like their neighbours, and others, far apart, did not confirm it",
}
"""Why a limit that is missed decides nothing."""
_REMEDIES: dict[Confirmation, str] = {
    "contradicted": "; use a quieter machine, or move the limit further from the measured value",
    "no_time": "; allow more time with max_time",
    "interrupted": "",
    "dependent": "; allow more time with max_time, or use a quieter machine",
    "not_apart": "; tests timed apart cannot be measured again together: use the fixture `device`, or a "
    "limit farther from {value}x",
}
DEPENDENT = 0.3
"""The lag-1 autocorrelation above which successive rounds are called dependent."""


def decision(low: float, high: float, demand: Demand) -> Decision | None:
    """Return whether an interval of the speedup meets the demand; None while it is inconclusive.

    "Passed" and "the whole interval lies within the limits" are the same statement.
    """
    least = demand.min if demand.min is not None else 0.0
    most = demand.max if demand.max is not None else inf
    if high < least or low > most:
        return "failed"
    if low > least and (high < most or most == inf):
        return "passed"
    return None


def judge(
    speedup: Speedup,
    demand: Demand,
    plan: RunOptions,
    disturbance: Disturbance | None = None,
    throttled: str | None = None,
    *,
    state: str | None = None,
    missed: ReasonCode = "speedup_outside_limits",
) -> Verdict:
    """Return the verdict on a measured speedup; every status but passed and recorded has its reason.

    One that rests on time lost to other work (`disturbance`) or on a slow GPU (`throttled` says why) is
    inconclusive. `state` says what was found and what is required, where that is not called a speedup, and
    `missed` is the code for that.
    """
    if not demand.limits:
        return Verdict(status="recorded", reason=None)
    state = state or f"required {describe_demand(demand)}, speedup {ratio(speedup)}"
    if throttled is not None:
        return Verdict(status="inconclusive", reason=f"{state}: {throttled}", reason_code="gpu_throttled")
    if disturbance and not stands(speedup, demand, disturbance.estimate):
        reason = f"{state}: {disturbance.reason}; {noise.REMEDY}"
        return Verdict(status="inconclusive", reason=reason, reason_code="interference")
    decided = decision(speedup.estimate.lower, speedup.estimate.upper, demand)
    is_doubtful = speedup.is_unconfirmed if decided == "failed" else speedup.confirmation == "dependent"
    if decided and speedup.confirmation and is_doubtful:
        remedy = _REMEDIES[speedup.confirmation].format(value=units.digits(speedup.value))
        reason = f"{state}: {UNCONFIRMED[speedup.confirmation]}{remedy}"
        return Verdict(status="inconclusive", reason=reason, reason_code="not_confirmed")
    if decided == "passed":
        return Verdict(status="passed", reason=None)
    if decided == "failed":
        return Verdict(status="failed", reason=state, reason_code=missed)
    state += f": inconclusive after {units.count(speedup.rounds, 'round')}"
    if speedup.rounds >= plan.sampling.max_rounds:
        reason = f"{state}; use a quieter machine, or move the limit further from the measured value"
        return Verdict(status="inconclusive", reason=reason, reason_code="not_enough_rounds")
    reason = f"{state}; allow more time with max_time"
    return Verdict(status="inconclusive", reason=reason, reason_code="not_enough_time")


def interrupted(speedup: Speedup) -> Verdict:
    """Return the verdict where a second measurement broke off that another limit than the demand's needs."""
    reason = f"speedup {ratio(speedup)}: {UNCONFIRMED['interrupted']}"
    return Verdict(status="inconclusive", reason=reason, reason_code="not_confirmed")


def stands(speedup: Speedup, demand: Demand, certain: Estimate) -> bool:
    """Return whether the speedup is on the same side of every limit without the time lost to other work."""
    measured = speedup.estimate
    return all(
        (measured.lower <= limit or certain.lower > limit)
        and (measured.upper >= limit or certain.upper < limit)
        for limit in demand.limits
    )


def autocorrelation_note(speedup: Speedup) -> str | None:
    """Return the note that successive rounds are correlated, if they are."""
    if speedup.autocorrelation is None or speedup.autocorrelation <= DEPENDENT:
        return None
    return (
        f"dependent samples: lag-1 autocorrelation {speedup.autocorrelation:.2f}, so the interval may be "
        "too narrow; check for other work on the machine"
    )


def apply_memory_limit(verdict: Verdict, memory: Memory, demand: Demand) -> Verdict:
    """Return a verdict on the speedup combined with the limit on device memory, if there is one."""
    if demand.max_memory is None:
        return verdict
    limit = f"max_memory is {units.size(demand.max_memory)}"
    if memory.peak is None:
        reason = f"{limit}, but {memory.reason}; remove the limit for this device"
        return Verdict(status="error", reason=reason, reason_code="memory_not_known")
    if memory.peak <= demand.max_memory:
        return Verdict(status="passed", reason=None) if verdict.status == "recorded" else verdict
    held = f"the workload holds {units.size(memory.peak)} on the device, {limit}"
    return Verdict(
        status="failed",
        reason=f"{verdict.reason}; {held}" if verdict.reason else held,
        reason_code=verdict.reason_code if verdict.status == "failed" else "memory_above_limit",
    )


def describe_regime(demand: Demand, regime: Regime) -> str:
    """Return which copies a speedup includes: `with copies at every call`."""
    words = {
        "never": "with the data on the device",
        "once": f"with one transfer for {demand.calls} calls",
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
    """Return a speedup with its interval: `2.9x [2.6, 3.2]`."""
    return f"{units.digits(speedup.value)}x {units.interval(speedup.low, speedup.high, units.digits)}"
