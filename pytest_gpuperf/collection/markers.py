"""From the arguments of markers to Demand, PairOptions, SizeGroup and Scaling."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import pytest

from pytest_gpuperf.model.demand import Demand, SizeGroup
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.other_names import remedy
from pytest_gpuperf.model.plain_text import quote
from pytest_gpuperf.model.scaling import MODES, Scaling

_MOST = 2**63 - 1  # what a report can hold
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kMGT])(i?))?B", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOptions:
    """How a marker pairs tests that are separate functions: their common name, and this one's device.

    `demand` checks them.
    """

    pair: str | None = None
    device: Any = None


def named(name: str, marks: Iterable[pytest.Mark]) -> list[pytest.Mark]:
    """Return the markers of a name, equal ones once: a class decorator that makes subclasses copies them."""
    found: list[pytest.Mark] = []
    for mark in marks:
        if mark.name == name and mark not in found:
            found.append(mark)
    return found


def demand(mark: pytest.Mark) -> Demand:
    """Return what a speedup marker requires; raise ValueError, naming the argument and the valid ones."""
    given = _given(mark, _ARGUMENTS)
    _refuse_contradictions(given)
    if given.get("accelerator") is not None:
        _require_accelerator(given["accelerator"])
    if given.get("max_memory") is not None:
        given["max_memory"] = _bytes(given["max_memory"])
    return Demand(
        **{name: _python_number(value) for name, value in given.items() if name not in _PAIR_ARGUMENTS}
    )


def pair_options(mark: pytest.Mark) -> PairOptions:
    """Return how a speedup marker, which `demand` accepts, pairs its test with another."""
    return PairOptions(pair=mark.kwargs.get("pair"), device=mark.kwargs.get("device"))


def threshold(mark: pytest.Mark, *more: pytest.Mark) -> SizeGroup:
    """Return what an offload_threshold marker requires, of no sizes yet; raise ValueError for misuse."""
    if more:
        raise ValueError(
            f"{1 + len(more)} offload_threshold markers found; a test has one size parameter, so keep one"
        )
    given = _given(mark, _THRESHOLD_ARGUMENTS)
    if "parameter" not in given:
        raise ValueError("needs the name of a parameter, as in offload_threshold('n')")
    at_most = given.get("at_most")
    at_least = given.get("at_least")
    if at_most is not None and at_least is not None and at_least > at_most:
        raise ValueError(f"at_least must not be above at_most; {at_least!r} is above {at_most!r}")
    arguments = {name: _python_number(value) for name, value in given.items()}
    return SizeGroup(name="", size=0, sizes=(), **arguments)


def scaling(mark: pytest.Mark, *more: pytest.Mark) -> tuple[Scaling, Demand]:
    """Return what a scaling marker requires, of no test yet, and what it demands of each test.

    Raises ValueError for misuse.
    """
    if more:
        raise ValueError(f"{1 + len(more)} scaling markers found; keep one")
    given = _given(mark, _SCALING_ARGUMENTS)
    if "devices" not in given:
        raise ValueError("needs numbers of devices, as in scaling([1, 2, 4])")
    counts = tuple(sorted(map(int, given["devices"])))
    of_test = {name: _python_number(given[name]) for name in _OF_EACH_TEST if name in given}
    demand = Demand(**of_test)
    required = given.get("efficiency")
    mode = given.get("mode", "strong")
    return Scaling(name="-", mode=mode, count=counts[0], counts=counts, required=required), demand


def size(value: Any) -> float | None:
    """Return a parameter's value as a size, or None if it is not a finite number."""
    if not _is_number(value):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond them
        return None
    return number if math.isfinite(number) else None


def _given(mark: pytest.Mark, arguments: "_Arguments") -> dict[str, Any]:
    """Return a marker's arguments by name; ValueError for misuse. The first may be given by position."""
    first = next(iter(arguments))
    all_valid = f"the valid arguments are {', '.join(arguments)}"
    if len(mark.args) > 1:
        raise ValueError(f"takes one positional argument, {first}; {len(mark.args)} were given; {all_valid}")
    if mark.args and first in mark.kwargs:
        raise ValueError(f"{first} is given twice, by position and by name")
    given: dict[str, Any] = {**mark.kwargs, **({first: mark.args[0]} if mark.args else {})}
    for name, value in given.items():
        if name not in arguments:
            raise ValueError(f"has no argument {name!r}: {remedy('argument', name, all_valid)}")
        valid, accepts = arguments[name]
        if not accepts(value):
            raise ValueError(f"{name} must be {valid}, not {quote(value)}")
    return given


def _positive(value: Any) -> bool:
    return value is None or ((number := size(value)) is not None and number > 0)


def _not_negative(value: Any) -> bool:
    return value is None or ((number := size(value)) is not None and number >= 0)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _are_counts(value: Any) -> bool:
    """Return whether a value is at least two different numbers of devices."""
    if not isinstance(value, list | tuple | range) or not all(isinstance(each, Integral) for each in value):
        return False
    return len(value) > 1 and len(set(value)) == len(value) and 1 <= min(value) <= max(value) <= _MOST


_POSITIVE = "a finite number above 0"
_Arguments = dict[str, tuple[str, Callable[[Any], bool]]]
"""By name: which values are valid, in words and as a test of a value."""
_ARGUMENTS: _Arguments = {
    "min": (_POSITIVE, _positive),
    "max": (_POSITIVE, _positive),
    "transfer": ("'never', 'always' or 'once'", lambda value: value in ("never", "always", "once")),
    "calls": (
        "an integer of at least 1",
        lambda value: value is None or (_is_integer(value) and 0 < value <= _MOST),
    ),
    "rtol": ("a finite number of at least 0", _not_negative),
    "atol": ("a finite number of at least 0", _not_negative),
    "check": ("True or False", lambda value: isinstance(value, bool)),
    "latency": ("True or False", lambda value: isinstance(value, bool)),
    "max_memory": (
        "a number of bytes above 0, or one with a unit, e.g. '512MB' or '1.5GiB'",
        lambda value: value is None or _bytes(value) is not None,
    ),
    "max_time": ("a finite number of seconds above 0", _positive),
    "accelerator": (
        "the name of an accelerator, e.g. 'networkx:parallel'",
        lambda value: value is None or isinstance(value, str),
    ),
    "pair": ("a name", lambda value: value is None or (isinstance(value, str) and bool(value))),
    "device": ("the name of a device, e.g. 'cpu', 'gpu' or 'cupy', or the device itself", lambda _: True),
}
_PAIR_ARGUMENTS = ("pair", "device")
_OF_EACH_TEST = ("rtol", "atol", "check", "max_time")
_SCALING_ARGUMENTS: _Arguments = {
    "devices": ("a list of at least two different numbers of devices, e.g. [1, 2, 4]", _are_counts),
    "mode": ("'strong' or 'weak'", lambda value: value in MODES),
    "efficiency": (
        "a number above 0 and below 1",  # which no interval reaches
        lambda value: value is None or ((number := size(value)) is not None and 0 < number < 1),
    ),
    **{name: _ARGUMENTS[name] for name in _OF_EACH_TEST},
}
_LIMIT = ("a finite number", lambda value: value is None or size(value) is not None)
_THRESHOLD_ARGUMENTS: _Arguments = {
    "parameter": (
        "the name of the parameter that is the size, as in offload_threshold('n')",
        lambda value: isinstance(value, str),
    ),
    "at_most": _LIMIT,
    "at_least": _LIMIT,
}


def _refuse_contradictions(given: dict[str, Any]) -> None:
    lowest = given.get("min")
    highest = given.get("max")
    if lowest is not None and highest is not None and lowest > highest:
        raise ValueError(f"min must be at most max; min={lowest!r} is above max={highest!r}")
    if given.get("check") is False and not (given.get("rtol") is None and given.get("atol") is None):
        raise ValueError(
            "rtol and atol set how results are compared, but check=False turns the comparison off"
        )
    is_once = given.get("transfer") == "once"
    if is_once and given.get("calls") is None:
        raise ValueError("transfer='once' needs calls=N, the number of calls that share one transfer")
    if not is_once and given.get("calls") is not None:
        raise ValueError(f"calls={given['calls']!r} has no effect without transfer='once'")


def _require_accelerator(name: str) -> None:
    """Raise ValueError, with the valid ones, for a name that no accelerator has."""
    from pytest_gpuperf.devices.accelerators import ACCELERATOR, chosen_accelerator  # which imports NumPy

    try:
        chosen_accelerator(f"{ACCELERATOR}:{name}")
    except GpuPerfError as error:
        told = str(error).replace(f"{ACCELERATOR}:", "")  # what the option has before each name
        raise ValueError(f"accelerator={name!r}: {told}") from error


def _bytes(value: Any) -> int | None:
    """Return a size in bytes: kB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB of 1024."""
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if match is None:
            return None
        number, prefix, binary = match.groups()
        base = 1024 if binary else 1000
        exponent = " kmgt".index((prefix or " ").lower())
        value = float(number) * base**exponent
    return int(value) if (number := size(value)) is not None and 1 <= number <= _MOST else None


def _python_number(value: Any) -> Any:
    """Return a number of any library as Python's own, and one beyond a report's integers as a float."""
    is_small = isinstance(value, int) and abs(value) <= _MOST
    return float(value) if _is_number(value) and not is_small else value
