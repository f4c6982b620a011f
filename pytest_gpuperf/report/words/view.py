"""From a run to what a reader sees of it, in words and in order. Terminal, Markdown and page lay it out."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.gate.metric_values import decided
from pytest_gpuperf.model import units
from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.model.scaling import ScalingCurve
from pytest_gpuperf.report.words import (
    below_table,
    columns,
    environment,
    machine_busy,
    regression_check,
    roof,
    scaling,
    thresholds,
    totals,
)
from pytest_gpuperf.report.words.below_table import NOTHING_ABOVE, Note, ShownAbove
from pytest_gpuperf.report.words.columns import Column, Explanation, Row
from pytest_gpuperf.report.words.names import short_names
from pytest_gpuperf.report.words.thresholds import Sizes
from pytest_gpuperf.report.words.verdicts import FAILURES, Counts, place, rows_of, run_counts, shown_records

_MOST_UNMARKED = 20  # rows for tests that only --gpuperf-all measured


# More than 15 fields: each is a part of what is shown of a run.
class View(NamedTuple):
    """A run as its reader sees it.

    `headline` has the devices, `cautions` what a reader may not overlook, `explanations` what cells of some
    rows mean, `notes` what is said of tests; `more_notes` is how many texts those leave out. `products` take
    speedups apart, `busy` is what other work did to tests. `gate` is about the regression check: what it
    compared, `gate_failures` why it failed, `not_compared` what it lacked; `environment` has all that is
    known of where it was made, name by name.
    """

    title: str
    counts: Counts
    headline: str
    commit: str | None
    cautions: Sequence[str]
    columns: Sequence[Column]
    rows: Sequence[Row]
    explanations: Sequence[Explanation]
    notes: Sequence[Note]
    more_notes: int
    products: Sequence[str]
    busy: Sequence[str]
    thresholds: Sequence[Sizes]
    scalings: Sequence[ScalingCurve]
    gate: Sequence[str]
    gate_failures: Sequence[str]
    not_compared: str | None
    totals: Sequence[str]
    environment: Sequence[tuple[str, str]]


def of(
    run: Run,
    *,
    above: ShownAbove = NOTHING_ABOVE,
    all_notes: bool = False,
    only_failures: bool = False,
    worst_first: bool = False,
) -> View:
    """Return the view of a run. What pytest has shown `above` is not said again.

    Without `all_notes` each kind of note is said once, and what only explains is left out; with
    `only_failures` notes say only why tests failed, and totals how many would fail. Rows keep the order of
    the suite. Of tests without a marker they show the slowest, and the notes give the first error. With
    `worst_first` there are all rows, failed ones first.
    """
    records = shown_records(run)
    by_place = sorted(records, key=place)
    listed = by_place if worst_first else _with_rows(records)
    told = {each.nodeid for each in (*listed, *_unmarked_error(records, above))}
    with_rows, names, explained = (
        rows_of(listed),
        short_names(records),
        below_table.explained_by_variant(records),
    )
    disturbed = [(names[record.nodeid], record) for record in rows_of(records)]
    rows = [
        Row(
            record,
            names[record.nodeid],
            columns.cells_of(record),
            list(below_table.sayings_of(record, explained)),
        )
        for record in with_rows
    ]
    said = list(below_table.said([each for each in by_place if each.nodeid in told], explained, above))
    if only_failures:
        said = [(record, each) for record, each in said if record.verdict in FAILURES and each.code is None]
    counted = [record for each in totals.counted_together(records) for record in each]
    unclear = {each.nodeid for each in counted if each.offload and each.offload.worth is None}
    said = [each for each in said if not (each[0].nodeid in unclear and each[1].code == "not_worth_it")]
    shown_notes, more = below_table.grouped(said, names, all_notes=all_notes)
    return View(
        title=_title(records),
        counts=run_counts(run),
        headline=environment.headline(run, records),
        commit=environment.commit_text(run.commit) if run.commit else None,
        cautions=list(_cautions(run, all_names=all_notes)),
        columns=columns.shown(rows),
        rows=rows,
        explanations=list(columns.explanations(rows, all_names=all_notes)),
        notes=shown_notes,
        more_notes=more,
        products=list(roof.lines(rows)),
        busy=list(machine_busy.lines(disturbed, run.environment.variables)),
        thresholds=list(thresholds.measured(run, above)),
        scalings=scaling.measured(run),
        gate=list(regression_check.gate_lines(run, all_names=all_notes)),
        gate_failures=[failure.text for failure in run.gate.failures] if run.gate else [],
        not_compared=gate_text.not_run(run),
        totals=list(
            totals.lines(run, records, with_rows, names if all_notes else {}, only_failures=only_failures)
        ),
        environment=list(environment.environment_facts(run.environment)),
    )


def _with_rows(records: Sequence[Record]) -> list[Record]:
    """Return the records with a marker, and of all others the slowest that have a speedup.

    Those of one function stand together.
    """
    others = [record for record in records if record.source == "all" and record.speedup and record.cpu]
    others.sort(key=lambda record: (record.cpu and record.cpu.median) or 0.0, reverse=True)
    slowest = {record.nodeid for record in others[:_MOST_UNMARKED]}
    listed = [record for record in records if record.source != "all" or record.nodeid in slowest]
    # Workers finish the tests of one function among those of others.
    places: dict[str, int] = {}
    for record in listed:
        places.setdefault(function_of(record.nodeid), len(places))
    return sorted(listed, key=lambda record: places[function_of(record.nodeid)])


def _unmarked_error(records: Sequence[Record], above: ShownAbove) -> Iterator[Record]:
    """Yield the first test without a marker, if any, that passed and whose further calls did not."""
    errors = (each for each in records if each.source == "all" and each.verdict == "error")
    yield from [each for each in errors if each.nodeid not in above][:1]


def _title(records: Sequence[Record]) -> str:
    """Return what the run is about: whether it has speedups, and whether they are a real GPU's."""
    if records and not any(map(decided, records)):
        return "Speedups (none was measured)"
    return "Speedups on an emulated device" if any(each.is_emulated for each in records) else "Speedups"


def _cautions(run: Run, *, all_names: bool) -> Iterator[str]:
    """Yield what the rows do not show of the run."""
    if not run.complete:
        yield "the run ended early: this is not all of it"
    if run.unknown_values:  # their tests ran as if they had no marker
        yield totals.left_alone(run.unknown_values, all_names=all_names)
    if waited := sum(record.turn_wait or 0.0 for record in run.records):
        others = "other ranks, and processes that measured" if run.launch else "other processes that measured"
        yield f"waited {units.seconds(waited)} in all for {others}"
