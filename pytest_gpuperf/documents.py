"""Values <-> the objects of the JSON document: what is computed from a value is written, and not read."""

from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from pytest_gpuperf.model.comparison import Commit, Comparison, GateFailure, GateNote, GateResult, Tolerance
from pytest_gpuperf.model.demand import Demand, Family, Pairing, Selection
from pytest_gpuperf.model.measurement import (
    Copies,
    DeviceInfo,
    Estimate,
    Inspection,
    Interference,
    Measurement,
    Memory,
    Parity,
    Speedup,
    Transfer,
)
from pytest_gpuperf.model.offload import (
    BreakEven,
    Diagnosis,
    GpuLimits,
    Link,
    Offload,
    Point,
    Price,
    Threshold,
)
from pytest_gpuperf.model.record import Clocks, Environment, Merged, Note, Record, ThreadPool

__all__ = [
    "dump_environment",
    "dump_record",
    "dump_selections",
    "load_commit",
    "load_environment",
    "load_gate",
    "load_merged",
    "load_record",
    "load_selections",
    "load_threshold",
    "load_valid_record",
    "plain",
]

_Value = TypeVar("_Value")
_AS_THEY_STAND = {str, float, int, bool, type(None)}


def plain(value: Any) -> dict[str, Any]:
    """Return a value's fields as an object of JSON."""
    return {
        name: part if (part := getattr(value, name)).__class__ in _AS_THEY_STAND else _plain(part)
        for name in _names(type(value))  # type: ignore[arg-type]  # a class is hashable
    }


def dump_record(record: Record) -> dict[str, Any]:
    """Return a record as it stands in the document."""
    content = plain(record)
    content["demand"]["alpha"] = content.pop("alpha")
    for side in ("cpu", "gpu"):
        measured: Measurement | None = getattr(record, side)
        if measured is not None:
            content[side] |= {
                "median": measured.median,
                "latency": measured.latency,
                "device_time": measured.device_time,
            }
    for direction in ("h2d", "d2h"):
        copies: Copies | None = getattr(record.transfer, direction, None)
        if copies is not None:
            content["transfer"][direction] |= {"median": copies.median, "bandwidth": copies.bandwidth}
    return content


def load_record(content: dict[str, Any]) -> Record:
    """Return the record that `dump_record` wrote."""
    return _load(
        Record,
        {**content, "alpha": content["demand"]["alpha"]},
        demand=_of(Demand),
        family=_family,
        cpu=_measurement,
        gpu=_measurement,
        speedup=_of(Speedup),
        parity=_of(Parity),
        transfer=lambda part: _load(Transfer, part, h2d=_copies, d2h=_copies),
        offload=_offload,
        memory=_of(Memory),
        diagnosis=_each(_of(Diagnosis)),
        interference=_of(Interference),
        notes=_each(_of(Note)),
        pairing=_of(Pairing),
        comparisons=_each(_comparison),
    )


def load_valid_record(content: dict[str, Any]) -> Record:
    """Return the record of a content that keeps the schema, as `load_record` does, and quickly."""
    convert = _converter()
    if convert is not None:
        with suppress(ValueError, TypeError, OverflowError):  # a float where it wants an integer: 2.0
            return convert(content | {"alpha": content["demand"]["alpha"]})
    return load_record(content)


@cache
def _converter() -> Callable[[dict[str, Any]], Record] | None:
    """Return msgspec's way to make records, which takes a fifth of the time."""
    try:
        from msgspec import convert
    except ImportError:
        return None
    return lambda content: convert(content, Record, dec_hook=_custom)


def _custom(kind: type, value: Any) -> Any:
    """Return what msgspec does not know: samples."""
    if kind is not array:
        raise TypeError(f"{kind} is no part of a record")
    return _doubles(value)


def load_threshold(content: dict[str, Any]) -> Threshold:
    """Return a threshold as it was written."""
    estimates = dict.fromkeys(("speedup", "never", "once", "always", "latency"), _of(Estimate))
    return _load(Threshold, content, curve=_each(lambda part: _load(Point, part, **estimates)))


def dump_selections(selections: Iterable[Selection]) -> list[dict[str, Any]]:
    """Return selections as they stand in the document."""
    return [plain(selection) for selection in selections]


def load_selections(contents: Iterable[dict[str, Any]]) -> tuple[Selection, ...]:
    """Return the selections that `dump_selections` wrote."""
    return tuple(_load(Selection, content) for content in contents)


def load_merged(content: dict[str, Any]) -> Merged:
    """Return what was joined as it was written."""
    return _load(Merged, content, reports=tuple, differences=tuple)


def load_commit(content: dict[str, Any]) -> Commit:
    """Return a commit as it was written."""
    return _load(Commit, content)


def load_gate(content: dict[str, Any]) -> GateResult:
    """Return a gate as it was written."""
    return _load(
        GateResult,
        content,
        tolerances=_each(_of(Tolerance)),
        failures=_each(_of(GateFailure)),
        notes=_each(_of(GateNote)),
    )


def dump_environment(environment: Environment) -> dict[str, Any]:
    """Return an environment as it stands in the document."""
    return plain(environment)


def load_environment(content: dict[str, Any]) -> Environment:
    """Return the environment that `dump_environment` wrote."""
    clocks = {"throttle": tuple}
    return _load(
        Environment,
        content,
        gpu=_of(DeviceInfo),
        thread_pools=_each(_of(ThreadPool)),
        clocks_at_start=lambda part: _load(Clocks, part, **clocks),
        clocks_at_end=lambda part: _load(Clocks, part, **clocks),
    )


def _measurement(content: dict[str, Any]) -> Measurement:
    return _load(
        Measurement,
        content,
        device=_of(DeviceInfo),
        samples=_doubles,
        latencies=_doubles,
        dtypes=tuple,
        shapes=tuple,
        inspection=_of(Inspection),
    )


def _offload(content: dict[str, Any]) -> Offload:
    calls = dict.fromkeys(("transfer", "first_call", "both"), _of(Estimate))
    return _load(
        Offload,
        content,
        price=lambda part: _load(Price, part, saving_percent=_of(Estimate)),
        break_even_calls=lambda part: _load(BreakEven, part, **calls),
        gpu_limits=_of(GpuLimits),
        links=_each(_of(Link)),
        **dict.fromkeys(("never", "once", "always", "latency"), _of(Speedup)),
    )


def _comparison(content: dict[str, Any]) -> Comparison:
    estimates = dict.fromkeys(("baseline", "found", "ratio"), _of(Estimate))
    return _load(Comparison, content, differences=tuple, **estimates)


def _copies(content: dict[str, Any]) -> Copies:
    return _load(Copies, content, samples=_doubles)


def _family(content: dict[str, Any]) -> Family:
    return _load(Family, content, sizes=tuple)


def _of(kind: type[_Value]) -> Callable[[dict[str, Any]], _Value]:
    return lambda content: _load(kind, content)


def _each(read: Callable[[dict[str, Any]], _Value]) -> Callable[[list[Any]], tuple[_Value, ...]]:
    return lambda listed: tuple(read(part) for part in listed)


def _load(kind: type[_Value], content: dict[str, Any], **read: Callable[[Any], Any]) -> _Value:
    """Return a value of that kind; parts that are there are read as said, and null stays None."""
    known = _names(kind)  # type: ignore[arg-type]  # a class is hashable
    if not read and content.keys() == known.keys():
        return kind(**content)
    parts = {name: part for name, part in content.items() if name in known}
    for name, reading in read.items():
        if parts.get(name) is not None:
            parts[name] = reading(parts[name])
    return kind(**parts)


@cache
def _names(kind: Any) -> dict[str, None]:
    """Return the names of a kind's fields, in order."""
    return dict.fromkeys(field.name for field in fields(kind))


def _doubles(values: list[float]) -> "array[float]":
    return array("d", values)


def _plain(value: Any) -> Any:
    """Return a field that is not plain already as JSON has it."""
    if isinstance(value, array):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [part if part.__class__ in _AS_THEY_STAND else _plain(part) for part in value]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return plain(value) if is_dataclass(value) else value
