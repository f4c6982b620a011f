"""From a figure to SVG: an element of the page, or a file of its own.

Python writes it, not a template: a page has a thousand figures, and this takes a tenth of the time.
"""

import re
from html import escape

from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report.html.figure import Figure, Mark, Style, Word, short

# Jenkins and others drop style sheets and keep attributes: each style has its colour here, too.
_COLOURS: dict[Style, str] = {
    "cpu": "#0072b2",
    "gpu": "#d55e00",
    "copies": "#cc79a7",
    "verdict": "#444",
    "passed": "#009e73",
    "failed": "#d55e00",
    "inconclusive": "#b58900",
    "muted": "#999",
    "axis": "#bbb",
    "limit": "#444",
    "baseline": "#999",
}
_must_be_escaped = re.compile("[^ !#-%(-;=?-~]").search  # controls, what is beyond ASCII, and &<>"'
_DARK = "text{fill:#e6e8ec}.limit{stroke:#e6e8ec}.axis{stroke:#5a6270}"


def draw(figure: Figure) -> str:
    """Return a figure as an element."""
    return "".join(_parts(figure, ""))


def document(figure: Figure) -> str:
    """Return a figure as a file of its own, which follows the reader's dark or light theme."""
    namespace = ' xmlns="http://www.w3.org/2000/svg"'
    start, *rest = _parts(figure, namespace)
    style = f"<style>@media(prefers-color-scheme:dark){{{_DARK}}}</style>"
    return f"<!-- pytest-gpuperf -->\n{start}{style}{''.join(rest)}\n"


def _parts(figure: Figure, namespace: str) -> list[str]:
    size = f'width="{short(figure.width)}" height="{short(figure.height)}"'
    if figure.finding is None:
        size += ' aria-hidden="true"'
    else:
        box = f"0 0 {short(figure.width)} {short(figure.height)}"
        size += f' viewBox="{box}" role="img" aria-label="{escaped(figure.finding)}"'
    font = ' font-family="sans-serif" font-size="11"' if figure.words else ""
    start = f'<svg{namespace} {size}{font} fill="none" stroke-width="2">'
    return [start, *map(_mark, figure.marks), *map(_word, figure.words), "</svg>"]


def _mark(mark: Mark) -> str:
    colour = _COLOURS[mark.style]
    shape = f'<path class="{mark.style}"'
    if mark.filled:
        shape += f' fill="{colour}"'
    if mark.outlined or not mark.filled:
        shape += f' stroke="{colour}"'
    if mark.dots:
        shape += f' stroke-linecap="{mark.dots}" stroke-width="3"'
    if mark.dashed:
        shape += ' stroke-dasharray="5 3"'
    if mark.faint:
        shape += ' fill-opacity=".2"'
    if mark.move != (0, 0):
        shape += f' transform="translate({short(mark.move[0])} {short(mark.move[1])})"'
    end = f"><title>{escaped(mark.title)}</title></path>" if mark.title else "/>"
    return f'{shape} d="{mark.path}"{end}'


def _word(word: Word) -> str:
    anchor = "" if word.anchor == "start" else f' text-anchor="{word.anchor}"'
    style = f' class="{word.style}"' if word.style else ""
    colour = _COLOURS[word.style or "limit"]
    place = f'x="{short(word.x)}" y="{short(word.y)}"'
    return f'<text {place}{anchor} fill="{colour}"{style}>{escaped(word.text)}</text>'


def escaped(text: str) -> str:
    """Return a text as HTML and SVG show it, in an attribute, too; it steers no terminal that shows these."""
    return escape(printable(text)) if _must_be_escaped(text) else text
