"""What a figure of the page shows, read from its paths: where lines end, how wide bars are."""

import re
from itertools import combinations
from math import isfinite

from pytest_gpuperf.report.html.figure import text_width

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
PATH = re.compile(r"(?:[MmLHhVvaz]|-?\d+(?:\.\d+)?| )*")


def is_whole(figure) -> bool:
    """Return whether a browser can draw it: only numbers, all words in the box, and each where it says."""
    paths = all(PATH.fullmatch(mark.path) for mark in figure.marks)
    places = all(isfinite(word.x) and isfinite(word.y) for word in figure.words)
    inside = all(0 <= word.x <= figure.width and 0 <= word.y <= figure.height for word in figure.words)
    return paths and places and inside and isfinite(figure.width * figure.height) and bool(figure.finding)


def texts(figure) -> list[str]:
    """Return the words."""
    return [word.text for word in figure.words]


def paths(figure, style, paint="line") -> list[str]:
    """Return the paths of a style."""
    return [mark.path for mark in figure.marks if (style, paint) == (mark.style, mark.paint)]


def numbers(path) -> list[float]:
    """Return the numbers of a path."""
    return list(map(float, NUMBER.findall(path)))


def places(path) -> list[tuple[float, float]]:
    """Return the places of a line of absolute coordinates."""
    found = numbers(path)
    return list(zip(found[::2], found[1::2], strict=True))


def traced(path) -> list[tuple[float, float]]:
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


def extent(word) -> tuple[float, float]:
    """Return about where a word begins and ends, from left to right."""
    needed = text_width(word.text)
    begin = word.x - {"start": 0.0, "middle": needed / 2, "end": needed}[word.anchor]
    return begin, begin + needed


def overlapping(figure) -> list[tuple[str, str]]:
    """Return the words that lie over each other, or one with itself that leaves the figure."""
    boxes = [(word.text, *extent(word), word.y) for word in figure.words]
    outside = [(text, text) for text, begin, end, _ in boxes if begin < -0.1 or end > figure.width + 0.1]
    pairs = combinations(boxes, 2)
    return outside + [
        (one[0], other[0])
        for one, other in pairs
        if one[1] < other[2] and other[1] < one[2] and abs(one[3] - other[3]) < 10
    ]
