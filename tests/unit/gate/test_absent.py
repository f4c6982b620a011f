"""What became of everything that a baseline holds: one table of decisions, and its corners."""

from pathlib import Path

import factories
from cases import for_each
from decisions import ROWS, Row
from factories import GATE, HERE, base_of, measured, recorded, scaled, within
from msgspec.structs import replace

from pytest_gpuperf.analysis import scaling, threshold
from pytest_gpuperf.gate.gate import Gate, RunCoverage
from pytest_gpuperf.model.comparison import GateOptions, GateResult
from pytest_gpuperf.model.demand import Pairing, RunOptions, SizeGroup
from pytest_gpuperf.model.measurement import Memory
from pytest_gpuperf.model.record import Record, Run

OTHER = recorded("other")  # measured in both runs, so that a row is never about nothing


def sized(size, *, is_group=True) -> Record:
    group = SizeGroup(name="f", parameter="n", size=size, sizes=(1, 2))
    return recorded(f"f[{size}]", size_group=group if is_group else None)


LOST = recorded("a", status="error", reason="lost", speedup=None)
NOW = {
    "same": [recorded("a")],
    "worse": [recorded("a", 5.0)],
    "better": [recorded("a", 20.0)],
    "unclear": [recorded("a", 9.0)],
    "elsewhere": [recorded("a", gpu=measured(replace(factories.GPU, name="another GPU"), 1e-3))],
    "broken": [LOST],
    "silent": [LOST],
    "skipped": [factories.skipped("a")],
    "excused": [recorded("a", 5.0, expected_failure=True)],
    "ungrouped": [sized(1, is_group=False), sized(2, is_group=False)],
    "cut off": [factories.skipped("a", reason_code="session_ended")],
}
CAUSES = {"renamed": "gone", "hidden": "hidden", "narrowed": "narrowed"}
ASKED = {
    "strict": {"strict": True},
    "missing": {"allow": frozenset({"missing"})},
    "no-gpu": {"allow": frozenset({"no-gpu"})},
    "without": {"allow": frozenset({"no-gpu"})},
    "improvement": {"improvements": True},
    "strict, missing": {"strict": True, "allow": frozenset({"missing"})},
}


def ended(
    now, *before, asked=GATE, fail="sure", here=HERE, cause="gone", failed=(), **seen
) -> tuple[GateResult, Gate, Run]:
    """Return what a gate with one baseline says of a run's records; `cause` is why any did not run."""
    base = base_of(*before, thresholds=threshold.find(before), scalings=scaling.curves(before))
    gate = Gate(asked, (base,), lambda: here)
    run = Run(started="", environment=here, records=tuple(map(gate.with_comparisons, now)))
    coverage = RunCoverage(cause=lambda *_: cause, failed=failed, **seen)
    return gate.finish(run, coverage, RunOptions(fail=fail)), gate, run


@for_each("row", ROWS)
def test_the_decision_of_each_state_with_each_option(row: Row):
    before = [sized(1), sized(2)] if row.state == "ungrouped" else [recorded("a")]
    here = replace(HERE, gpu=None) if row.option == "without" else HERE
    fail = row.option if row.option in ("doubt", "nothing") else "sure"
    asked = replace(GATE, **ASKED.get(row.option, {}))
    saw = {"asked": asked, "fail": fail, "here": here, "cause": CAUSES.get(row.state, "gone")}
    now = [*NOW.get(row.state, []), OTHER]
    _, gate, run = ended(now, *before, OTHER, **saw)
    # A silent test never asks; an expected failure and a skip end a test before it fails.
    asks = [each for each in run.records if row.state not in ("silent", "excused")]
    failed = {each.nodeid: why for each in asks if (why := gate.failures(each, RunOptions(fail=fail)))}
    result, _, _ = ended(now, *before, OTHER, failed=failed, **saw)
    codes = [each.code for each in result.failures]
    expected = {"run": "session_ended" if row.state == "cut off" else "tests_missing"}
    assert ([expected["run"]] if row.fails == "run" else []) == codes
    assert (["a"] if row.fails == "test" else []) == list(failed)
    (found,) = {each.outcome for each in run.records[0].comparisons} or {None}
    absent = [each.cause for each in result.absent]
    assert row.outcome == (absent[0] if absent else found)


def test_without_a_gate_nothing_fails_and_what_is_absent_is_listed():
    result, gate, _ = ended([OTHER], recorded("a"), OTHER, asked=GateOptions(baseline=Path("base.json")))
    assert (result.failures, [each.name for each in result.absent]) == ((), ["a"])
    assert gate.failures(LOST, RunOptions()) == []


@for_each(
    ("expected", "metric", "now"),
    [
        (["gpu_time"], "gpu_time", recorded("a", gpu=None, speedup=None)),
        ([], "cpu_time", recorded("a", gpu=None, speedup=None)),
        (["memory"], "memory", recorded("a", memory=None)),
    ],
)
def test_each_metric_that_is_asked_for_is_an_entry_of_its_own(expected, metric, now):
    held = recorded("a", memory=Memory(peak=1, reason=None))
    asked = replace(GATE, tolerances=(within(), within(metric=metric)))
    lost = [each.metric for each in ended([now], held, asked=asked)[0].absent]
    assert expected == [each for each in lost if each == metric]


def test_a_gpu_variants_cpu_time_is_held_by_its_cpu_variant():
    pairing = Pairing(kind="gpu", library="cupy", partner="a[cpu]")
    pair = [recorded("a[cpu]", gpu=None, speedup=None), recorded("a[gpu]", pairing=pairing)]
    asked = replace(GATE, tolerances=(within(metric="cpu_time"),))
    result, _, _ = ended(pair, *pair, asked=asked)
    assert (result.absent, result.baseline_tests) == ((), 1)


def test_every_result_of_a_test_that_ran_twice_answers():
    result, _, _ = ended([recorded("a"), factories.skipped("a#2")], recorded("a"), recorded("a#2"))
    assert [("a#2", "skipped")] == [(each.name, each.cause) for each in result.absent]
    assert result.baseline_tests == 1


@for_each(("expected", "counts"), [([], (1, 2, 4)), (["a.py::test_step"], ())])
def test_a_scaling_group_without_its_marker_is_gone_whatever_metric_is_asked_for(expected, counts):
    before = [scaled(1), scaled(2, 0.9), scaled(4, 0.8)]
    now = [each if counts else replace(each, scaling=None) for each in before]
    result, _, _ = ended([*now, OTHER], *before, OTHER)
    assert expected == [each.name for each in result.absent if each.metric is None]


@for_each("cause", ["narrowed", "gone"])
def test_a_group_of_which_no_test_ran_is_absent_where_its_tests_are_not(cause):
    result, _, _ = ended([OTHER], sized(1), sized(2), OTHER, cause=cause)
    assert [("f[1]", cause), ("f[2]", cause)] == [(each.name, each.cause) for each in result.absent]
    scaling_alone, _, _ = ended([OTHER], scaled(1), scaled(2, 0.9), OTHER, cause=cause)
    assert ("a.py::test_step", cause) in [(each.name, each.cause) for each in scaling_alone.absent]
    cut_off = factories.skipped("f[1]", reason_code="session_ended")
    result, _, _ = ended([OTHER, cut_off], sized(1), OTHER, cause=cause)
    assert [("f[1]", "ended")] == [(each.name, each.cause) for each in result.absent]


def test_the_first_result_that_has_the_metric_is_held():
    before = [factories.skipped("a"), recorded("a#2"), OTHER]
    result, _, _ = ended([OTHER], *before)
    assert [("a", "gone")] == [(each.name, each.cause) for each in result.absent]
    _, _, run = ended([recorded("a", 5.0), OTHER], *before)
    assert run.records[0].comparisons[0].outcome == "regressed"


@for_each(
    ("expected", "now", "changes"),
    [
        ("excused", {"value": 5.0}, {}),
        ("excused", {"value": 9.0}, {"fail": "doubt"}),
        ("inconclusive", {"value": 9.0}, {}),
        ("excused", {"value": 20.0}, {"asked": replace(GATE, improvements=True)}),
        ("excused", {"status": "error", "speedup": None}, {}),
        ("not_regressed", {"status": "failed"}, {}),
    ],
)
def test_an_expected_failure_excuses_nothing_that_would_fail(expected, now, changes):
    result, gate, run = ended(
        [recorded("a", expected_failure=True, **now), OTHER], recorded("a"), OTHER, **changes
    )
    found = [each.cause for each in result.absent] or [run.records[0].comparisons[0].outcome]
    assert [expected] == found
    assert gate.failures(run.records[0], RunOptions(fail=changes.get("fail", "sure"))) == []
    assert bool(result.failures) == (expected == "excused")


@for_each("asked", [GATE, replace(GATE, strict=True)])
def test_what_the_baseline_does_not_hold_is_no_entry_and_fails_nothing(asked):
    now, never = [recorded("new"), OTHER], factories.skipped("never measured")
    result, gate, run = ended(now, OTHER, never, asked=asked)
    assert (result.absent, result.failures, result.baseline_tests) == ((), (), 1)
    assert ("new", []) == (run.records[0].comparisons[0].outcome, gate.failures(run.records[0], RunOptions()))
