"""From rows of names and cells to lines of a width; what has no room stands around its row or is left out."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Literal, NamedTuple

from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.report.words.names import beginning, shorten, width_of

Colour = Literal["green", "red", "yellow"]
"""A keyword of the writer of pytest's terminal."""
NARROWEST = 60
"""The fewest columns that a table is made for."""
_HEADING = "test"
_SHORTEST_NAME = 16  # columns that a name is cut to, at the least
_GAP = _INDENT = "  "
_BELOW = _INDENT * 2  # of what is said below a row


class Line(NamedTuple):
    """A line of the terminal: `text`, and behind it the verdict, which alone has a colour."""

    text: str
    verdict: str = ""
    colour: Colour | None = None

    def __str__(self) -> str:
        """Return the whole line."""
        return self.text + self.verdict


class Row(NamedTuple):
    """One test: its name, its cells by their headings, and the colour of the last of them.

    A further row of the test above has no name. `brief` is the last cell where the whole has no room: it
    alone makes its column wider.
    """

    name: str
    cells: Mapping[str, str]
    colour: Colour | None = None
    brief: str | None = None


def lines(
    rows: Sequence[Row],
    headings: Sequence[str],
    width: int,
    expendable: Sequence[Sequence[str]],
    *,
    one_row: bool = False,
) -> Iterator[Line]:
    """Yield a table's lines; the last column is the verdict.

    Columns that leave too little room for names are written out below their rows, the first of `expendable`
    first. A name that has no room beside its cells stands above them, and its function once for all of its
    tests in a row. With `one_row` long names lose their middles instead, unless that makes two names one.
    """
    sizes = _sizes(rows, headings, width, expendable)
    room = _room(sizes, width)
    entries = list(_labelled(_cut(rows, room) if one_row else rows, room))
    longest = max(len(_HEADING), *(width_of(label) for _, label, _ in entries))
    below = [name for name in headings if name not in sizes]
    yield _line(_HEADING, longest, Row(_HEADING, {name: name for name in headings}), sizes, width)
    for above, label, row in entries:
        yield from (Line(line) for name in above for line in folded(name, width))
        yield _line(label, longest, row, sizes, width)
        rest = ", ".join(f"{name} {row.cells[name]}" for name in below if row.cells[name] != "-")
        yield from map(Line, wrap(rest, width, initial_indent=_BELOW, subsequent_indent=_BELOW))


def with_room(
    rows: Sequence[Row], headings: Sequence[str], width: int, expendable: Sequence[Sequence[str]]
) -> list[str]:
    """Return the columns that leave room for names; the first of `expendable` are left out first."""
    return [*_sizes(rows, headings, width, expendable)]


def wrapped(text: str, width: int, indent: str = _INDENT, most: int | None = None) -> list[str]:
    """Return a text in lines, at `most` so many of them, the second and later ones indented."""
    # Hyphens are parts of node ids and options, which should stay whole to be copied.
    return wrap(
        text, width, subsequent_indent=indent, break_on_hyphens=False, max_lines=most, placeholder=" ..."
    )


def folded(name: str, width: int) -> Iterator[str]:
    """Yield a name in as few lines as hold it, the second and later ones indented."""
    line = beginning(name, width)
    yield line
    rest = name[len(line) :]
    while rest:
        line = beginning(rest, width - len(_BELOW))
        yield _BELOW + line
        rest = rest[len(line) :]


def _sizes(
    rows: Sequence[Row], headings: Sequence[str], width: int, expendable: Sequence[Sequence[str]]
) -> dict[str, int]:
    """Return the columns that leave room for names, with their widths."""
    sizes = {name: max(len(name), *(len(row.cells[name]) for row in rows)) for name in headings}
    *_, last = headings
    sizes[last] = max(len(last), *(len(row.brief or row.cells[last]) for row in rows))
    least = min(_SHORTEST_NAME, max(len(_HEADING), *(width_of(row.name) for row in rows)))
    for group in expendable:
        if _room(sizes, width) < least:
            sizes = {name: size for name, size in sizes.items() if name not in group}
    return sizes


def _room(sizes: Mapping[str, int], width: int) -> int:
    """Return how many columns the cells leave for names."""
    return width - sum(len(_GAP) + size for size in sizes.values())


def _cut(rows: Sequence[Row], room: int) -> Sequence[Row]:
    """Return the rows with names of at most `room` columns; as they are where that makes two names one."""
    names = {row.name: shorten(row.name, room) for row in rows}
    if len(set(names.values())) < len(names):
        return rows
    return [row._replace(name=names[row.name]) for row in rows]


def _labelled(rows: Sequence[Row], room: int) -> Iterator[tuple[list[str], str, Row]]:
    """Yield the names that stand above each row, its label of at most `room` columns, and the row.

    The label is empty in a further row of one test.
    """
    previous = ""
    for row in rows:
        above, label = [], row.name if row.name != previous else ""
        if width_of(label) > room:
            function = function_of(label)
            above = [function] if function != function_of(previous) else []
            label = _INDENT + label[len(function) :]
        if width_of(label) > room:
            above, label = [*above, label], ""
        yield above, label.rstrip(), row
        previous = row.name


def _line(label: str, longest: int, row: Row, sizes: Mapping[str, int], width: int) -> Line:
    """Return a row: its label on the left, its cells on the right; the last is whole if that fits."""
    *others, last = sizes
    label += " " * (longest - width_of(label))
    text = "".join([label, *(f"{_GAP}{row.cells[name].rjust(sizes[name])}" for name in others), _GAP])
    whole = row.cells[last]
    fits = width_of(text) + len(whole) <= width
    return Line(text, whole if fits else row.brief or whole, row.colour)
