"""From a run to one HTML file, readable without scripts and without styles; it loads nothing from anywhere.

Node ids, reasons and the environment are data of strangers: Jinja2 escapes all of it, control characters are
written as escapes, and the page's own policy lets no script run and no style apply but those that we wrote.
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Comparison
from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.html import (
    break_even,
    call_time,
    details,
    engine,
    forest,
    rounds,
    scaling,
    threshold,
)
from pytest_gpuperf.report.html.table import ComparisonRow, Details, Row
from pytest_gpuperf.report.repeat import Repeater
from pytest_gpuperf.report.scale import LogScale
from pytest_gpuperf.report.summary import (
    baseline_text,
    change_text,
    common_cells,
    environment_facts,
    explained_by_variant,
    gate_lines,
    gpu_text,
    left_alone_text,
    measured_scalings,
    measured_thresholds,
    reasons_of,
    scaling_cells,
    scaling_heading,
    short_change,
    threshold_sentence,
)
from pytest_gpuperf.report.verdicts import cause, codes_of, in_words, rank, rows_of, run_counts, shown_records

if TYPE_CHECKING:
    from pytest_gpuperf.report.history import History
    from pytest_gpuperf.report.html.history import Histories

_MOST_DETAILED = 100
"""Tests with all details, those first that need a look: a page of ten thousand opens in a browser, too."""

_FIGURES = (rounds.figure, break_even.figure)
"""What the details of a test show."""


def text(run: Run, history: "History | None" = None) -> str:
    """Return the page of a run; a history adds how each test's speedup changed over its runs."""
    records = sorted(rows_of(shown_records(run)), key=rank)
    styles, script = engine.asset("page.css"), engine.asset("page.js")
    not_run = gate_text.not_run(run)
    shared = forest.scale(records)
    statuses = {record.nodeid: record.status for record in records}
    listings, in_common = details.listings(records[:_MOST_DETAILED])
    return engine.render(
        engine.PAGE,
        run=run,
        gpu=gpu_text(run.environment),
        started=units.minute(run.started),
        counts=run_counts(run),
        emulated=sum(record.is_emulated for record in records),
        cautions=list(_cautions(run)),
        gate_lines=[*gate_lines(run), *([not_run] if not_run else [])],
        axis=forest.axis(shared) if any(record.speedup for record in records) else None,
        rows=_rows(run, records, listings, shared),
        counted=len(records),
        with_details=len(listings),
        in_common=in_common,
        parts=call_time.legend(records[: len(listings)]),
        has_changes=any(record.comparisons for record in records),
        thresholds=[
            (each, threshold_sentence(each), threshold.figure(each)) for each in measured_thresholds(run)
        ],
        scalings=[
            (
                scaling_heading(each),
                statuses.get(each.points[-1].nodeid),
                list(map(scaling_cells, each.points)),
                each.diagnosis,
                scaling.figure(each),
            )
            for each in measured_scalings(run)
        ],
        histories=_histories(history),
        environment=list(environment_facts(run.environment)),
        styles=styles,
        script=script,
        policy=f"default-src 'none'; style-src '{_digest(styles)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'",
    )


def _cautions(run: Run) -> Iterator[str]:
    """Yield what the page does not show of the run, or shows as one that was none."""
    if not run.complete:
        yield "The run ended early: this is not all of it."
    if left_alone := left_alone_text(run):
        yield f"{left_alone[0].upper()}{left_alone[1:]}."
    if run.merged and run.merged.differences:
        yield f"The runs that were merged differ: {'; '.join(run.merged.differences)}."


def _histories(history: "History | None") -> "Histories | None":
    if history is None:
        return None
    from pytest_gpuperf.report.html import history as charts

    return charts.figures(history)


def _digest(content: str) -> str:
    """Return the source by which a content security policy knows a script or a style sheet."""
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


def _rows(
    run: Run, records: Sequence[Record], listings: Sequence[details.Listing], shared: LogScale
) -> Iterator[Row]:
    explained = explained_by_variant(records)
    repeater = Repeater(run)
    for index, record in enumerate(records):
        function = function_of(record.nodeid)
        place, separator, name = function.rpartition("::")
        sentences = _sentences(record, reasons_of(record, explained))
        yield Row(
            place=place + separator,
            name=name,
            parameters=record.nodeid[len(function) :],
            verdicts=[(code, in_words(code)) for code in codes_of(record) if code != "new"],
            cause=cause(record),
            cells=common_cells(record),
            forest=forest.row(record, shared),
            call_time=call_time.figure(record) if index < len(listings) else None,
            change=short_change(record),
            reasons=list(dict.fromkeys(sentences)),
            details=_details(repeater, record, listings[index]) if index < len(listings) else None,
        )


def _sentences(record: Record, reasons: Iterator[str]) -> Iterator[str]:
    """Yield what is to be said: why the test ended so, doubts, whether the GPU pays, what holds it back."""
    yield from reasons
    if record.offload:
        yield record.offload.reason
    yield from (diagnosis.sentence for diagnosis in record.diagnosis)


def _details(repeater: Repeater, record: Record, listing: details.Listing) -> Details:
    return Details(
        command=repeater.command(record),
        call_time=call_time.sentence(record),
        comparisons=[_comparison_row(comparison) for comparison in record.comparisons],
        figures=[shown for draw in _FIGURES if (shown := draw(record)) is not None],
        listing=listing,
    )


def _comparison_row(comparison: Comparison) -> ComparisonRow:
    found = comparison.found
    return ComparisonRow(
        metric=gate_text.METRIC_NAMES[comparison.metric],
        baseline=baseline_text(comparison),
        found=gate_text.format_value(comparison.metric, found.value) if found else "-",
        change=change_text(comparison),
        outcome=in_words(comparison.outcome),
    )
