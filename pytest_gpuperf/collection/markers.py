"""From markers and their arguments to Demand, PairOptions, SizeGroup and Scaling.

The arguments of a marker are fields of classes: their types say what is valid, in `Meta` in words.
"""

import inspect
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from numbers import Integral, Real
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import NODEFAULT, Meta
from msgspec.structs import fields

from pytest_gpuperf.model import ask
from pytest_gpuperf.model.demand import Demand, SizeGroup
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.other_names import remedy
from pytest_gpuperf.model.plain_text import quote
from pytest_gpuperf.model.scaling import Mode, Scaling
from pytest_gpuperf.model.value import AtLeastOne, Text, Value

_MOST = 2**63 - 1  # what a report can hold
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kMGT])(i?))?B", re.IGNORECASE)
_NO_VALUE = object()  # stands for a value that no type accepts


class PairOptions(Value, frozen=True, kw_only=True):
    """How a speedup marker pairs tests that are separate functions."""

    pair: Annotated[Text, Meta(extra={"valid": "a name"})] | None = None
    """Common name of the two tests."""
    device: Any = None
    """Device that this one of them runs on, or its name."""


class Argument(NamedTuple):
    """What an argument of a marker may be, and what it is where it is not given."""

    type: Any
    default: Any


def _arguments(cls: type, *names: str) -> dict[str, Argument]:
    """Return fields of a class as arguments: those with these names, or all."""
    types = get_type_hints(cls, include_extras=True)
    return {
        field.name: Argument(types[field.name], field.default)
        for field in fields(cls)
        if field.name in (names or types)
    }


_Counts = Annotated[
    list[AtLeastOne],
    Meta(
        min_length=2,
        extra={"valid": "a list of at least two different numbers of devices, e.g. [1, 2, 4]"},
    ),
]
_Efficiency = Annotated[  # below 1, which no interval reaches
    float, Meta(gt=0, lt=1, extra={"valid": "a number above 0 and below 1"})
]
_OF_PAIRS = _arguments(PairOptions)
_OF_EACH_TEST = ("rtol", "atol", "check", "max_time")
ARGUMENTS = {
    "speedup": {**_arguments(Demand), **_OF_PAIRS},
    "offload_threshold": _arguments(SizeGroup, "parameter", "at_most", "at_least"),
    "scaling": {
        "devices": Argument(_Counts, NODEFAULT),
        "mode": Argument(Mode, "strong"),
        "efficiency": Argument(_Efficiency | None, None),
        **_arguments(Demand, *_OF_EACH_TEST),
    },
}
"""By marker and name. The first argument may be given by position."""


def signature(marker: str) -> str:
    """Return how a marker is called."""
    first, *others = (
        name if argument.default is NODEFAULT else f"{name}={_literal(argument.default)}"
        for name, argument in ARGUMENTS[marker].items()
    )
    return f"{marker}({', '.join([first, '*', *others])})"


def named(name: str, marks: Iterable[pytest.Mark]) -> list[pytest.Mark]:
    """Return the markers of a name, equal ones once: a class decorator that makes subclasses copies them."""
    found: list[pytest.Mark] = []
    for mark in marks:
        if mark.name == name and not any(ask.is_equal(mark, other) for other in found):
            found.append(mark)
    return found


def read(item: pytest.Item) -> tuple[Demand, PairOptions]:
    """Return what a marked item's marker says; raise ValueError with what is wrong with marker or item."""
    marks = _closest_marks(item)
    if len(marks) > 1:
        calls = " and ".join(_call(mark) for mark in marks)
        raise ValueError(
            f"the test has {len(marks)} speedup markers, {calls}; keep one (a conftest.py may add another)"
        )
    try:
        required = demand(marks[0])
    except ValueError as error:
        raise ValueError(f"@pytest.mark.speedup: {error}") from error
    if (reason := why_not_timeable(item)) is not None:
        raise ValueError(reason)
    given = marks[0].kwargs
    return required, PairOptions(pair=given.get("pair"), device=given.get("device"))


def _call(mark: pytest.Mark) -> str:
    given = [*map(quote, mark.args), *(f"{name}={quote(value)}" for name, value in mark.kwargs.items())]
    return f"{mark.name}({', '.join(given)})"


def why_not_timeable(item: pytest.Item) -> str | None:
    """Return why an item cannot be timed, whatever its marker; None if it can."""
    function = ask.attribute(item, "obj")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "a speedup test cannot be async; time a plain function that runs the loop"
    if inspect.isgeneratorfunction(function):
        return "a speedup test cannot be a generator; return the workload instead of yielding it"
    if ask.attribute(function, "is_hypothesis_test") is True:
        return (
            "a speedup test cannot use hypothesis's @given, which generates new inputs on every call; use a "
            "fixed input"
        )
    return None


def demand(mark: pytest.Mark) -> Demand:
    """Return what a speedup marker requires; raise ValueError, naming the argument and the valid ones."""
    given = _given(mark)
    if given.get("accelerator") is not None:
        _require_accelerator(given["accelerator"])
    return Demand(**{name: value for name, value in given.items() if name not in _OF_PAIRS})


def threshold(mark: pytest.Mark, *more: pytest.Mark) -> SizeGroup:
    """Return what an offload_threshold marker requires, of no sizes yet; raise ValueError for misuse."""
    if more:
        raise ValueError(
            f"{1 + len(more)} offload_threshold markers found; a test has one size parameter, so keep one"
        )
    given = _given(mark)
    if "parameter" not in given:
        raise ValueError("needs the name of a parameter, as in offload_threshold('n')")
    at_most, at_least = given.get("at_most"), given.get("at_least")
    if at_most is not None and at_least is not None and at_least > at_most:
        raise ValueError(f"at_least must not be above at_most; {at_least!r} is above {at_most!r}")
    return SizeGroup(name="", size=0, sizes=(), **given)


def scaling(mark: pytest.Mark, *more: pytest.Mark) -> tuple[Scaling, Demand]:
    """Return what a scaling marker requires, of no test yet, and what it demands of each test.

    Raises ValueError for misuse.
    """
    if more:
        raise ValueError(f"{1 + len(more)} scaling markers found; keep one")
    given = _given(mark)
    if "devices" not in given:
        raise ValueError("needs numbers of devices, as in scaling([1, 2, 4])")
    counts = tuple(sorted(given["devices"]))
    found = Scaling(
        name="-",
        mode=given.get("mode", "strong"),
        count=counts[0],
        counts=counts,
        required=given.get("efficiency"),
    )
    return found, Demand(**{name: given[name] for name in _OF_EACH_TEST if name in given})


def size(value: Any) -> float | None:
    """Return a parameter's value as a size, or None if it is not a finite number."""
    number = _plain(value)
    return float(number) if _is_number(number) else None


def _given(mark: pytest.Mark) -> dict[str, Any]:
    """Return a marker's arguments by name, numbers as Python's own; ValueError for misuse."""
    arguments = ARGUMENTS[mark.name]
    first = next(iter(arguments))
    all_valid = f"the valid arguments are {', '.join(arguments)}"
    if len(mark.args) > 1:
        raise ValueError(f"takes one positional argument, {first}; {len(mark.args)} were given; {all_valid}")
    if mark.args and first in mark.kwargs:
        raise ValueError(f"{first} is given twice, by position and by name")
    given = {**mark.kwargs, **({first: mark.args[0]} if mark.args else {})}
    for name, value in given.items():
        if name not in arguments:
            raise ValueError(f"has no argument {name!r}: {remedy('argument', name, arguments, all_valid)}")
        kind = arguments[name].type
        given[name] = plain = value if kind is Any else _as_number(name, value)
        try:
            msgspec.convert(plain, kind)
        except msgspec.ValidationError:
            raise ValueError(f"{name} must be {_words(kind)}, not {quote(value)}") from None
    return given


def _words(kind: Any) -> str:
    """Return which values a type accepts, besides None."""
    if NoneType in get_args(kind):
        (kind,) = (option for option in get_args(kind) if option is not NoneType)
    if kind is bool:
        return "True or False"
    if get_origin(kind) is Literal:
        *others, last = map(repr, get_args(kind))
        return f"{', '.join(others)} or {last}"
    words: str = next(meta.extra["valid"] for meta in reversed(kind.__metadata__) if meta.extra)
    return words


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _as_number(name: str, value: Any) -> Any:
    """Return the value of an argument with Python's own numbers; any other kind of value stays."""
    if name in ("max_memory", "bytes") and value is not None:
        return _bytes(value)
    if name == "devices" and ask.is_really(value, (list, tuple, range)):
        counts = [_plain(each) for each in value]
        return counts if len({*map(str, counts)}) == len(counts) else _NO_VALUE
    return _plain(value)


def _plain(value: Any) -> Any:
    """Return a number of any library as Python's own, and one that no report can hold as no value at all."""
    if not _is_number(value):
        return value
    whole = ask.answer(int, value) if ask.is_a(value, Integral) else None
    if whole is not None and abs(whole) <= _MOST:
        return whole
    number = ask.answer(float, value, default=math.nan)  # an integer may be beyond all floats
    return number if math.isfinite(number) else _NO_VALUE


def _is_number(value: Any) -> bool:
    return ask.is_a(value, (Real, Decimal)) and not isinstance(value, bool)


def _require_accelerator(name: str) -> None:
    """Raise ValueError, with the valid ones, for a name that no accelerator has."""
    from pytest_gpuperf.devices.accelerators import ACCELERATOR, chosen_accelerator  # which imports NumPy

    try:
        chosen_accelerator(f"{ACCELERATOR}:{name}")
    except GpuPerfError as error:
        told = str(error).replace(f"{ACCELERATOR}:", "")  # what the option has before each name
        raise ValueError(f"accelerator={name!r}: {told}") from error


def _bytes(value: Any) -> Any:
    """Return a size in bytes: kB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB of 1024."""
    if ask.is_really(value, str) and (match := _SIZE.fullmatch(value.strip())) is not None:
        number, prefix, binary = match.groups()
        value = float(number) * (1024 if binary else 1000) ** " kmgt".index((prefix or " ").lower())
    plain = _plain(value)
    return int(plain) if _is_number(plain) and plain <= _MOST else _NO_VALUE


def _closest_marks(item: pytest.Item) -> list[pytest.Mark]:
    """Return the markers that count: the parameter set's, else the function's, else the nearest class's."""
    of_parameters = list(item.callspec.marks) if hasattr(item, "callspec") else []
    for level in (of_parameters, *(node.own_markers for node in item.iter_parents())):
        if marks := named("speedup", level):
            return marks
    return []
