"""From records' comparisons with their baseline to the one to show, its text, and the gate's lines."""

from collections import Counter
from collections.abc import Iterable, Iterator

from pytest_gpuperf.gate import text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import WORST_FIRST, Comparison, GateResult, Metric, Outcome
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Record, Run

NOTED: tuple[Outcome, ...] = ("regressed", "improved", "inconclusive", "not_comparable")
"""The outcomes that every form of the report mentions."""
_METRICS: dict[Metric, str] = {
    "speedup": "",
    "gpu_time": "GPU ",
    "cpu_time": "CPU ",
    "with_copies": "with copies ",
}


def worst(record: Record) -> Comparison | None:
    """Return the comparison that a reader must see first: a regression before doubt before the rest."""
    return min(record.comparisons, key=lambda each: WORST_FIRST.index(each.outcome), default=None)


def baseline_of(record: Record) -> Estimate | None:
    """Return the speedup that a record's is compared with."""
    compared = (each.baseline for each in record.comparisons if each.metric == "speedup")
    return next(filter(None, compared), None)


def severity(record: Record) -> int:
    """Return a record's place in an order of the worst first."""
    comparison = worst(record)
    return WORST_FIRST.index(comparison.outcome) if comparison else len(WORST_FIRST)


def outcome_text(outcome: Outcome) -> str:
    """Return an outcome as it is written in a sentence: `not regressed`."""
    return outcome.replace("_", " ")


def baseline_text(comparison: Comparison | None) -> str:
    """Return the baseline's value with its unit, and its metric if that is no speedup: `GPU 1.23 ms`."""
    if comparison is None or comparison.baseline is None:
        return "-"
    return f"{_label(comparison)}{text.format_value(comparison.metric, comparison.baseline.value)}"


def change_text(comparison: Comparison | None) -> str:
    """Return the change from the baseline in percent, with its interval: `-12.3 % [-15.0, -9.1]`."""
    return "-" if comparison is None or comparison.ratio is None else text.format_change(comparison.ratio)


def short_change(record: Record) -> str:
    """Return the change of the worst comparison for a narrow column: `-20 %`, or its outcome."""
    comparison = worst(record)
    if comparison is None:
        return "-"
    if comparison.ratio is None:
        return "differs" if comparison.outcome == "not_comparable" else outcome_text(comparison.outcome)
    doubt = "?" if comparison.outcome == "inconclusive" else ""
    if comparison.ratio.value >= text.MOST_IN_PERCENT:
        return f"{_label(comparison)}x{units.digits(comparison.ratio.value)}{doubt}"
    percent = f"{100 * (comparison.ratio.value - 1):+.0f}"
    return f"{_label(comparison)}{percent if percent != '-0' else '0'} %{doubt}"


def _label(comparison: Comparison) -> str:
    return _METRICS.get(comparison.metric, f"{comparison.metric} ")


def outcome_counts(records: Iterable[Record]) -> str:
    """Return how many comparisons have each outcome, the worst first: `1 regressed, 2 new`."""
    counts = Counter(comparison.outcome for record in records for comparison in record.comparisons)
    shown = (outcome for outcome in WORST_FIRST if outcome in counts)
    return ", ".join(f"{counts[outcome]} {outcome_text(outcome)}" for outcome in shown)


def gate_lines(run: Run) -> Iterator[str]:
    """Yield what a run was compared with, the outcomes, and the notes on them."""
    gate = run.gate
    if gate is None:
        return
    if gate.baseline is not None:
        tolerances = tolerances_text(gate)
        limits = f" (tolerance: {tolerances})" if tolerances else ""
        outcomes = outcome_counts(run.records) or "nothing was compared"
        minute = units.minute(gate.started) if gate.started else "an unknown time"
        yield f"baseline {gate.baseline} of {minute}{limits}: {outcomes}"
    yield from (note.text for note in gate.notes)


def tolerances_text(gate: GateResult) -> str:
    """Return what may get worse, and by how much: `speedup 10 %, memory 5 %`."""
    return ", ".join(f"{tolerance.metric} {units.percent(tolerance.share)}" for tolerance in gate.tolerances)
