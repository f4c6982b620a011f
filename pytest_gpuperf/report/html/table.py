"""From the rows of the page's table of tests to HTML.

Python writes it, as it does figures, and no template: a page has thousands of rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_gpuperf.report.html.details import Leaf, Listing
from pytest_gpuperf.report.html.figure import Figure, draw, escaped


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A test in the page's table; `details` is None where there are too many tests for it."""

    place: str
    """Its file, class and function, without the name."""
    name: str
    parameters: str
    verdicts: Sequence[tuple[str, str]]
    """Codes, by which their style is chosen, and their words."""
    cause: str | None
    """Why it failed, in few words, where that is not its speedup."""
    cells: dict[str, str]
    forest: Figure | None
    call_time: Figure | None
    change: str
    reasons: Sequence[str]
    details: "Details | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What a test's row opens to."""

    command: str
    """The one that repeats the test."""
    call_time: str | None
    comparisons: Sequence["ComparisonRow"]
    figures: Sequence[Figure]
    listing: Listing


class ComparisonRow(NamedTuple):
    """A comparison with the baseline, as the cells of a table."""

    metric: str
    baseline: str
    found: str
    change: str
    outcome: str


def body(row: Row, *, has_changes: bool) -> str:
    """Return the part of the table that a test has: its cells, and below them what they open to."""
    return "".join(_body(row, has_changes=has_changes))


def facts(leaves: Sequence[Leaf]) -> str:
    """Return names and what is said of them, as a list."""
    return "\n".join(("<dl>", *(f"<dt>{escaped(name)}<dd>{escaped(text)}" for name, text in leaves), "</dl>"))


def _body(row: Row, *, has_changes: bool) -> Iterator[str]:
    yield "<tbody><tr><td>"
    yield " ".join(f'<span class="v {escaped(code)}">{escaped(words)}</span>' for code, words in row.verdicts)
    if row.cause:
        yield f" <small>{escaped(row.cause)}</small>"
    yield f"<th scope=row><span class=place>{escaped(row.place)}</span>{escaped(row.name)}"
    if row.parameters:
        yield f"<b>{escaped(row.parameters)}</b>"
    for heading in ("CPU", "GPU", "speedup"):
        yield f"<td>{escaped(row.cells[heading])}"
    yield f"<td class=plot>{draw(row.forest) if row.forest else ''}<td>{escaped(row.cells['limit'])}"
    yield f"<td class=plot>{draw(row.call_time) if row.call_time else ''}"
    if has_changes:
        yield f"<td>{escaped(row.change)}"
    columns = 9 if has_changes else 8
    if row.details:
        yield f"<tr><td colspan={columns}>"
        yield from _details(row.details, row.reasons)
    else:  # no paragraph: a browser takes long for thousands
        yield f"<tr><td class=why colspan={columns}>{escaped('; '.join(row.reasons))}"


def _details(details: Details, reasons: Sequence[str]) -> Iterator[str]:
    yield f"<details><summary>{escaped(reasons[0]) if reasons else 'details'}</summary>\n"
    if len(reasons) > 1:
        yield "<ul>\n"
        for reason in reasons[1:]:
            yield f"<li>{escaped(reason)}\n"
        yield "</ul>\n"
    if details.call_time:
        yield f"<p>{escaped(details.call_time)}</p>\n"
    for figure in details.figures:
        caption = f"<figcaption>{escaped(figure.caption)}</figcaption>" if figure.caption else ""
        yield f"<figure>{draw(figure)}{caption}</figure>\n"
    if details.comparisons:
        yield "<table class=own><caption>Compared with the baseline</caption>"
        yield _headings("metric", "baseline", "now", "change", "outcome")
        for each in details.comparisons:
            yield _cells(each.metric, each.baseline, each.found, each.change, each.outcome)
        yield "</table>\n"
    if details.listing.timings:
        yield f"<table><caption>Measured</caption>{_headings('value', 'CPU', 'GPU')}"
        for timing in details.listing.timings:
            yield _cells(timing.name, timing.cpu, timing.gpu)
        yield "</table>\n"
    yield f"{facts(details.listing.facts)}\n"
    command = escaped(details.command)
    yield f"\n<p>To repeat this test, in the root folder of the suite: <code>{command}</code></p>\n</details>"


def _headings(*names: str) -> str:
    return f"<tr>{''.join(f'<th scope=col>{name}' for name in names)}\n"


def _cells(name: str, *values: str) -> str:
    return f"<tr><th scope=row>{escaped(name)}{''.join(f'<td>{escaped(value)}' for value in values)}\n"
