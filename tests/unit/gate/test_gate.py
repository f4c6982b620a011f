"""Gating: a run held against an earlier one; what it measured, matched or compared nothing of, it says."""

from dataclasses import replace
from pathlib import Path

import factories
import pytest
from cases import for_each
from factories import (
    CPU,
    ELSEWHERE,
    GATE,
    HERE,
    base_of,
    measured,
    recorded,
    speedup_within,
    within,
)

from pytest_gpuperf.gate import text
from pytest_gpuperf.gate.gate import Gate, RunCoverage
from pytest_gpuperf.model.comparison import Absence, GateOptions, GateResult
from pytest_gpuperf.model.demand import Pairing, RunOptions
from pytest_gpuperf.model.record import Record

NO_GPU = "no GPU was found"
UPDATE = "the baseline is out of date; run gpuperf baseline update to lock in the gain"


def record(nodeid="a", value=10.0, **changes) -> Record:
    return recorded(nodeid, value, **changes)


def skipped(nodeid="a", reason=NO_GPU, **changes) -> Record:
    return factories.skipped(nodeid, reason, **changes)


def gating(*bases, asked=GATE, here=HERE) -> Gate:
    return Gate(asked, bases, lambda: here, gated=asked.is_gate)


GONE = Absence(cause="gone")


def seen(*, missing=(), absent=None, crashed=None, has_gpu=True, gate_requested=True) -> RunCoverage:
    known = {**dict.fromkeys(missing, GONE), **(absent or {})}
    return RunCoverage(
        absence=lambda each: known.get(each.nodeid),
        crashed=crashed or {},
        has_gpu=has_gpu,
        gate_requested=gate_requested,
    )


def coded(found) -> tuple[tuple[str, str], ...]:
    """Return the failures or notes of a gate as pairs of their code and text."""
    return tuple((each.code, each.text) for each in found)


def ended(now, *before, asked=GATE, plan=None, here=HERE, **saw) -> GateResult:
    """Return what a gate with one baseline says of a run's records, compared before as they ended."""
    held = gating(base_of(*before), asked=asked, here=here)
    return held.finish([held.with_comparisons(each) for each in now], seen(**saw), plan or RunOptions())


# What a test is held against


def test_a_test_is_sampled_until_it_is_told_from_the_limit_of_its_baseline():
    ((low, high, fails),) = gating(base_of(record())).limits("a")
    assert (pytest.approx(9.5 * 0.9), pytest.approx(10.5 * 0.9)) == (low, high)
    assert fails == "below"


def test_where_an_improvement_fails_a_test_is_told_from_that_too():
    asked = replace(GATE, improvements=True)
    lost, (low, high, fails) = gating(base_of(record()), asked=asked).limits("a")
    assert lost == gating(base_of(record())).limits("a")[0]
    assert (pytest.approx(9.5 * 1.1), pytest.approx(10.5 * 1.1)) == (low, high)
    assert fails == "above"


@for_each(
    "held",
    [
        gating(),
        gating(base_of(record("another"))),
        gating(base_of(skipped())),
        gating(base_of(record(status="error", reason="lost"))),
        gating(base_of(record()), asked=GateOptions()),
        gating(base_of(record()), asked=GateOptions(tolerances=(within(metric="gpu_time"),))),
        gating(base_of(record(speedup=speedup_within(10.0, 0.12)))),
        gating(base_of(record(speedup=speedup_within(10.0, low=None)))),
        gating(base_of(record(speedup=speedup_within(10.0, high=None)))),
    ],
)
def test_without_a_limit_that_sampling_could_tell_there_is_none(held):
    assert held.limits("a") == ()


def test_a_record_is_held_against_each_tolerance():
    asked = GateOptions(tolerances=(within(), within(0.5, "gpu_time"), within(0.3)))
    found = gating(base_of(record()), asked=asked).with_comparisons(record(value=8.0)).comparisons
    assert [
        ("speedup", 0.1, "regressed"),
        ("gpu_time", 0.5, "not_regressed"),
        ("speedup", 0.3, "not_regressed"),
    ] == [(each.metric, each.tolerance, each.outcome) for each in found]


def test_without_a_gate_the_speedup_is_compared_all_the_same():
    asked = GateOptions()
    (found,) = gating(base_of(record()), asked=asked).with_comparisons(record(value=8.0)).comparisons
    assert ("speedup", "regressed") == (found.metric, found.outcome)


def test_without_a_baseline_nothing_is_compared():
    held = gating(asked=GateOptions(tolerances=(within(),), create=True))
    assert held.base is None
    assert held.with_comparisons(record()) == record()


def test_the_only_baseline_is_taken_wherever_it_was_made():
    assert gating(base_of(environment=ELSEWHERE)).base.name == "base.json"


def test_of_several_baselines_the_newest_of_this_machine_is_taken():
    newest, fitting = base_of(name="new.json", environment=ELSEWHERE), base_of(name="old.json")
    assert gating(newest, fitting).base.name == "old.json"
    assert gating(newest, fitting, here=ELSEWHERE).base.name == "new.json"
    assert gating(newest, fitting, here=replace(HERE, python="3.13.0")).base.name == "new.json"


def test_the_machine_is_looked_at_once_and_only_when_it_matters():
    looks = []
    held = Gate(GATE, [base_of(record())], lambda: looks.append(1) or HERE, gated=True)
    assert held.base is not None
    assert looks == []
    held.with_comparisons(record())
    held.with_comparisons(record())
    assert looks == [1]


@for_each(("expected", "asked"), [("more_time", GATE), ("run_with_gate", GateOptions())])
def test_a_doubt_is_decided_by_time_only_where_the_run_was_measured_for_a_gate(expected, asked):
    (found,) = gating(base_of(record()), asked=asked).with_comparisons(record(value=9.0)).comparisons
    assert (found.outcome, found.remedy) == ("inconclusive", expected)


@for_each(
    ("expected", "asked"),
    [
        (False, GateOptions()),
        (True, GATE),
        (True, GateOptions(create=True)),
        (True, GateOptions(improvements=True)),
    ],
)
def test_a_run_is_measured_longer_for_a_gate_and_for_its_baseline(expected, asked):
    assert expected is asked.measures_longer


# The run as a whole


def test_a_run_that_measured_what_its_baseline_knows_has_no_failure():
    found = ended([record(), record("b")], record(), record("b"))
    assert found == GateResult(
        baseline="base.json",
        started="base.json began",
        tolerances=GATE.tolerances,
        failures=(),
        notes=(),
        baseline_tests=2,
        absent=(),
    )


LEFT_OUT = Absence(cause="command_line", options=("-k",))
HIDDEN = Absence(cause="configuration")


@pytest.mark.parametrize(
    ("absence", "changes", "codes"),
    [
        (LEFT_OUT, {}, []),
        (LEFT_OUT, {"strict": True}, ["tests_left_out"]),
        (LEFT_OUT, {"strict": True, "allow": {"missing"}}, []),
        (HIDDEN, {}, ["tests_hidden"]),
        (HIDDEN, {"allow": {"missing"}}, []),
        (GONE, {}, ["tests_missing"]),
        (GONE, {"allow": {"missing"}}, []),
        (Absence(cause="skipped"), {}, ["files_skipped"]),
    ],
)
def test_a_test_that_did_not_run_fails_unless_the_command_line_or_an_option_allows_it(
    absence, changes, codes
):
    now, before = [record()], (record(), record("b"))
    found = ended(now, *before, asked=replace(GATE, **changes), absent={"b": absence})
    assert codes == [failure.code for failure in found.failures]
    assert (2, [(absence.cause, absence.options, ("b",))]) == (
        found.baseline_tests,
        [(each.cause, each.options, each.tests) for each in found.absent],
    )


@for_each(
    ("codes", "has_gpu", "changes"),
    [
        ([], True, {}),
        (["tests_skipped"], True, {"strict": True}),
        ([], True, {"strict": True, "allow": {"missing"}}),
        (["tests_skipped"], True, {"strict": True, "allow": {"no-gpu"}}),
        ([], False, {"strict": True, "allow": {"no-gpu"}}),
    ],
)
def test_a_test_of_the_baseline_that_was_skipped_fails_a_strict_check_of_a_machine_with_a_gpu(
    codes, has_gpu, changes
):
    now, before = [record(), skipped("b")], (record(), record("b"))
    found = ended(now, *before, asked=replace(GATE, **changes), has_gpu=has_gpu)
    assert codes == [failure.code for failure in found.failures]
    assert ["tests_skipped"] == [note.code for note in found.notes]


@pytest.mark.parametrize(
    ("now", "gate_requested", "changes", "codes"),
    [
        ([], False, {}, []),
        ([record("new")], False, {}, []),
        ([], True, {}, ["nothing_measured"]),
        ([record("new")], True, {}, ["tests_unknown"]),
        ([], False, {"strict": True}, ["nothing_measured", "tests_left_out"]),
        ([skipped()], False, {}, ["all_skipped"]),
    ],
    ids=["no test", "a new one", "asked for", "asked for, and a new one", "strict", "of the baseline"],
)
def test_a_gate_of_the_ini_file_lets_a_command_line_leave_out_all_that_it_is_about(
    now, gate_requested, changes, codes
):
    found = ended(
        now,
        *(record(), record("b")),
        asked=replace(GATE, **changes),
        absent={"a": LEFT_OUT, "b": LEFT_OUT},
        gate_requested=gate_requested,
    )
    assert codes == [failure.code for failure in found.failures]


@pytest.mark.parametrize(
    ("absence", "expected"),
    [
        (HIDDEN, "{} of the baseline's tests {} left out by configuration: "),
        (LEFT_OUT, "{} of the baseline's tests {} left out by the command line (-k), which "),
    ],
)
def test_one_test_was_and_two_tests_were_left_out(absence, expected):
    for count, were in ((1, "was"), (2, "were")):
        others = "bc"[:count]
        found = ended(
            [record()],
            *map(record, "a" + others),
            asked=replace(GATE, strict=True),
            absent=dict.fromkeys(others, absence),
        )
        (failure,) = found.failures
        assert failure.text.startswith(expected.format(count, were))


def test_of_hidden_tests_it_is_said_that_an_option_of_another_plugin_may_have_left_them_out():
    (failure,) = ended([record()], record(), record("b"), absent={"b": HIDDEN}).failures
    assert "or for an option of another plugin, as one that splits the suite" in failure.text


def test_how_many_tests_did_not_run_is_told_by_cause():
    before = [record(nodeid) for nodeid in "abcd"]
    found = ended([record()], *before, absent={"b": LEFT_OUT, "c": LEFT_OUT, "d": HIDDEN})
    assert text.not_run(found) == (
        "regression check failed: 3 of 4 baseline tests did not run: 2 left out by the command line (-k), "
        "1 left out by configuration"
    )


def test_there_is_no_gate_without_a_baseline_and_without_a_tolerance(tmp_path):
    assert gating(asked=GateOptions()).finish([record()], seen(), RunOptions()) is None
    asked = GateOptions(baseline=tmp_path)
    assert gating(base_of(), asked=asked).finish([], seen(), RunOptions()).failures == ()


def test_a_gate_that_makes_its_baseline_has_none_to_fail_against():
    held = gating(asked=GateOptions(tolerances=(within(),), create=True))
    found = held.finish([record()], seen(), RunOptions())
    assert (None, None, ()) == (found.baseline, found.started, found.failures)
    assert held.finish([skipped()], seen(), RunOptions()).failures != ()


REMEDY = "on a runner without a GPU pass --gpuperf-allow=no-gpu"
CPU_SIDE = Pairing(kind="cpu", library="numpy")


@for_each(
    ("code", "expected", "now", "has_gpu"),
    [
        ("nothing_measured", "nothing was measured: no test with a speedup marker ran", [], True),
        (
            "nothing_measured",
            "nothing was measured: no test with a speedup marker ran",
            [skipped(reason="in other words", reason_code="deselected")],
            True,
        ),
        (
            "all_skipped",
            f"every test of the regression check was skipped (1): {NO_GPU}; {REMEDY}",
            [skipped()],
            False,
        ),
        (
            "all_skipped",
            f"every test of the regression check was skipped (2): {NO_GPU}; {REMEDY}",
            [skipped(), skipped("b")],
            False,
        ),
        (
            "all_skipped",
            "every test of the regression check was skipped (1): not today",
            [skipped(reason="not today")],
            True,
        ),
        (
            "all_skipped",
            f"every test of the regression check was skipped (1): {NO_GPU}; {REMEDY}",
            [skipped("a[numpy]", None, status="recorded", pairing=CPU_SIDE), skipped("a[cupy]")],
            False,
        ),
        (
            "nothing_measured",
            "nothing was measured: no test has a metric of the regression check; b: it broke",
            [skipped(), skipped("b", "it broke", status="error")],
            True,
        ),
        (
            "nothing_measured",
            "nothing was measured: no test has a metric of the regression check; a: recorded",
            [skipped("a", None, status="recorded", pairing=CPU_SIDE)],
            True,
        ),
    ],
)
def test_a_gate_that_measured_nothing_fails_and_says_why(code, expected, now, has_gpu):
    assert ((code, expected),) == coded(ended(now, record("old"), has_gpu=has_gpu).failures)


def test_a_gate_that_measured_nothing_for_want_of_a_gpu_may_be_allowed():
    asked = replace(GATE, allow={"no-gpu"})
    assert ended([skipped()], record(), asked=asked, has_gpu=False).failures == ()
    assert ended([], record(), asked=asked, has_gpu=False).failures == ()
    (failure,) = ended([skipped()], record(), asked=asked, has_gpu=True).failures
    assert failure.text == f"every test of the regression check was skipped (1): {NO_GPU}"


def test_one_test_that_was_measured_is_not_nothing():
    assert ended([skipped("b"), record()], record(), record("b")).failures == ()


@for_each(("expected", "metric"), [(1, "speedup"), (1, "gpu_time"), (0, "cpu_time")])
def test_what_counts_as_measured_is_what_the_gate_is_about(expected, metric):
    on_cpu = skipped(cpu=measured(CPU, 1.0))
    assert expected == len(
        ended([on_cpu], record(), asked=GateOptions(tolerances=(within(metric=metric),))).failures
    )


@for_each("bad", [{"status": "error", "reason": "lost"}])
def test_a_failed_measurement_is_not_measured(bad):
    assert coded(ended([record(**bad)], record()).failures) == (
        ("nothing_measured", "nothing was measured: no test has a metric of the regression check; a: lost"),
    )


def test_a_baseline_that_knows_none_of_the_tests_compares_nothing():
    [failure] = ended([record("x"), record("y")], record(), record("b")).failures
    assert failure.code == "tests_unknown"
    assert failure.text.startswith(
        "the baseline base.json has none of the tests that were measured (2); node ids"
    )
    assert (failure,) == ended([record("x"), record("y")]).failures
    assert ended([record("x"), record()], record()).failures == ()


def test_a_baseline_of_another_machine_is_known_and_noted():
    found = ended([record(), record("b")], record(), record("b"), here=ELSEWHERE)
    assert found.failures == ()
    differences = "CPU: EPYC in the baseline, another now"
    said = f"not comparable (2 comparisons): {differences}"
    assert coded(found.notes) == (("not_comparable", said),)


def test_a_comparison_that_fails_nothing_says_how_it_would():
    here = GateOptions(baseline=Path("base.json"))
    found = ended([record(value=5.0)], record(), asked=here)
    said = "1 regression found but not enforced; pass --gpuperf-fail-on to fail on them"
    assert found.failures == ()
    assert coded(found.notes) == (("regressions_not_enforced", said),)
    assert ended([record(value=5.0)], record()).notes == ()


def test_the_command_that_removes_tests_can_be_pasted_though_a_folder_has_a_space():
    held = gating(base_of(record("b"), name="my base/b.json"))
    (failure,) = held.finish([held.with_comparisons(record("a"))], seen(missing="b"), RunOptions()).failures[
        -1:
    ]
    assert failure.text.endswith(" --prune 'my base/b.json' report.json")


@for_each("asked", [GATE, replace(GATE, allow={"no-gpu"})])
def test_a_baselines_test_that_this_run_should_have_had_fails_it(asked):
    before = [record(name) for name in "abcdef"]
    (failure,) = ended([record()], *before, asked=asked, missing="bc", has_gpu=False).failures
    assert failure.code == "tests_missing"
    assert failure.text == (
        "2 of the baseline's tests did not run: b, c; renamed, unmarked or deselected? Run them, pass "
        "--gpuperf-allow=missing, or remove them with a report of the whole suite: run it with "
        "--gpuperf-json=report.json, then gpuperf baseline update --prune base.json report.json"
    )
    (failure,) = ended([record()], *before, asked=asked, missing="bcdef").failures
    assert failure.text.startswith("5 of the baseline's tests did not run: b, c, d and 2 more; renamed")


def test_a_deselected_test_did_not_run_though_it_has_a_record():
    left_out = skipped("b", reason_code="deselected")
    (failure,) = ended([record(), left_out], record(), record("b"), missing="b").failures
    assert failure.code == "tests_missing"
    assert "did not run: b;" in failure.text


def test_what_a_reason_says_does_not_deselect_a_test():
    """The suite's own skip may be worded like ours: only its code counts."""
    alike = skipped("b", "deselected on the command line or by a plugin")
    assert ended([record(), alike], record(), record("b"), missing="b").failures == ()


def test_tests_that_the_session_never_reached_fail_the_gate():
    cut_off = skipped("b", "in any words", reason_code="session_ended")
    (failure,) = ended([record(), cut_off], record(), record("b")).failures
    assert failure.code == "session_ended"


@for_each(
    ("now", "before", "missing"),
    [
        ([record()], [record(), record("b")], ""),  # its file was not collected
        ([record(), skipped("b")], [record(), record("b")], "b"),  # it ran, and skipped
        ([record()], [record(), skipped("b")], "b"),  # the baseline has nothing of it
        ([record()], [record(), record("b", status="error", reason="lost")], "b"),
    ],
)
def test_a_test_that_need_not_have_run_is_not_missing(now, before, missing):
    assert ended(now, *before, missing=missing).failures == ()


def test_missing_tests_may_be_allowed():
    asked = replace(GATE, allow={"missing"})
    assert ended([record()], record(), record("b"), asked=asked, missing="b").failures == ()


@for_each("nodeid", ["a", "b", "new"])
def test_a_gated_test_that_was_lost_with_its_worker_fails_the_run(nodeid):
    now = [record(), record("new"), record("b")]
    found = ended(now, record(), record("b"), crashed={nodeid: "gw0 crashed"})
    said = f"{nodeid} was lost when its process crashed: gw0 crashed"
    assert coded(found.failures) == (("test_lost", said),)


@for_each(
    ("failures", "notes", "strict", "fail"),
    [
        ([], ["nothing_decided"], False, "sure"),
        (["nothing_decided"], [], True, "sure"),
        ([], ["nothing_decided"], True, "nothing"),
    ],
)
def test_a_gate_that_decided_nothing_says_so_once(failures, notes, strict, fail):
    asked, plan = replace(GATE, strict=strict), RunOptions(fail=fail)
    found = ended([record(value=9.0)], record(), asked=asked, plan=plan)
    assert (failures, notes) == tuple([each.code for each in said] for said in (found.failures, found.notes))


def test_a_gate_that_decided_something_does_not_say_that_it_decided_nothing():
    found = ended([record(value=9.0), record("b")], record(), record("b"))
    assert ((), ()) == (found.failures, found.notes)


def test_a_lost_test_of_the_baseline_is_told_once():
    found = ended([record()], record(), record("b"), missing="b", crashed={"b": "gw0 crashed"})
    assert [failure.code for failure in found.failures] == ["test_lost"]


def test_a_lost_test_that_is_not_the_gates_is_pytests_own_matter():
    assert ended([record()], record(), crashed={"unmarked": "gw0 crashed"}).failures == ()


@pytest.mark.parametrize(
    ("plan", "asked"),
    [(RunOptions(fail="nothing"), GATE), (RunOptions(), GateOptions())],
    ids=["nothing fails", "no gate"],
)
def test_what_only_reports_fails_no_run(plan, asked, tmp_path):
    asked = replace(asked, baseline=tmp_path)
    found = ended([], record(), asked=asked, plan=plan, missing="a", crashed={"a": "gw0 crashed"})
    assert found.failures == ()


@for_each(
    ("code", "expected", "now"),
    [
        (
            "baseline_stale",
            f"1 comparison improved beyond the tolerance: {UPDATE}",
            [record(value=20.0), record("b")],
        ),
        (
            "baseline_stale",
            f"2 comparisons improved beyond the tolerance: {UPDATE}",
            [record(value=20.0), record("b", value=20.0)],
        ),
        ("tests_skipped", f"1 of the baseline's tests was skipped: b: {NO_GPU}", [record(), skipped("b")]),
        (
            "tests_skipped",
            f"2 of the baseline's tests were skipped: a: {NO_GPU}",
            [skipped(), skipped("b"), record("c")],
        ),
    ],
)
def test_what_to_know_of_a_run_is_noted(code, expected, now):
    assert ((code, expected),) == coded(ended(now, record(), record("b"), record("c")).notes)


@for_each(
    "now",
    [[record(), skipped("new")], [record(), skipped("b", reason_code="deselected")], [record(value=5.0)]],
)
def test_what_is_told_elsewhere_is_not_noted(now):
    assert ended(now, record(), record("b")).notes == ()
