"""From what a run is held against to how long its tests are measured: what a change must show in."""

from dataclasses import replace

from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import Plan

__all__ = ["of_gate", "quick"]

_PRECISION = (
    0.04  # of a run that is held against another: together with the baseline's it tells 20 % from 10 %
)
_SECONDS = 1.0
_ROUNDS = 100
_SLOW_ROUNDS = 60  # of workloads that are too slow for as many in a second: noise of 2 % leaves 4 % after 45
_QUICK_ROUNDS = 15  # of those that nobody marked: a loss of three quarters shows in them
_ASIDE = 0.25
_ASIDE_ROUNDS = 30
_ASIDES = frozenset({"latency", "always"})  # metrics that are sampled beside the verdict


def of_gate(plan: Plan, gate: GateOptions) -> Plan:
    """Return how a run measures that is a gate, or makes its baseline: as precisely as a change must show.

    On recorded noise 20 % are then told from 10 % in at least 99 % of runs (benchmarks/gate.py).
    """
    if not gate.measures_longer:
        return plan
    longer = replace(
        plan,
        precision=_PRECISION,
        precision_time=_SECONDS,
        precision_rounds=_SLOW_ROUNDS,
        max_rounds=_ROUNDS,
    )
    if not any(each.metric in _ASIDES for each in gate.tolerances):
        return longer
    return replace(longer, aside_time=_ASIDE, aside_rounds=_ASIDE_ROUNDS)


def quick(plan: Plan, gate: GateOptions) -> Plan:
    """Return a plan for tests that nobody asked for one by one: there may be thousands."""
    seconds = 0.3 if gate.measures_longer else 0.02
    return replace(
        plan,
        record_time=max(0.05, seconds),
        precision_time=seconds,
        precision_rounds=min(_QUICK_ROUNDS, plan.precision_rounds),
        warmup_time=0.02,
        fresh_starts=0,
    )
