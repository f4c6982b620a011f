"""From the options of a run to its sampling plan: how precisely, and how long, tests are sampled."""

from dataclasses import replace

from pytest_gpuperf.model.comparison import GateOptions, Metric
from pytest_gpuperf.model.demand import SamplingPlan

_IN_ROUNDS: frozenset[Metric] = frozenset({"latency", "always"})
_NOT_LOOKED_AT: frozenset[Metric] = frozenset({"latency", "always", "cpu", "gpu", "threshold"})
_UNMARKED_TIME, _UNMARKED_GATED_TIME = 0.05, 0.3  # seconds: there may be thousands of them


def for_gate(plan: SamplingPlan, gate: GateOptions) -> SamplingPlan:
    """Return the plan of a run that is compared with an earlier one, or that makes a baseline.

    The limit of a check on the speedup is one more that a look decides. A baseline, and what has no limit that
    a look could decide, takes all of the sampling time.
    """
    checked = {tolerance.metric for tolerance in gate.tolerances}
    return replace(
        plan,
        compared=gate.measures_longer,
        whole=gate.create or bool(checked & _NOT_LOOKED_AT),
        in_rounds=bool(checked & _IN_ROUNDS),
    )


def for_unmarked(plan: SamplingPlan, gate: GateOptions) -> SamplingPlan:
    """Return a short plan for the tests of `--gpuperf-all`: there may be thousands of them."""
    seconds = _UNMARKED_GATED_TIME if gate.measures_longer else _UNMARKED_TIME
    return replace(plan, record_time=seconds, warmup_time=0.02, may_restart=False, whole=False)
