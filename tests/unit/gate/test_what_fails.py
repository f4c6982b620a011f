"""Settlement: how a test ends that is held against a baseline, from what was found to pass, warn and fail."""

from cases import for_each
from factories import GATE, HERE, base_of, recorded, skipped, threshold, variants
from msgspec.structs import replace

from pytest_gpuperf.gate.gate import Gate
from pytest_gpuperf.gate.what_fails import (
    Decision,
    Rules,
    decide,
    missing_gpu_notes,
    required_gpu_unused,
)
from pytest_gpuperf.model.comparison import Comparison, GateOptions
from pytest_gpuperf.model.demand import Demand, RunOptions
from pytest_gpuperf.model.measurement import ResultCheck
from pytest_gpuperf.model.record import Record

NO_GATE, STRICT = GateOptions(), replace(GATE, strict=True)
SURE, DOUBT, NOTHING = RunOptions(), RunOptions(fail="doubt"), RunOptions(fail="nothing")


def found(outcome, reason="so") -> Comparison:
    reason = None if outcome == "not_regressed" else f"{outcome}: {reason}"
    return Comparison(metric="speedup", tolerance=0.1, outcome=outcome, reason=reason)


def record(*outcomes, **changes) -> Record:
    return recorded(**{"comparisons": tuple(found(each) for each in outcomes), **changes})


def demanded(status, *outcomes, reason="too slow", **changes) -> Record:
    """Return the record of a test with a limit of its own."""
    return record(*outcomes, status=status, reason=reason, demand=Demand(min=3), **changes)


TWO_LOST = record(comparisons=(found("regressed", "8x"), found("new"), found("regressed", "2 ms")))
BROKEN = record(status="error", reason="it broke")
WRONG = ResultCheck(agreed=False, error=1.0, tolerance=0.0, reason="x")
INVALID = "the regression check has no valid measurement: it broke"
NO_VALUE = "there is no valid measurement: it broke"
LOST = threshold(
    name="f",
    at_most=1,
    status="failed",
    reason="the GPU loses",
    outcome="none",
    largest_not_won=1,
    smallest_won=None,
)


@for_each(
    ("failure", "skip", "warnings", "ended", "gate", "plan", "lost"),
    [
        # What got worse fails, every metric in a line of its own, and the verdict with it.
        ("regressed: 8x\nregressed: 2 ms", None, (), TWO_LOST, GATE, SURE, None),
        ("too slow\nregressed: so", None, (), demanded("failed", "regressed"), GATE, SURE, None),
        ("regressed: so", None, (), record("regressed", "inconclusive"), GATE, SURE, None),
        (None, None, (), record("regressed"), NO_GATE, SURE, None),
        (None, None, (), record("not_regressed"), GATE, SURE, None),
        (None, None, (), record("new"), STRICT, DOUBT, None),
        ("the GPU loses", None, (), record("inconclusive"), GATE, SURE, LOST),
        # A doubt warns where it does not fail.
        (None, None, ("inconclusive: so",), record("inconclusive", "new"), GATE, SURE, None),
        (None, None, (), record("inconclusive", "new"), NO_GATE, SURE, None),
        ("inconclusive: so", None, (), record("inconclusive", "new"), GATE, DOUBT, None),
        (None, None, (), record("inconclusive", "new"), GATE, NOTHING, None),
        (None, None, ("too slow",), demanded("inconclusive"), NO_GATE, SURE, None),
        ("too slow", None, (), demanded("inconclusive"), NO_GATE, DOUBT, None),
        (None, None, (), demanded("inconclusive"), NO_GATE, NOTHING, None),
        (None, None, (), demanded("failed"), NO_GATE, NOTHING, None),
        (
            *(None, None, ("too slow", "inconclusive: so")),
            *(demanded("inconclusive", "inconclusive"), GATE, SURE, None),
        ),
        # Without a valid measurement a gated test fails, and says so once.
        (INVALID, NO_VALUE, (), BROKEN, GATE, SURE, None),
        (None, NO_VALUE, (), BROKEN, NO_GATE, SURE, None),
        (None, NO_VALUE, (), BROKEN, GATE, NOTHING, None),
        (None, NO_VALUE, (), replace(BROKEN, expected_failure=True), GATE, SURE, None),
        (None, NO_VALUE, (), replace(BROKEN, nodeid="new", source="all"), GATE, SURE, None),
        ("it broke", NO_VALUE, (), demanded("error", "inconclusive", reason="it broke"), GATE, SURE, None),
        ("they differ", None, (), demanded("failed", reason="they differ", check=WRONG), GATE, SURE, None),
        # A test that skipped skips.
        (None, "no GPU", (), record(status="skipped", reason="no GPU"), GATE, SURE, None),
        (None, "no GPU", (), record(status="skipped", reason="no GPU"), STRICT, DOUBT, None),
    ],
)
def test_how_a_test_ends(failure, skip, warnings, ended, gate, plan, lost):
    held = Gate(gate, (base_of(recorded()),), lambda: HERE)
    decided = decide(ended, lost, Rules(gate=gate, run=plan), held.failures(ended, plan))
    assert Decision(failure=failure, skip=skip, warnings=warnings) == decided


@for_each(
    ("expected", "records"),
    [
        (True, [skipped(), skipped("b", status="error"), recorded("c", gpu=None, speedup=None)]),
        (False, [skipped(), recorded("b")]),
        (False, [skipped(reason_code="deselected"), skipped(reason_code="session_ended")]),
        (False, [skipped(source="all"), skipped(status="error", expected_failure=True)]),
        (False, []),
    ],
)
def test_a_required_gpu_is_used_by_one_of_the_marked_tests_that_ran(expected, records):
    said = required_gpu_unused(records, RunOptions(require_gpu=True))
    assert expected == (said is not None)
    assert said is None or f"none of {len(records)} speedup tests was measured on one" in said
    assert required_gpu_unused(records, SURE) is None


def test_a_cpu_variant_has_a_note_on_its_gpu_variant_that_has_no_speedup_and_on_no_other():
    cpu, gpu = variants(status="skipped", reason="not today", speedup=None)
    (noted,) = missing_gpu_notes([cpu, gpu, recorded("alone")])
    assert noted.nodeid == cpu.nodeid
    assert [note.text for note in noted.notes] == [f"its GPU variant {gpu.nodeid} was skipped: not today"]
    assert list(missing_gpu_notes([noted, gpu])) == []
    assert list(missing_gpu_notes(variants())) == []
