"""What is said of a test and of a run: cells, verdicts, counts, a threshold, properties for other tools."""

from array import array

import pytest
from cases import for_each
from factories import (
    CPU,
    comparison,
    estimate,
    gate_result,
    measurement,
    on_cpu_only,
    record,
    run_of,
    scaled,
    skipped,
    threshold,
    variants,
)

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Interference
from pytest_gpuperf.report.summary import cells_of, properties, threshold_sentence
from pytest_gpuperf.report.verdicts import run_counts, verdict

BUSY = Interference(kind="cpu_contention", own_share=0.1, waited=0.9)
AWAITED = measurement(CPU, 0.02, latencies=array("d", [0.03]))


def changed(outcome, ratio, metric="speedup"):
    return record(
        comparisons=(comparison(outcome, metric=metric, ratio=ratio and estimate(ratio, 0.5, 2e6)),)
    )


@for_each(
    ("expected", "heading", "of"),
    [
        ("-", "CPU", skipped()),
        ("-", "speedup", skipped()),
        (">=3x", "limit", record(demand=Demand(min=3))),
        ("<=1.5x always", "limit", record(demand=Demand(max=1.5, transfer="always"))),
        ("2..4x once/1000", "limit", record(demand=Demand(min=2, max=4, transfer="once", calls=1000))),
        (">=2x latency", "limit", record(demand=Demand(min=2, latency=True))),
        ("-", "limit", record(demand=Demand())),
        (">=0.5 eff.", "limit", scaled(4, 0.6, required=0.5)),
        ("-", "change", record()),
        ("-20 %", "change", changed("regressed", 0.8)),
        ("GPU +25 %", "change", changed("regressed", 1.25, "gpu_time")),
        ("0 %", "change", changed("not_regressed", 0.997)),
        ("x1132", "change", changed("improved", 1132.4)),
        ("x1132?", "change", changed("inconclusive", 1132.4)),
        ("differs", "change", changed("not_comparable", None)),
        ("new", "change", changed("new", None)),
        # What a call may take on a GPU that is not here.
        ("needs 6.67 ms", "GPU", on_cpu_only(demand=Demand(min=3))),
        ("needs 10.0 ms", "GPU", on_cpu_only(demand=Demand(min=3, latency=True), cpu=AWAITED)),
        ("-", "GPU", on_cpu_only(demand=Demand())),
        ("-", "GPU", on_cpu_only(demand=Demand(max=1))),
        ("-", "GPU", on_cpu_only(demand=Demand(min=1, max=3))),
        ("-", "GPU", on_cpu_only(interference=BUSY)),
        ("-", "GPU", on_cpu_only(cpu=None)),
    ],
)
def test_a_row_says_what_was_measured_wanted_and_changed(expected, heading, of):
    assert expected == cells_of(of)[heading]


@for_each(
    ("expected", "found"),
    [
        ("recorded: the GPU wins from n = 256 on, not at 128", threshold()),
        ("recorded: the GPU wins from n = 64 on, the smallest", threshold("WW")),
        ("recorded: the GPU does not win at the largest n, 128", threshold("LL")),
        (
            "recorded: no n from which the GPU surely wins (no clear result at the largest, 64)",
            threshold("?"),
        ),
        ("recorded: not known", threshold("")),
        (
            "inconclusive: not known; sizes are missing",
            threshold(status="inconclusive", outcome=None, reason="sizes are missing"),
        ),
    ],
)
def test_a_threshold_is_told_in_a_sentence(expected, found):
    assert expected == threshold_sentence(found)


def test_a_test_has_its_speedup_or_its_efficiency():
    assert {"gpuperf.status": "skipped"} == dict(properties(skipped("a")))
    assert {
        "gpuperf.status": "passed",
        "gpuperf.speedup": 10.0,
        "gpuperf.low": 9.0,
        "gpuperf.high": 11.0,
    } == (dict(properties(record("a"))))
    found = dict(properties(scaled(4, 0.5)))
    assert {"gpuperf.status", "gpuperf.efficiency", "gpuperf.low", "gpuperf.high"} == set(found)
    assert (0.5, 0.45) == pytest.approx((found["gpuperf.efficiency"], found["gpuperf.low"]))


DIFFER = {"status": "failed", "reason": "they disagree", "reason_code": "devices_disagree"}
SLOW = {"status": "failed", "reason": "too slow", "reason_code": "speedup_outside_limits"}
WORSE, BETTER = comparison("regressed"), comparison("improved")
MISSED = threshold(status="failed", reason="too large")
CHECK_FAILED = gate_result("every test was skipped")


@for_each(
    ("expected", "changes"),
    [
        ("failed: results differ", DIFFER),
        ("failed (expected): results differ", DIFFER | {"expected_failure": True}),
        ("failed: too much memory", DIFFER | {"reason_code": "memory_above_limit"}),
        ("error: memory not known", {"status": "error", "reason": "?", "reason_code": "memory_not_known"}),
        ("failed", SLOW),
        ("failed", SLOW | {"reason_code": None}),
        ("inconclusive", {"status": "inconclusive", "reason": "?", "reason_code": "not_enough_time"}),
        ("regressed", DIFFER | {"comparisons": (comparison(),)}),
    ],
)
def test_a_verdict_names_its_cause_where_that_is_not_the_speedup(expected, changes):
    assert expected == verdict(record(**changes))


@for_each(
    ("expected", "run"),
    [
        ("", run_of()),
        ("1 passed", run_of(*variants())),
        ("1 failed, 2 passed", run_of(*variants("a"), *variants("b", **SLOW), record())),
        ("1 recorded", run_of(record(gpu=None, speedup=None, status="recorded"))),
        (
            "1 regressed (expected), 1 passed",
            run_of(record("a", comparisons=(WORSE,), expected_failure=True), record()),
        ),
        (
            "1 failed (expected), 1 regressed (expected)",
            run_of(record(**SLOW, comparisons=(WORSE,), expected_failure=True)),
        ),
        (
            "1 failed, 1 regressed, 1 improved, 1 skipped",
            run_of(record("a", **SLOW, comparisons=(WORSE,)), record(comparisons=(BETTER,)), skipped("c")),
        ),
        ("2 errors", run_of(*(record(f"{n}", status="error", reason="?", speedup=None) for n in range(2)))),
        ("1 threshold failed, 1 passed", run_of(record(), thresholds=(MISSED,))),
        (
            "the regression check failed, 2 thresholds failed, 1 passed",
            run_of(record(), thresholds=(MISSED, MISSED), gate=CHECK_FAILED),
        ),
    ],
)
def test_each_test_is_counted_as_what_it_is_what_failed_beside_them_first(expected, run):
    assert expected == ", ".join(map(str, run_counts(run)))
