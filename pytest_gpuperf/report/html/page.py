"""From a run's view to one HTML file, readable without scripts and without styles; it loads nothing.

Node ids, reasons and the environment are data of strangers: Jinja2 escapes all of it, control characters are
written as escapes, and the page's own policy lets no script run and no style apply but those that we wrote.
"""

import json
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.nodeid import function_of, split
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.axes import LogScale, speedup_axis
from pytest_gpuperf.report.history_folder import History
from pytest_gpuperf.report.html import calls, curves, forest, roofs
from pytest_gpuperf.report.html.figure import Figure, draw
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.report.words import repeat_command, roof, totals, view
from pytest_gpuperf.report.words.below_table import causes_of
from pytest_gpuperf.report.words.columns import EMULATED, SPEEDUP, Column, Row, words_in_limits
from pytest_gpuperf.report.words.regression_check import comparison_cells
from pytest_gpuperf.report.words.scaling import scaling_cells, scaling_heading
from pytest_gpuperf.report.words.verdicts import FAILURES, codes_of, counts, in_words

if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATES = Path(__file__).parent / "templates"
_MOST_DETAILED = 80
"""Tests with details, those first that need a look: a page of ten thousand opens in a browser, too."""
_MOST_HISTORIES = 60  # tests, those with the worst changes first
_FEW = 10  # tests that a reader sees at a glance, without lists of those that stand out
_LISTED = 5
_NEAR = 1.25  # times its limit: noise, or a later change, may soon miss it
_LONGEST_WHY = 140  # characters
_JUDGED = ("passed", "failed", "inconclusive", "error")
_PLOT = Column(heading="", cell=lambda _: "-", page_class="plot")
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
    row: Row
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
    columns = _columns(shown)
    keys = {column.key for column in columns}
    styles, script = _asset("page.css"), _asset("page.js")
    return template().render(
        run=run,
        shown=shown,
        started=units.minute(run.started),
        required=_required(records),
        facts=list(totals.of_speedups(records)),
        lists=list(_lists(shown.rows, run.cost_ratio)) if len(shown.rows) > _FEW else [],
        axis=forest.axis(axis) if any(record.speedup for record in records) else None,
        legend=forest.legend(records),
        columns=columns,
        is_emulated=EMULATED in shown.columns,
        limits=list(words_in_limits(records)),
        explanations=[each.text for each in shown.explanations if each.heading in keys],
        groups=list(_groups(tests)),
        most_detailed=_MOST_DETAILED,
        thresholds=[(each, curves.of_threshold(each)) for each in shown.thresholds],
        roofs=roofs.figures(records),
        scalings=[
            (
                scaling_heading(each),
                verdicts.get(each.points[-1].nodeid, ()),
                [scaling_cells(each, point) for point in each.points],
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


def _columns(shown: view.View) -> list[Column]:
    """Return the columns in their order, with the plot where there are speedups."""
    left, right = ([each for each in shown.columns if each.on_page == side] for side in ("left", "right"))
    return [*left, *([_PLOT] if SPEEDUP in shown.columns else []), *right]


def _required(records: Sequence[Record]) -> str | None:
    """Return how many of the tests with a limit keep it; None where there are none."""
    judged = [record for record in records if not record.is_bare and record.status in _JUDGED]
    passed = sum(record.verdict == "passed" for record in judged)
    return f"{passed:,} of {len(judged):,} as required" if judged else None


class _Entry(NamedTuple):
    """A test in a list: the number of its row, its name, a value, and why it is there where that is known."""

    number: int
    name: str
    value: str
    why: str | None


def _lists(rows: Sequence[Row], cost_ratio: float | None) -> Iterator[tuple[str, list[_Entry], int]]:
    """Yield what a reader would act on: titles, the first tests of each list, and how many more there are.

    A list that nothing stands in is left out. What failed is in the order of the rows, the farthest from its
    limit first.
    """
    numbered = [*enumerate(rows)]
    failed = [each for each in numbered if each[1].record.verdict in FAILURES]
    passed = [each for each in numbered if each[1].record.verdict == "passed" and each[1].record.speedup]
    near = sorted((each for each in passed if _room(each[1]) < _NEAR), key=lambda each: _room(each[1]))
    compared = [
        each for each in numbered if each[1].record.offload and each[1].record.verdict not in FAILURES
    ]
    lost = sorted(
        (each for each in compared if _is_worth(each[1]) is False), key=lambda each: _value(each[1])
    )
    won = sorted((each for each in compared if _is_worth(each[1])), key=lambda each: -_value(each[1]))
    on = "an emulated device" if any(row.record.is_emulated for row in rows) else "the GPU"
    price = f" at {cost_ratio:g} times the cost" if cost_ratio else ""
    for title, found, why in (
        ("Failed", failed, _why_failed),
        ("Close to their limits", near, _limit),
        (f"Not worth moving to {on}{price}", lost, _bottleneck),
        ("Largest gains", won, lambda _: None),
    ):
        entries = [_Entry(number, row.name, _shown_value(row), why(row)) for number, row in found[:_LISTED]]
        if entries:
            yield title, entries, len(found) - len(entries)


def _value(row: Row) -> float:
    return row.record.speedup.value if row.record.speedup else 0.0


def _is_worth(row: Row) -> bool | None:
    return row.record.offload.worth if row.record.offload else None


def _room(row: Row) -> float:
    """Return how many times its nearest limit a speedup is, on the side that passes; inf without a limit."""
    demand, value = row.record.demand, _value(row)
    rooms = [value / demand.min] if demand.min else []
    rooms += [demand.max / value] if demand.max and value else []
    return min(rooms, default=inf)


def _shown_value(row: Row) -> str:
    return f"{units.digits(_value(row))}x" if row.record.speedup else in_words(row.record.verdict)


def _limit(row: Row) -> str:
    return f"required {row.cells['limit']}"


def _why_failed(row: Row) -> str | None:
    """Return why a test failed, in few words: for numbers that the row has, what was required."""
    record = row.record
    if record.reason_code in _REPEATS_ROW and record.speedup:
        return "; ".join(filter(None, [_limit(row), _bottleneck(row)]))
    return next(map(_in_short, causes_of(record)), None)


def _bottleneck(row: Row) -> str | None:
    """Return what holds the speedup back by the first diagnosis, whose remedy its row has."""
    return next((each.sentence.partition(";")[0] for each in row.record.diagnosis), None)


def _in_short(sentence: str) -> str:
    return sentence if len(sentence) <= _LONGEST_WHY else f"{sentence[:_LONGEST_WHY].rstrip()}..."


def _groups(tests: Iterable[_Test]) -> Iterator[_Group]:
    """Yield the tests that failed, then all others by their files, that with the gravest doubt first."""
    groups: dict[str | None, list[_Test]] = {}
    for test in tests:
        groups.setdefault(None if test.row.record.verdict in FAILURES else test.file, []).append(test)
    for file, group in groups.items():
        yield _Group(file, str(counts([test.row.record for test in group])), group)


def _tests(run: Run, rows: Sequence[Row], axis: LogScale) -> Iterator[_Test]:
    last_sizes = repeat_command.last_sizes(run)
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


def _lead(row: Row) -> str | None:
    """Return the gravest sentence that asks for something and that the row does not say itself.

    Where a test failed, that is the cause: any other sentence in its place would look like it.
    """
    record, offload, causes = row.record, row.record.offload, causes_of(row.record)
    always = offload.always if offload else None
    quiet = {each.reason for each in record.comparisons if each.outcome in ("improved", "new")}
    if record.reason_code == "no_gpu" or (record.reason_code in _REPEATS_ROW and record.speedup):
        quiet.add(record.reason)  # the headline says it, or the row
    asking = (each.text for each in row.said if not each.only_explains and each.code != "interference")
    lead = next((each for each in asking if each not in quiet), None)
    if offload and always and record.speedup and (record.speedup.low or 0) > 1 > (always.high or inf):
        lead = offload.reason  # copies change the answer
    if causes and lead is not None:
        return next((each for each in causes if each not in quiet), causes[0])
    return lead


def _details(run: Run, row: Row, lead: str | None, last_sizes: Collection[str]) -> _Details:
    record = row.record
    sentences = [
        *(each.text for each in row.said),
        *([record.offload.reason] if record.offload else []),
        *(each.sentence for each in record.diagnosis),
        roof.line(record),
        calls.parts_sentence(record),
    ]
    return _Details(
        sentences=[each for each in dict.fromkeys(sentences) if each not in (None, lead)],
        figure=calls.rounds_figure(record),
        comparisons=list(map(comparison_cells, record.comparisons)),
        command=repeat_command.command(run, record, last_sizes),
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
