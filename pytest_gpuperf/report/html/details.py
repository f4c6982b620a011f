"""From records to all that they say, as names and texts with units; samples and defaults are left out.

What all measured tests share is said once, beside their table.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, get_args, get_type_hints

from msgspec import NODEFAULT, Meta
from msgspec.structs import fields

from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import DeviceInfo, Estimate, Speedup
from pytest_gpuperf.model.offload import Offload
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.model.value import Value

_SHOWN_ELSEWHERE: dict[type, set[str]] = {
    Record: {"nodeid", "status", "reason", "cpu", "gpu", "notes", "diagnosis", "comparisons"},
    Offload: {"reason"},
    Speedup: {"value", "low", "high"},
}
Leaf = tuple[str, str]
"""The path of a value in a record, and its text with its unit."""


class Timing(NamedTuple):  # a page has thousands of them
    """One value of the measurements: its name, and its text for each device; a dash for a missing one."""

    name: str
    cpu: str
    gpu: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a record says beside its sentences."""

    timings: Sequence[Timing]
    facts: Sequence[Leaf]


def listings(records: Sequence[Record]) -> tuple[list[Listing], list[Leaf]]:
    """Return the listing of each record, and what all those that were measured have in common."""
    leaves = [_leaves(record) for record in records]
    measured = [each for each, record in zip(leaves, records, strict=True) if record.cpu or record.gpu]
    shared = frozenset(measured[0]).intersection(*measured[1:]) if len(measured) > 1 else frozenset()
    return [_listing(each, shared) for each in leaves], _joined(
        leaf for leaf in (measured[0] if measured else ()) if leaf in shared
    )


def _listing(leaves: Sequence[Leaf], shared: frozenset[Leaf]) -> Listing:
    sides: dict[str, dict[str, str]] = {"cpu": {}, "gpu": {}}
    facts: list[Leaf] = []
    for leaf in leaves:
        if leaf in shared:
            continue
        side, _, name = leaf[0].partition(".")
        if side in sides:
            sides[side][name] = leaf[1]
        else:
            facts.append(leaf)
    cpu, gpu = sides["cpu"], sides["gpu"]
    timings = [Timing(_words(name), cpu.get(name, "-"), gpu.get(name, "-")) for name in {**cpu, **gpu}]
    return Listing(timings, _joined(facts))


def _joined(leaves: Iterable[Leaf]) -> list[Leaf]:
    """Return one line for all values that lie in the same one: `3.4x [3.3, 3.5], rounds 6`."""
    lines: dict[str, list[str]] = {}
    for path, text in leaves:
        group, name = _line_and_name(path)
        lines.setdefault(group, []).append(f"{name} {text}" if name else text)
    return [(group, ", ".join(texts)) for group, texts in lines.items()]


@lru_cache(maxsize=1024)  # all records have the same fields
def _line_and_name(path: str) -> tuple[str, str]:
    """Return the line in which a value stands, and its name there, which the only value of a line lacks."""
    group, _, name = path.rpartition(".")
    return _words(group or path), _words(name) if group else ""


@lru_cache(maxsize=1024)
def _words(path: str) -> str:
    return path.replace(".", " ").replace("_", " ")


def _leaves(record: Record) -> list[Leaf]:
    found: list[Leaf] = []
    _walk(record, "", found)
    for side, measurement in (("cpu", record.cpu), ("gpu", record.gpu)):
        if measurement is not None:
            _walk(measurement, f"{side}.", found)
    return found


class _Field(NamedTuple):  # which is unpacked a hundred thousand times
    name: str
    default: Any
    text: Callable[[Any], str]


@cache
def _fields(kind: type) -> tuple[tuple[_Field, ...], Callable[[Any], tuple[Any, ...]]]:
    """Return the fields of a class of the model, and what returns their values."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for field in fields(kind):
        if field.name in _SHOWN_ELSEWHERE.get(kind, ()):
            continue
        default = None if field.default is NODEFAULT else field.default
        found.append(_Field(field.name, default, _TEXTS[next(_units(hints[field.name]), "")]))
    names = [field.name for field in found]
    return tuple(found), attrgetter(*names)


def _units(hint: Any) -> Iterator[str]:
    for part in get_args(hint):
        if isinstance(part, Meta):
            yield from filter(None, [(part.extra or {}).get("unit")])
        else:
            yield from _units(part)


_PLAIN = (str, int, float)


def _walk(value: Any, prefix: str, found: list[Leaf]) -> None:
    """Add the path and the text of each value that is not its default, and is no sample."""
    known, parts_of = _fields(value.__class__)
    for (name, default, text), part in zip(known, parts_of(value), strict=True):
        if part is None or part is default:
            continue
        path = prefix + name
        if isinstance(part, _PLAIN):
            if part != default:
                found.append((path, text(part)))
        elif isinstance(part, array) or part == default:
            continue
        elif isinstance(part, DeviceInfo):
            found.append((path, f"{part.name} ({part.library})"))
        elif isinstance(part, Estimate):
            found.append((path, f"{_plain(part.value)} {units.interval(part.low, part.high, _plain)}"))
        elif isinstance(part, Speedup):
            found.append((f"{path}.", ratio(part)))
            _walk(part, f"{path}.", found)
        elif isinstance(part, Value):
            _walk(part, f"{path}.", found)
        elif isinstance(part, dict):
            found += ((f"{path}.{key}", _plain(each)) for key, each in part.items())
        elif part and isinstance(part[0], Value):
            for number, each in enumerate(part, start=1):
                _walk(each, f"{path} {number}.", found)
        elif part:
            found.append((path, ", ".join(map(text, part))))


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


_TEXTS: dict[str, Callable[[Any], str]] = {
    "s": units.seconds,
    "B": units.size,
    "B/s": units.bandwidth,
    "x": lambda ratio: f"{_plain(ratio)}x",
    "": _plain,
}
