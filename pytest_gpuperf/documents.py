"""Values <-> the objects of the JSON document: what is computed from a value is written, and not read."""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from typing import Any, TypeVar

from pytest_gpuperf.model import (
    BreakEven,
    Clocks,
    Commit,
    Comparison,
    Copies,
    Demand,
    DeviceInfo,
    Diagnosis,
    Environment,
    Estimate,
    Family,
    Gate,
    GpuLimits,
    Inspection,
    Link,
    Measurement,
    Memory,
    Merged,
    Offload,
    Pairing,
    Parity,
    Point,
    Price,
    Record,
    Selection,
    Speedup,
    ThreadPool,
    Threshold,
    Tolerance,
    Transfer,
)

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
    "plain",
]

_Value = TypeVar("_Value")


def plain(value: Any) -> dict[str, Any]:
    """Return a value's fields as an object of JSON."""
    return asdict(value, dict_factory=lambda pairs: {name: _listed(field) for name, field in pairs})


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
        notes=tuple,
        pairing=_of(Pairing),
        comparisons=_each(_comparison),
    )


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


def load_gate(content: dict[str, Any]) -> Gate:
    """Return a gate as it was written."""
    return _load(Gate, content, tolerances=_each(_of(Tolerance)), failures=tuple, notes=tuple)


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
    inspection = content.get("inspection")
    if inspection is None and content["device_time"] is not None:  # schema 1.0 had no other place for it
        inspection = {"host_time": None, "device_time": content["device_time"]}
    return _load(
        Measurement,
        {**content, "inspection": inspection},
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
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # kinds are dataclasses
    parts = {name: part for name, part in content.items() if name in known}
    return kind(**{n: read[n](p) if n in read and p is not None else p for n, p in parts.items()})


def _doubles(values: list[float]) -> "array[float]":
    return array("d", values)


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, array) else list(value) if isinstance(value, tuple) else value
