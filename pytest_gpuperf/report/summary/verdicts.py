"""From a record to how its test ended, in a code and in words, and to its place among others."""

from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.summary.comparisons import worst


def verdict(record: Record) -> str:
    """Return how a test ended, in words: with a remark where that was expected."""
    return expected(verdict_code(record), record)


def verdict_code(record: Record) -> str:
    """Return the word for how a test ended: its status, or `regressed`."""
    return "regressed" if _is_regressed(record) else record.status


def expected(text: str, record: Record) -> str:
    """Return a text on how a test ended, with a remark if that is a failure that its `xfail` expects."""
    return f"{text} (expected)" if is_expected_failure(record) else text


def is_expected_failure(record: Record) -> bool:
    """Return whether a test failed as its `xfail` expects."""
    has_failed = record.status in ("failed", "error") or _is_regressed(record)
    return record.expected_failure and has_failed


def _is_regressed(record: Record) -> bool:
    return any(comparison.outcome == "regressed" for comparison in record.comparisons)


def rank(record: Record) -> int:
    """Return a record's place: what went wrong, what is inconclusive, what got better, the rest."""
    comparison = worst(record)
    outcome = comparison.outcome if comparison else None
    if record.status in ("failed", "error") or outcome == "regressed":
        return 0
    if record.status == "inconclusive" or outcome in ("undecided", "not_comparable"):
        return 1
    if outcome == "improved":
        return 2
    return 4 if record.status == "skipped" else 3
