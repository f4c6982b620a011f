"""Values <-> JSON text, proved by the types of the values; what they refuse is named with its place.

A text that is written from the value that it was read from, byte for byte, has no key twice, no key too many
or too few, and no number that changed on its way. That is quick, and true of all that we wrote ourselves.
Any other text is read by `json`, which knows lines and columns, and is then checked against the types.
"""

import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from json.decoder import JSONDecodeError
from math import inf
from sys import float_info
from typing import Any, TypeVar

import msgspec

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.quantities import Seconds

_Value = TypeVar("_Value")
_MOST = float_info.max
_MOST_DIGITS = 400  # that are read as an integer: int() refuses some thousands
_LONGEST_CAUSE = 200  # characters: it may quote what the file holds
_REMEDY = "write it anew, or take it from where it was copied"
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_CANNOT = (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, RecursionError)
_KINDS = {list: "array", dict: "object", type(None): "null"}
"""What msgspec calls the types of JSON, where that is not Python's name."""
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


def written(value: Any, place: str = "$") -> str:
    """Return a value as ASCII text of one line; raise GpuPerfError, with the place, if its type refuses it.

    Integers that stand for a float are written as one, so that `quick` reads them again.
    """
    with suppress(*_CANNOT):
        line = encode(value)
        # NaN and infinity, which have become null, are not equal to it.
        if line.isascii() and quick(line, type(value)) == value:
            return line.decode("ascii")
    return text(dump(load(dump(value), type(value), place)))


def dump(value: Any) -> Any:
    """Return a value as dicts, lists, tuples, strings and numbers."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def text(content: Any) -> str:
    """Return plain values as ASCII text of one line; raise GpuPerfError for a number that JSON has not."""
    if wild := unbounded(content, "$"):
        raise GpuPerfError(f"the number at {wild} is not finite, or beyond the range of JSON's numbers")
    with suppress(UnicodeEncodeError):  # half a character, of which UTF-8 has none
        line = encode(content)
        if line.isascii():
            return line.decode("ascii")
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
    twice: list[str] = []
    as_object = partial(_object, twice)
    try:
        value = json.loads(content, object_pairs_hook=as_object, parse_int=_integer, parse_float=_number)
        place = unbounded(value, "$")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except JSONDecodeError as error:
        raise ValueError(_malformed(error, content)) from None
    if twice:
        key = repr(twice[0])[:80]
        raise ValueError(f"an object has the key {key} twice, at {place or '$'}; leave one of them out")
    if place is not None:
        raise ValueError(f"the number at {place} is not finite, or beyond the range of a double; {_REMEDY}")
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
            _check_keys(given[name], kept[name], f"{place}.{name}")
    elif isinstance(given, list | tuple):
        for index, part in enumerate(given):
            if isinstance(part, dict | list):
                _check_keys(part, kept[index], f"{place}[{index}]")


def _integer(digits: str) -> float:
    """Return an integer; one of more digits than a double has is infinite, as `unbounded` finds it."""
    return int(digits) if len(digits) < _MOST_DIGITS else float(digits)


def _number(digits: str) -> float:
    number = float(digits)
    return int(number) if number.is_integer() else number


def _may_be_huge(content: bytes) -> bool:
    """Return whether a text may hold an integer of 300 digits, which may be beyond the range of a double.

    So many digits have 29 in a row in every tenth byte, which a text hardly has without them.
    """
    return b"0" * 29 in content[::10].translate(_AS_ZEROS)


def _object(twice: list[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; the first key that is there twice goes to `twice`: `unbounded` finds its place."""
    content = dict(pairs)
    if len(content) < len(pairs) and not twice:
        twice += (name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        content[twice[0]] = inf
    return content


def _malformed(error: JSONDecodeError, text: str) -> str:
    place = f"line {error.lineno}, column {error.colno}"
    if not text[error.pos :].strip() or error.msg.startswith("Unterminated string"):
        return f"it ends too early: {error.msg} at {place}; it may have been cut off: {_REMEDY}"
    return f"{error.msg} at {place}; {_REMEDY}"
