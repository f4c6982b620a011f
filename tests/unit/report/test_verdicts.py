"""Verdicts: how tests ended, in the same words and numbers wherever they stand."""

import re

from cases import for_each
from factories import comparison, gate_result, record, run_of, skipped, threshold, variants

from pytest_gpuperf.report.html import page
from pytest_gpuperf.report.verdicts import run_counts, verdict

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


def test_the_page_shows_each_number_and_each_row_in_the_style_of_its_code():
    failed = record("b", **SLOW, comparisons=(comparison("inconclusive"),))
    compared = record("c", comparisons=(comparison("inconclusive"), comparison("new")))
    shown = page.text(run_of(failed, compared, thresholds=(MISSED,)))
    header = shown[shown.index("<p class=counts>") : shown.index("</p>")]
    assert [
        ("threshold_failed", "1 threshold failed"),
        ("failed", "1 failed"),
        ("inconclusive", "2 inconclusive"),
        ("new", "1 new"),
    ] == re.findall(r'<span class="v (\w+)">([^<]*)</span>', header)
    rows = [
        re.findall(r'"v (\w+)"', row.partition("</table>")[0])
        for row in shown.split("<tbody class=test ")[1:]
    ]
    assert [["failed", "inconclusive"], ["inconclusive"]] == rows
