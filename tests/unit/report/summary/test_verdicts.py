"""Verdicts: how a test ended, in the same words wherever they stand."""

from cases import for_each
from factories import comparison, record, run_of

from pytest_gpuperf.report.html import badge, page
from pytest_gpuperf.report.markdown import comment
from pytest_gpuperf.report.summary.verdicts import verdict
from pytest_gpuperf.report.text import progress, section

DIFFER = {"status": "failed", "reason": "they disagree", "reason_code": "devices_disagree"}
SLOW = {"status": "failed", "reason": "too slow", "reason_code": "speedup_outside_limits"}


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
    assert '<span class="v failed">failed</span> <small>results differ</small>' in page.text(run)
    assert "| failed: results differ |" in comment.text(run)
    assert any(str(line).endswith("  failed: results differ") for line in section.lines(run, 120))
    assert ">10.0x failed: results differ<" in badge.svg(run, "test_a")
    assert progress.outcome(failed) == "10.0x [9.00, 11.0], required 3x, results differ, 12 rounds"
