"""Values <-> JSON text: strict, and quick where msgspec is installed."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from json.decoder import JSONDecodeError
from sys import float_info
from typing import Any

__all__ = ["line", "parse", "parse_line", "unbounded"]

_MOST = float_info.max
_REMEDY = "write the report anew, or take it from where it was copied"
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_CANNOT = (ValueError, TypeError, OverflowError, RecursionError)
_STRINGS = r'"(?:[^"\\]|\\.)*"'
_CONSTANT = re.compile(rf"{_STRINGS}|(?P<found>-?Infinity|NaN)", re.DOTALL)
_TOKEN = re.compile(rf"{_STRINGS}|[{{}}\[\]:]", re.DOTALL)
_DIGITS = re.compile(rf"{_STRINGS}|(?P<found>\d{{4300,}})", re.DOTALL)


def line(value: Any) -> str:
    """Return a value as ASCII text of one line; raises ValueError for a number that JSON cannot hold.

    Its floats are finite: msgspec writes null for others.
    """
    quick = _quick()
    if quick is not None:
        with suppress(*_CANNOT):  # half a character
            written = quick.write(value)
            if written.isascii() and not _may_be_huge(written):
                return written.decode("ascii")
    if place := unbounded(value, "$"):
        raise ValueError(f"the number at {place} is beyond the range of JSON's numbers")
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def parse_line(content: bytes) -> Any:
    """Return the value of a text that is as `line` writes it, else as `parse` does.

    A value that is written as just the text that it was read from has no key twice, and no number that was
    changed on its way.
    """
    quick = _quick()
    if quick is not None:
        with suppress(*_CANNOT):  # what it cannot read or write, the other reader decides
            value = quick.read(content)
            if quick.write(value) == content and not _may_be_huge(content):
                return value
    return parse(content.decode("utf-8"))


def parse(text: str) -> Any:
    """Return the value of a text; raises ValueError with what is wrong, where, and what to do.

    Refused beside what is no JSON: a key that an object has twice, NaN, Infinity, numbers beyond the range
    of a double, and nesting that Python cannot follow.
    """
    if not text.strip(" \t\r\n"):
        raise ValueError(f"it is empty; {_REMEDY}")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
        place = unbounded(value, "$")
    except RecursionError:
        raise ValueError("it is nested too deeply to be a report") from None
    except _Constant:
        raise ValueError(f"it has a number that is none at {_first(_CONSTANT, text)}; {_REMEDY}") from None
    except JSONDecodeError as error:
        raise ValueError(_broken(error, text)) from None
    except _Twice:
        raise ValueError(f"an object has the key {_twice(text)}; leave one of them out") from None
    except ValueError:  # of int(): https://docs.python.org/3/library/stdtypes.html#int-max-str-digits
        raise ValueError(f"it has a number of too many digits at {_first(_DIGITS, text)}") from None
    if place is not None:
        raise ValueError(f"the number at {place} is beyond the range of a double; {_REMEDY}")
    return value


def unbounded(value: Any, place: str) -> str | None:
    """Return the place of the first number that is not finite, or beyond the range of a double."""
    if isinstance(value, float | int):
        return None if -_MOST <= value <= _MOST else place
    if isinstance(value, dict):
        for name, part in value.items():
            if part.__class__ is not str and (found := unbounded(part, f"{place}.{name}")):
                return found
    elif isinstance(value, list):
        for index, part in enumerate(value):
            if part.__class__ is not str and (found := unbounded(part, f"{place}[{index}]")):
                return found
    return None


def _may_be_huge(content: bytes) -> bool:
    """Say whether a text may hold an integer of 300 digits, and so perhaps one beyond the range of a double.

    So many digits have 29 in a row in every tenth byte, which a text hardly has without them.
    """
    return b"0" * 29 in content[::10].translate(_AS_ZEROS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quick:
    """How msgspec reads and writes."""

    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


@cache
def _quick() -> _Quick | None:
    """Return msgspec's ways; not every Python has it, and all is the same without it, but slower."""
    try:
        from msgspec import json as quick
    except ImportError:
        return None
    return _Quick(read=quick.Decoder().decode, write=quick.Encoder().encode)


class _Twice(ValueError):
    """An object has a key twice."""


class _Constant(ValueError):
    """A number is NaN or infinite."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _Twice
    return content


def _refuse(constant: str) -> Any:
    raise _Constant(constant)


def _broken(error: JSONDecodeError, text: str) -> str:
    place = f"line {error.lineno}, column {error.colno}"
    if not text[error.pos :].strip() or error.msg.startswith("Unterminated string"):
        return f"it ends too early: {error.msg} at {place}; it may have been cut off: {_REMEDY}"
    return f"{error.msg} at {place}; {_REMEDY}"


def _twice(text: str) -> str:
    """Return the first key that its object has already, and where it stands."""
    keys: list[set[str]] = []
    name = _TOKEN.match("{")
    for token in _TOKEN.finditer(text):
        if token[0] in "{[":
            keys.append(set())
        elif token[0] in "}]":
            keys.pop()
        elif token[0] != ":":
            name = token
        elif name is not None:
            key = json.loads(name[0])
            if key in keys[-1]:
                return f"{repr(key)[:80]} again at {_place(text, name.start())}"
            keys[-1].add(key)
    raise AssertionError("a text in which no key is twice")


def _first(pattern: re.Pattern[str], text: str) -> str:
    """Return the place of the first match that is not within a string."""
    return next(_place(text, match.start()) for match in pattern.finditer(text) if match["found"])


def _place(text: str, position: int) -> str:
    return (
        f"line {text.count(chr(10), 0, position) + 1}, column {position - text.rfind(chr(10), 0, position)}"
    )
