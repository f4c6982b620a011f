"""Anybody's text -> the Markdown that shows it as it is, whatever mark-up, link or mention it holds."""

import re
from collections.abc import Iterable
from itertools import count

from pytest_gpuperf.report.escape import printable

__all__ = ["code", "row"]

_LONGEST_CELL = 60  # of the cells that are ours: a number of a hostile report may have hundreds of digits


def code(text: str, longest: int = 400) -> str:
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


def row(first: str, others: Iterable[str]) -> str:
    """Return a table's row: a code span first, then cells of our own words."""
    cells = [first.replace("|", r"\|"), *(other[:_LONGEST_CELL].replace("|", r"\|") for other in others)]
    return f"| {' | '.join(cells)} |"
