"""Gating: a run held against an earlier one; what it measured, matched or compared nothing of, it says."""

from pathlib import Path

import factories
import pytest
from cases import for_each
from decisions import ROWS, Row
from factories import (
    CPU,
    ELSEWHERE,
    GATE,
    HERE,
    base_of,
    measured,
    recorded,
    scaled,
    speedup_within,
    within,
)
from msgspec.structs import replace

from pytest_gpuperf.analysis import scaling, threshold
from pytest_gpuperf.gate import text
from pytest_gpuperf.gate.gate import Gate, RunCoverage
from pytest_gpuperf.model.comparison import GateOptions, GateResult
from pytest_gpuperf.model.demand import Pairing, RunOptions, SizeGroup
from pytest_gpuperf.model.measurement import Memory
from pytest_gpuperf.model.record import Record, Run

NO_GPU = "no GPU was found"
WITHOUT_GPU = replace(HERE, gpu=None)
UPDATE = "the baseline is out of date; run gpuperf baseline update to lock in the gain"


def record(nodeid="a", value=10.0, **changes) -> Record:
    return recorded(nodeid, value, **changes)


def skipped(nodeid="a", reason=NO_GPU, **changes) -> Record:
    return factories.skipped(nodeid, reason, **changes)


def gating(*bases, asked=GATE, here=HERE) -> Gate:
    return Gate(asked, bases, lambda: here)


def ended(
    now, *before, asked=GATE, fail="sure", here=HERE, name="base.json", cause="gone", narrowed_by=(), **seen
) -> Run:
    """Return a run, its records compared before as they ended, with what a gate with one baseline says of it.

    `cause` is why tests did not run: one for all, or by the node id.
    """
    groups = {"thresholds": threshold.find(before), "scalings": scaling.curves(before)}
    held = gating(base_of(*before, name=name, **groups), asked=asked, here=here)
    why = cause if isinstance(cause, dict) else {}
    coverage = RunCoverage(cause=lambda nodeid, _: why.get(nodeid, cause), **seen)
    records = tuple(map(held.with_comparisons, now))
    run = Run(started="", environment=here, records=records, narrowed_by=narrowed_by)
    return replace(run, gate=held.finish(run, coverage, RunOptions(fail=fail)))


def failures(*args, **kwargs) -> tuple[tuple[str, str], ...]:
    """Return the codes and texts of the failures of such a run."""
    return tuple((each.code, each.text) for each in ended(*args, **kwargs).gate.failures)


def failed(run, *before, asked=GATE, fail="sure") -> list[str]:
    """Return the tests of a run that fail for such a baseline."""
    held = gating(base_of(*before), asked=asked)
    return [each.nodeid for each in run.records if held.failures(each, RunOptions(fail=fail))]


# What a test is held against


@for_each("asked", [GATE, GateOptions()])
def test_a_test_is_sampled_until_it_is_told_from_the_limit_of_its_baseline(asked):
    ((low, high, fails),) = gating(base_of(record()), asked=asked).limits("a")
    assert (pytest.approx(9.6 * 0.9 / 1.01), pytest.approx(10.4 * 0.9), "below") == (low, high, fails)


def test_a_scaling_test_is_sampled_until_its_speedup_over_fewer_devices_is_told_from_the_limit():
    base = factories.scaled(4, 0.8)  # a speedup of 3.2, within a tenth
    ((_, high, fails),) = gating(base_of(base), asked=GateOptions()).limits(base.nodeid)
    assert (pytest.approx(3.2 * 1.1 * 0.9), "below") == (high, fails)


def test_where_an_improvement_fails_a_test_is_told_from_that_too():
    asked = replace(GATE, improvements=True)
    lost, (low, high, fails) = gating(base_of(record()), asked=asked).limits("a")
    assert lost == gating(base_of(record())).limits("a")[0]
    assert (pytest.approx(9.6 * 1.1), pytest.approx(10.4 * 1.1), "above") == (low, high, fails)


@for_each(
    "held",
    [
        gating(),
        gating(base_of(record("another"))),
        gating(base_of(skipped())),
        gating(base_of(record(status="error", reason="lost"))),
        gating(base_of(record()), asked=GateOptions(tolerances=(within(metric="gpu_time"),))),
        gating(base_of(record(speedup=speedup_within(10.0, 0.12)))),
        gating(base_of(record(speedup=speedup_within(10.0, low=None)))),
        gating(base_of(record(speedup=speedup_within(10.0, high=None)))),
    ],
)
def test_without_a_limit_that_sampling_could_tell_there_is_none(held):
    assert held.limits("a") == ()


@for_each(
    ("expected", "tolerances"),
    [
        (
            [
                ("speedup", 0.1, "regressed"),
                ("gpu_time", 0.5, "not_regressed"),
                ("speedup", 0.3, "not_regressed"),
            ],
            (within(), within(0.5, "gpu_time"), within(0.3)),
        ),
        ([("speedup", 0.1, "regressed")], ()),  # without a check the speedup is compared all the same
    ],
)
def test_a_record_is_held_against_each_tolerance(expected, tolerances):
    held = gating(base_of(record()), asked=GateOptions(tolerances=tolerances))
    found = held.with_comparisons(record(value=8.0)).comparisons
    assert expected == [(each.metric, each.tolerance, each.outcome) for each in found]


def test_without_a_baseline_nothing_is_compared():
    held = gating(asked=GateOptions(tolerances=(within(),), create=True))
    assert held.base is None
    assert held.with_comparisons(record()) == record()


def test_the_machine_is_looked_at_once_and_only_when_it_matters():
    looks = []
    held = Gate(GATE, [base_of(record())], lambda: looks.append(1) or HERE)
    assert held.base is not None
    assert looks == []
    held.with_comparisons(record())
    held.with_comparisons(record())
    assert looks == [1]


# The run as a whole


def test_a_run_that_measured_what_its_baseline_knows_has_no_failure():
    assert ended([record(), record("b")], record(), record("b")).gate == GateResult(
        baseline="base.json",
        started="base.json began",
        tolerances=GATE.tolerances,
        baseline_tests=2,
    )


def test_there_is_no_gate_without_a_baseline_and_without_a_tolerance(tmp_path):
    run, coverage = Run(started="", environment=HERE), RunCoverage(cause=lambda *_: "gone")
    assert gating(asked=GateOptions()).finish(run, coverage, RunOptions()) is None
    asked = GateOptions(baseline=tmp_path)
    assert gating(base_of(), asked=asked).finish(run, coverage, RunOptions()).failures == ()


def test_a_gate_that_makes_its_baseline_has_none_to_fail_against():
    held = gating(asked=GateOptions(tolerances=(within(),), create=True))
    coverage = RunCoverage(cause=lambda *_: "gone")
    run = Run(started="", environment=HERE, records=(record(),))
    found = held.finish(run, coverage, RunOptions())
    assert (None, None, ()) == (found.baseline, found.started, found.failures)
    assert held.finish(replace(run, records=(skipped(),)), coverage, RunOptions()).failures != ()


# Nothing measured, nothing compared

REMEDY = "on a runner without a GPU pass --gpuperf-allow=no-gpu"
CPU_SIDE = Pairing(kind="cpu", library="numpy")
NONE_RAN = "no test with a speedup marker ran"
NO_METRIC = "no test has a metric of the regression check; "
ALL_SKIPPED = "every test of the regression check was skipped "


@for_each(
    ("expected", "now", "here"),
    [
        (NONE_RAN, [], HERE),
        (NONE_RAN, [skipped(reason="in other words", reason_code="deselected")], HERE),
        (f"{ALL_SKIPPED}(2): {NO_GPU}; {REMEDY}", [skipped(), skipped("b")], WITHOUT_GPU),
        (
            f"{ALL_SKIPPED}(1): {NO_GPU}; {REMEDY}",
            [skipped("a[numpy]", None, status="recorded", pairing=CPU_SIDE), skipped("a[cupy]")],
            WITHOUT_GPU,
        ),
        (f"{NO_METRIC}b: it broke", [skipped(), skipped("b", "it broke", status="error")], HERE),
        (f"{NO_METRIC}a: recorded", [skipped("a", None, status="recorded", pairing=CPU_SIDE)], HERE),
    ],
)
def test_a_gate_that_measured_nothing_fails_and_says_why(expected, now, here):
    (code, told), *_ = failures(now, record("old"), here=here)
    assert ("nothing_measured", f"nothing was measured: {expected}") == (code, told)


def test_what_was_skipped_is_said_once_where_nothing_was_measured():
    assert ["nothing_measured"] == [code for code, _ in failures([skipped()], record())]
    both = failures([skipped()], record(), record("b"))
    assert ["nothing_measured", "tests_missing"] == [code for code, _ in both]


@for_each(("expected", "here"), [([], WITHOUT_GPU), (["nothing_measured"], HERE)])
@for_each("now", [[], [skipped()]])
def test_a_gate_that_measured_nothing_for_want_of_a_gpu_may_be_allowed(expected, here, now):
    found = failures(now, skipped("old"), asked=replace(GATE, allow={"no-gpu"}), here=here)
    assert expected == [code for code, _ in found]


@for_each(("expected", "metric"), [(1, "speedup"), (1, "gpu_time"), (0, "cpu_time")])
def test_what_counts_as_measured_is_what_the_gate_is_about(expected, metric):
    on_cpu, asked = skipped(cpu=measured(CPU, 1.0)), GateOptions(tolerances=(within(metric=metric),))
    assert expected == len(failures([on_cpu], record(), asked=asked))


def test_a_baseline_that_knows_none_of_the_tests_compares_nothing():
    first, second = failures([record("x"), record("y")], record(), record("b"))
    told = "no measured test (2 in all) is in the baseline base.json; node ids are relative"
    said = f"nothing was compared: {told}"
    assert (first[0], first[1][: len(said)], second[0]) == ("nothing_compared", said, "tests_missing")
    assert (first,) == failures([record("x"), record("y")])
    assert failures([record("x"), record()], record()) == ()


@for_each(
    ("expected", "notes", "strict", "fail"),
    [
        ([], ["not_comparable"], False, "sure"),
        (["nothing_compared"], [], True, "sure"),
        ([], [], True, "nothing"),
    ],
)
def test_a_gate_that_decided_nothing_says_so_once(expected, notes, strict, fail):
    found = ended([record(value=9.0)], record(), asked=replace(GATE, strict=strict), fail=fail).gate
    assert (expected, notes) == tuple([each.code for each in said] for said in (found.failures, found.notes))
    some = ended([record(value=9.0), record("b")], record(), record("b")).gate
    assert ((), ()) == (some.failures, some.notes)


# What is absent


@for_each(
    ("expected", "now", "asked_for", "strict"),
    [
        ([], [], False, False),
        ([], [record("new")], False, False),
        (["nothing_measured"], [], True, False),
        (["nothing_compared"], [record("new")], True, False),
        (["nothing_measured", "tests_missing"], [], False, True),
        (["nothing_measured"], [skipped()], False, False),
    ],
)
def test_a_gate_of_the_ini_file_lets_a_command_line_leave_out_all_that_it_is_about(
    expected, now, asked_for, strict
):
    asked, seen = replace(GATE, strict=strict), {"cause": "narrowed", "gate_requested": asked_for}
    found = failures(now, record(), record("b"), asked=asked, **seen)
    assert expected == [code for code, _ in found]


def test_what_did_not_run_is_said_with_what_to_do():
    ((code, told),) = failures([record()], record(), *map(record, "bcdef"), cause="gone")
    expected = "5 tests of the baseline did not run: b, c, d and 2 more; renamed"
    assert (code, told[: len(expected)]) == ("tests_missing", expected)


def test_how_many_tests_were_not_compared_is_told_by_cause():
    cause = {"b": "narrowed", "c": "narrowed", "d": "gone", "e": "ended"}
    found = ended([record()], *map(record, "abcde"), cause=cause, narrowed_by=("-k", "paths"))
    assert text.not_run(found) == (
        "regression check failed: 4 of 5 baseline tests were not compared: 2 left out by the command line "
        "(-k, paths), 1 missing, 1 not reached"
    )


def test_the_command_that_removes_tests_can_be_pasted_though_a_folder_has_a_space():
    found = failures([record()], record("b"), name="my base/b.json")
    assert found[-1][1].endswith(" --prune 'my base/b.json' report.json")


@for_each(
    ("expected", "left_out"),
    [
        ("gone", skipped("b", reason_code="deselected")),  # it did not run though it has a record
        # The suite's own skip may be worded like ours: only its code counts.
        ("skipped", skipped("b", "deselected on the command line or by a plugin")),
    ],
)
def test_a_code_says_that_a_test_was_deselected_and_no_words_do(expected, left_out):
    found = ended([record(), left_out], record(), record("b")).gate
    assert ([expected], ()) == ([each.cause for each in found.absent], found.notes)  # the failure says it


@for_each(("expected", "nodeid"), [(True, "a"), (True, "b"), (True, "new"), (False, "unmarked")])
def test_a_gated_test_that_was_lost_with_its_worker_fails_the_run(expected, nodeid):
    now = [record(), record("new"), record("b")]
    found = failures(now, record(), record("b"), crashed={nodeid: "gw0 crashed"})
    said = (("test_lost", f"{nodeid} was lost when its process crashed: gw0 crashed"),)
    assert found == (said if expected else ())


# What became of what the baseline holds

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
CAUSES = {"narrowed": "narrowed"}
ASKED = {
    "strict": {"strict": True},
    "missing": {"allow": frozenset({"missing"})},
    "no-gpu": {"allow": frozenset({"no-gpu"})},
    "without": {"allow": frozenset({"no-gpu"})},
    "improvement": {"improvements": True},
    "strict, missing": {"strict": True, "allow": frozenset({"missing"})},
}


@for_each("row", ROWS)
def test_the_decision_of_each_state_with_each_option(row: Row):
    before = [sized(1), sized(2)] if row.state == "ungrouped" else [recorded("a")]
    here = replace(HERE, gpu=None) if row.option == "without" else HERE
    fail = row.option if row.option in ("doubt", "nothing") else "sure"
    asked = replace(GATE, **ASKED.get(row.option, {}))
    saw = {"asked": asked, "fail": fail, "here": here, "cause": CAUSES.get(row.state, "gone")}
    now = [*NOW.get(row.state, []), OTHER]
    run = ended(now, *before, OTHER, **saw)
    # A silent test never asks; an expected failure and a skip end a test before it fails.
    asks = row.state not in ("silent", "excused")
    failing = failed(run, *before, OTHER, asked=asked, fail=fail) if asks else []
    codes = [code for code, _ in failures(now, *before, OTHER, failed=failing, **saw)]
    expected = "session_ended" if row.state == "cut off" else "tests_missing"
    assert ([expected] if row.fails == "run" else []) == codes
    assert (["a"] if row.fails == "test" else []) == failing
    (found,) = {each.outcome for each in run.records[0].comparisons} or {None}
    absent = [each.cause for each in run.gate.absent]
    assert row.outcome == (absent[0] if absent else found)


def test_without_a_gate_nothing_fails_and_what_is_absent_is_listed():
    run = ended(
        [OTHER, LOST], recorded("a"), OTHER, record("b"), asked=GateOptions(baseline=Path("base.json"))
    )
    assert (run.gate.failures, [each.name for each in run.gate.absent]) == ((), ["a", "b"])
    assert failed(run, recorded("a"), asked=GateOptions()) == []


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
    lost = [each.metric for each in ended([now], held, asked=asked).gate.absent]
    assert expected == [each for each in lost if each == metric]


def test_a_gpu_variants_cpu_time_is_held_by_its_cpu_variant():
    pairing = Pairing(kind="gpu", library="cupy", partner="a[cpu]")
    pair = [recorded("a[cpu]", gpu=None, speedup=None), recorded("a[gpu]", pairing=pairing)]
    asked = replace(GATE, tolerances=(within(metric="cpu_time"),))
    result = ended(pair, *pair, asked=asked).gate
    assert (result.absent, result.baseline_tests) == ((), 1)


def test_every_result_of_a_test_that_ran_twice_answers():
    result = ended([recorded("a"), factories.skipped("a#2")], recorded("a"), recorded("a#2")).gate
    assert [("a#2", "skipped")] == [(each.name, each.cause) for each in result.absent]
    assert result.baseline_tests == 1


@for_each(("expected", "counts"), [([], (1, 2, 4)), (["a.py::test_step"], ())])
def test_a_scaling_group_without_its_marker_is_gone_whatever_metric_is_asked_for(expected, counts):
    before = [scaled(1), scaled(2, 0.9), scaled(4, 0.8)]
    now = [each if counts else replace(each, scaling=None) for each in before]
    result = ended([*now, OTHER], *before, OTHER).gate
    assert expected == [each.name for each in result.absent if each.metric is None]


@for_each("cause", ["narrowed", "gone"])
def test_a_group_of_which_no_test_ran_is_absent_where_its_tests_are_not(cause):
    result = ended([OTHER], sized(1), sized(2), OTHER, cause=cause).gate
    assert [("f[1]", cause), ("f[2]", cause)] == [(each.name, each.cause) for each in result.absent]
    scaling_alone = ended([OTHER], scaled(1), scaled(2, 0.9), OTHER, cause=cause).gate
    assert ("a.py::test_step", cause) in [(each.name, each.cause) for each in scaling_alone.absent]
    cut_off = factories.skipped("f[1]", reason_code="session_ended")
    result = ended([OTHER, cut_off], sized(1), OTHER, cause=cause).gate
    assert [("f[1]", "ended")] == [(each.name, each.cause) for each in result.absent]


def test_the_first_result_that_has_the_metric_is_held():
    before = [factories.skipped("a"), recorded("a#2"), OTHER]
    run = ended([OTHER], *before)
    assert [("a", "gone")] == [(each.name, each.cause) for each in run.gate.absent]
    assert ended([recorded("a", 5.0), OTHER], *before).records[0].comparisons[0].outcome == "regressed"


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
    run = ended([recorded("a", expected_failure=True, **now), OTHER], recorded("a"), OTHER, **changes)
    found = [each.cause for each in run.gate.absent] or [run.records[0].comparisons[0].outcome]
    assert [expected] == found
    assert failed(run, recorded("a"), **changes) == []
    assert bool(run.gate.failures) == (expected == "excused")


@for_each("asked", [GATE, replace(GATE, strict=True)])
def test_what_the_baseline_does_not_hold_is_no_entry_and_fails_nothing(asked):
    run = ended([recorded("new"), OTHER], OTHER, factories.skipped("never measured"), asked=asked)
    assert (run.gate.absent, run.gate.failures, run.gate.baseline_tests) == ((), (), 1)
    assert ("new", []) == (run.records[0].comparisons[0].outcome, failed(run, OTHER, asked=asked))


# Notes

REMEDY_OF_OTHERS = "update the baseline in these conditions; --gpuperf-strict fails such a run"


def test_a_baseline_of_another_machine_is_known_and_noted():
    found = ended([record(), record("b")], record(), record("b"), here=ELSEWHERE).gate
    said = f"not comparable (2 comparisons): CPU: EPYC in the baseline, another now; {REMEDY_OF_OTHERS}"
    assert ((), [("not_comparable", said)]) == (found.failures, [(e.code, e.text) for e in found.notes])


ALLOWED = replace(GATE, allow={"missing"})


@for_each(
    ("code", "expected", "now"),
    [
        ("baseline_stale", f"1 comparison improved beyond the tolerance: {UPDATE}", [record(value=20.0)]),
        ("tests_skipped", f"1 test of the baseline skipped: b: {NO_GPU}", [record(), skipped("b")]),
        (None, None, [record(), skipped("new")]),
        (None, None, [record(value=5.0)]),
    ],
)
def test_what_to_know_of_a_run_is_noted(code, expected, now):
    found = ended(now, record(), record("b"), record("c"), asked=ALLOWED).gate.notes
    assert ([(code, expected)] if code else []) == [(each.code, each.text) for each in found]


def test_a_baseline_of_a_run_that_ended_early_is_called_so():
    held = gating(base_of(record(), complete=False))
    run = Run(started="", environment=HERE, records=(held.with_comparisons(record()),))
    (note,) = held.finish(run, RunCoverage(cause=lambda *_: "gone"), RunOptions()).notes
    assert note.text.startswith("the run of the baseline base.json ended early: ")


def test_a_test_that_only_an_older_baseline_of_the_folder_has_is_named():
    old, elsewhere = base_of(record("b"), name="d/a.json"), base_of(record("b"), environment=ELSEWHERE)
    held = gating(base_of(record(), name="d/b.json"), elsewhere, old)
    records = tuple(map(held.with_comparisons, [record(), record("b", 0.2)]))
    run = Run(started="", environment=HERE, records=records)
    (note,) = held.finish(run, RunCoverage(cause=lambda *_: "gone"), RunOptions()).notes
    assert note.text.startswith("1 test is compared with nothing")
    assert note.text.endswith("lacks what the older d/a.json has: b")
