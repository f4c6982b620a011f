"""How long a run measures: as ever, or as what is compared with it needs."""

from dataclasses import replace
from pathlib import Path

from cases import for_each

from pytest_gpuperf.model.comparison import METRICS, GateOptions, Tolerance
from pytest_gpuperf.model.demand import RunOptions, SamplingPlan
from pytest_gpuperf.timing.presets import for_gate, for_unmarked

GATE = GateOptions(tolerances=(Tolerance(metric="speedup", share=0.1),))


def checked_on(metric):
    return GateOptions(tolerances=(*GATE.tolerances, Tolerance(metric=metric, share=0.1)))


def test_a_run_without_a_gate_samples_as_ever():
    assert for_gate(SamplingPlan(), GateOptions()) == SamplingPlan()
    assert for_gate(SamplingPlan(), GateOptions(strict=True, allow_missing=True)) == SamplingPlan()


def test_a_run_that_is_only_shown_beside_a_baseline_does_too():
    assert for_gate(SamplingPlan(), GateOptions(baseline=Path("base.json"))) == SamplingPlan()


@for_each("asked", [GATE, GateOptions(improvements=True)])
def test_a_check_on_the_speedup_is_decided_by_looks(asked):
    assert for_gate(SamplingPlan(), asked) == SamplingPlan(compared=True)


def test_a_new_baseline_takes_all_of_its_time():
    assert for_gate(SamplingPlan(), GateOptions(create=True)) == SamplingPlan(compared=True, whole=True)


@for_each("metric", sorted({*METRICS} - {"speedup", "efficiency", "memory"}))
def test_so_does_a_check_on_what_no_look_decides(metric):
    assert for_gate(SamplingPlan(), checked_on(metric)).whole


@for_each("metric", METRICS)
def test_what_is_timed_beside_the_verdict_is_in_its_rounds_where_a_check_rests_on_it(metric):
    plan = for_gate(SamplingPlan(), checked_on(metric))
    assert (metric == "latency", metric == "always") == (plan.latency_in_rounds, plan.copies_in_rounds)


def test_what_nobody_marked_is_measured_for_a_shorter_time():
    plan, options = SamplingPlan(), RunOptions()
    alone = for_unmarked(options, GateOptions())
    compared = for_unmarked(replace(options, sampling=for_gate(plan, GATE)), GATE)
    assert alone.max_time == compared.max_time < options.max_time
    assert alone.sampling.record_time < compared.sampling.record_time < plan.record_time
    assert for_unmarked(replace(options, max_time=0.1), GATE).max_time == 0.1
