"""From the options of a run to its sampling plan: how precisely, and how long, tests are sampled."""

from dataclasses import replace

from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import SamplingPlan

# Precision of a run that is compared with another: with an interval as wide on the baseline's side, a change
# of 20 % is still distinguished from the 10 % that a gate tolerates.
_GATE_PRECISION = 0.04
_GATE_SECONDS = 1.0
_GATE_ROUNDS = 100
# Of workloads too slow for as many in a second: noise of 2 % leaves an interval of 4 % after 45 rounds.
_SLOW_ROUNDS = 60
_UNMARKED_ROUNDS = 15  # enough to see a loss of three quarters
_SECONDARY_SECONDS = 0.25
_SECONDARY_ROUNDS = 30
_SECONDARY_METRICS = frozenset({"latency", "always"})


def for_gate(plan: SamplingPlan, gate: GateOptions) -> SamplingPlan:
    """Return the plan of a gated run, or of one that makes a baseline; any other run keeps its plan.

    On recorded noise it distinguishes 20 % from 10 % in at least 99 % of runs (benchmarks/gate.py).
    """
    if not gate.measures_longer:
        return plan
    precise = replace(
        plan,
        precision=_GATE_PRECISION,
        precision_time=_GATE_SECONDS,
        precision_rounds=_SLOW_ROUNDS,
        max_rounds=_GATE_ROUNDS,
    )
    if not any(tolerance.metric in _SECONDARY_METRICS for tolerance in gate.tolerances):
        return precise
    return replace(precise, secondary_time=_SECONDARY_SECONDS, secondary_rounds=_SECONDARY_ROUNDS)


def for_unmarked(plan: SamplingPlan, gate: GateOptions) -> SamplingPlan:
    """Return a short plan for the tests of `--gpuperf-all`: there may be thousands of them."""
    seconds = 0.3 if gate.measures_longer else 0.02
    return replace(
        plan,
        record_time=max(0.05, seconds),
        precision_time=seconds,
        precision_rounds=min(_UNMARKED_ROUNDS, plan.precision_rounds),
        warmup_time=0.02,
        max_restarts=0,
    )
