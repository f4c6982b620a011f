"""From the comparisons with a baseline to words: the row of each, what was compared, and how it ended."""

from collections import Counter
from collections.abc import Iterable, Iterator

from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Comparison
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.metrics import TABLE
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.words.verdicts import GRAVITY, CountedCode, in_words


def comparison_cells(comparison: Comparison) -> dict[str, str]:
    """Return the row of a comparison with the baseline, by headings; a dash for what is not known."""

    def shown(estimate: Estimate | None) -> str:
        return "-" if estimate is None else gate_text.format_metric(comparison.metric, estimate)

    return {
        "metric": TABLE[comparison.metric].words,
        "baseline": shown(comparison.baseline),
        "now": shown(comparison.found),
        "change": "-" if comparison.ratio is None else gate_text.format_change(comparison.ratio),
        "outcome": in_words(comparison.outcome),
    }


def outcome_counts(records: Iterable[Record]) -> str:
    """Return how many comparisons have each outcome, the worst first: `1 regressed, 2 new`."""
    counts: Counter[CountedCode] = Counter(
        comparison.outcome for record in records for comparison in record.comparisons
    )
    return ", ".join(f"{counts[outcome]} {in_words(outcome)}" for outcome in GRAVITY if counts[outcome])


def gate_lines(run: Run, *, all_names: bool = False) -> Iterator[str]:
    """Yield what a run was compared with, the outcomes, and the notes on them."""
    gate = run.gate
    if gate is None:
        return
    if gate.baseline is not None:
        tolerances = ", ".join(f"{each.metric} {units.percent(each.share)}" for each in gate.tolerances)
        limits = f" (tolerance: {tolerances})" if tolerances else " (nothing fails without --gpuperf-fail-on)"
        outcomes = outcome_counts(run.records) or "nothing was compared"
        when = f" of {units.minute(gate.started)}" if gate.started else ""
        of_runs = f"of {gate.runs} runs, the newest " if gate.runs else ""
        yield f"baseline {of_runs}{gate.baseline}{when}{limits}: {outcomes}"
    if gate.tolerances and (finds := gate_text.found_from(run, all_names=all_names)) is not None:
        yield finds
    yield from (note.text for note in gate.notes)
