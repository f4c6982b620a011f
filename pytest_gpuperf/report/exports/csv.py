"""From a run to CSV (RFC 4180), one row for each test and one column for each number."""

import csv
import re
from collections.abc import Iterator
from io import StringIO
from typing import Any

from pytest_gpuperf.model.comparison import METRICS, Metric
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run

_BEGINS = "=+@\uff1d\uff0b\uff0d\uff20-"  # and their full-width forms
# Some spreadsheets begin a cell after a semicolon, too, even within quotes, and take off quotes and spaces.
_FORMULA = re.compile(f'(?:^|(?<=;))(?=["\\s]*[{_BEGINS}])')
_UNITS: dict[Metric, str] = {
    "gpu_time": "s",
    "cpu_time": "s",
    "memory": "bytes",
    "efficiency": "ratio",
}


def text(run: Run) -> str:
    """Return a header and a row for each test; what is not known, or not bounded, is an empty cell."""
    file = StringIO()
    writer = csv.writer(file)  # the default dialect is RFC 4180's: CRLF, and quotes where needed
    writer.writerow([*_COLUMNS, *(name for metric in METRICS for name in _comparison_columns(metric))])
    for record in run.records:
        values = (_at(record, path) for path in _COLUMNS.values())
        writer.writerow([_cell(value) for value in (*values, *_comparison_cells(record))])
    return file.getvalue()


def _cell(value: Any) -> Any:
    """Return what is written: None as an empty cell, and no text that a spreadsheet evaluates as a formula.

    An apostrophe before what could begin one makes it text; a tab or a line's end, which can begin one, too,
    is escaped (https://owasp.org/www-community/attacks/CSV_Injection). Numbers are ours, and stay.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return value
    return _FORMULA.sub("'", printable(value))


def _at(value: Any, path: str) -> Any:
    """Return what the path of attributes leads to; None where something on the way is None."""
    for name in path.split("."):
        if value is None:
            return None
        value = getattr(value, name)
    return value


def _comparison_cells(record: Record) -> Iterator[Any]:
    """Yield the cells of `_comparison_columns`, metric by metric."""
    comparisons = {comparison.metric: comparison for comparison in record.comparisons}
    for metric in METRICS:
        comparison = comparisons.get(metric)
        yield _at(comparison, "baseline.value")
        yield from (_percent(_at(comparison, f"ratio.{part}")) for part in ("value", "low", "high"))
        yield _at(comparison, "outcome")


def _comparison_columns(metric: Metric) -> tuple[str, ...]:
    changes = ("change_percent", "change_low_percent", "change_high_percent")
    columns = (f"baseline_{_UNITS.get(metric, 'x')}", *changes, "outcome")
    return tuple(f"{metric}_{column}" for column in columns)


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else (ratio - 1) * 100


def _interval(name: str, unit: str, path: str) -> dict[str, str]:
    """Return the columns of an estimate: `name_x`, `name_low_x`, `name_high_x`."""
    parts = {"value": "", "low": "_low", "high": "_high"}
    return {f"{name}{suffix}_{unit}": f"{path}.{part}" for part, suffix in parts.items()}


_COLUMNS = {
    "test": "nodeid",
    "status": "status",
    "reason": "reason",
    "cpu_device": "cpu.device.name",
    "gpu_device": "gpu.device.name",
    "gpu_emulated": "gpu.device.emulated",
    "cpu_median_s": "cpu.median",
    "gpu_median_s": "gpu.median",
    "cpu_first_call_s": "cpu.first_call",
    "gpu_first_call_s": "gpu.first_call",
    **_interval("speedup", "x", "speedup"),
    "rounds": "speedup.rounds",
    "required_min_x": "demand.min",
    "required_max_x": "demand.max",
    "required_transfer": "demand.transfer",
    "required_latency": "demand.latency",
    **_interval("with_copies", "x", "offload.always"),
    **_interval("with_one_transfer", "x", "offload.once"),
    **_interval("by_latency", "x", "offload.latency"),
    "transfer_bytes": "transfer.bytes",
    "transfer_median_s": "transfer.median",
    "worth": "offload.worth",
    "worth_reason": "offload.reason",
    **_interval("break_even", "calls", "offload.break_even_calls.both"),
    "memory_peak_bytes": "memory.peak",
    "scaling_mode": "scaling.mode",
    "scaling_devices": "scaling.count",
    **_interval("scaling_speedup", "x", "scaling.speedup"),
    **_interval("efficiency", "ratio", "scaling.efficiency"),
    "required_efficiency_ratio": "scaling.required",
    **_interval("karp_flatt", "ratio", "scaling.karp_flatt"),
}
"""Where in a record each column's value is."""
