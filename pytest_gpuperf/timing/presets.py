"""From the options of a run to its sampling plan: how long tests are sampled."""

from msgspec.structs import replace

from pytest_gpuperf.model.comparison import GateOptions, Metric
from pytest_gpuperf.model.demand import SamplingPlan

_IN_ROUNDS: frozenset[Metric] = frozenset({"latency", "with_copies"})
# Of these no look is waited for.
_NOT_LOOKED_AT: frozenset[Metric] = _IN_ROUNDS | {"cpu_time", "gpu_time"}
_UNMARKED_TIME, _UNMARKED_GATED_TIME = 0.05, 2.0  # seconds: there may be thousands of them


def for_gate(plan: SamplingPlan, gate: GateOptions) -> SamplingPlan:
    """Return the plan of a run that is compared with an earlier one, or that makes a baseline.

    The limit of a check on the speedup is one more that a look decides. A baseline, and what no look decides,
    takes all of the sampling time.
    """
    checked = {tolerance.metric for tolerance in gate.tolerances}
    return replace(
        plan,
        compared=gate.compares,
        whole=bool(checked & _NOT_LOOKED_AT) or (gate.create and checked != {"memory"}),
        in_rounds=bool(checked & _IN_ROUNDS),
    )


def for_unmarked(plan: SamplingPlan, gate: GateOptions) -> SamplingPlan:
    """Return a short plan for the tests of `--gpuperf-all`: there may be thousands of them."""
    seconds = _UNMARKED_GATED_TIME if gate.compares else _UNMARKED_TIME
    return replace(plan, record_time=seconds, warmup_time=0.02, may_restart=False, whole=False)
