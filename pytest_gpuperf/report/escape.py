"""From text that may be anything (a node id, a message) to text that every form can hold and show."""

from hashlib import sha256

__all__ = ["distinct", "printable"]

_DIGEST = 12  # hex digits: two of a million changed names share them with a chance of 1 in 500


def printable(text: str) -> str:
    r"""Return the text with what cannot be shown (controls, lone surrogates) written out: `\x1b`, `\udc80`.

    The result has one line and can be encoded.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


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
