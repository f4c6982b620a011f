"""From node ids to names: short ones, ones that no other text has, and ones cut to columns of a terminal."""

from collections import Counter
from collections.abc import Collection, Iterable
from hashlib import sha256
from unicodedata import category, east_asian_width

from pytest_gpuperf.model.nodeid import function_of, name_of
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record

_DIGEST = 12  # hex digits: two of a million changed names share them with a chance of 1 in 500
_CUT = "..."  # as pytest's own summary has it: plain letters, which each terminal has
_MARKS = ("Mn", "Me")  # which lie over the letter before


def short_names(records: Iterable[Record]) -> dict[str, str]:
    """Return the tests' names; with their files, or whole node ids, where those would be ambiguous."""
    functions = _short_functions({function_of(record.nodeid) for record in records})
    names = {}
    for record in records:
        function = function_of(record.nodeid)
        names[record.nodeid] = printable(functions[function] + record.nodeid[len(function) :])
    return names


def _short_functions(functions: Collection[str]) -> dict[str, str]:
    """Return the shortest name of each function that no other has."""
    shortest: dict[str, str] = {}
    without_path = {function: function.rpartition("/")[2] for function in functions}
    bare = {function: name_of(function) for function in functions}
    for names in (without_path, bare):  # the shortest last: it replaces the one before
        counts = Counter(names.values())
        shortest.update({function: name for function, name in names.items() if counts[name] == 1})
    return {function: shortest.get(function, function) for function in functions}


def shorten(name: str, width: int) -> str:
    """Return a name without its middle, where the whole takes too many columns: `test_a_s...numpy[8]`."""
    if width_of(name) <= width:
        return name
    room = max(0, width - len(_CUT))
    first = (room + 1) // 2
    return f"{beginning(name, first)}{_CUT}{end(name, room - first)}"


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


def width_of(text: str) -> int:
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
    return beginning(text[::-1], most)[::-1]


def _columns(letter: str) -> int:
    if category(letter) in _MARKS:
        return 0
    return 2 if east_asian_width(letter) in ("F", "W") else 1
