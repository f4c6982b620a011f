"""Verdicts: how tests ended, in the same words and numbers wherever they stand."""

import re

from cases import for_each
from factories import comparison, gate_result, record, run_of, skipped, threshold, variants

from pytest_gpuperf.report import markdown
from pytest_gpuperf.report.html import page
from pytest_gpuperf.report.text import progress, section
from pytest_gpuperf.report.verdicts import verdict

DIFFER = {"status": "failed", "reason": "they disagree", "reason_code": "devices_disagree"}
SLOW = {"status": "failed", "reason": "too slow", "reason_code": "speedup_outside_limits"}
WORSE, BETTER = comparison("regressed"), comparison("improved")
RUNS = {
    "1 passed": variants("a.py::test_a"),
    "1 failed, 2 passed": (
        *variants("a.py::test_a"),
        *variants("a.py::test_b", status="failed", reason="slow"),
        record(),
    ),
    "1 recorded": [record(gpu=None, speedup=None, status="recorded")],
    "1 regressed (expected), 1 passed": (
        record("a.py::test_known", comparisons=(WORSE,), expected_failure=True),
        record(),
    ),
    "1 failed (expected), 1 regressed (expected)": [
        record(status="failed", reason="slow", comparisons=(WORSE,), expected_failure=True)
    ],
    "1 failed, 1 regressed, 1 improved, 1 skipped": (
        record("a.py::test_a", status="failed", reason="slow", comparisons=(WORSE,)),
        record("a.py::test_b", comparisons=(BETTER,)),
        skipped("a.py::test_c"),
    ),
    "2 errors": [record(f"a.py::test_{n}", status="error", reason="lost", speedup=None) for n in range(2)],
}
FAILED_THRESHOLD = threshold(status="failed", reason="too large")
FAILED_CHECK = gate_result("every test was skipped")


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


def test_all_forms_of_a_report_name_the_cause_alike():
    failed = record("a.py::test_a", **DIFFER)
    run = run_of(failed)
    assert "| failed: results differ |" in markdown.text(run)
    assert any(str(line).endswith("  failed: results differ") for line in section.lines(run, 120))
    assert progress.outcome(failed) == "10.0x [9.00, 11.0], required 3x, results differ, 28 rounds"


@for_each("counted", RUNS)
def test_all_forms_of_a_report_count_alike(counted):
    all_forms_say(counted, run_of(*RUNS[counted]))


def test_what_failed_beside_the_tests_is_counted_first():
    all_forms_say("1 threshold failed, 1 passed", run_of(record(), thresholds=(FAILED_THRESHOLD,)))
    failed = run_of(record(), thresholds=(FAILED_THRESHOLD,) * 2, gate=FAILED_CHECK)
    all_forms_say("the regression check failed, 2 thresholds failed, 1 passed", failed)
    assert 'class="v threshold_failed"' in page.text(failed)


def all_forms_say(counted, run):
    assert f": {counted}</title>" in page.text(run)
    assert markdown.text(run).splitlines()[1].endswith(f": {counted}")
    assert counted == str(section.short_lines(run, 80)[0])


def test_the_page_shows_each_number_in_the_style_of_its_code():
    records = [record(f"a.py::test_{n}", status="error", reason="lost", speedup=None) for n in range(2)]
    differs = comparison("not_comparable")
    shown = page.text(run_of(*records, record(comparisons=(differs,))))
    header = shown[shown.index("<p class=counts>") : shown.index("</p>")]
    assert [("error", "2 errors"), ("not_comparable", "1 not comparable")] == re.findall(
        r'<span class="v (\w+)">([^<]*)</span>', header
    )


def test_a_row_of_the_page_has_what_its_test_is_counted_as():
    differs = comparison("inconclusive")
    new = comparison("new")
    both = record("b.py::test_b", status="failed", reason="slow", comparisons=(differs,))
    shown = page.text(run_of(record(comparisons=(differs, new)), both))
    rows = [re.findall(r'"v (\w+)"', row) for row in shown.split("<tbody class=test ")[1:]]
    assert [["failed", "inconclusive"], ["inconclusive"]] == rows


def test_a_variant_that_is_not_counted_has_no_row():
    run = run_of(*variants("a.py::test_a"))
    assert 1 == page.text(run).count("<tbody class=test ")
    assert 1 == markdown.text(run).count("| `test_a[")
