"""From rows of names and cells to lines of a width: all names and columns whole, or a row for each test."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap
from typing import Literal

from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.report.names import beginning, columns, without_middle

Colour = Literal["green", "red", "yellow"]
"""A keyword of the writer of pytest's terminal."""
NARROWEST = 60
"""The fewest columns that a table is made for."""
_HEADING = "test"
_SHORTEST_NAME = 16  # columns that a name is cut to, at the least
_GAP = _INDENT = "  "
_BELOW = _INDENT * 2  # of what is said below a row


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the terminal: `text`, and behind it the verdict, which alone has a colour."""

    text: str
    verdict: str = ""
    colour: Colour | None = None

    def __str__(self) -> str:
        """Return the whole line."""
        return self.text + self.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One test: its name, its cells by their headings, and the colour of the last of them."""

    name: str
    cells: Mapping[str, str]
    colour: Colour | None = None
    function: str = field(init=False)
    """The name without its parameters."""

    def __post_init__(self) -> None:
        """Derive the function once: it is needed for each layout that is tried."""
        object.__setattr__(self, "function", function_of(self.name))


def lines(
    rows: Sequence[Row],
    headings: Sequence[str],
    width: int,
    movable: Sequence[Sequence[str]],
    optional: str | None = None,
) -> Iterator[Line]:
    """Yield a table's lines; the last column is the verdict.

    Names stand beside their cells where all of them fit. Where they do not, the tests of one function stand
    together: their parameters beside their cells, below the function's name; or, where that is too long
    still, above them. Of several rows of one test the first has the name. If the width is not enough, or if
    that takes fewer lines, columns are written out below their rows, the first of `movable` first. With an
    `optional` heading, that column is left out instead, and long names lose their middles, where they can.
    """
    widths = {name: max(len(name), *(len(row.cells[name]) for row in rows)) for name in headings}
    if optional is not None and max(columns(row.name) for row in rows) > _room(widths, width):
        widths.pop(optional, None)
        rows = _cut(rows, _room(widths, width))
    layout = _best(rows, widths, width, movable)
    kept = [name for name in widths if name not in layout.below]
    longest = max(len(_HEADING), *(columns(entry.label) for entry in layout.entries))
    sizes = [longest, *(widths[name] for name in kept)]
    yield Line(_joined([_HEADING, *kept], sizes) + kept[-1])
    for entry in layout.entries:
        for name in entry.above:
            yield from map(Line, folded(name, width))
        row = entry.row
        cells = [row.cells[name] for name in kept]
        yield Line(_joined([entry.label, *cells], sizes), cells[-1], row.colour)
        rest = ", ".join(f"{name} {row.cells[name]}" for name in layout.below if row.cells[name] != "-")
        yield from map(Line, wrap(rest, width, initial_indent=_BELOW, subsequent_indent=_BELOW))


def wrapped(text: str, width: int, indent: str = _INDENT) -> list[str]:
    """Return a text in lines, the second and later ones indented."""
    # Hyphens are parts of node ids and options, which should stay whole to be copied.
    return wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)


def folded(name: str, width: int) -> Iterator[str]:
    """Yield a name in as few lines as hold it, the second and later ones indented."""
    line = beginning(name, width)
    yield line
    rest = name[len(line) :]
    while rest:
        line = beginning(rest, width - len(_BELOW))
        yield _BELOW + line
        rest = rest[len(line) :]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A row as it is laid out: its label, and the names that stand in lines of their own above it."""

    label: str
    row: Row
    above: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Layout:
    """The rows of a table, and the columns that are written out below them."""

    entries: Sequence[_Entry]
    below: Sequence[str]

    @property
    def height(self) -> int:
        """How many lines it takes, if none is too long."""
        values = ([entry.row.cells[name] for name in self.below] for entry in self.entries)
        extra = sum(any(value != "-" for value in of_row) for of_row in values)
        return sum(1 + len(entry.above) for entry in self.entries) + extra


def _best(
    rows: Sequence[Row], widths: Mapping[str, int], width: int, movable: Sequence[Sequence[str]]
) -> _Layout:
    """Return the layout with the fewest lines; of several, the one with the most columns."""
    layouts = []
    for count in range(len(movable) + 1):
        moved_below = {name for names in movable[:count] for name in names}
        room = _room({name: size for name, size in widths.items() if name not in moved_below}, width)
        if room >= len(_HEADING) or count == len(movable):
            below = [name for name in widths if name in moved_below]
            layouts.append(_Layout(list(_entries(rows, room)), below))
            if not below and layouts[0].height == len(rows):
                break
    return min(layouts, key=lambda layout: layout.height)


def _room(widths: Mapping[str, int], width: int) -> int:
    """Return how many columns the cells leave for names."""
    return width - sum(len(_GAP) + size for size in widths.values())


def _entries(rows: Sequence[Row], room: int) -> Iterator[_Entry]:
    """Yield the rows in the order in which they stand, with labels of at most `room` columns."""
    functions: dict[str, list[Row]] = {}
    if all(columns(row.name) <= room for row in rows):
        functions[""] = list(rows)
    else:
        for row in rows:
            functions.setdefault(row.function, []).append(row)
    for function, members in functions.items():
        is_beside = all(columns(row.name) <= room for row in members)
        above = [] if is_beside else [function]
        previous = None
        for row in members:
            label = row.name if is_beside else _INDENT + row.name[len(function) :]
            if row.name == previous:
                label = ""
            elif columns(label) > room:
                above.append(label)
                label = ""
            yield _Entry(label.rstrip(), row, above)
            above, previous = [], row.name


def _cut(rows: Sequence[Row], room: int) -> Sequence[Row]:
    """Return the rows with names of at most `room` columns; as they are where that makes two names one."""
    if room < _SHORTEST_NAME:
        return rows
    names = {row.name: without_middle(row.name, room) for row in rows}
    if len(set(names.values())) < len(names):
        return rows
    return [replace(row, name=names[row.name]) for row in rows]


def _joined(cells: Sequence[str], sizes: Sequence[int]) -> str:
    """Return all cells of a line but the last, with the gap before that: the label begins on the left."""
    label, *others = cells[:-1]
    aligned = (cell.rjust(size) for cell, size in zip(others, sizes[1:], strict=False))
    label += " " * (sizes[0] - columns(label))
    return "".join(f"{cell}{_GAP}" for cell in (label, *aligned))
