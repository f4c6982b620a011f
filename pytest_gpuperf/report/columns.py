"""From text to the columns that it takes on a terminal, where a letter takes none, one or two of them."""

from unicodedata import category, east_asian_width

_MARKS = ("Mn", "Me")  # which lie over the letter before


def columns(text: str) -> int:
    """Return how many columns a printable text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def beginning(text: str, most: int) -> str:
    """Return as much of the beginning of a text as takes at most so many columns."""
    taken = 0
    for place, letter in enumerate(text):
        taken += _columns(letter)
        if taken > most:
            return text[:place]
    return text


def end(text: str, most: int) -> str:
    """Return as much of the end of a text as takes at most so many columns."""
    taken = 0
    for place in range(len(text), 0, -1):
        taken += _columns(text[place - 1])
        if taken > most:
            return text[place:]
    return text


def _columns(letter: str) -> int:
    if category(letter) in _MARKS:
        return 0
    return 2 if east_asian_width(letter) in ("F", "W") else 1
