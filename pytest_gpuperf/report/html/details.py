"""From a record to all that it says, as rows of names and texts with units: nothing is left out but samples."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from msgspec import Meta

from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Estimate, Measurement, Speedup
from pytest_gpuperf.model.record import Record

_SHOWN_ELSEWHERE = {"nodeid", "status", "reason", "cpu", "gpu", "notes", "diagnosis", "comparisons"}
_EMPTY: tuple[Any, ...] = (None, (), {}, [])


@dataclass(frozen=True, slots=True)
class Fact:
    """One value of a record: its name in the report, and its text with its unit."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Timing:
    """One value of the measurements: its name, and its text on each device, a dash where there is none."""

    name: str
    cpu: str
    gpu: str


def facts(record: Record) -> list[Fact]:
    """Return what a record says beside its times and sentences."""
    return [
        Fact(name, text) for name, text in _walk(record, "") if name.partition(".")[0] not in _SHOWN_ELSEWHERE
    ]


def timings(record: Record) -> list[Timing]:
    """Return what was measured on each device, side by side."""
    cpu, gpu = (_of_device(measurement) for measurement in (record.cpu, record.gpu))
    return [Timing(name, cpu.get(name, "-"), gpu.get(name, "-")) for name in dict.fromkeys((*cpu, *gpu))]


def _of_device(measurement: Measurement | None) -> dict[str, str]:
    if measurement is None:
        return {}
    rounds = {"samples": f"{len(measurement.samples):,}"} if measurement.samples else {}
    return {**rounds, **dict(_walk(measurement, ""))}


def _walk(value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield each field's name, with those of the values around it, and its text."""
    for name, unit in _units(type(value)).items():
        part = getattr(value, name)
        if isinstance(part, array) or any(part is empty or part == empty for empty in _EMPTY):
            continue
        if prefix == "" and name in _SHOWN_ELSEWHERE and isinstance(value, Record):
            continue
        if isinstance(part, Speedup):
            yield f"{prefix}{name}", ratio(part)
            yield from (pair for pair in _walk(part, f"{prefix}{name}.") if not _is_of_ratio(pair[0]))
        elif isinstance(part, Estimate):
            yield (
                f"{prefix}{name}",
                f"{_text(part.value, unit)} {units.interval(part.low, part.high, _number)}",
            )
        elif is_dataclass(part):
            yield from _walk(part, f"{prefix}{name}.")
        elif isinstance(part, tuple) and is_dataclass(part[0]):
            for number, each in enumerate(part, start=1):
                yield from _walk(each, f"{prefix}{name} {number}.")
        elif isinstance(part, tuple):
            yield f"{prefix}{name}", ", ".join(_text(each, unit) for each in part)
        elif isinstance(part, dict):
            yield from ((f"{prefix}{name}.{key}", _text(each, None)) for key, each in part.items())
        else:
            yield f"{prefix}{name}", _text(part, unit)


def _is_of_ratio(name: str) -> bool:
    return name.rpartition(".")[2] in ("value", "low", "high")


@cache
def _units(kind: type) -> dict[str, str | None]:
    """Return the fields of a class of the model with their units."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: next(_units_in(hints[field.name]), None) for field in fields(kind)}


def _units_in(hint: Any) -> Iterator[str]:
    for part in get_args(hint):
        if isinstance(part, Meta):
            yield from filter(None, [(part.extra or {}).get("unit")])
        else:
            yield from _units_in(part)


def _text(value: object, unit: str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and unit is not None:
        return units.seconds(value) if unit == "s" else units.size(value)
    return (
        _number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )


def _number(value: float) -> str:
    return f"{value:.4g}"
