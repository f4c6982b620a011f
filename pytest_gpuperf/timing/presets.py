"""From what a run is compared with to how long its tests are sampled."""

from dataclasses import replace

from pytest_gpuperf.model.comparison import GateOptions, Metric
from pytest_gpuperf.model.demand import RunOptions, SamplingPlan

_NOT_LOOKED_AT: frozenset[Metric] = frozenset({"latency", "always", "cpu", "gpu", "threshold"})
# Seconds for a test that nobody marked, of which there may be thousands: in all, and of sampling.
_UNMARKED_LIMIT, _UNMARKED_TIME, _UNMARKED_GATED_TIME = 0.4, 0.05, 0.3


def for_gate(plan: SamplingPlan, gate: GateOptions) -> SamplingPlan:
    """Return the plan of a run that is compared with an earlier one, or that makes a baseline.

    The limit of a check on the speedup is one more that a look decides. A baseline, and what has no limit
    that a look could decide, takes all of the sampling time.
    """
    checked = {tolerance.metric for tolerance in gate.tolerances}
    return replace(
        plan,
        compared=gate.measures_longer,
        whole=gate.create or bool(checked & _NOT_LOOKED_AT),
        latency_in_rounds="latency" in checked,
        copies_in_rounds="always" in checked,
    )


def for_unmarked(options: RunOptions, gate: GateOptions) -> RunOptions:
    """Return the options of a test that only `--gpuperf-all` measures: it has less time."""
    seconds = _UNMARKED_GATED_TIME if gate.measures_longer else _UNMARKED_TIME
    sampling = replace(options.sampling, record_time=seconds, warmup_time=0.02, may_restart=False)
    return replace(options, max_time=min(options.max_time, _UNMARKED_LIMIT), sampling=sampling)
