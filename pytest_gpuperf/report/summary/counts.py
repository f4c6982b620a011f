"""From a run to the tests that have a row, and to how many of them there are of each kind."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Outcome
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.summary.comparisons import NOTED
from pytest_gpuperf.report.summary.verdicts import FAILURES, VerdictCode, in_words, is_expected_failure

RunFailure = Literal["check_failed", "threshold_failed"]
"""What fails a run beside its tests."""
CountedCode = VerdictCode | Outcome | RunFailure
_ORDER: tuple[CountedCode, ...] = (
    *("failed", "error", "regressed", "failed_expected", "error_expected", "regressed_expected", "improved"),
    *("inconclusive", "not_comparable", "new", "passed", "recorded", "skipped"),
)


def shown_records(run: Run) -> list[Record]:
    """Return the records of tests that were to run, or that were measured for a variant."""
    return [record for record in run.records if not (record.is_deselected and record.cpu is None)]


def rows_of(records: Sequence[Record]) -> list[Record]:
    """Return the records without those of CPU variants of which a GPU variant's row says all."""
    partners = {
        record.pairing.partner
        for record in records
        if record.pairing and record.pairing.partner and record.speedup
    }
    return [record for record in records if record.nodeid not in partners or not _is_plain(record)]


def _is_plain(record: Record) -> bool:
    """Return whether a CPU variant ended as it does where nothing is to be said of it."""
    outcomes = {comparison.outcome for comparison in record.comparisons}
    return record.status == "recorded" and outcomes <= {"new", "not_regressed"}


@dataclass(frozen=True, slots=True)
class Count:
    """How many tests have a verdict, or a comparison with an outcome, or what failed beside them."""

    code: CountedCode
    number: int

    def __str__(self) -> str:
        """Return it in words: `2 failed`, `2 errors (expected)`."""
        if self.code == "check_failed":
            return "the regression check failed"
        if self.code == "threshold_failed":
            return units.count(self.number, "threshold failed", "thresholds failed")
        words = in_words(self.code)
        return units.count(self.number, words, words.replace("error", "errors"))


def counts(records: Sequence[Record]) -> list[Count]:
    """Return how many tests there are of each kind, without variants that have no row."""
    counted = Counter(code for record in rows_of(records) for code in codes_of(record))
    return [Count(code, counted[code]) for code in _ORDER if counted[code]]


def run_counts(run: Run) -> list[Count]:
    """Return the failures of a run that are no test's own, and the number of tests of each kind."""
    failed = sum(threshold.status == "failed" for threshold in run.thresholds)
    beside = [
        Count("check_failed", int(bool(run.gate and run.gate.failures))),
        Count("threshold_failed", failed),
    ]
    return [*(count for count in beside if count.number), *counts(shown_records(run))]


def codes_of(record: Record) -> list[CountedCode]:
    """Return the kinds that a test is of, the gravest first: one, or what its gate reports of it, too.

    The latter replaces a verdict that needs no attention.
    """
    codes: set[str] = {comparison.outcome for comparison in record.comparisons}
    if record.status not in ("passed", "recorded") or codes.isdisjoint(NOTED):
        codes.add(record.status)
    if is_expected_failure(record):
        codes = {f"{code}_expected" if code in FAILURES else code for code in codes}
    return [code for code in _ORDER if code in codes]


def left_alone_text(run: Run, shown: Callable[[str], str] = str) -> str | None:
    """Return how many marked tests ran as if they had no marker, because no backend knows their device.

    `shown` returns a value as it is to be written. None where there are no such tests.
    """
    if not run.unknown_values:
        return None
    tests = units.count(sum(value.tests for value in run.unknown_values), "test")
    values = sorted(f"{value.parameter}={value.value}" for value in run.unknown_values)
    few = units.first_few(map(shown, values), most=6)
    return f"left alone: {tests} on devices that are not known ({few}); gpuperf_device_values can map them"
