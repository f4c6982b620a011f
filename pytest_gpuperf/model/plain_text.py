"""From what others have written (exceptions, devices, files) to text that every output can hold and show."""

from collections.abc import Callable
from typing import Any

LONGEST = 2_000
"""Bytes of a reason, and of any other sentence in a report."""
LONGEST_QUOTE = 1_000
"""Bytes of a text in a sentence that quotes it."""


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
    """Return the first line of an exception's message; one that cannot be had is described."""
    return one_line(text_of(str, error).lstrip().partition("\n")[0], LONGEST_QUOTE)


def quote(value: Any) -> str:
    """Return the `repr` of an object, in one line and not too long; one that cannot be had is described."""
    return one_line(text_of(repr, value), LONGEST_QUOTE)


def keep_plain(value: Any, *names: str) -> None:
    """Let these attributes of a frozen value, texts or None, be one line each that can be shown."""
    for name in names:
        text = getattr(value, name)
        if text is not None and (plain := one_line(text)) is not text:
            object.__setattr__(value, name, plain)
