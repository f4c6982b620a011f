"""From records to how their tests ended: in a code, in words, in an order, and how many there are of each."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple, cast

from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Comparison, Outcome
from pytest_gpuperf.model.record import ReasonCode, Record, Run, VerdictCode

FAILURES: tuple[VerdictCode, ...] = ("failed", "error", "regressed")
RunFailure = Literal["check_failed", "threshold_failed"]
"""What fails a run in addition to its tests."""
CountedCode = VerdictCode | Outcome | RunFailure
_BY_GRAVITY: tuple[tuple[CountedCode, ...], ...] = (
    FAILURES,
    ("failed_expected", "error_expected", "regressed_expected"),
    ("inconclusive",),
    ("not_comparable",),
    ("improved",),
    ("passed", "recorded", "not_regressed", "new"),
    ("skipped",),
)
GRAVITY = {code: place for place, codes in enumerate(_BY_GRAVITY) for code in codes}
"""How tests and comparisons ended, in the order in which reports list and count them: the gravest are 0."""
_UNNOTED = frozenset(("not_regressed", "new"))  # outcomes that replace no verdict
_CAUSES: dict[ReasonCode, str] = {
    "devices_disagree": "results differ",
    "memory_above_limit": "too much memory",
    "memory_not_known": "memory not known",
    "out_of_memory": "out of memory",
    "gpu_lost": "GPU lost",
}
"""Why a test failed whose speedup is shown with it and is not the cause."""


def verdict(record: Record) -> str:
    """Return how a test ended, in words: `failed (expected): results differ`."""
    is_regressed = record.verdict in ("regressed", "regressed_expected")
    return in_words(record.verdict) if is_regressed else with_cause(record.verdict, record)


def with_cause(code: VerdictCode, record: Record) -> str:
    """Return how a test ended, and in few words why it failed where that is not its speedup."""
    why = _CAUSES.get(record.reason_code) if record.reason_code else None
    return in_words(code) + (f": {why}" if why else "")


def in_words(code: str) -> str:
    """Return a code of a verdict or of an outcome as it is written: `not comparable`, `failed (expected)`."""
    words = code.removesuffix("_expected").replace("_", " ")
    return f"{words} (expected)" if code.endswith("_expected") else words


def worst(record: Record) -> Comparison | None:
    """Return the comparison that a reader must see first: a regression before doubt before the rest."""
    return min(record.comparisons, key=lambda each: GRAVITY[each.outcome], default=None)


def place(record: Record) -> tuple[int, float]:
    """Return a record's place: the gravest first, of what failed the farthest from its limit."""
    gravity = min(GRAVITY[code] for code in codes_of(record))
    return gravity, 0.0 if gravity else -_excess(record)


def _excess(record: Record) -> float:
    """Return how many times a test misses its limit, or its baseline; infinity where that is not known."""
    if record.speedup is None or record.status == "error":
        return inf
    value, least, most = record.speedup.value, record.demand.min, record.demand.max
    misses = [least / value] if least is not None and value else []
    misses += [value / most] if most is not None else []
    ratios = [each.ratio.value for each in record.comparisons if each.outcome == "regressed" and each.ratio]
    misses += [max(ratio, 1 / ratio) if ratio else inf for ratio in ratios]
    return max(misses, default=inf)


def shown_records(run: Run) -> list[Record]:
    """Return the records of tests that were to run, or that were measured for a variant."""
    return [record for record in run.records if not (record.is_deselected and record.cpu is None)]


def rows_of(records: Sequence[Record]) -> list[Record]:
    """Return the records without those of CPU variants of which a GPU variant's row says all."""
    partners = {
        record.pairing.partner
        for record in records
        if record.pairing and record.pairing.partner and record.cpu
    }
    return [record for record in records if record.nodeid not in partners or not _is_plain(record)]


def _is_plain(record: Record) -> bool:
    """Return whether a CPU variant ended as it does where nothing is to be said of it."""
    outcomes = {comparison.outcome for comparison in record.comparisons}
    return record.status == "recorded" and outcomes <= _UNNOTED


@dataclass(frozen=True, slots=True)
class Count:
    """How many tests have a verdict, or a worst comparison with an outcome, or what failed in addition."""

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


class Counts(NamedTuple):
    """How many tests there are of each verdict, each counted once, and of each outcome of the comparisons."""

    tests: Sequence[Count]
    compared: Sequence[Count]

    def __str__(self) -> str:
        """Return them in words: `2 failed, 1 inconclusive; regression check: 3 inconclusive`."""
        told = ", ".join(map(str, self.tests)) or "no test was measured"
        return f"{told}; regression check: {', '.join(map(str, self.compared))}" if self.compared else told


def counts(records: Sequence[Record]) -> Counts:
    """Return how many tests there are of each kind, without variants that have no row."""
    rows = rows_of(records)
    return Counts(_counted(record.verdict for record in rows), _compared(rows))


def _compared(rows: Iterable[Record]) -> list[Count]:
    """Return how the tests' worst comparisons ended; nothing where their verdicts say so, or all is well."""
    found = [(record, each.outcome) for record in rows if (each := worst(record)) is not None]
    noted = [(record, outcome) for record, outcome in found if outcome != "not_regressed"]
    if all(outcome == "regressed" and record.is_regressed for record, outcome in noted):
        return []
    return _counted(_expected(outcome, record) for record, outcome in noted)


def _counted(codes: Iterable[CountedCode]) -> list[Count]:
    counted = Counter(codes)
    return [Count(code, counted[code]) for code in GRAVITY if counted[code]]


def run_counts(run: Run) -> Counts:
    """Return the failures of a run that are no test's own, and the number of tests of each kind."""
    failed = sum(threshold.status == "failed" for threshold in run.thresholds)
    beside = [
        Count("check_failed", int(bool(run.gate and run.gate.failures))),
        Count("threshold_failed", failed),
    ]
    found = counts(shown_records(run))
    return Counts([*(count for count in beside if count.number), *found.tests], found.compared)


def codes_of(record: Record) -> list[CountedCode]:
    """Return the kinds that a test is of, the gravest first: one, or what its gate reports of it, too.

    The latter replaces a verdict that needs no attention.
    """
    codes: set[CountedCode] = {comparison.outcome for comparison in record.comparisons}
    if record.status not in ("passed", "recorded") or codes <= _UNNOTED:
        codes.add(record.status)
    codes = {_expected(code, record) for code in codes}
    return [code for code in GRAVITY if code in codes and code != "not_regressed"]


def _expected(code: CountedCode, record: Record) -> CountedCode:
    """Return a code, or that of a failure that is expected."""
    is_expected = record.is_expected_failure and code in FAILURES
    return cast("CountedCode", f"{code}_expected") if is_expected else code
