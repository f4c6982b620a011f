"""Gating: a run held against an earlier one; what it measured, matched or compared nothing of, it says."""

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
    scaled,
    speedup_within,
    within,
)
from golden import assert_golden
from msgspec.structs import replace

from pytest_gpuperf.analysis import scaling, threshold
from pytest_gpuperf.gate import text
from pytest_gpuperf.gate.gate import Gate, RunCoverage
from pytest_gpuperf.gate.remedy import Plan
from pytest_gpuperf.model.comparison import GateOptions, GateResult
from pytest_gpuperf.model.demand import Pairing, RunOptions, SizeGroup
from pytest_gpuperf.model.measurement import Memory
from pytest_gpuperf.model.record import Record, Run

NO_GPU = "no GPU was found"
WITHOUT_GPU = replace(HERE, gpu=None)


def record(nodeid="a", value=10.0, **changes) -> Record:
    return recorded(nodeid, value, **changes)


def skipped(nodeid="a", reason=NO_GPU, **changes) -> Record:
    return factories.skipped(nodeid, reason, **changes)


def gating(*bases, asked=GATE, here=HERE) -> Gate:
    return Gate(asked, bases, lambda: here)


def ended(
    now,
    *before,
    asked=GATE,
    fail="sure",
    here=HERE,
    name="base.json",
    cause="gone",
    narrowed_by=(),
    complete=True,
    older=(),
    **seen,
) -> Run:
    """Return a run, its records compared before as they ended, with what a gate with a baseline says of it.

    `cause` is why tests did not run: one for all, or by the node id. `older` baselines are in its folder.
    """
    groups = {"thresholds": threshold.find(before), "scalings": scaling.curves(before)}
    base = base_of(*before, name=name, complete=complete, **groups)
    held = gating(base, *older, asked=asked, here=here)
    why = cause if isinstance(cause, dict) else {}
    coverage = RunCoverage(cause=lambda nodeid, _: why.get(nodeid, cause), **seen)
    records = tuple(map(held.with_comparisons, now))
    run = Run(started="", environment=here, records=records, narrowed_by=narrowed_by)
    return replace(run, gate=held.finish(run, coverage, RunOptions(fail=fail)))


# What a check can find


WIDE = speedup_within(9.0, 0.3)


def test_what_the_check_finds_is_counted_by_tests_and_what_it_does_not_is_named():
    tests = [
        record("a"),
        record("b"),
        record("c", speedup=WIDE),
        record("d", speedup=speedup_within(10.0, 0.07)),
    ]
    run = ended(tests, *(record(each) for each in "abcd"))
    expected = "the check finds losses from 26 % (3 tests), 54 % (1 not compared: c)"
    assert expected == text.found_from(run)
    unseen = record("e", speedup=speedup_within(10.0, low=None))
    expected = "the check finds losses from 22 % (1 test), none (1 not compared: e)"
    assert expected == text.found_from(ended([tests[0], unseen], record("a"), record("e")))
    assert "the check finds no losses (1 not compared: e)" == text.found_from(ended([unseen], record("e")))
    all_of_them = "the check finds losses from 26 % (3 tests: a, b, d), 54 % (1 not compared: c)"
    assert all_of_them == text.found_from(run, all_names=True)


@for_each("outcome", ["not_regressed", "regressed"])
def test_a_test_that_was_decided_early_counts_with_what_its_whole_time_finds(outcome):
    """Sampling goes on for a loss that is nearer to the tolerance."""
    value = 10.0 if outcome == "not_regressed" else 5.0
    early = record(value=value, speedup=speedup_within(value, 0.01), rounds_elapsed=2.0)
    base = base_of(record(speedup=speedup_within(10.0, 0.01)))
    found = {}
    for plan in (None, Plan(10.0), Plan(3.0)):
        (found[plan],) = Gate(GATE, [base], lambda: HERE, plan=plan).with_comparisons(early).comparisons
    assert {outcome} == {each.outcome for each in found.values()}
    at_once, in_ten, in_three = (text.whole_percent(each.visible) for each in found.values())
    assert ("28 %", "14 %", "28 %") == (at_once, in_ten, in_three)


@for_each(("strict", "seen"), [(False, []), (True, ["nothing_compared"])])
def test_a_test_that_would_show_no_loss_near_the_tolerance_is_not_compared_for_a_strict_check(strict, seen):
    asked = replace(GATE, strict=strict)
    run = ended([record("a"), record("c", speedup=WIDE)], record("a"), record("c"), asked=asked)
    assert seen == [each.code for each in run.gate.failures]
    for failure in run.gate.failures:
        said = "in 1 test the check cannot find a loss near the tolerance: c (rounds of this run differ by "
        assert failure.text.startswith(said)
        assert "a tolerance of" in failure.text


@for_each(
    ("expected", "share", "visible", "outcome"),
    [
        (False, 0.1, 0.3, "inconclusive"),  # three times the tolerance
        (True, 0.1, 0.301, "inconclusive"),
        (False, 0.01, 0.15, "inconclusive"),  # and at least 15 %
        (True, 0.01, 0.151, "inconclusive"),
        (True, 0.1, None, "inconclusive"),  # no loss at all
        (False, 0.1, None, "not_regressed"),
    ],
)
def test_an_open_comparison_shows_little_beyond_three_tolerances_and_15_percent(
    expected, share, visible, outcome
):
    found = factories.comparison(tolerance=share, visible=visible, outcome=outcome)
    assert expected == found.shows_little


# What a test is held against


def test_a_test_is_sampled_until_it_lies_clear_of_the_limit_of_its_baseline():
    lost = (pytest.approx(9.6 * 0.9), pytest.approx(10.4 * 0.9), "below")
    for asked in (GATE, GateOptions()):
        assert (lost,) == gating(base_of(record()), asked=asked).limits("a")
    gained = (pytest.approx(9.6 * 1.1), pytest.approx(10.4 * 1.1), "above")  # where an improvement fails
    assert (lost, gained) == gating(base_of(record()), asked=replace(GATE, improvements=True)).limits("a")
    brief = replace(record(), rounds_elapsed=0.3)  # which may have been lucky, or unlucky, by two
    lost, gained = gating(base_of(brief), asked=replace(GATE, improvements=True)).limits("a")
    assert (pytest.approx(9.6 * 0.9 * 1.01 / 2), pytest.approx(10.4 * 1.1 * 2 / 1.01)) == (
        lost.low,
        gained.high,
    )
    base = scaled(4, 0.8)  # a speedup of 3.2 over fewer devices, within a tenth
    ((_, high, fails),) = gating(base_of(base), asked=GateOptions()).limits(base.nodeid)
    assert (pytest.approx(3.2 * 1.1 * 0.9), "below") == (high, fails)


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


# What the run as a whole fails for, and what there is to know of it

CPU_SIDE = Pairing(kind="cpu", library="numpy")
CPU_VARIANT = skipped("a[numpy]", None, status="recorded", pairing=CPU_SIDE)
ON_CPU = skipped(cpu=measured(CPU, 1.0))
DESELECTED = {"reason": "in other words", "reason_code": "deselected"}
AB = (record(), record("b"))
FREE = {"asked": replace(GATE, allow={"missing"})}
NO_GPU_ALLOWED = {"asked": replace(GATE, allow={"no-gpu"})}
STRICT = {"asked": replace(GATE, strict=True)}
LEFT_OUT = {"cause": "narrowed", "gate_requested": False}
TYPED = {"cause": "narrowed", "gate_requested": True}
FOLDER = {
    "name": "d/b.json",
    "older": (
        base_of(record("b"), environment=ELSEWHERE),
        base_of(record("b"), name="d/a.json"),
        base_of(record("b"), name="d/oldest.json"),
    ),
}


def about(metric):
    return {"asked": GateOptions(tolerances=(within(metric=metric),))}


def lost(nodeid):
    return {"crashed": {nodeid: "gw0 crashed"}}


RUNS = {  # the records of the run, those of the baseline, and what else there is to know
    "nothing ran": ([], AB[:1]),
    "all was deselected": ([skipped("b", **DESELECTED)], AB[:1]),
    "all was skipped": ([skipped()], AB[:1]),
    "all was skipped, one of the baseline did not run": ([skipped()], AB),
    "all was skipped without a GPU": ([skipped(), skipped("b")], AB, {"here": WITHOUT_GPU}),
    "the GPU variant was skipped": (
        *([CPU_VARIANT, skipped("a[cupy]")], [record("a[cupy]")]),
        {"here": WITHOUT_GPU},
    ),
    "one broke": ([skipped("b"), skipped("a", "it broke", status="error")], AB),
    "only a CPU variant ran": ([CPU_VARIANT], AB[:1]),
    "nothing ran with a GPU, which may lack": ([], [skipped("old")], NO_GPU_ALLOWED),
    "nothing ran without a GPU, which may lack": (
        [],
        [skipped("old")],
        {**NO_GPU_ALLOWED, "here": WITHOUT_GPU},
    ),
    "all was skipped without a GPU, which may lack": (
        *([skipped()], [skipped("old")]),
        {**NO_GPU_ALLOWED, "here": WITHOUT_GPU},
    ),
    "what is asked for is not the CPU's time": ([ON_CPU], AB[:1], about("gpu_time")),
    "what is asked for is the CPU's time": ([ON_CPU], AB[:1], about("cpu_time")),
    "others ran": ([record("x"), record("y")], AB),
    "the baseline is empty": ([record("x")], []),
    "one is new": ([record("x"), *AB], AB),
    "no metric is shared": ([record(memory=Memory(peak=1))], AB, about("memory")),
    "all is inconclusive": ([record(value=9.0)], AB[:1]),
    "all is inconclusive, strictly": ([record(value=9.0)], AB[:1], STRICT),
    "all is inconclusive, which fails nothing": ([record(value=9.0)], AB[:1], {**STRICT, "fail": "nothing"}),
    "one of two is inconclusive": ([record(value=9.0), record("b")], AB),
    # A gate of the ini file lets a command line leave out all that it is about.
    "all was left out": ([], AB, LEFT_OUT),
    "all but a new one was left out": ([record("new")], AB, LEFT_OUT),
    "all was left out by a command that asks": ([], AB, TYPED),
    "all but a new one was left out by a command that asks": ([record("new")], AB, TYPED),
    "all was left out, strictly": ([], AB, {**STRICT, **LEFT_OUT, "narrowed_by": ("-k",)}),
    "one was left out, and the other is inconclusive": (
        *([record(value=9.0)], AB),
        {**LEFT_OUT, "asked": replace(GATE, strict=True, allow={"missing"})},
    ),
    "one was left out, and the other skipped": ([skipped()], AB, LEFT_OUT),
    "five are gone": (AB[:1], [*map(record, "abcdef")], {"name": "my base/b.json"}),
    "an unmarked one of three is gone, as are all": ([record()], [*AB, record("c", source="all")]),
    "an unmarked one is gone, and another ran": (
        [record(source="all")],
        [record(source="all"), record("c", source="all")],
    ),
    "each for a cause of its own": (
        AB[:1],
        [*map(record, "abcde")],
        {
            "cause": {"b": "narrowed", "c": "narrowed", "d": "gone", "e": "ended"},
            "narrowed_by": ("-k", "paths"),
        },
    ),
    # The suite's own skip may be worded like ours: only its code counts.
    "one was deselected": ([record(), skipped("b", **DESELECTED)], AB),
    "one skipped as if deselected": ([record(), skipped("b", "deselected on the")], AB),
    "one was lost": (AB, AB, lost("a")),
    "a new one was lost": ([*AB, record("new")], AB, lost("new")),
    "an unmarked one was lost": (AB, AB, lost("unmarked")),
    "another machine": (AB, AB, {"here": ELSEWHERE}),
    "another machine, strictly": (AB, AB, {**STRICT, "here": ELSEWHERE}),
    "a better one": ([record(value=20.0)], AB, FREE),
    "a worse one": ([record(value=5.0)], AB, FREE),
    "a skipped one": ([record(), skipped("b")], AB, FREE),
    "a new one that skipped": ([record(), skipped("new")], AB, FREE),
    "a baseline of a run that ended early": (AB[:1], AB[:1], {"complete": False}),
    "one that an older baseline has": (AB, AB[:1], FOLDER),
}


def test_what_a_run_fails_for_and_what_there_is_to_know_of_it():
    """Read the titles above, and what stands below each in the file: failures, then notes."""
    told = []
    for name, (now, before, *options) in RUNS.items():
        gate = ended(now, *before, **dict(*options)).gate
        told.append(f"{name}:\n")
        told += [f"- fails: {each.code}: {each.text}\n" for each in gate.failures]
        told += [f"- {each.code}: {each.text}\n" for each in gate.notes]
    assert_golden("words/gate.txt", "".join(told))


# What became of what the baseline holds

OTHER = recorded("other")  # measured in both runs, so that a row is never about nothing


def sized(size) -> Record:
    return recorded(f"f[{size}]", size_group=SizeGroup(name="f", parameter="n", size=size, sizes=(1, 2)))


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
    for name, other in (("a#2", "a"), ("a", "a#2")):
        now = [factories.skipped(name), recorded(other)]
        result = ended(now, recorded("a"), recorded("a#2")).gate
        assert [(name, "skipped")] == [(each.name, each.cause) for each in result.absent]
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
        ("excused", {"value": 9.0}, {"fail": "doubt"}),
        ("inconclusive", {"value": 9.0}, {}),
        ("excused", {"status": "error", "speedup": None}, {}),
        ("not_regressed", {"status": "failed"}, {}),
    ],
)
def test_an_expected_failure_excuses_nothing_that_would_fail(expected, now, changes):
    run = ended([recorded("a", expected_failure=True, **now), OTHER], recorded("a"), OTHER, **changes)
    found = [each.cause for each in run.gate.absent] or [run.records[0].comparisons[0].outcome]
    assert [expected] == found
    held, options = gating(base_of(recorded("a"))), RunOptions(**changes)
    assert [] == [reason for each in run.records for reason in held.failures(each, options)]
    assert bool(run.gate.failures) == (expected == "excused")
