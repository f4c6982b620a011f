"""From markers to what they ask: Demand, Joint and ThresholdDemand."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import pytest

from pytest_gpuperf.model.demand import Demand

__all__ = ["PairOptions", "ThresholdDemand", "demand", "joint", "size", "threshold"]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kMGT])(i?))?B", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdDemand:
    """What an offload_threshold marker asks: the size's name, and between which sizes the GPU shall win."""

    parameter: str
    at_most: float | None = None
    at_least: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOptions:
    """How a marker joins siblings that are tests of their own: their common name, and this one's device."""

    pair: str | None = None
    device: Any = None


def demand(mark: pytest.Mark) -> "Demand":
    """Return what a marker asks; raise ValueError, naming the argument and the valid ones.

    `min` is the only argument that may be given by position.
    """
    if len(mark.args) > 1:
        raise ValueError(f"takes one positional argument, min; {len(mark.args)} were given. {_VALID}")
    given = dict(mark.kwargs)
    if mark.args:
        if "min" in given:
            raise ValueError("min is given twice, by position and by name")
        given["min"] = mark.args[0]
    for name, value in given.items():
        if name not in _ARGUMENTS:
            raise ValueError(f"has no argument {name!r}. {_VALID}")
        valid, accepts = _ARGUMENTS[name]
        if not accepts(value):
            raise ValueError(f"{name} must be {valid}, not {value!r}")
    _refuse_contradictions(given)
    if given.get("max_memory") is not None:
        given["max_memory"] = _bytes(given["max_memory"])
    return Demand(**{name: _plain(value) for name, value in given.items() if name not in _JOINT})


def joint(mark: pytest.Mark) -> PairOptions:
    """Return how a marker joins siblings; `demand` has found its arguments right."""
    return PairOptions(**{name: value for name, value in mark.kwargs.items() if name in _JOINT})


def threshold(mark: pytest.Mark, *more: pytest.Mark) -> ThresholdDemand:
    """Return what an offload_threshold marker asks; raise ValueError, naming the argument, or for several."""
    if more:
        raise ValueError(f"there are {1 + len(more)} of them; keep one, for a family has one size")
    given = dict(mark.kwargs)
    if len(mark.args) > 1 or (mark.args and "parameter" in given):
        raise ValueError("takes one positional argument, the name of the parameter that is the size")
    if mark.args:
        given["parameter"] = mark.args[0]
    unknown = given.keys() - {"parameter", "at_most", "at_least"}
    if unknown:
        raise ValueError(
            f"has no argument {min(unknown)!r}. The valid arguments are parameter, at_most, at_least"
        )
    if not isinstance(given.get("parameter"), str):
        raise ValueError("needs the name of a parameter, as in offload_threshold('n')")  # noqa: TRY004 - misuse
    for name in ("at_most", "at_least"):
        if given.get(name) is not None and size(given[name]) is None:
            raise ValueError(f"{name} must be a finite number, not {given[name]!r}")
    most, least = given.get("at_most"), given.get("at_least")
    if most is not None and least is not None and least > most:
        raise ValueError(f"at_least must not be above at_most; {least!r} is above {most!r}")
    return ThresholdDemand(**{name: _plain(value) for name, value in given.items()})


def size(value: Any) -> float | None:
    """Return a parameter's value as a size, or None when it has no order among numbers."""
    return float(_plain(value)) if _is_number(value) and math.isfinite(value) else None


def _positive(value: Any) -> bool:
    return value is None or (_is_number(value) and 0 < value < math.inf)


def _not_negative(value: Any) -> bool:
    return value is None or (_is_number(value) and 0 <= value < math.inf)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


_POSITIVE = "a finite number above 0"
_ARGUMENTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "min": (_POSITIVE, _positive),
    "max": (_POSITIVE, _positive),
    "transfer": ("'never', 'always' or 'once'", lambda value: value in ("never", "always", "once")),
    "calls": ("a whole number from 1 up", lambda value: value is None or _is_count(value)),
    "rtol": ("a finite number from 0 up", _not_negative),
    "atol": ("a finite number from 0 up", _not_negative),
    "parity": ("True or False", lambda value: isinstance(value, bool)),
    "latency": ("True or False", lambda value: isinstance(value, bool)),
    "max_memory": (
        "a number of bytes above 0, or one with its unit, as '512MB' or '1.5GiB'",
        lambda value: value is None or _bytes(value) is not None,
    ),
    "max_time": ("a finite number of seconds above 0", _positive),
    "pair": ("a name", lambda value: value is None or (isinstance(value, str) and bool(value))),
    "device": ("a device's name, as 'cpu', 'gpu' or 'cupy', or the device itself", lambda _: True),
}
_JOINT = ("pair", "device")
_VALID = f"The valid arguments are {', '.join(_ARGUMENTS)}"


def _refuse_contradictions(given: dict[str, Any]) -> None:
    least, most = given.get("min"), given.get("max")
    if least is not None and most is not None and least > most:
        raise ValueError(f"min must be at most max; min={least!r} is above max={most!r}")
    if given.get("parity") is False and not (given.get("rtol") is None and given.get("atol") is None):
        raise ValueError("rtol and atol say how results are compared, and parity=False that they are not")
    once = given.get("transfer") == "once"
    if once and given.get("calls") is None:
        raise ValueError("transfer='once' needs calls=N, the calls that share one transfer")
    if not once and given.get("calls") is not None:
        raise ValueError(f"calls={given['calls']!r} is for transfer='once' only, which is not asked for")


def _bytes(value: Any) -> int | None:
    """Return a size in bytes: kB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB of 1024."""
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            return None
        number, prefix, binary = found.groups()
        value = int(float(number) * (1024 if binary else 1000) ** (" kmgt".index((prefix or " ").lower())))
    return int(value) if _is_number(value) and 1 <= value < math.inf else None


def _plain(value: Any) -> Any:
    """Return a number of any library as Python's own."""
    return float(value) if _is_number(value) and not isinstance(value, int) else value
