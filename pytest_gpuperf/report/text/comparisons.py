"""From records' comparisons with their baseline to the one to show, its text, and a table of all."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pytest_gpuperf.gate import text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import WORST_FIRST, Comparison, Metric, Outcome
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import summary
from pytest_gpuperf.report.summary import tolerances_text, worst
from pytest_gpuperf.report.text import table
from pytest_gpuperf.report.text.table import Row

_HEADINGS = ("metric", "baseline", "now", "change", "outcome")
_MOVABLE = (("baseline", "now"), ("metric",))
_METRICS: dict[Metric, str] = {"speedup": "", "gpu": "GPU ", "cpu": "CPU ", "always": "with copies "}


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
    doubt = "?" if comparison.outcome == "undecided" else ""
    return f"{_label(comparison)}{100 * (comparison.ratio.value - 1):+.0f} %{doubt}"


def _label(comparison: Comparison) -> str:
    return _METRICS.get(comparison.metric, f"{comparison.metric} ")


def changes(records: Sequence[Record], width: int) -> Iterator[str]:
    """Yield a table of what changed or cannot be compared, and why the latter."""
    names = summary.short_names(records)
    rows = [
        _row(names[record.nodeid], each) for record in records for each in record.comparisons if each.reason
    ]
    if rows:
        yield from map(str, table.lines(rows, _HEADINGS, width, _MOVABLE))
    reasons = summary.shared_reasons(records, names, _unexplained)
    if reasons:
        yield ""
    for reason, tests in reasons.items():
        yield from table.wrapped(f"{units.first_few(tests, most=1)}: {reason}", width)


def _row(name: str, comparison: Comparison) -> Row:
    cells = {
        "metric": text.METRIC_NAMES[comparison.metric],
        "baseline": _value(comparison.metric, comparison.baseline),
        "now": _value(comparison.metric, comparison.found),
        "change": change_text(comparison),
        "outcome": outcome_text(comparison.outcome),
    }
    return Row(name=name, cells=cells)


def _value(metric: Metric, estimate: Estimate | None) -> str:
    return "-" if estimate is None else text.format_metric(metric, estimate)


def _unexplained(record: Record) -> Iterator[str]:
    """Yield why comparisons ended as they did whose numbers alone do not say it."""
    for comparison in record.comparisons:
        if comparison.reason and (comparison.ratio is None or comparison.outcome == "undecided"):
            yield comparison.reason


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
        minute = gate.started[:16].replace("T", " ") if gate.started else "an unknown time"
        yield f"baseline {gate.baseline} of {minute}{limits}: {outcomes}"
    yield from (note.text for note in gate.notes)
