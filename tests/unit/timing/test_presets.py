"""How long a run measures: as ever, or until a change must show."""

from dataclasses import replace
from pathlib import Path

from cases import for_each

from pytest_gpuperf.model.comparison import METRICS, GateOptions, Tolerance
from pytest_gpuperf.model.demand import SamplingPlan
from pytest_gpuperf.timing.presets import for_gate, for_unmarked

OF_SPEEDUP = Tolerance(metric="speedup", share=0.1)
OF_TIMES = Tolerance(metric="gpu_time", share=0.1)
GATE = GateOptions(tolerances=(OF_SPEEDUP,))


def test_a_run_without_a_gate_samples_as_ever():
    assert for_gate(SamplingPlan(), GateOptions()) == SamplingPlan()
    assert for_gate(SamplingPlan(max_rounds=7), GateOptions(strict=True, allow={"missing"})) == SamplingPlan(
        max_rounds=7
    )


def test_a_run_that_is_compared_with_a_baseline_and_has_no_gate_has_its_rounds_apart():
    assert for_gate(SamplingPlan(), GateOptions(baseline=Path("base.json"))) == SamplingPlan(apart=True)


@for_each(
    "asked",
    [GATE, GateOptions(improvements=True), GateOptions(create=True), GateOptions(tolerances=(OF_TIMES,))],
)
def test_a_gate_and_a_new_baseline_sample_for_longer(asked):
    plan, longer = SamplingPlan(), for_gate(SamplingPlan(), asked)
    more = ("precision_time", "max_rounds", "precision_rounds", "alone_share", "alone_together")
    assert all(getattr(longer, name) > getattr(plan, name) for name in more)
    assert longer.precision < plan.precision
    assert longer.apart
    changed = (*more, "precision", "apart")
    assert replace(longer, **{name: getattr(plan, name) for name in changed}) == plan, "and nothing else"


@for_each(
    ("expected", "metric"),
    [(metric in ("latency", "with_copies"), metric) for metric in METRICS],
)
def test_what_is_timed_beside_the_verdict_takes_longer_where_a_gate_rests_on_it(expected, metric):
    asked = GateOptions(tolerances=(OF_SPEEDUP, Tolerance(metric=metric, share=0.1)))
    plan, longer = SamplingPlan(), for_gate(SamplingPlan(), asked)
    assert expected is (longer.secondary_time > plan.secondary_time)
    assert expected is (longer.secondary_rounds > plan.secondary_rounds)
    assert expected is (longer.secondary_block_time == plan.block_time)


def test_what_nobody_marked_is_measured_for_a_shorter_time():
    plan = for_gate(SamplingPlan(), GATE)
    shorter = for_unmarked(plan, GATE)
    assert 0 < shorter.precision_rounds < plan.precision_rounds
    assert shorter.precision_time < plan.precision_time
    assert shorter.record_time < plan.record_time
    assert (plan.alone_together > 1, shorter.alone_together) == (True, 1)
    assert for_unmarked(SamplingPlan(), GateOptions()).precision_rounds == 0, "without a gate"
