"""A record's comparisons with its baseline -> the one to show, and its words."""

from collections import Counter
from collections.abc import Iterator, Mapping

from pytest_gpuperf.gate import regression
from pytest_gpuperf.model.comparison import Comparison, Metric, Outcome
from pytest_gpuperf.model.record import Record, Run

__all__ = ["before", "briefly", "by_how_much", "counts", "foremost", "gate_lines", "gravity", "outcome_words"]

_GRAVEST_FIRST: tuple[Outcome, ...] = (
    "regressed",
    "cannot_tell",
    "not_comparable",
    "improved",
    "not_regressed",
    "new",
)
_METRICS: dict[Metric, str] = {
    "gpu": "GPU ",
    "cpu": "CPU ",
    "latency": "latency ",
    "always": "with copies ",
    "threshold": "threshold ",
    "memory": "memory ",
}


def foremost(record: Record) -> Comparison | None:
    """Return the comparison that a reader must see first: a regression before doubt before the rest."""
    return min(record.comparisons, key=lambda each: _GRAVEST_FIRST.index(each.outcome), default=None)


def outcome_words(outcome: Outcome) -> str:
    """Return an outcome as it is written in a sentence: `cannot tell`."""
    return outcome.replace("_", " ")


def before(comparison: Comparison) -> str:
    """Return the baseline's value with its unit, and its metric if that is no speedup: `GPU 1.23 ms`."""
    if comparison.baseline is None:
        return "-"
    shown = regression.amount(comparison.metric, comparison.baseline.value)
    return f"{_METRICS.get(comparison.metric, '')}{shown}"


def by_how_much(comparison: Comparison) -> str:
    """Return the change from the baseline in percent, with its interval: `-12.3 % [-15.0, -9.1]`."""
    return "-" if comparison.ratio is None else regression.change(comparison.ratio)


def briefly(record: Record) -> str:
    """Return the change of the gravest comparison for a narrow column: `-20 %`, or what became of it."""
    found = foremost(record)
    if found is None:
        return "-"
    if found.ratio is None:
        return "differs" if found.outcome == "not_comparable" else outcome_words(found.outcome)
    doubt = "?" if found.outcome == "cannot_tell" else ""
    return f"{_METRICS.get(found.metric, '')}{100 * (found.ratio.value - 1):+.0f} %{doubt}"


def gravity(record: Record) -> int:
    """Return where a record stands among others, the gravest first."""
    found = foremost(record)
    return _GRAVEST_FIRST.index(found.outcome) if found else len(_GRAVEST_FIRST)


def counts(found: Mapping[Outcome, int]) -> str:
    """Return how many comparisons came out how, the gravest first: `1 regressed, 2 new`."""
    return ", ".join(f"{found[each]} {outcome_words(each)}" for each in _GRAVEST_FIRST if each in found)


def gate_lines(run: Run) -> Iterator[str]:
    """Yield what a run was compared with, what came of it, and what to know of that."""
    gate = run.gate
    if gate is None:
        return
    found = Counter(each.outcome for record in run.records for each in record.comparisons)
    limits = ", ".join(f"{each.metric} {100 * each.share:g} %" for each in gate.tolerances)
    asked = f" (tolerance: {limits})" if limits else ""
    if gate.baseline is not None:
        what = counts(found) or "nothing was compared"
        yield f"baseline {gate.baseline} of {_moment(gate.started)}{asked}: {what}"
    yield from (note.text for note in gate.notes)


def _moment(started: str | None) -> str:
    """Return the minute of a time in ISO 8601: `2026-01-01 09:30`."""
    return started[:16].replace("T", " ") if started else "a time that is not known"
