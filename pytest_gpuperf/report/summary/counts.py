"""From a run to the tests that have a row, and to how many of them there are of each kind."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Outcome
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.summary.comparisons import NOTED
from pytest_gpuperf.report.summary.verdicts import FAILURES, VerdictCode, in_words, is_expected_failure

CountedCode = VerdictCode | Outcome
_ORDER: tuple[CountedCode, ...] = (
    *("failed", "error", "regressed", "failed_expected", "error_expected", "regressed_expected", "improved"),
    *("inconclusive", "undecided", "not_comparable", "new", "passed", "recorded", "skipped"),
)


def shown_records(run: Run) -> list[Record]:
    """Return the records of tests that were to run, or that were measured for a sibling."""
    return [record for record in run.records if not (record.is_deselected and record.cpu is None)]


def rows_of(records: Sequence[Record]) -> list[Record]:
    """Return the records without those of CPU siblings of which a GPU sibling's row says all."""
    partners = {
        record.pairing.partner
        for record in records
        if record.pairing and record.pairing.partner and record.speedup
    }
    return [record for record in records if record.nodeid not in partners or not _is_plain(record)]


def _is_plain(record: Record) -> bool:
    """Return whether a CPU sibling ended as it does where nothing is to be said of it."""
    outcomes = {comparison.outcome for comparison in record.comparisons}
    return record.status == "recorded" and outcomes <= {"new", "not_regressed"}


@dataclass(frozen=True, slots=True)
class Count:
    """How many tests have a verdict, or a comparison with an outcome."""

    code: CountedCode
    number: int

    def __str__(self) -> str:
        """Return it in words: `2 failed`, `2 errors (expected)`."""
        words = in_words(self.code)
        return units.count(self.number, words, words.replace("error", "errors"))


def counts(records: Sequence[Record]) -> list[Count]:
    """Return how many tests there are of each kind, without siblings that have no row.

    A test may be of two; but what a gate reports of it replaces a verdict that needs no attention.
    """
    counted: Counter[str] = Counter()
    for record in rows_of(records):
        codes: set[str] = {comparison.outcome for comparison in record.comparisons}
        if record.status not in ("passed", "recorded") or codes.isdisjoint(NOTED):
            codes.add(record.status)
        is_expected = is_expected_failure(record)
        counted.update(f"{code}_expected" if is_expected and code in FAILURES else code for code in codes)
    return [Count(code, counted[code]) for code in _ORDER if counted[code]]


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
