"""From what others have written (exceptions, devices, files) to text that every output can hold and show."""

import re
from collections.abc import Callable
from typing import Any

LONGEST = 2_000
"""Bytes of a reason, and of any other sentence in a report."""
LONGEST_QUOTE = 1_000
"""Bytes of a text in a sentence that quotes it."""
_READ = 100_000  # letters of a message, which may hold an array
_RULE = re.compile(r"^[ =-]*[=-]{2}|[=-]{2}[ =-]*$")  # around the title of a page, as CuPy prints one
_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+| id='[0-9]+'")  # the latter of a mock


def printable(text: str) -> str:
    r"""Return the text with what cannot be shown (controls, lone surrogates) written out: `\x1b`, `\udc80`.

    The result has one line and can be encoded.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def one_line(text: str, longest: int = LONGEST) -> str:
    """Return a text as one printable line of at most so many bytes; it is empty only if the text is."""
    if 4 * len(text) <= longest and text.isprintable():  # no letter has more than four bytes
        return text
    shown = printable(text[: longest + 1])
    content = shown.encode()
    if len(content) <= longest:
        return shown
    return content[: longest - len("…".encode())].decode(errors="ignore") + "…"


def text_of(function: Callable[[Any], str], value: Any) -> str:
    """Return what `str` or `repr` makes of an object; one for which that raises is described."""
    try:
        text = function(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit, too: pytest shows such an object nevertheless
        return f"<{type(value).__name__}, which cannot be shown: {type(error).__name__}>"
    return str.__str__(text)  # of a subclass, whose methods may be anything


def message(error: BaseException) -> str:
    """Return the first line of an exception's message that has words; one that cannot be had is described."""
    lines = (_RULE.sub("", line).strip().rstrip(".:") for line in text_of(str, error)[:_READ].splitlines())
    return one_line(next(filter(None, lines), ""), LONGEST_QUOTE)


def first_line(error: BaseException) -> str:
    """Return an exception's type and the first line of its message."""
    said = message(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def stable_text(value: Any) -> str:
    """Return a text for an object that is the same in every run: its name, its text, or that of its type."""
    try:
        name = getattr(value, "__name__", None)
        text = name if isinstance(name, str) else str.__str__(str(value))
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a suite's object may raise anything here, a skip too
        return type(value).__name__
    return type(value).__name__ if text == object.__repr__(value) else _ADDRESS.sub("", text)


def quote(value: Any) -> str:
    """Return the `repr` of an object, in one line and not too long; one that cannot be had is described."""
    return one_line(text_of(repr, value), LONGEST_QUOTE)


def keep_plain(value: Any, *names: str) -> None:
    """Let these attributes of a frozen value, texts or None, be one line each that can be shown."""
    from msgspec.structs import force_setattr  # a start of pytest imports this module, and needs none

    for name in names:
        text = getattr(value, name)
        if text is not None and (plain := one_line(text)) is not text:
            force_setattr(value, name, plain)
