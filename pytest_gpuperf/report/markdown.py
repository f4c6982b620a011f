"""Run -> Markdown for a pull request or a step summary: a headline, a table, reasons, the environment.

The whole fits a comment, which may have 65,536 characters, and a step summary, which may have 1 MiB.
The table's plot is a forest plot in characters: each speedup in a row of one width, on one logarithmic axis.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, count, islice

from pytest_gpuperf.gate import text as gate_text
from pytest_gpuperf.model import units
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Environment, Record, Run
from pytest_gpuperf.report.names import short_names, shorten
from pytest_gpuperf.report.repeat import Repeater
from pytest_gpuperf.report.scale import LogScale
from pytest_gpuperf.report.summary import (
    baseline_of,
    baseline_text,
    change_text,
    common_cells,
    environment_facts,
    explained_by_variant,
    gpu_text,
    left_alone_text,
    measured_scalings,
    measured_thresholds,
    reasons_of,
    scaling_cells,
    scaling_heading,
    shared_reasons,
    threshold_sentence,
    tolerances_text,
)
from pytest_gpuperf.report.verdicts import (
    NOTED,
    cause,
    counts,
    in_words,
    is_expected_failure,
    rank,
    rows_of,
    run_counts,
    shown_records,
    worst,
)

_MOST_ROWS = 50
_MOST_REASONS = 15
_MOST_OTHERS = 10  # thresholds, failures and notes of a gate, differences
_MOST_CURVES, _MOST_COUNTS = 5, 6  # of scaling, and numbers of devices of each
_MOST_FACTS = 40  # of the environment
_MOST_OPEN = 3  # commands that are not folded
_LONGEST_COMMAND = 300
_LONGEST_NAME, _LONGEST_FACT = 100, 120
_LONGEST_DIAGNOSIS = 250
_LONGEST_CELL = 60  # of our own cells: a number in a hostile report may have hundreds of digits
_PLOT_WIDTH = 28
# What becomes of a character that a line crosses; characters that every monospaced font has (WGL4).
_AT_ONE = {"·": "│", "─": "┼"}
_AT_LIMIT = {"·": "║", "│": "║", "─": "╫", "┼": "╫", "├": "╟", "┤": "╢"}
_AT_BASELINE = {"·": "○", "─": "○"}


def text(run: Run) -> str:
    """Return the whole; what does not fit is named, and how much of it there is."""
    records = sorted(rows_of(shown_records(run)), key=rank)
    parts = [
        _headline(run, records),
        *_about(run, records),
        "\n".join(_table(records)),
        _left_out(records[_MOST_ROWS:]) if len(records) > _MOST_ROWS else "",
        "\n".join(chain(_reasons(records), _thresholds(run))),
        *_scalings(run),
        *_gate(run),
        _commands(run, records),
        _environment(run.environment),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(run: Run, records: Sequence[Record]) -> str:
    """Return one line: what failed and changed, and how many of each."""
    counted = ", ".join(map(str, run_counts(run))) or "no test was measured"
    device = " on an emulated device" if any(record.is_emulated for record in records) else ""
    return f"### Speedups{device}: {counted}"


def _about(run: Run, records: Sequence[Record]) -> Iterator[str]:
    """Yield what the numbers are of, and what they are not."""
    yield _measured(run)
    if emulated := sum(record.is_emulated for record in records):
        tests = units.count(emulated, "test was", "tests were")
        yield f"**{tests} measured on an emulated device: this is not a GPU's speedup.**"
    if not any(record.speedup or (record.scaling and record.scaling.efficiency) for record in records):
        yield "**No speedup was measured.**"
    if left_alone := left_alone_text(run, lambda value: code_span(value, _LONGEST_NAME)):
        yield f"{left_alone[0].upper()}{left_alone[1:]}."
    if not run.complete:
        yield "**The run ended early: this is not all of it.**"
    if run.merged and run.merged.differences:
        yield "\n".join(["The runs that were merged differ:", "", *_bullets(run.merged.differences)])


def _measured(run: Run) -> str:
    environment, commit = run.environment, run.commit
    parts = [f"CPU {_fact(environment.cpu.get('name'))}", f"GPU {gpu_text(environment, _fact)}"]
    if commit:
        branch = f" of {_fact(commit.branch)}" if commit.branch else ""
        changed = ", with files that differ from it" if commit.changed else ""
        parts.append(f"commit {_fact(commit.id)}{branch}{changed}")
    return ", ".join(parts)


def _fact(value: object) -> str:
    return code_span("not known" if value is None else str(value), _LONGEST_FACT)


def _table(records: Sequence[Record]) -> Iterator[str]:
    """Yield the rows of the first records, with the columns that any record needs."""
    if not records:
        return
    names = short_names(records)
    limits = any(record.demand.limits for record in records)
    compared = any(record.comparisons for record in records)
    optional = [*(["limit"] if limits else []), *(["baseline", "change"] if compared else [])]
    shown = records[:_MOST_ROWS]
    axis = plot_axis(shown)
    plot = [f"`{plot_heading(axis)}`"] if any(record.speedup for record in shown) else []
    headings = ["CPU", "GPU", "speedup", *plot, *optional, "verdict"]
    yield table_row("test", headings)
    yield table_row(":---", [":---" if each in (*plot, "verdict") else "---:" for each in headings])
    for record in shown:
        row = plot_row(record, axis)
        cells = _cells(record) | dict.fromkeys(plot, f"`{row}`" if row else "-")
        yield table_row(_name(names[record.nodeid]), [cells[heading] for heading in headings])
    if plot:
        yield f"\n{plot_legend(shown)}"


def _name(name: str) -> str:
    return code_span(shorten(printable(name), _LONGEST_NAME), _LONGEST_NAME)


def _cells(record: Record) -> dict[str, str]:
    comparison = worst(record)
    verdict: str = record.status
    if comparison and comparison.outcome != "not_regressed":
        verdict += f", {in_words(comparison.outcome)}"
    why = f": {found}" if (found := cause(record)) else ""
    return {
        **common_cells(record),
        "baseline": baseline_text(comparison),
        "change": change_text(comparison),
        "verdict": f"{verdict}{' (expected)' if is_expected_failure(record) else ''}{why}",
    }


def _left_out(records: Sequence[Record]) -> str:
    tests = units.count(len(records), "more test is", "more tests are")
    return f"{tests} not in the table, only in the report: {', '.join(map(str, counts(records)))}."


def _reasons(records: Sequence[Record]) -> Iterator[str]:
    """Yield why, once for all tests that share a reason."""
    explained = explained_by_variant(records)
    names = short_names(records)
    # Each test's own reason comes before the doubts of any: a long list is cut.
    reasons = shared_reasons(records, names, _first_reason)
    reasons |= shared_reasons(records, names, lambda record: _noted_reasons(record, explained))
    for reason, tests in islice(reasons.items(), _MOST_REASONS):
        yield f"- {units.first_few([_name(tests[0]), *tests[1:]], most=1)}: {code_span(reason)}"
    yield from _more(len(reasons) - _MOST_REASONS, "more reason is", "more reasons are")


def _first_reason(record: Record) -> Iterator[str]:
    """Yield why a test did not succeed: its reason, or what its regression check found."""
    noted = (each.reason for each in record.comparisons if each.outcome in NOTED)
    yield from islice(filter(None, (record.reason, *noted)), 1)


def _noted_reasons(record: Record, explained: Collection[str]) -> Iterator[str]:
    """Yield why a test failed, is inconclusive, got worse or was skipped."""
    for comparison in record.comparisons:
        if comparison.reason and comparison.outcome in NOTED:
            yield comparison.reason
    if record.status in ("failed", "error", "inconclusive"):
        yield from reasons_of(record, explained)
    elif record.status == "skipped" and record.reason:
        yield record.reason


def _thresholds(run: Run) -> Iterator[str]:
    measured = measured_thresholds(run)
    measured.sort(key=lambda each: ("failed", "inconclusive", "passed", "recorded").index(each.status))
    for threshold in measured[:_MOST_OTHERS]:
        sentence = threshold_sentence(threshold)
        yield f"- threshold of {_name(threshold.name)}: {code_span(sentence)}"
    yield from _more(len(measured) - _MOST_OTHERS, "more threshold is", "more thresholds are")


def _scalings(run: Run) -> Iterator[str]:
    """Yield how tests scale with the number of devices: a table of all curves, and what holds them back."""
    ranks = {record.nodeid: rank(record) for record in run.records}
    measured = sorted(measured_scalings(run), key=lambda curve: ranks.get(curve.points[-1].nodeid, 0))
    if not (shown := measured[:_MOST_CURVES]):
        return
    headings = list(scaling_cells(shown[0].points[0]))
    rows = [table_row("scaling", headings), table_row(":---", ["---:"] * len(headings))]
    for curve in shown:
        name = _name(scaling_heading(curve))
        for point in curve.points[-_MOST_COUNTS:]:
            rows.append(table_row(name, scaling_cells(point).values()))
            name = ""
    yield "\n".join(rows)
    said = [
        f"- {_name(curve.name)}: {code_span(diagnosis.sentence, _LONGEST_DIAGNOSIS)}"
        for curve in shown
        for diagnosis in curve.diagnosis[:1]
    ]
    said += _more(len(measured) - _MOST_CURVES, "more curve of scaling is", "more curves of scaling are")
    cut = sum(max(0, len(curve.points) - _MOST_COUNTS) for curve in shown)
    said += _more(cut, "more number of devices is", "more numbers of devices are")
    if said:
        yield "\n".join(said)


def _gate(run: Run) -> Iterator[str]:
    """Yield what the run was compared with, and the result for the run as a whole."""
    gate = run.gate
    if gate is None:
        return
    if gate.baseline is None:
        yield "**There is no baseline to compare with.**"
    else:
        limits = tolerances_text(gate)
        enforced = f"worse by more than {limits} fails" if limits else "no change fails"
        yield f"Compared with {_fact(gate.baseline)} of {_fact(gate.started)}; {enforced}."
    if gate.failures:
        yield "\n".join(
            ["**The regression check failed:**", "", *_bullets([failure.text for failure in gate.failures])]
        )
    notes = [note.text for note in gate.notes]
    if (not_run := gate_text.not_run(run)) is not None:
        notes.insert(0, not_run)
    if notes:
        yield "\n".join(_bullets(notes))


def _commands(run: Run, records: Sequence[Record]) -> str:
    """Return the commands that repeat the tests that failed or regressed, folded if they are many."""
    missed = {
        threshold.curve[-1].nodeid
        for threshold in run.thresholds
        if threshold.status == "failed" and threshold.curve
    }
    repeated = [record for record in records if rank(record) == 0 or record.nodeid in missed]
    commands = map(Repeater(run).command, repeated)
    shown = list(islice((each for each in commands if len(each) <= _LONGEST_COMMAND), _MOST_OTHERS))
    if not shown:
        return ""
    more = f" ({len(shown)} of {len(repeated)})" if len(shown) < len(repeated) else ""
    title = f"Repeat what failed or regressed{more}, in the root folder"
    block = "\n".join(["```sh", *shown, "```"])
    if len(shown) <= _MOST_OPEN:
        return f"{title}:\n\n{block}"
    return f"<details>\n<summary>{title}</summary>\n\n{block}\n\n</details>"


def _bullets(texts: Sequence[str]) -> Iterator[str]:
    yield from (f"- {code_span(text)}" for text in texts[:_MOST_OTHERS])
    yield from _more(len(texts) - _MOST_OTHERS, "more", "more")


def _more(left_out: int, one: str, several: str) -> list[str]:
    return [f"- {units.count(left_out, one, several)} in the report"] if left_out > 0 else []


def _environment(environment: Environment) -> str:
    """Return the environment, folded."""
    facts = list(environment_facts(environment))
    more = [f"{len(facts) - _MOST_FACTS:,} more in the report"] if len(facts) > _MOST_FACTS else []
    table = [f"| {_cell(name)} | {_cell(value)} |" for name, value in facts[:_MOST_FACTS]]
    folded = ["<details>", "<summary>Environment</summary>", "", "| | |", "| :--- | :--- |", *table]
    return "\n".join([*folded, "", *more, "</details>"])


def _cell(value: str) -> str:
    return code_span(value, _LONGEST_FACT).replace("|", r"\|")


def code_span(text: str, longest: int = 400) -> str:
    """Return a code span, in which GitHub follows no mark-up, link, mention or emoji; a long text is cut.

    It is closed by as many backticks as it was opened with (https://spec.commonmark.org/0.31.2/#code-spans),
    a number that the text has nowhere in a row.
    """
    shown = printable(text) or " "
    if len(shown) > longest:
        shown = f"{shown[: longest - 1]}…"
    runs = {len(run) for run in re.findall("`+", shown)}
    fence = "`" * next(size for size in count(1) if size not in runs)
    padding = " " if shown[0] in " `" or shown[-1] in " `" else ""
    return f"{fence}{padding}{shown}{padding}{fence}"


def table_row(first: str, others: Iterable[str]) -> str:
    """Return a table's row: a code span first, then cells of our own words."""
    cells = [first.replace("|", r"\|"), *(other[:_LONGEST_CELL].replace("|", r"\|") for other in others)]
    return f"| {' | '.join(cells)} |"


def plot_axis(records: Iterable[Record]) -> LogScale:
    """Return the axis that shows the speedups of records, with what is required and their baselines."""
    return LogScale.around((value for record in records for value in _plotted(record)), _PLOT_WIDTH - 1)


def plot_legend(records: Iterable[Record]) -> str:
    """Return what the marks of the records' rows stand for, in Markdown."""
    records = [record for record in records if record.speedup]
    limits = ", `║` required" if any(record.demand.limits for record in records) else ""
    baseline = ", `○` baseline" if any(map(baseline_of, records)) else ""
    return f"`├─●─┤` speedup with its range (`◄` and `►`: no end), `│` 1x{limits}{baseline}"


def plot_heading(axis: LogScale) -> str:
    """Return the row above the plot, with the values at its ends: `0.85x ·········· 12x`."""
    low, high = map(_axis_end, (axis.low, axis.high))
    return f"{low} {'·' * (_PLOT_WIDTH - len(low) - len(high) - 2)} {high}"


def plot_row(record: Record, axis: LogScale) -> str | None:
    """Return the row of a record: its speedup, what is required, and its baseline; None without a speedup."""
    speedup = record.speedup
    if speedup is None:
        return None
    cells = ["·"] * _PLOT_WIDTH
    first, last = _column(axis, speedup.low or 0.0), _column(axis, speedup.estimate.upper)
    cells[first : last + 1] = "─" * (last + 1 - first)
    cells[first] = "├" if speedup.low else "◄"
    cells[last] = "┤" if speedup.high is not None else "►"
    _mark(cells, _column(axis, 1.0), _AT_ONE)
    for limit in record.demand.limits:
        _mark(cells, _column(axis, limit), _AT_LIMIT)
    if baseline := baseline_of(record):
        _mark(cells, _column(axis, baseline.value), _AT_BASELINE)
    cells[_column(axis, speedup.value)] = "●"
    return "".join(cells)


def _axis_end(value: float) -> str:
    return f"{value:.0f}x" if 10 <= value < 1e6 else f"{value:.2g}x"


def _plotted(record: Record) -> Iterable[float | None]:
    if record.speedup:
        yield from (record.speedup.value, record.speedup.low, record.speedup.high)
        yield from record.demand.limits
        if baseline := baseline_of(record):
            yield baseline.value


def _column(axis: LogScale, value: float) -> int:
    return round(axis.position(value))


def _mark(cells: list[str], column: int, crossed: dict[str, str]) -> None:
    cells[column] = crossed.get(cells[column], cells[column])
