"""From a run's view to one HTML file, readable without scripts and without styles; it loads nothing.

Node ids, reasons and the environment are data of strangers: Jinja2 escapes all of it, control characters are
written as escapes, and the page's own policy lets no script run and no style apply but those that we wrote.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from math import inf
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_gpuperf.model import units
from pytest_gpuperf.model.nodeid import function_of, split
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import view
from pytest_gpuperf.report.html import call_time, engine, forest, rounds, scaling, threshold
from pytest_gpuperf.report.html.figure import Figure
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.report.repeat import Repeater
from pytest_gpuperf.report.scale import LogScale
from pytest_gpuperf.report.summary import (
    comparison_cells,
    scaling_cells,
)
from pytest_gpuperf.report.verdicts import FAILURES, codes_of, counts, in_words

if TYPE_CHECKING:
    from pytest_gpuperf.report.history import History
    from pytest_gpuperf.report.html.history import Histories

_MOST_DETAILED = 80
"""Tests with details, those first that need a look: a page of ten thousand opens in a browser, too."""
_FEW = 10  # tests that a reader sees at a glance, without lists of those that stand out
_LISTED = 5
_REPEATS_ROW = ("speedup_outside_limits", "efficiency_below_limit")  # reasons of numbers that the row has


class _Details(NamedTuple):
    """What a test's row opens to."""

    sentences: Sequence[str]
    figure: Figure | None
    comparisons: Sequence[dict[str, str]]
    command: str
    record: Sequence[str]


class _Test(NamedTuple):
    """A test in the table; `lead` is what a reader has to know beside its cells."""

    number: int
    row: view.Row
    file: str
    name: str
    parameters: str
    verdicts: Sequence[tuple[str, str]]
    forest: Figure | None
    lead: str | None
    details: _Details | None


class _Group(NamedTuple):
    """The tests of a file, or those of all files that failed; `counts` says how they ended."""

    title: str
    is_of_file: bool
    counts: str
    tests: Sequence[_Test]


def text(run: Run, history: "History | None" = None) -> str:
    """Return the page of a run; a history adds how each test's speedup changed over its runs."""
    shown = view.of(run, worst_first=True)
    axis = forest.scale(row.record for row in shown.rows)
    styles, script = engine.asset("page.css"), engine.asset("page.js")
    verdicts = {record.nodeid: _verdicts(record) for record in run.records}
    return engine.render(
        engine.PAGE,
        run=run,
        shown=shown,
        started=units.minute(run.started),
        commit=_link(run.commit.url if run.commit else None),
        job=_link(run.job),
        busy=[f"{note.head}: {text}" for note in shown.busy for text in note.texts],
        required=_required(shown.rows),
        facts=list(_facts(shown.rows)),
        lists=list(_lists(shown.rows)) if len(shown.rows) > _FEW else [],
        axis=forest.axis(axis) if any(row.record.speedup for row in shown.rows) else None,
        legend=forest.legend(row.record for row in shown.rows),
        limit_words=_limit_words([row.record for row in shown.rows]),
        headings=_headings(shown),
        groups=list(_groups(_tests(run, shown.rows, axis))),
        most_detailed=_MOST_DETAILED,
        thresholds=[
            (each, text, threshold.figure(each, text, view.gpu_of(run, each)))
            for each, text in shown.thresholds
        ],
        scalings=[
            (
                each.head,
                verdicts.get(each.curve.points[-1].nodeid, ()),
                list(map(scaling_cells, each.curve.points)),
                each.curve.diagnosis,
                scaling.figure(each.curve),
            )
            for each in shown.scalings
        ],
        histories=_histories(history),
        styles=styles,
        script=script,
        policy=f"default-src 'none'; style-src '{_digest(styles)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'",
    )


def _link(url: str | None) -> str | None:
    """Return an address that may be one of a link: a report may hold anything."""
    return url if url and url.startswith(("https://", "http://")) else None


def _digest(content: str) -> str:
    """Return the source by which a content security policy knows a script or a style sheet."""
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


def _histories(history: "History | None") -> "Histories | None":
    if history is None:
        return None
    from pytest_gpuperf.report.html import history as charts

    return charts.figures(history)


def _headings(shown: view.View) -> list[tuple[str, str]]:
    """Return each column's key and name, in order; columns that are empty in all rows are left out."""
    gpu = "GPU" if "GPU" in shown.headings else "emulated"
    names = {"CPU": "CPU", "GPU": gpu, "speedup": "speedup", "change": "change", "plot": "", "limit": "limit"}
    empty = {key for key in ("change", "limit") if all(row.cells[key] == "-" for row in shown.rows)}
    return [(key, name) for key, name in names.items() if key not in empty]


def _limit_words(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return the words that stand after a limit in the table, with their meanings."""
    limited = [record.demand for record in records if record.scaling is None and record.demand.limits]
    transfers = {demand.transfer for demand in limited}
    found = {
        ("always", "with copies at every call"): "always" in transfers,
        ("once/N", "with copies once for N calls"): "once" in transfers,
        ("latency", "of single calls, each waited for"): any(demand.latency for demand in limited),
        ("eff.", "parallel efficiency on the most devices"): any(
            record.scaling and record.scaling.is_judged for record in records
        ),
    }
    return [word for word, is_there in found.items() if is_there]


def _required(rows: Sequence[view.Row]) -> str | None:
    """Return how many of the tests with a limit keep it; None where there are none."""
    statuses = [row.record.status for row in rows if not row.record.is_bare]
    judged = sum(status in ("passed", "failed", "inconclusive", "error") for status in statuses)
    return f"{statuses.count('passed'):,} of {judged:,} as required" if judged else None


def _facts(rows: Sequence[view.Row]) -> Iterator[tuple[str, str]]:
    """Yield what the speedups are together; those of GPUs and of emulated devices are never mixed."""
    for device, is_emulated in (("", False), (", emulated", True)):
        speedups = [row.record.speedup for row in rows if row.record.is_emulated == is_emulated]
        values = [speedup.value for speedup in speedups if speedup and speedup.value > 0]
        if len(values) > 1:
            ends = f"{units.digits(min(values))}x to {units.digits(max(values))}x"
            mean = f"{units.digits(geometric_mean(values))}x ({units.count(len(values), 'test')}, {ends})"
            yield f"geometric mean{device}", mean


def _lists(rows: Sequence[view.Row]) -> Iterator[tuple[str, list[tuple[int, str, str]]]]:
    """Yield titles, and the numbers, values and names of the tests that stand out most, if any do."""
    columns: list[tuple[str, str, Callable[[Record], float]]] = [
        ("Longest on the CPU", "CPU", lambda record: (record.cpu and record.cpu.median) or 0.0),
        ("Least certain", "speedup", _width),
    ]
    for title, column, value in columns:
        found = [(value(row.record), number, row) for number, row in enumerate(rows)]
        found = sorted((each for each in found if each[0]), key=lambda each: each[0], reverse=True)
        if found:
            yield title, [(number, row.cells[column], row.name) for _, number, row in found[:_LISTED]]


def _width(record: Record) -> float:
    """Return high over low of the speedup's range; 0 without a speedup, or where its range is one value."""
    speedup = record.speedup
    if speedup is None:
        return 0.0
    if not speedup.low or not speedup.high:
        return inf
    return speedup.high / speedup.low if speedup.high > speedup.low else 0.0


def _groups(tests: Iterable[_Test]) -> Iterator[_Group]:
    """Yield the tests that failed, then all others by their files, that with the gravest doubt first."""
    groups: dict[str, list[_Test]] = {}
    for test in tests:
        groups.setdefault("" if test.row.code in FAILURES else test.file, []).append(test)
    for file, group in groups.items():
        said = ", ".join(map(str, counts([test.row.record for test in group])))
        yield _Group(file or "Failures", bool(file), said, group)


def _tests(run: Run, rows: Sequence[view.Row], axis: LogScale) -> Iterator[_Test]:
    repeater = Repeater(run)
    for number, row in enumerate(rows):
        file, names = split(row.record.nodeid)
        name = function_of(names)
        lead = _lead(row)
        yield _Test(
            number=number,
            row=row,
            file=file,
            name=name,
            parameters=names[len(name) :],
            verdicts=_verdicts(row.record),
            forest=forest.row(row.record, axis),
            lead=lead,
            details=_details(repeater, row, lead) if number < _MOST_DETAILED else None,
        )


def _verdicts(record: Record) -> list[tuple[str, str]]:
    """Return how a test ended, in codes and in words, wherever the page has a badge of it."""
    return [(code, in_words(code)) for code in codes_of(record) if code != "new"]


def _lead(row: view.Row) -> str | None:
    """Return the gravest sentence that asks for something and that the row does not say itself."""
    record, offload = row.record, row.record.offload
    always = offload.always if offload else None
    if offload and always and record.speedup and (record.speedup.low or 0) > 1 > (always.high or inf):
        return offload.reason  # copies change the answer
    quiet = {each.reason for each in record.comparisons if each.outcome in ("improved", "new")}
    if record.reason_code == "no_gpu" or (record.reason_code in _REPEATS_ROW and record.speedup):
        quiet.add(record.reason)  # the headline says it, or the row
    asking = (each.text for each in row.said if not each.only_explains and each.code != "interference")
    return next((each for each in asking if each not in quiet), None)


def _details(repeater: Repeater, row: view.Row, lead: str | None) -> _Details:
    record = row.record
    sentences = [
        *(each.text for each in row.said),
        *([record.offload.reason] if record.offload else []),
        *(each.sentence for each in record.diagnosis),
        call_time.sentence(record),
    ]
    return _Details(
        sentences=[each for each in dict.fromkeys(sentences) if each not in (None, lead)],
        figure=rounds.figure(record),
        comparisons=list(map(comparison_cells, record.comparisons)),
        command=repeater.command(record),
        record=json.dumps(_without_samples(codec.dump(record)), indent=1, ensure_ascii=False).split("\n"),
    )


def _without_samples(value: Any) -> Any:
    """Return plain values as people read them: numbers of six digits, no lists of numbers, nothing empty."""
    if isinstance(value, dict):
        known = {key: _without_samples(each) for key, each in value.items()}
        return {key: each for key, each in known.items() if each not in (None, [], {})}
    if isinstance(value, (list, tuple)):
        return [_without_samples(each) for each in value if not isinstance(each, float)]
    return float(f"{value:.6g}") if isinstance(value, float) else value
