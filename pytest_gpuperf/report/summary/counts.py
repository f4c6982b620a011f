"""From a run to the tests that have a row, and to how many of them there are of each kind."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.summary.comparisons import NOTED
from pytest_gpuperf.report.summary.verdicts import expected

_COUNTED = (
    *("failed", "error", "regressed", "failed (expected)", "error (expected)", "improved"),
    *("inconclusive", "undecided", "not_comparable", "new", "passed", "recorded", "skipped"),
)
_PLURALS = {"error": "errors"}


def shown_records(run: Run) -> list[Record]:
    """Return the records of tests that were to run, or that were measured for a sibling."""
    return [record for record in run.records if not (record.is_deselected and record.cpu is None)]


def rows_of(records: Sequence[Record]) -> list[Record]:
    """Return the records without those of CPU siblings of which a GPU sibling's row says all."""
    told = {
        record.pairing.partner
        for record in records
        if record.pairing and record.pairing.partner and record.speedup
    }
    return [record for record in records if record.nodeid not in told or not _is_plain(record)]


def _is_plain(record: Record) -> bool:
    """Return whether a CPU sibling ended as it does where nothing is to be said of it."""
    outcomes = {comparison.outcome for comparison in record.comparisons}
    return record.status == "recorded" and outcomes <= {"new", "not_regressed"}


def counts(records: Iterable[Record]) -> list[str]:
    """Return how many tests there are of each kind: `2 failed`.

    A test may be of two; but what a gate reports of it replaces a verdict that needs no attention.
    """
    counted: Counter[str] = Counter()
    for record in records:
        counted.update({comparison.outcome for comparison in record.comparisons})
        is_noted = any(comparison.outcome in NOTED for comparison in record.comparisons)
        if not is_noted or record.status not in ("passed", "recorded"):
            failed = record.status in ("failed", "error")
            counted[expected(record.status, record) if failed else record.status] += 1
    words = {code: code.replace("_", " ") for code in _COUNTED if counted[code]}
    return [units.count(counted[code], word, _PLURALS.get(code, word)) for code, word in words.items()]
