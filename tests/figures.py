"""The figures of a page or a picture, read from their SVG: marks and words with their places."""

import re
from html import unescape
from itertools import combinations
from math import isfinite
from typing import NamedTuple
from xml.etree import ElementTree

from screen import columns

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
PATH = re.compile(r"(?:[MmLHhVvaz]|-?\d+(?:\.\d+)?| )*")
LETTER = 7.0  # pixels, about
CHART = 120  # pixels from the lower end of a chart to the upper, without the dots that reach beyond


class Mark(NamedTuple):
    """A path, and how it is painted: as a line, an area, both (a range), a band or dots."""

    style: str
    paint: str
    path: str


class Word(NamedTuple):
    x: float
    y: float
    text: str
    anchor: str


class Figure(NamedTuple):
    width: float
    height: float
    finding: str | None
    caption: str
    marks: list[Mark]
    words: list[Word]

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.words]

    def paths(self, style, paint="line") -> list[str]:
        return [mark.path for mark in self.marks if (style, paint) == (mark.style, mark.paint)]


def figures(content: str, section: str = "") -> list[Figure]:
    """Return the figures of a page, or of a section of it."""
    if section:
        content = content.partition(f'<section aria-labelledby="{section}">')[2].partition("</section>")[0]
    found = re.findall(r"(<svg.*?</svg>)(?:<figcaption>(.*?)</figcaption>)?", content, re.DOTALL)
    return [_figure(ElementTree.fromstring(svg), unescape(caption)) for svg, caption in found]


def _figure(svg, caption) -> Figure:
    marks = [Mark(each.get("class"), _paint(each), each.get("d")) for each in svg.iterfind("{*}path")]
    words = [
        Word(float(each.get("x")), float(each.get("y")), each.text or "", each.get("text-anchor", "start"))
        for each in svg.iterfind("{*}text")
    ]
    size = float(svg.get("width")), float(svg.get("height"))
    return Figure(*size, svg.get("aria-label"), caption, marks, words)


def _paint(path) -> str:
    if path.get("stroke-linecap"):
        return "dots"
    if path.get("fill-opacity"):
        return "band"
    if path.get("fill"):
        return "range" if path.get("stroke") else "area"
    return "line"


def is_whole(figure: Figure) -> bool:
    """Return whether a browser can draw it: only numbers, and all words in the box where they say."""
    paths = all(PATH.fullmatch(mark.path) for mark in figure.marks)
    inside = all(0 <= word.x <= figure.width and 0 <= word.y <= figure.height for word in figure.words)
    return paths and inside and isfinite(figure.width * figure.height) and bool(figure.finding)


def numbers(path) -> list[float]:
    """Return the numbers of a path."""
    return list(map(float, NUMBER.findall(path)))


def places(path) -> list[tuple[float, float]]:
    """Return the places of a line of absolute coordinates."""
    found = numbers(path)
    return list(zip(found[::2], found[1::2], strict=True))


def outside(chart: Figure) -> list[Mark]:
    """Return the marks of a chart that lie neither between its axes nor in the legend above them."""
    corners = places(chart.paths("axis")[0])
    left, right, bottom = min(x for x, _ in corners), max(x for x, _ in corners), max(y for _, y in corners)
    top = bottom - CHART - 4.1

    def is_placed(mark):
        ends = _traced(mark.path)
        in_legend = all(0 <= x <= chart.width and 0 <= y < top for x, y in ends)
        in_box = all(left - 4 <= x <= right + 4 and top <= y <= bottom + 4 for x, y in ends)
        return ends and (in_legend or in_box)

    return [mark for mark in chart.marks if not is_placed(mark)]


def _traced(path) -> list[tuple[float, float]]:
    """Return all ends of the lines of a path."""
    x = y = 0.0
    ends = []
    for command, rest in re.findall("([MLHVhva])([^MLHVhvaz]*)", path):
        found = numbers(rest)
        if command in "hv":
            x, y = x + found[0] * (command == "h"), y + found[0] * (command == "v")
        elif command == "a":
            x, y = x + found[-2], y + found[-1]
        else:
            x, y = {"H": (found[0], y), "V": (x, found[0])}.get(command, tuple(found[:2]))
        ends.append((x, y))
    return ends


def _box(word: Word) -> tuple[str, float, float, float]:
    """Return a word, about where it begins and ends from left to right, and its height."""
    needed = LETTER * columns(word.text)
    begin = word.x - {"start": 0.0, "middle": needed / 2, "end": needed}[word.anchor]
    return word.text, begin, begin + needed, word.y


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Return the words that lie over each other, or one with itself that leaves the figure."""
    boxes = list(map(_box, figure.words))
    left_out = [(text, text) for text, begin, end, _ in boxes if begin < -0.2 or end > figure.width + 0.2]
    return left_out + [
        (one[0], other[0])
        for one, other in combinations(boxes, 2)
        if one[1] < other[2] and other[1] < one[2] and abs(one[3] - other[3]) < 10
    ]
