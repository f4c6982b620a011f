"""Values <-> JSON text, proved by the types of the values; what they refuse is named with its place."""

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import NoneType
from typing import Any, TypeVar

import msgspec
from msgspec.structs import astuple, replace

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.value import Seconds, Value

_Value = TypeVar("_Value")
_LONGEST_CAUSE = 200  # characters: it may quote what the file holds
_MOST_DIGITS = 300  # of an integer that a double can hold
_REMEDY = "name a report, or copy this one anew"
_NOT_UTF_8 = f"it is not JSON: it is not UTF-8; {_REMEDY}"
ADDED = frozenset(("alone", "multiprocessors", "power_limit_watts", "runs", "settings", "visible"))
"""Fields that reports of this version did not have at first; one without them has their defaults."""
_LEAVES = {str, int, float, bool, NoneType, array}
_CANNOT = (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, RecursionError)


def load(content: bytes, kind: type[_Value]) -> _Value:
    """Return the value of a text in UTF-8; raise GpuPerfError, with the place, for what is not of that type.

    An object has each of its keys once, and no others; those that were `ADDED` it may lack.
    """
    keys = _Keys()
    try:
        value: _Value = _decoder(kind).decode(content)
        json.loads(content, object_pairs_hook=keys.add, parse_int=_bounded)
    except msgspec.ValidationError as error:
        raise _refusal(error) from None
    except msgspec.DecodeError as error:
        raise _malformed(error, content) from None
    except UnicodeDecodeError:
        raise GpuPerfError(_NOT_UTF_8) from None
    except RecursionError:
        raise GpuPerfError("it is not JSON: it is nested too deeply") from None
    if isinstance(value, Value) and keys.number < _number_of_keys(value):
        for refusal in _missing(json.loads(content), dump(value), "$"):
            raise refusal
    return value


def prepare(kind: type) -> None:
    """Make what `text` and `load` read a type with: for a record that takes 2 ms, and it is kept."""
    _decoder(kind)


def text(value: Value) -> str:
    """Return a value as a line of ASCII text; raise GpuPerfError, with the place, if its type refuses it."""
    try:
        line = encode(value)
        is_same = _decoder(type(value)).decode(line) == value  # unless NaN or infinity has become null
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot encode
        return text(load(plain(_printable(dump(value))).encode(), type(value)))
    except _CANNOT as error:
        raise _refusal(error) from None
    return line.decode() if is_same and line.isascii() else plain(dump(value))


def wrong_fields(value: Value, bare: Value) -> dict[str, GpuPerfError]:
    """Return the error of each field that no text can hold, by its name, of those that `bare` lacks.

    It is of the same type, and right.
    """
    errors = {}
    for name in value.__struct_fields__:
        part = getattr(value, name)
        if part is not getattr(bare, name):
            try:
                text(replace(bare, **{name: part}))
            except GpuPerfError as error:
                errors[name] = error
    return errors


def plain(content: Any) -> str:
    """Return plain values as ASCII text of one line; raise GpuPerfError for a number that JSON has not."""
    try:
        return json.dumps(content, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise GpuPerfError(f"a number is not finite: {error}") from None


def indented(content: Any) -> str:
    """Return plain values as text for people; raise GpuPerfError as `plain` does."""
    return msgspec.json.format(plain(content), indent=1)


def dump(value: Any) -> Any:
    """Return a value as dicts, lists, tuples, strings and numbers."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def broken(place: str, cause: str) -> GpuPerfError:
    """Return the error of a document that is not as its schema has it."""
    return GpuPerfError(f"it breaks its schema at {place}: {cause[:_LONGEST_CAUSE]}")


def _samples(kind: type, values: Any) -> "array[float]":
    """Return the one kind of value that msgspec does not know."""
    if kind is not array:
        raise TypeError(f"{kind} is no part of a report")
    try:
        if not isinstance(values, list) or {*map(type, values)} - {float} or (values and min(values) < 0):
            values = msgspec.convert(values, list[Seconds])  # which takes three times as long
        return array("d", values)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # to which msgspec adds the place of the array


def _plain(value: Any) -> Any:
    """Return samples, or a number of NumPy's, as JSON has them."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"the report holds a {type(value).__name__}, for which JSON has no form")
    return value.tolist()


encode = msgspec.json.Encoder(enc_hook=_plain).encode
_decoder: Callable[[Any], Any] = cache(partial(msgspec.json.Decoder, dec_hook=_samples))


def _printable(content: Any) -> Any:
    if isinstance(content, dict):
        return {_printable(name): _printable(part) for name, part in content.items()}
    if isinstance(content, list | tuple):
        return [*map(_printable, content)]
    return printable(content) if isinstance(content, str) else content


class _Keys:
    """Counts the keys of a document, and refuses an object with a key twice: msgspec takes the last."""

    def __init__(self) -> None:
        self.number = 0

    def add(self, pairs: list[tuple[str, Any]]) -> None:
        """Count the keys of an object."""
        self.number += len(pairs)
        if len({name for name, _ in pairs}) < len(pairs):
            twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
            first = f"{pairs[0][0]}: {pairs[0][1]}"[:80]
            raise GpuPerfError(
                f"the object that begins with {first!r} has the key {twice[:80]!r} twice; "
                f"leave one of them out"
            )


def _number_of_keys(value: Any) -> int:
    """Return how many keys there are in a value's text, which writes those that have their default, too."""
    parts = (
        astuple(value) if isinstance(value, Value) else value.values() if isinstance(value, dict) else value
    )
    own = 0 if isinstance(value, tuple) else len(parts)
    return own + sum(_number_of_keys(part) for part in parts if part.__class__ not in _LEAVES)


def _missing(given: Any, kept: Any, place: str) -> Iterator[GpuPerfError]:
    """Yield the error of each key that an object of a document does not have."""
    if isinstance(kept, dict):
        for name in kept:
            if name in given:
                yield from _missing(given[name], kept[name], f"{place}.{name}")
            elif name not in ADDED:
                yield broken(place, f"Object missing required field `{name}`")
    elif isinstance(kept, list | tuple):
        for index, part in enumerate(kept):
            yield from _missing(given[index], part, f"{place}[{index}]")


def _bounded(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise GpuPerfError(f"the number {digits[:20]}... has {len(digits)} digits; {_REMEDY}")
    return int(digits)


def _refusal(error: Exception) -> GpuPerfError:
    """Return the error with the place that msgspec ends its message with: an item's, before its array's."""
    cause, *places = str(error).split(" - at `$")
    return broken("$" + "".join(part.removesuffix("`") for part in reversed(places)), cause)


def _malformed(error: Exception, content: bytes) -> GpuPerfError:
    try:
        content.decode()
    except UnicodeDecodeError as wrong:
        if wrong.end < len(content):  # else a letter was cut off
            return GpuPerfError(_NOT_UTF_8)
    cause, _, byte = str(error).removeprefix("JSON is malformed: ").partition(" (byte ")
    if not byte:
        return GpuPerfError(f"it is not JSON: it is empty or was cut off; {_REMEDY}")
    before = content[: int(byte.removesuffix(")"))]
    line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
    return GpuPerfError(f"it is not JSON: {cause} at line {line}, column {column}; {_REMEDY}")
