"""Pairs of processes: what the range of their ratios says, and how often it says something wrong."""

from math import comb, exp
from random import Random

import pytest
from cases import for_each
from factories import CPU, ELSEWHERE, GPU, HERE, estimate, measured, recorded, run_of
from msgspec.structs import replace

from pytest_gpuperf.gate import pairs
from pytest_gpuperf.gate.gate import Gate
from pytest_gpuperf.gate.pairs import FEW, MANY, Pair, bracket
from pytest_gpuperf.model.comparison import GateOptions, Tolerance
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Memory
from pytest_gpuperf.model.record import Report

GPU_TIME = Tolerance(metric="gpu_time", share=0.05)
SPEEDUP = Tolerance(metric="speedup", share=0.05)
STEPS = (1.0, 1.01, 0.99, 1.02, 1.0, 0.98)  # by which processes differ


def process(*milliseconds, **changes):
    """Return the report of a process in which one test took so long on the GPU, block after block."""
    known = {"gpu": measured(GPU, *(each / 1e3 for each in milliseconds)), **changes}
    return Report(name="-", run=run_of(recorded(**known), environment=HERE))


def compared(base, head, tolerance=GPU_TIME):
    """Return how the test of head's processes compares with that of base's."""
    found = [Pair(*pair) for pair in zip(base, head, strict=True)]
    options = GateOptions(tolerances=(tolerance,))
    gate = Gate(options, [found[0].base], lambda: HERE, found)
    return gate.with_comparisons(head[0].run.records[0]).comparisons


def outcome(ratios):
    """Return the outcome of head's times over base's, of which no two processes have the same."""
    steps = [STEPS[place % len(STEPS)] for place in range(len(ratios))]
    base = [process(20 * step) for step in steps]
    head = [process(20 * step * ratio) for step, ratio in zip(steps, ratios, strict=True)]
    (found,) = compared(base, head)
    return found.outcome


def test_the_bracket_is_the_range_of_all_pairs_and_of_twelve_without_the_least_and_the_greatest():
    assert estimate(1.025, 1.0, 1.05) == bracket([1.05, 1.0, 1.02, 1.03, 1.01, 1.04])
    of_twelve = [0.5, 0.97, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.01, 1.03, 2.0]
    assert estimate(1.0, 0.97, 1.03) == bracket(of_twelve)


def test_the_median_lies_outside_of_a_bracket_as_seldom_as_the_documentation_says():
    assert 1 / 64 == 0.5**FEW
    assert 1 / 315 == pytest.approx(sum(comb(MANY, k) for k in (MANY - 1, MANY)) / 2**MANY, rel=1e-3)


@for_each(
    ("expected", "ratios"),
    [
        ("not_regressed", [1.0] * 6),
        ("not_regressed", [0.99, 1.0, 1.01, 1.02, 1.03, 1.049]),
        ("inconclusive", [0.99, 1.0, 1.01, 1.02, 1.03, 1.06]),
        ("inconclusive", [1.049, 1.06, 1.06, 1.06, 1.06, 1.06]),
        ("regressed", [1.051, 1.06, 1.06, 1.06, 1.06, 1.06]),
        ("improved", [0.94, 0.9, 0.9, 0.9, 0.9, 0.9]),
        ("regressed", [0.5] + [1.06] * 11),
        ("inconclusive", [0.5] * 2 + [1.06] * 10),
        ("not_regressed", [1.5] + [1.0] * 11),
    ],
)
def test_the_outcome_is_that_of_the_worst_and_the_best_pair(expected, ratios):
    assert expected == outcome(ratios)


def test_a_process_counts_by_its_fastest_block_which_no_neighbour_has_slowed_down():
    base = [process(20, 20, 20)] * 6
    (found,) = compared(base, [process(20, 60, 20)] * 6)
    assert ("not_regressed", 1.0) == (found.outcome, found.ratio.value)


def test_a_loss_in_every_second_call_is_not_proved_absent():
    (found,) = compared([process(20, 20, 20)] * 6, [process(20, 24, 24)] * 6)
    assert ("inconclusive", 1.0) == (found.outcome, found.ratio.value)


@for_each(("only_cpu",), [(False,), (True,)])
def test_a_first_call_that_compiles_for_longer_is_found_on_the_device_that_was_measured(only_cpu):
    def starting(seconds):
        slow = {"gpu": replace(measured(GPU, 1e-3), first_call=seconds)}
        if only_cpu:
            slow = {"gpu": None, "cpu": replace(measured(CPU, 1e-3), first_call=seconds)}
            slow |= {"status": "skipped", "speedup": None, "reason": "no GPU was found"}
        return process(1, **slow)

    base, tolerance = [starting(each) for each in STEPS], Tolerance(metric="first_call", share=0.2)
    (found,) = compared(base, [starting(1.5 * each) for each in STEPS], tolerance)
    assert ("regressed", 1.5) == (found.outcome, pytest.approx(found.ratio.value))
    assert "first call got worse: 1.50 s" in found.reason


@for_each(
    ("of_base", "of_head", "expected"),
    [
        (100, 100, "not_regressed"),
        (100, 110, "regressed"),
        (0, 0, "not_regressed"),
        (0, 8, "regressed"),
    ],
)
def test_memory_is_compared_by_default_where_it_is_known(of_base, of_head, expected):
    base, head = ([process(1, memory=Memory(peak=each, inputs=8))] * 6 for each in (of_base, of_head))
    of_memory = [each for tolerance in pairs.DEFAULT for each in compared(base, head, tolerance)]
    assert [expected] == [each.outcome for each in of_memory if each.metric == "memory"]
    assert [] == [*compared([process(1)] * 6, [process(1)] * 6, pairs.DEFAULT[-1])]


def test_less_speedup_is_worse():
    base, head = [process(1)] * 6, [process(1, speedup=recorded(value=9.0).speedup)] * 6
    assert ["regressed"] == [each.outcome for each in compared(base, head, SPEEDUP)]


def test_a_test_that_some_processes_did_not_measure_is_in_doubt():
    lost = process(1, status="error", reason="it broke")
    (found,) = compared([process(1)] * 6, [process(1)] * 5 + [lost])
    assert "inconclusive" == found.outcome
    assert "over 5 pairs of processes" in found.reason
    assert "too few pairs have it" in found.reason


def test_a_test_that_failed_in_bases_first_process_is_compared_by_the_others():
    lost = process(1, status="error", reason="it broke")
    (found,) = compared([lost] + [process(1)] * 6, [process(1.1)] * 7)
    assert "regressed" == found.outcome
    assert "over 6 pairs of processes" in found.reason


def test_the_numbers_are_the_middle_of_all_processes_and_the_ratio_that_of_pairs():
    steps = [1.0, 2.0, 4.0, 1.0, 2.0, 4.0]  # the machine was slower at times: for both
    (found,) = compared([process(step) for step in steps], [process(1.1 * step) for step in steps])
    assert estimate(2e-3, 1e-3, 4e-3) == found.baseline
    assert 1.1 == pytest.approx(found.ratio.value)
    assert "GPU time got worse: 2.20 ms" in found.reason
    assert "+10.0 % over 6 pairs of processes, 5 % more is allowed" in found.reason


def test_a_test_that_base_does_not_have_is_new_once():
    options = GateOptions(tolerances=pairs.DEFAULT)
    found = [Pair(Report(name="base", run=run_of(environment=HERE)), process(1)) for _ in range(6)]
    gate = Gate(options, [found[0].base], lambda: HERE, found)
    assert ["new"] == [each.outcome for each in gate.with_comparisons(recorded()).comparisons]


def test_processes_in_other_conditions_are_not_compared():
    elsewhere = measured(replace(GPU, name="L4"), 1e-3)
    (found,) = compared([process(1, gpu=elsewhere)] * 6, [process(1)] * 6)
    assert "not_comparable" == found.outcome


def test_the_processes_of_one_side_are_those_of_one_machine():
    strange = Report(name="h/5.json", run=replace(process(1).run, environment=ELSEWHERE))
    with pytest.raises(GpuPerfError, match=r"^h/5\.json and - were not measured in the same conditions: "):
        pairs.pairs_of([process(1)] * 6, [process(1)] * 5 + [strange])


@for_each(("of_base", "of_head"), [(5, 5), (6, 7), (0, 6)])
def test_folders_without_as_many_reports_are_refused(of_base, of_head):
    with pytest.raises(GpuPerfError, match=f"^BASE has {of_base} reports? and NEW has {of_head};"):
        pairs.pairs_of([process(1)] * of_base, [process(1)] * of_head)


def test_identical_code_is_called_slower_at_most_once_in_a_thousand_and_a_loss_is_found():
    """By the rule alone, of processes that differ by 2 %: benchmarks/against.py has the other worlds."""
    chance = Random(7)  # noqa: S311 - noise

    def found(loss):
        ratios = [exp(chance.gauss(loss, 0.02 * 2**0.5)) for _ in range(FEW)]
        return bracket(ratios)

    same = [found(0.0) for _ in range(2_000)]
    assert 0 == sum(each.low > 1.05 for each in same)
    slower = [found(0.15) for _ in range(2_000)]
    assert 0.95 < sum(each.low > 1.05 for each in slower) / 2_000
