"""Values <-> JSON text, proved by the types of the values; what they refuse is named with its place.

A text that is written from the value that it was read from, byte for byte, has no key twice, no key too many
or too few, and no number that changed on its way. That is quick, and true of all that we wrote ourselves.
Any other text is read by `json`, which knows lines and columns, and is then checked against the types.
"""

import json
import re
from array import array
from collections.abc import Callable, Iterable
from functools import cache, partial
from json.decoder import JSONDecodeError
from sys import float_info
from typing import Any, TypeVar

import msgspec

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.quantities import Seconds

_Value = TypeVar("_Value")
_MOST = float_info.max
_LONGEST_CAUSE = 200  # characters: it may quote what the file holds
_REMEDY = "write it anew, or take it from where it was copied"
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_CANNOT = (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, RecursionError)
_KINDS = {list: "array", dict: "object", type(None): "null"}
"""What msgspec calls the types of JSON, where that is not Python's name."""
_STRINGS = r'"(?:[^"\\]|\\.)*"'
_CONSTANT = re.compile(rf"{_STRINGS}|(?P<found>-?Infinity|NaN)", re.DOTALL)
_TOKEN = re.compile(rf"{_STRINGS}|[{{}}\[\]:]", re.DOTALL)
_DIGITS = re.compile(rf"{_STRINGS}|(?P<found>\d{{4300,}})", re.DOTALL)
_PLACE = re.compile(r"(?P<cause>.*) - at `\$(?P<place>[^`]*)`", re.DOTALL)  # as msgspec ends its messages


def quick(
    content: bytes, kind: type[_Value], pieces: Callable[[_Value], Iterable[bytes]] | None = None
) -> _Value | None:
    """Return the value of a text that is as `written` makes it, or `pieces` together; None for any other."""
    end = 0
    try:
        value = _decoder(kind).decode(content)
        for piece in pieces(value) if pieces else (encode(value),):
            if not content.startswith(piece, end) or _may_be_huge(piece):
                return None
            end += len(piece)
    except (*_CANNOT, GpuPerfError):
        return None
    return value if end == len(content) else None


def value_in(line: bytes, kind: type[_Value]) -> _Value:
    """Return the value of a text, quickly if it is as `written` makes it; raises as `parse` and `load` do."""
    value = quick(line, kind)
    return load(parse(line.decode("utf-8")), kind) if value is None else value


def load(content: Any, kind: type[_Value], place: str = "$") -> _Value:
    """Return the value in parsed JSON; raise GpuPerfError, with the place, for what is not of that type.

    `place` is that of the content in its document. All keys have to be there, and no others.
    """
    if wild := unbounded(content, place):
        raise broken(wild, "the number is beyond the range of a double")
    try:
        value = msgspec.convert(content, kind, dec_hook=_samples)
    except _CANNOT as error:
        raise _refusal(error, content, place) from None
    _check_keys(content, dump(value), place)
    return value


def prepare(kind: type) -> None:
    """Make what `written` and `quick` read a type with: for a record that takes 2 ms, and it is kept."""
    _decoder(kind)


def written(value: Any, place: str = "$") -> str:
    """Return a value as ASCII text of one line; raise GpuPerfError, with the place, if its type refuses it.

    Integers that stand for a float are written as one, so that `quick` reads them again.
    """
    kind = type(value)
    try:
        line = encode(value)
        again = _decoder(kind).decode(line)
        # NaN and infinity, which have become null, are not equal to it; 3 is equal to 3.0.
        if line.isascii() and again == value:
            return encode(again).decode("ascii")
    except _CANNOT:
        pass
    return text(dump(load(dump(value), kind, place)))


def dump(value: Any) -> Any:
    """Return a value as dicts, lists, tuples, strings and numbers."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def text(content: Any) -> str:
    """Return plain values as ASCII text of one line; raise GpuPerfError for a number that JSON has not."""
    if wild := unbounded(content, "$"):
        raise GpuPerfError(f"the number at {wild} is not finite, or beyond the range of JSON's numbers")
    try:
        line = encode(content)
        if line.isascii():
            return line.decode("ascii")
    except UnicodeEncodeError:  # half a character, of which UTF-8 has none
        pass
    return json.dumps(content, separators=(",", ":"))


def indented(content: Any) -> str:
    """Return plain values as text for people; raise GpuPerfError as `text` does."""
    return msgspec.json.format(text(content), indent=1)


def parse(content: str) -> Any:
    """Return the value of a text; raises ValueError with what is wrong, where, and what to do.

    Refused like what is no JSON: a key that an object has twice, NaN, Infinity, numbers beyond the range of a
    double, and nesting that Python cannot follow. A number without a fraction is an integer: 8.0, 8e0.
    """
    if not content.strip(" \t\r\n"):
        raise ValueError(f"it is empty; {_REMEDY}")
    try:
        value = json.loads(content, object_pairs_hook=_object, parse_constant=_refuse, parse_float=_number)
        place = unbounded(value, "$")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except _Constant:
        raise ValueError(f"it has a number that is none at {_first(_CONSTANT, content)}; {_REMEDY}") from None
    except JSONDecodeError as error:
        raise ValueError(_malformed(error, content)) from None
    except _Twice:
        raise ValueError(f"an object has the key {_twice(content)}; leave one of them out") from None
    except ValueError:  # of int(): https://docs.python.org/3/library/stdtypes.html#int-max-str-digits
        raise ValueError(f"it has a number of too many digits at {_first(_DIGITS, content)}") from None
    if place is not None:
        raise ValueError(f"the number at {place} is beyond the range of a double; {_REMEDY}")
    return value


def broken(place: str, cause: str) -> GpuPerfError:
    """Return the error of a document that is not as its schema has it."""
    return GpuPerfError(f"it breaks its schema at {place}: {cause[:_LONGEST_CAUSE]}")


def unbounded(value: Any, place: str) -> str | None:
    """Return the place of the first number that is not finite, or beyond the range of a double."""
    if isinstance(value, float | int):
        return None if -_MOST <= value <= _MOST else place
    if isinstance(value, dict):
        for name, part in value.items():
            if part.__class__ is not str and (found := unbounded(part, f"{place}.{name}")):
                return found
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            if part.__class__ is not str and (found := unbounded(part, f"{place}[{index}]")):
                return found
    return None


def _samples(kind: type, values: Any) -> "array[float]":
    """Return the one kind of value that msgspec does not know."""
    if kind is not array:
        raise TypeError(f"{kind} is no part of a report")
    try:
        return array("d", msgspec.convert(values, list[Seconds]))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # to which msgspec adds the place of the array


def _quick_samples(kind: type, values: Any) -> "array[float]":
    """Return what `_samples` does, in a third of the time; what is wrong with them is not to be named.

    It takes a truth value for a number, which is not written as it was read.
    """
    samples = array("d", values)
    if kind is not array or (samples and min(samples) < 0):
        raise ValueError("no samples")
    return samples


def _plain(value: Any) -> Any:
    """Return samples, or a number of NumPy's, as JSON has them."""
    if not hasattr(value, "tolist"):
        raise GpuPerfError(f"the report holds a {type(value).__name__}, for which JSON has no form")
    return value.tolist()


encode = msgspec.json.Encoder(enc_hook=_plain).encode
_decoder: Callable[[Any], Any] = cache(partial(msgspec.json.Decoder, dec_hook=_quick_samples))


def _refusal(error: Exception, content: Any, place: str) -> GpuPerfError:
    """Return the error with the place that msgspec ends its message with: the array's, before its item's."""
    cause, inner = str(error), ""
    while found := _PLACE.fullmatch(cause):
        cause, inner = found["cause"], inner + found["place"]
    return broken(place + _named(inner, content, cause), cause)


def _named(place: str, content: Any, cause: str) -> str:
    """Return a place with the key that msgspec leaves out where keys are free, as in `$.packages[...]`."""
    outer, free, _ = place.partition("[...]")
    if not free:
        return place
    for step in re.findall(r"\w+", outer):
        content = content[int(step)] if isinstance(content, list | tuple) else content[step]
    kinds = {name: _KINDS.get(type(part), type(part).__name__) for name, part in content.items()}
    return f"{outer}.{next((name for name, kind in kinds.items() if cause.endswith(f'got `{kind}`')), free)}"


def _check_keys(given: Any, kept: Any, place: str) -> None:
    """Raise GpuPerfError for a key of an object that is missing, or that its type does not have."""
    if isinstance(given, dict):
        for name in {**kept, **given}:
            if name not in given:
                raise broken(place, f"Object missing required field `{name}`")
            if name not in kept:
                raise broken(place, f"Object contains unknown field `{name}`")
        for name, part in given.items():
            if isinstance(part, dict | list):
                _check_keys(part, kept[name], f"{place}.{name}")
    elif isinstance(given, list | tuple):
        for index, part in enumerate(given):
            if isinstance(part, dict | list):
                _check_keys(part, kept[index], f"{place}[{index}]")


def _number(digits: str) -> float:
    number = float(digits)
    return int(number) if number.is_integer() else number


def _may_be_huge(content: bytes) -> bool:
    """Return whether a text may hold an integer of 300 digits, which may be beyond the range of a double.

    So many digits have 29 in a row in every tenth byte, which a text hardly has without them.
    """
    return b"0" * 29 in content[::10].translate(_AS_ZEROS)


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


def _malformed(error: JSONDecodeError, text: str) -> str:
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
    before = text[:position]
    return f"line {before.count(chr(10)) + 1}, column {position - before.rfind(chr(10))}"
