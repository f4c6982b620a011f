"""What a figure of the page shows, read from its paths: where lines end, how wide bars are."""

import re
from math import isfinite

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


def paths(figure, style, *, filled=False, faint=False) -> list[str]:
    """Return the paths of a style."""
    return [
        mark.path for mark in figure.marks if (style, filled, faint) == (mark.style, mark.filled, mark.faint)
    ]


def numbers(path) -> list[float]:
    """Return the numbers of a path."""
    return list(map(float, NUMBER.findall(path)))


def places(path) -> list[tuple[float, float]]:
    """Return the places of a line of absolute coordinates."""
    found = numbers(path)
    return list(zip(found[::2], found[1::2], strict=True))
