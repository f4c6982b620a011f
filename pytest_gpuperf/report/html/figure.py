"""A figure of the page: marks and words at places in a box, and its SVG.

All marks of one style are one path, so that a page with thousands of figures stays small. Coordinates are in
pixels from the upper left corner; a place may be fractional, one decimal of it is kept. Python writes the
SVG, not a template: a page has a thousand figures, and this takes a tenth of the time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Literal, NamedTuple

from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report.words.names import width_of

Style = Literal[
    "cpu", "gpu", "copies", "passed", "failed", "inconclusive", "muted", "axis", "limit", "baseline"
]
"""What a mark shows. Its colour is in page.css and, for pages whose styles are blocked, in `_COLOURS`."""
Paint = Literal["line", "area", "range", "band", "dots"]
"""How a mark is painted: as a line, as an area, as both, as an area that what lies below shines through, or
as dots (see `scatter`)."""
Place = tuple[float, float]
_LETTER = 7.0  # pixels, about, in the font of figures
_SPACE = 7.0  # pixels between two words of a row, at least
# Jenkins and others drop style sheets and keep attributes: each style has its colour here, too.
_COLOURS: dict[Style, str] = {
    "cpu": "#0072b2",
    "gpu": "#d55e00",
    "copies": "#cc79a7",
    "passed": "#009e73",
    "failed": "#d55e00",
    "inconclusive": "#b58900",
    "muted": "#999",
    "axis": "#bbb",
    "limit": "#444",
    "baseline": "#888",
}
_PAINTS: dict[Paint, str] = {
    "line": 'stroke="{0}"',
    "area": 'fill="{0}"',
    "range": 'fill="{0}" stroke="{0}"',
    "band": 'fill="{0}" fill-opacity=".2"',
    "dots": 'stroke="{0}" stroke-linecap="round" stroke-width="3"',
}
_TEXT = "#444"
_DARK = "text{fill:#e6e8ec}.limit{stroke:#e6e8ec}.axis{stroke:#5a6270}"


class Mark(NamedTuple):  # a page has thousands, and a frozen dataclass takes three times as long to make
    """Shapes of one style."""

    style: Style
    path: str
    paint: Paint = "line"
    move: Place = (0.0, 0.0)
    """Pixels by which all of it lies further right and down than its path says."""


class Word(NamedTuple):  # as above
    """Text in a figure."""

    x: float
    y: float
    """Of the base line."""
    text: str
    anchor: Literal["start", "middle", "end"] = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Marks and words in a box.

    `finding` is what the figure shows, as a sentence for readers who cannot see it; None where the words
    beside the figure say all of it.
    """

    width: float
    height: float
    finding: str | None
    marks: Sequence[Mark] = ()
    words: Sequence[Word] = ()
    caption: str | None = None


def text_width(text: str) -> float:
    """Return about how many pixels a text needs."""
    return _LETTER * width_of(text)


def in_rows(words: Iterable[tuple[float, str]], width: float, most: int = 1) -> list[list[tuple[float, str]]]:
    """Return words by their middles in rows, each in the first with room for it; the others are left out.

    None touches another one, and all are within the width.
    """
    rows: list[list[tuple[float, str]]] = [[] for _ in range(most)]
    for wanted, text in words:
        half = text_width(text) / 2
        x = max(half, min(wanted, width - half))
        for row in rows:
            if all(abs(x - at) >= half + text_width(other) / 2 + _SPACE for at, other in row):
                row.append((x, text))
                break
    return [row for row in rows if row]


def line(*places: Place) -> str:
    """Return the path of a line through all places."""
    return "M" + "L".join(f"{short(x)} {short(y)}" for x, y in places)


def bar(x: float, y: float, width: float, height: float) -> str:
    """Return the path of a rectangle, for a filled mark."""
    return f"M{short(x)} {short(y)}h{short(width)}v{short(height)}h{short(-width)}z"


def dot(x: float, y: float, radius: float = 3) -> str:
    """Return the path of a circle, for a filled mark."""
    size = short(radius)
    twice = short(2 * radius)
    return f"M{short(x - radius)} {short(y)}a{size} {size} 0 1 0 {twice} 0a{size} {size} 0 1 0 -{twice} 0z"


def diamond(x: float, y: float, radius: float = 4) -> str:
    """Return the path of a square on its tip, for a filled mark: told from a circle without its colour."""
    return line((x - radius, y), (x, y - radius), (x + radius, y), (x, y + radius)) + "z"


def square(x: float, y: float, radius: float = 3) -> str:
    """Return the path of a square, for a filled mark."""
    return bar(x - radius, y - radius, 2 * radius, 2 * radius)


def scatter(places: Iterable[tuple[int, int]]) -> str:
    """Return the path of dots in about five letters each, for a mark of `dots`: lines without a length.

    Such lines show as their round ends.
    """
    path = []
    left = top = 0
    for x, y in places:
        down = y - top
        path.append(f"m{x - left}{'' if down < 0 else ' '}{down}z")
        left, top = x, y
    return "".join(path)


@lru_cache(maxsize=4096)  # most of them are the same in many figures
def short(value: float) -> str:
    """Return a coordinate in few letters: a page has a hundred thousand of them."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def draw(figure: Figure, *, namespace: str = "", style: str = "") -> str:
    """Return a figure as an element of SVG."""
    width, height = short(figure.width), short(figure.height)
    label = ' aria-hidden="true"'
    if figure.finding is not None:
        label = f' viewBox="0 0 {width} {height}" role="img" aria-label="{_escaped(figure.finding)}"'
    font = ' font-family="sans-serif" font-size="11"' if figure.words else ""
    size = f'width="{width}" height="{height}"'
    start = f'<svg{namespace} {size}{label}{font} fill="none" stroke-width="2">'
    return "".join([start, style, *map(_mark, figure.marks), *map(_word, figure.words), "</svg>"])


def svg_document(figure: Figure) -> str:
    """Return a figure as a file of SVG, which follows the reader's dark or light theme."""
    style = f"<style>@media(prefers-color-scheme:dark){{{_DARK}}}</style>"
    drawn = draw(figure, namespace=' xmlns="http://www.w3.org/2000/svg"', style=style)
    return f"<!-- pytest-gpuperf -->\n{drawn}\n"


def _mark(mark: Mark) -> str:
    paint = _PAINTS[mark.paint].format(_COLOURS[mark.style])
    move = f' transform="translate({short(mark.move[0])} {short(mark.move[1])})"' if any(mark.move) else ""
    return f'<path class="{mark.style}" {paint}{move} d="{mark.path}"/>'


def _word(word: Word) -> str:
    anchor = "" if word.anchor == "start" else f' text-anchor="{word.anchor}"'
    place = f'x="{short(word.x)}" y="{short(word.y)}"'
    return f'<text {place}{anchor} fill="{_TEXT}">{_escaped(word.text)}</text>'


def _escaped(text: str) -> str:
    """Return a text as SVG shows it, in an attribute, too; it steers no terminal that shows its source."""
    return escape(printable(text))
