"""From the options of a run to its sampling plan: how precisely, and how long, tests are sampled."""

from dataclasses import replace

from pytest_gpuperf.analysis.spacing import LASTING_ROUNDS, ROUNDS_TOGETHER, SAMPLING_SHARE
from pytest_gpuperf.model.comparison import GateOptions
from pytest_gpuperf.model.demand import SamplingPlan

_SECONDARY_METRICS = frozenset({"latency", "with_copies"})


def for_gate(plan: SamplingPlan, gate: GateOptions) -> SamplingPlan:
    """Return the plan of a gated run, or of one that makes a baseline; any that compares has rounds apart.

    On recorded noise it distinguishes 20 % from 10 % in at least 99 % of runs (benchmarks/gate.py).
    """
    if not gate.measures_longer:
        return replace(plan, apart=gate.baseline is not None)
    # With an interval as wide on the baseline's side, a change of 20 % is still told from the 10 % that a
    # gate tolerates. Workloads too slow for 100 rounds in a second take 66, which last longer than a spell:
    # noise of 2 % leaves an interval of 4 % after 45 rounds.
    precise = replace(
        plan,
        precision=0.04,
        precision_time=1.0,
        precision_rounds=LASTING_ROUNDS,
        max_rounds=100,
        apart=True,
        alone_share=SAMPLING_SHARE,
        alone_together=ROUNDS_TOGETHER,
    )
    if not any(tolerance.metric in _SECONDARY_METRICS for tolerance in gate.tolerances):
        return precise
    return replace(precise, secondary_time=0.25, secondary_rounds=30, secondary_block_time=plan.block_time)


def for_unmarked(plan: SamplingPlan, gate: GateOptions) -> SamplingPlan:
    """Return a short plan for the tests of `--gpuperf-all`: there may be thousands of them."""
    seconds = 0.3 if gate.measures_longer else 0.02
    return replace(
        plan,
        record_time=max(0.05, seconds),
        precision_time=seconds,
        precision_rounds=min(15, plan.precision_rounds),  # enough to see a loss of three quarters
        warmup_time=0.02,
        may_restart=False,
        apart=False,
        alone_together=1,
    )
