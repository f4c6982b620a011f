"""From text that may be anything (a node id, a message) to text that every output can hold and show."""

import re
from collections.abc import Iterable
from hashlib import sha256
from itertools import count

from pytest_gpuperf.model.plain_text import printable

_LONGEST_CELL = 60  # of our own cells: a number in a hostile report may have hundreds of digits
_DIGEST = 12  # hex digits: two of a million changed names share them with a chance of 1 in 500


def distinct(text: str, longest: int | None = None) -> str:
    """Return a printable name, not empty and of at most `longest` bytes, that no other text has.

    It depends on the text alone, so that a test keeps its name from run to run: one that had to be changed
    ends in a digest of what it was.
    """
    shown = printable(text)
    if text and shown == text and (longest is None or len(text.encode()) <= longest):
        return text
    digest = f"~{sha256(text.encode(errors='surrogatepass')).hexdigest()[:_DIGEST]}"
    room = None if longest is None else longest - len(digest)
    return shown.encode()[:room].decode(errors="ignore") + digest


def markdown_code(text: str, longest: int = 400) -> str:
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


def markdown_row(first: str, others: Iterable[str]) -> str:
    """Return a table's row: a code span first, then cells of our own words."""
    cells = [first.replace("|", r"\|"), *(other[:_LONGEST_CELL].replace("|", r"\|") for other in others)]
    return f"| {' | '.join(cells)} |"
