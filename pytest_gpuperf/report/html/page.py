"""From a run to one HTML file: readable without scripts and without styles, and nothing is loaded from anywhere.

Node ids, reasons and the environment are data of strangers: Jinja2 escapes all of it, control characters are
written as escapes, and the page's own policy lets no script run and no style apply but those that we wrote.
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.model.comparison import Comparison
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import comparison_text, summary
from pytest_gpuperf.report.html import details, forest
from pytest_gpuperf.report.html.figure import Figure, short
from pytest_gpuperf.report.scale import LogScale

if TYPE_CHECKING:
    from jinja2 import Environment

    from pytest_gpuperf.report.history import History

_TEMPLATES = Path(__file__).parent / "templates"
MISSING = "the page needs Jinja2, which is not installed; run pip install jinja2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A test in the page's table, and all that its details say."""

    place: str
    """Its file, class and function, without the name."""
    name: str
    parameters: str
    verdict: str
    cells: dict[str, str]
    numbers: dict[str, float | None]
    """By which the table is sorted, by heading."""
    forest: Figure | None
    change: str
    record: Record
    reasons: Sequence[str]
    comparisons: Sequence["Change"]
    figures: Sequence[Figure]
    timings: Sequence[details.Timing]
    facts: Sequence[details.Fact]


@dataclass(frozen=True, slots=True)
class Change:
    """A comparison with the baseline, as the cells of a table."""

    metric: str
    baseline: str
    found: str
    change: str
    outcome: str


def text(run: Run, history: "History | None" = None) -> str:
    """Return the page of a run; a history adds how each test's speedup changed over its runs."""
    records = sorted(summary.shown_records(run), key=summary.rank)
    shared = forest.scale(records)
    explained = summary.explained_by_sibling(records)
    styles, script = _asset("page.css"), _asset("page.js")
    gate = run.gate
    not_run = gate_text.not_run(gate) if gate else None
    return (
        _environment()
        .get_template("page.html")
        .render(
            run=run,
            commit=run.commit,
            counts=summary.counts(records),
            emulated=sum(map(summary.is_emulated, records)),
            axis=forest.axis(shared),
            rows=[_row(record, shared, list(summary.reasons_of(record, explained))) for record in records],
            confidence=next((each.speedup.confidence for each in records if each.speedup), 0.95),
            has_changes=any(record.comparisons for record in records),
            gate_lines=[*comparison_text.gate_lines(run), *([not_run] if not_run else [])],
            environment=list(summary.environment_facts(run.environment)),
            styles=styles,
            script=script,
            policy=f"default-src 'none'; style-src '{_digest(styles)}'; script-src '{_digest(script)}'; "
            "base-uri 'none'; form-action 'none'",
        )
    )


def svg(figure: Figure) -> str:
    """Return a figure as a file of its own."""
    template = _environment().from_string(
        '{% from "figure.html" import draw %}{{ draw(figure, alone=true) }}'
    )
    return template.render(figure=figure) + "\n"


@cache
def _environment() -> "Environment":
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise GpuPerfError(MISSING) from error
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters["short"] = short
    return environment


def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8").strip()


def _digest(content: str) -> str:
    """Return the source by which a content security policy knows a script or a style sheet."""
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


def _row(record: Record, shared: LogScale, reasons: Sequence[str]) -> Row:
    function = function_of(record.nodeid)
    place, separator, name = function.rpartition("::")
    return Row(
        place=place + separator,
        name=name,
        parameters=record.nodeid[len(function) :],
        verdict=summary.verdict(record),
        cells=summary.cells(record),
        forest=forest.row(record, shared),
        numbers={
            "CPU": record.cpu.median if record.cpu else None,
            "GPU": record.gpu.median if record.gpu else None,
            "speedup": record.speedup.value if record.speedup else None,
        },
        change=comparison_text.short_change(record),
        record=record,
        reasons=list(dict.fromkeys(_sentences(record, reasons))),
        comparisons=[_change(comparison) for comparison in record.comparisons],
        figures=[],
        timings=details.timings(record),
        facts=details.facts(record),
    )


def _sentences(record: Record, reasons: Sequence[str]) -> Iterator[str]:
    """Yield what is to be said of a test: why it ended so, doubts, whether the GPU pays, what holds it back."""
    yield from reasons
    if record.offload:
        yield record.offload.reason
    yield from (diagnosis.sentence for diagnosis in record.diagnosis)


def _change(comparison: Comparison) -> Change:
    found = comparison.found
    return Change(
        metric=gate_text.METRIC_NAMES[comparison.metric],
        baseline=comparison_text.baseline_text(comparison),
        found=gate_text.format_value(comparison.metric, found.value) if found else "-",
        change=comparison_text.change_text(comparison),
        outcome=comparison_text.outcome_text(comparison.outcome),
    )
