"""From a record to how its test ended, in a code and in words, and to its place among others."""

from typing import Literal, cast

from pytest_gpuperf.model.record import ReasonCode, Record, Status
from pytest_gpuperf.report.summary.comparisons import worst

ExpectedFailure = Literal["failed_expected", "error_expected", "regressed_expected"]
"""A failure that the test's `xfail` expects."""
VerdictCode = Status | Literal["regressed"] | ExpectedFailure
FAILURES: tuple[VerdictCode, ...] = ("failed", "error", "regressed")
_EXPECTED: tuple[VerdictCode, ...] = ("failed_expected", "error_expected", "regressed_expected")
_OTHERS: tuple[VerdictCode, ...] = ("inconclusive", "skipped", "passed", "recorded")
GRAVEST_FIRST = {code: place for place, code in enumerate((*FAILURES, *_EXPECTED, *_OTHERS))}
"""The places of all verdicts in an order of the gravest first."""
_CAUSES: dict[ReasonCode, str] = {
    "devices_disagree": "results differ",
    "memory_above_limit": "too much memory",
    "memory_not_known": "memory not known",
    "out_of_memory": "out of memory",
    "gpu_lost": "GPU lost",
}
"""Why a test failed whose speedup, which may be shown beside it, is not the cause."""


def verdict(record: Record) -> str:
    """Return how a test ended, in words: `failed (expected): results differ`."""
    code, why = verdict_code(record), cause(record)
    is_regressed = code in ("regressed", "regressed_expected")
    return in_words(code) + (f": {why}" if why and not is_regressed else "")


def cause(record: Record) -> str | None:
    """Return in few words why a test failed, where that is not its speedup; None otherwise."""
    return _CAUSES.get(record.reason_code) if record.reason_code else None


def verdict_code(record: Record) -> VerdictCode:
    """Return how a test ended: its status, or that it regressed, and whether such a failure was expected."""
    code: Status | Literal["regressed"] = "regressed" if _is_regressed(record) else record.status
    return cast("ExpectedFailure", f"{code}_expected") if is_expected_failure(record) else code


def in_words(code: str) -> str:
    """Return a code of a verdict or of an outcome as it is written: `not comparable`, `failed (expected)`."""
    words = code.removesuffix("_expected").replace("_", " ")
    return f"{words} (expected)" if code.endswith("_expected") else words


def is_expected_failure(record: Record) -> bool:
    """Return whether a test failed as its `xfail` expects."""
    has_failed = record.status in ("failed", "error") or _is_regressed(record)
    return record.expected_failure and has_failed


def _is_regressed(record: Record) -> bool:
    return any(comparison.outcome == "regressed" for comparison in record.comparisons)


def rank(record: Record) -> int:
    """Return a record's place: what went wrong, what is inconclusive, what got better, the rest.

    A failure that was expected is of the rest.
    """
    if is_expected_failure(record):
        return 3
    comparison = worst(record)
    outcome = comparison.outcome if comparison else None
    if record.status in ("failed", "error") or outcome == "regressed":
        return 0
    if record.status == "inconclusive" or outcome in ("inconclusive", "not_comparable"):
        return 1
    if outcome == "improved":
        return 2
    return 4 if record.status == "skipped" else 3
