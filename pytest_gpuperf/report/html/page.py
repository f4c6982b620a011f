"""From a run's view to one HTML file, readable without scripts and without styles; it loads nothing.

Node ids, reasons and the environment are data of strangers: Jinja2 escapes all of it, control characters are
written as escapes, and the page's own policy lets no script run and no style apply but those that we wrote.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from math import inf
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.nodeid import function_of, split
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import repeat, view
from pytest_gpuperf.report.history_folder import History
from pytest_gpuperf.report.html import calls, curves, forest
from pytest_gpuperf.report.html.figure import Figure, draw
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.report.scale import LogScale, speedup_axis
from pytest_gpuperf.report.verdicts import FAILURES, codes_of, counts, in_words
from pytest_gpuperf.report.wording import comparison_cells, environment_facts, scaling_cells, scaling_heading

if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATES = Path(__file__).parent / "templates"
_MOST_DETAILED = 80
"""Tests with details, those first that need a look: a page of ten thousand opens in a browser, too."""
_MOST_HISTORIES = 60  # tests, those with the worst changes first
_FEW = 10  # tests that a reader sees at a glance, without lists of those that stand out
_LISTED = 5
_JUDGED = ("passed", "failed", "inconclusive", "error")
_REPEATS_ROW = ("speedup_outside_limits", "efficiency_below_limit")  # reasons of numbers that the row has


class _Details(NamedTuple):
    """What a test's row opens to."""

    sentences: Sequence[str]
    figure: Figure | None
    comparisons: Sequence[dict[str, str]]
    command: str
    record: Sequence[str]


class _Test(NamedTuple):
    """A test in the table: its verdicts in codes and in words, and in `lead` what its cells do not say."""

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

    file: str | None
    counts: str
    tests: Sequence[_Test]


def text(run: Run, history: History | None = None) -> str:
    """Return the page of a run; a history adds how each test's speedup changed over its runs."""
    shown = view.of(run, worst_first=True)
    records = [row.record for row in shown.rows]
    axis = speedup_axis(records, forest.LENGTH)
    tests = list(_tests(run, shown.rows, axis))
    verdicts = {test.row.record.nodeid: test.verdicts for test in tests}
    series = curves.worst_first(history) if history else []
    facts_of_runs = curves.facts_of_all(series)
    styles, script = _asset("page.css"), _asset("page.js")
    return template().render(
        run=run,
        shown=shown,
        environment=list(environment_facts(run.environment)),
        started=units.minute(run.started),
        required=_required(records),
        facts=list(_facts(records)),
        lists=list(_lists(shown.rows)) if len(shown.rows) > _FEW else [],
        axis=forest.axis(axis) if any(record.speedup for record in records) else None,
        legend=forest.legend(records),
        headings=_headings(shown),
        groups=list(_groups(tests)),
        most_detailed=_MOST_DETAILED,
        thresholds=[(each, curves.of_threshold(each)) for each in shown.thresholds],
        scalings=[
            (
                scaling_heading(each),
                verdicts.get(each.points[-1].nodeid, ()),
                list(map(scaling_cells, each.points)),
                each.diagnosis,
                curves.of_scaling(each),
            )
            for each in shown.scalings
        ],
        history=history,
        facts_of_runs=facts_of_runs,
        histories=[(each, curves.of_series(each, facts_of_runs)) for each in series[:_MOST_HISTORIES]],
        hidden_histories=max(0, len(series) - _MOST_HISTORIES),
        styles=styles,
        script=script,
        policy=f"default-src 'none'; style-src '{_digest(styles)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'",
    )


@cache
def template() -> "Template":
    """Return the template of a page; raise GpuPerfError where Jinja2 is not installed.

    It escapes any text in the values that it is rendered with, and no text steers a terminal.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        cause = "the page needs Jinja2, which is not installed"
        raise GpuPerfError(f"{cause}; run pip install jinja2") from error
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    environment.filters["draw"] = draw  # it escapes; the template marks what it returns as safe
    environment.filters["count"] = units.count
    return environment.get_template("page.html")


def _asset(name: str) -> str:
    """Return a file that a page holds as it is."""
    return (_TEMPLATES / name).read_text(encoding="utf-8").strip()


def _shown(value: object) -> object:
    """Return what a template writes of a value: no text steers a terminal that shows the page's source."""
    return printable(value) if type(value) is str else value


def _digest(content: str) -> str:
    """Return the source by which a content security policy knows a script or a style sheet."""
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


def _headings(shown: view.View) -> list[tuple[str, str]]:
    """Return each column's key and name, in order; columns that are empty in all rows are left out."""
    gpu = "emulated" if "emulated" in shown.headings else "GPU"
    names = {"CPU": "CPU", "GPU": gpu, "speedup": "speedup", "change": "change", "plot": "", "limit": "limit"}
    empty = {"change", "limit"} - {*shown.headings}
    return [(key, name) for key, name in names.items() if key not in empty]


def _required(records: Sequence[Record]) -> str | None:
    """Return how many of the tests with a limit keep it; None where there are none."""
    judged = [record for record in records if not record.is_bare and record.status in _JUDGED]
    passed = sum(record.verdict == "passed" for record in judged)
    return f"{passed:,} of {len(judged):,} as required" if judged else None


def _facts(records: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Yield what the speedups are together; those of GPUs and of emulated devices are never mixed."""
    for device, is_emulated in (("", False), (", emulated", True)):
        speedups = [record.speedup for record in records if record.is_emulated == is_emulated]
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
    """Return by how much the upper end of the speedup's range is more than the lower; 0 without a speedup."""
    if record.speedup is None:
        return 0.0
    ends = record.speedup.estimate
    return ends.upper / ends.lower - 1 if ends.lower else inf


def _groups(tests: Iterable[_Test]) -> Iterator[_Group]:
    """Yield the tests that failed, then all others by their files, that with the gravest doubt first."""
    groups: dict[str | None, list[_Test]] = {}
    for test in tests:
        groups.setdefault(None if test.row.record.verdict in FAILURES else test.file, []).append(test)
    for file, group in groups.items():
        yield _Group(file, str(counts([test.row.record for test in group])), group)


def _tests(run: Run, rows: Sequence[view.Row], axis: LogScale) -> Iterator[_Test]:
    last_sizes = repeat.last_sizes(run)
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
            verdicts=[(code, in_words(code)) for code in codes_of(row.record) if code != "new"],
            forest=forest.row(row.record, axis),
            lead=lead,
            details=_details(run, row, lead, last_sizes) if number < _MOST_DETAILED else None,
        )


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


def _details(run: Run, row: view.Row, lead: str | None, last_sizes: Collection[str]) -> _Details:
    record = row.record
    sentences = [
        *(each.text for each in row.said),
        *([record.offload.reason] if record.offload else []),
        *(each.sentence for each in record.diagnosis),
        calls.parts_sentence(record),
    ]
    return _Details(
        sentences=[each for each in dict.fromkeys(sentences) if each not in (None, lead)],
        figure=calls.rounds_figure(record),
        comparisons=list(map(comparison_cells, record.comparisons)),
        command=repeat.command(run, record, last_sizes),
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
