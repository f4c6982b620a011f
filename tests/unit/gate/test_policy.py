"""Settlement: how a test ends that is held against a baseline, from what was found to pass, warn and fail."""

from cases import for_each
from factories import GATE, HERE, recorded, skipped, speedup, threshold, variants
from msgspec.structs import replace

from pytest_gpuperf.gate.gate import Gate
from pytest_gpuperf.gate.policy import Decision, missing_gpu_notes, required_gpu_unused
from pytest_gpuperf.gate.policy import decide as decided
from pytest_gpuperf.gate.table import Rules
from pytest_gpuperf.model.comparison import Comparison, GateOptions
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import ResultCheck
from pytest_gpuperf.model.record import Record

STRICT = replace(GATE, strict=True)
NO_GATE = GateOptions()


def decide(record, threshold, plan, gate=NO_GATE) -> Decision:
    lost = Gate(gate, (), lambda: HERE, gated=gate.is_gate).failures(record, plan)
    return decided(record, threshold, Rules(gate=gate, run=plan), lost)


def found(outcome, reason="so", metric="speedup") -> Comparison:
    reason = None if outcome == "not_regressed" else f"{outcome}: {reason}"
    return Comparison(metric=metric, tolerance=0.1, outcome=outcome, reason=reason)


def record(*outcomes, **changes) -> Record:
    return recorded(**{"comparisons": tuple(found(each) for each in outcomes), **changes})


def test_a_failure_says_what_was_found_and_every_metric_in_its_own_line():
    both = record(comparisons=(found("regressed", "8x"), found("new"), found("regressed", "2 ms", "gpu")))
    assert decide(both, None, RunOptions(), GATE).failure == "regressed: 8x\nregressed: 2 ms"


def test_a_verdict_and_a_regression_fail_together():
    failed = record("regressed", status="failed", reason="too slow", demand=Demand(min=3))
    assert decide(failed, None, RunOptions(), GATE).failure == "too slow\nregressed: so"


def test_a_bare_marker_fails_for_a_regression_and_for_nothing_else():
    assert decide(record("regressed"), None, RunOptions(), GATE).failure == "regressed: so"
    assert decide(record("regressed"), None, RunOptions()).failure is None
    assert decide(record("not_regressed"), None, RunOptions(), GATE) == decide(record(), None, RunOptions())


@for_each(
    ("expected", "gate", "plan"),
    [
        (("inconclusive: so",), GATE, RunOptions()),
        ((), NO_GATE, RunOptions()),
        ((), GATE, RunOptions(fail="doubt")),
        ((), GATE, RunOptions(fail="nothing")),
    ],
)
def test_a_doubt_warns_where_doubts_do(expected, gate, plan):
    assert expected == decide(record("inconclusive", "new"), None, plan, gate).warnings


@for_each(
    ("failure", "warnings", "plan"),
    [
        (None, ("2x, required at least 3x",), RunOptions()),
        ("2x, required at least 3x", (), RunOptions(fail="doubt")),
        (None, (), RunOptions(fail="nothing")),
    ],
)
def test_an_inconclusive_test_passes_with_a_warning_however_far_its_estimate_is(failure, warnings, plan):
    inconclusive = record(status="inconclusive", reason="2x, required at least 3x", demand=Demand(min=3))
    end = decide(inconclusive, None, plan)
    assert (failure, warnings) == (end.failure, end.warnings)


def test_a_test_that_fails_warns_of_nothing_beside():
    end = decide(record("regressed", "inconclusive"), None, RunOptions(), GATE)
    assert (("regressed: so"), ()) == (end.failure, end.warnings)


@for_each(
    ("expected", "gate", "plan"),
    [
        ("the regression check has no valid measurement: it broke", GATE, RunOptions()),
        (None, NO_GATE, RunOptions()),
        (None, GATE, RunOptions(fail="nothing")),
    ],
)
def test_a_gated_test_that_could_not_be_measured_fails(expected, gate, plan):
    end = decide(record(status="error", reason="it broke"), None, plan, gate)
    assert expected == end.failure
    assert end.skip == "there is no valid measurement: it broke"


def test_a_test_with_a_demand_that_could_not_be_measured_says_so_once():
    broken = record("inconclusive", status="error", reason="it broke", demand=Demand(min=3))
    assert decide(broken, None, RunOptions(), GATE).failure == "it broke"


@for_each("gate", [GATE, STRICT])
@for_each("plan", [RunOptions(), RunOptions(fail="doubt")])
def test_a_skipped_test_skips(gate, plan):
    end = decide(record(status="skipped", reason="no GPU"), None, plan, gate)
    assert (None, "no GPU", ()) == (end.failure, end.skip, end.warnings)


def test_doubts_of_the_demand_and_of_the_baseline_are_both_told():
    doubtful = record(
        "inconclusive",
        status="inconclusive",
        reason="near 3x",
        demand=Demand(min=3),
        speedup=speedup(3.0, 2.5, 3.5),
    )
    assert decide(doubtful, None, RunOptions(), GATE).warnings == ("near 3x", "inconclusive: so")


def test_a_threshold_that_fails_leaves_no_warning_of_the_baseline():
    failed = threshold(
        name="f",
        at_most=1,
        status="failed",
        reason="the GPU loses",
        outcome="none",
        largest_not_won=1,
        smallest_won=None,
    )
    end = decide(record("inconclusive"), failed, RunOptions(), GATE)
    assert ("the GPU loses", ()) == (end.failure, end.warnings)


def test_a_required_gpu_is_used_by_one_of_the_marked_tests_that_ran():
    required = RunOptions(require_gpu=True)
    unused = [skipped(), skipped("b", status="error"), recorded("c", gpu=None, speedup=None)]
    said = required_gpu_unused(unused, required)
    assert said is not None
    assert "none of 3 speedup tests was measured on one" in said
    assert required_gpu_unused(unused, RunOptions()) is None
    assert required_gpu_unused([*unused, recorded("d")], required) is None
    not_counted = [
        skipped(reason_code="deselected"),
        skipped(reason_code="session_ended"),
        skipped(source="all"),
        skipped(status="error", expected_failure=True),
    ]
    assert required_gpu_unused(not_counted, required) is None
    assert required_gpu_unused([], required) is None


@for_each(
    "changes",
    [{"status": "error"}, {"check": ResultCheck(agreed=False, error=1.0, tolerance=0.0, reason="x")}],
)
def test_a_failed_test_without_a_valid_measurement_says_only_why(changes):
    failed = record(**{"status": "failed", "reason": "they differ", "demand": Demand(min=3), **changes})
    lost = ["the regression check has no valid measurement: they differ"]
    assert decided(failed, None, Rules(gate=GATE, run=RunOptions()), lost).failure == "they differ"


def test_a_cpu_variant_has_a_note_on_its_gpu_variant_that_has_no_speedup_and_on_no_other():
    cpu, gpu = variants(status="skipped", reason="not today", speedup=None)
    (noted,) = missing_gpu_notes([cpu, gpu, recorded("alone")])
    assert noted.nodeid == cpu.nodeid
    assert [note.text for note in noted.notes] == [f"its GPU variant {gpu.nodeid} was skipped: not today"]
    assert list(missing_gpu_notes([noted, gpu])) == []
    assert list(missing_gpu_notes(variants())) == []
