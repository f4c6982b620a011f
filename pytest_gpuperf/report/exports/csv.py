"""From a run to CSV (RFC 4180) in long form: a row for each number of each test."""

import csv
import re
from collections.abc import Iterator
from io import StringIO
from typing import Any

from pytest_gpuperf.model.comparison import Comparison
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import files

_BEGINS = "=+@\uff1d\uff0b\uff0d\uff20-"  # and their full-width forms
# Some spreadsheets begin a cell after a semicolon, too, even within quotes, and take off quotes and spaces.
_FORMULA = re.compile(f'(?:^|(?<=;))(?=["\\s]*[{_BEGINS}])')
_HEADER = "test,verdict,reason,metric,device,emulated,unit,value,low,high,at_least,at_most,baseline,outcome"
_METRICS = {
    "cpu_time": ("s", "cpu.median", None, None),
    "gpu_time": ("s", "gpu.median", None, None),
    "cpu_first_call": ("s", "cpu.first_call", None, None),
    "gpu_first_call": ("s", "gpu.first_call", None, None),
    "speedup": ("x", "speedup", "demand.min", "demand.max"),
    "with_copies": ("x", "offload.always", None, None),
    "with_one_transfer": ("x", "offload.once", None, None),
    "latency": ("x", "offload.latency", None, None),
    "copies": ("s", "transfer.median", None, None),
    "copied": ("bytes", "transfer.bytes", None, None),
    "break_even": ("calls", "offload.break_even_calls.both", None, None),
    "memory": ("bytes", "memory.peak", None, "demand.max_memory"),
    "scaling_speedup": ("x", "scaling.speedup", "demand.min", "demand.max"),
    "efficiency": ("ratio", "scaling.efficiency", "scaling.required", None),
    "karp_flatt": ("ratio", "scaling.karp_flatt", None, None),
}
"""The numbers, called as in `--gpuperf-fail-on`: the unit, and where in a record the value and limits are."""


class Csv:
    """A header and a row for each number; what is not known, or not bounded, is an empty cell."""

    name, suffix = "csv", ".csv"
    begins_as = staticmethod(files.begins(_HEADER.encode()))

    def write(self, run: Run) -> str:
        """Return the table; a test without any number has one row, with its verdict and its reason."""
        file = StringIO()
        writer = csv.writer(file)  # the default dialect is RFC 4180's: CRLF, and quotes where needed
        writer.writerow(_HEADER.split(","))
        for record in run.records:
            regressions = (each.reason for each in record.comparisons if each.outcome == "regressed")
            reason = record.reason or next(regressions, None)
            for cells in list(_numbers(record)) or [[None] * 11]:
                writer.writerow(map(_cell, (record.nodeid, record.verdict, reason, *cells)))
        return file.getvalue()


def _numbers(record: Record) -> Iterator[list[Any]]:
    """Yield the cells of each number, from `metric` on."""
    comparisons: dict[str, Comparison] = {each.metric: each for each in record.comparisons}
    for metric, (unit, place, *limits) in _METRICS.items():
        found, compared = _at(record, place), comparisons.get(metric)
        if found is None and compared is None:
            continue
        device = record.cpu if metric.startswith("cpu_") else record.gpu
        cells = [metric, _at(device, "device.name"), _at(device, "device.emulated"), unit]
        cells += [found.value, found.low, found.high] if hasattr(found, "value") else [found, None, None]
        cells += [limit and _at(record, limit) for limit in limits]
        yield [*cells, _at(compared, "baseline.value"), _at(compared, "outcome")]


def _at(value: Any, path: str) -> Any:
    """Return what the path of attributes leads to; None where something on the way is None."""
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


def _cell(value: Any) -> Any:
    """Return what is written: None as an empty cell, and no text that a spreadsheet evaluates as a formula.

    An apostrophe before what could begin one makes it text; a tab or a line's end, which can begin one, too,
    is escaped (https://owasp.org/www-community/attacks/CSV_Injection). Numbers are ours, and stay.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return _FORMULA.sub("'", printable(value)) if isinstance(value, str) else value
