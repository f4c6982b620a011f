"""How long a run measures: as ever, or until a change must show."""

from pathlib import Path

from cases import for_each
from factories import within
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import METRICS, GateOptions
from pytest_gpuperf.model.demand import SamplingPlan
from pytest_gpuperf.timing.rounds import for_gate, for_unmarked

PLAN = SamplingPlan()
LONG = {"cpu_time", "gpu_time", "latency", "with_copies"}  # what no look decides
IN_ROUNDS = {"latency", "with_copies"}


@for_each(
    ("changed", "asked"),
    [
        ({}, GateOptions()),
        ({}, GateOptions(strict=True, allow={"missing"})),
        ({"compared": True}, GateOptions(baseline=Path("base.json"))),
        ({"compared": True}, GateOptions(improvements=True)),
        ({"compared": True, "whole": True}, GateOptions(create=True)),
        *(
            (
                {"compared": True, "whole": metric in LONG, "in_rounds": metric in IN_ROUNDS},
                GateOptions(tolerances=(within(), within(metric=metric))),
            )
            for metric in METRICS
        ),
    ],
)
def test_a_run_that_is_compared_samples_for_longer_where_no_look_decides(changed, asked):
    assert for_gate(PLAN, asked) == replace(PLAN, **changed)


@for_each(("seconds", "gate"), [(0.05, GateOptions()), (2.0, GateOptions(create=True))])
def test_what_nobody_marked_is_measured_for_a_shorter_time_and_once(seconds, gate):
    plan = for_gate(PLAN, gate)
    short = for_unmarked(plan, gate)
    assert (seconds, False, False) == (short.record_time, short.whole, short.may_restart)
    assert short.warmup_time < PLAN.warmup_time
    assert short.compared is plan.compared
