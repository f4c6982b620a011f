"""From a run to CSV (RFC 4180) in long form: a row for each number of each test."""

import csv
import re
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Any

from pytest_gpuperf.gate.metric_values import at
from pytest_gpuperf.model.comparison import Comparison
from pytest_gpuperf.model.metrics import TABLE
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import files
from pytest_gpuperf.report.words.below_table import causes_of

_BEGINS = "=+@\uff1d\uff0b\uff0d\uff20-"  # and their full-width forms
# Some spreadsheets begin a cell after a semicolon, too, even within quotes, and take off quotes and spaces.
_FORMULA = re.compile(f'(?:^|(?<=;))(?=["\\s]*[{_BEGINS}])')
_HEADER = "test,verdict,reason,metric,device,emulated,unit,value,low,high,at_least,at_most,baseline,outcome"
_OTHERS = (
    ("gpu_time", "cpu_first_call", "s", "cpu.first_call", None, None),
    ("gpu_time", "gpu_first_call", "s", "gpu.first_call", None, None),
    ("with_copies", "with_one_transfer", "x", "offload.once", None, None),
    ("latency", "copies", "s", "transfer.median", None, None),
    ("latency", "copied", "bytes", "transfer.bytes", None, None),
    ("latency", "break_even", "calls", "offload.break_even_calls.both", None, None),
    ("memory", "scaling_speedup", "x", "scaling.speedup", "demand.min", "demand.max"),
    ("efficiency", "karp_flatt", "ratio", "scaling.karp_flatt", None, None),
)
"""Numbers that no check is on, each behind the metric that it follows: as there, the unit, and where in a
record the value and the limits are."""


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
            reason = record.reason or next(iter(causes_of(record)), None)
            for cells in list(_numbers(record)) or [[None] * 11]:
                writer.writerow(map(_cell, (record.nodeid, record.verdict, reason, *cells)))
        return file.getvalue()


def _exported() -> Iterator[Sequence[Any]]:
    """Yield the numbers in their order, the metrics called as in `--gpuperf-fail-on`."""
    for metric, row in TABLE.items():
        if not row.pairs_only:  # no run has it compared with another one
            yield metric, row.unit, row.place, row.at_least, row.at_most
        yield from (number for after, *number in _OTHERS if after == metric)


def _numbers(record: Record) -> Iterator[list[Any]]:
    """Yield the cells of each number, from `metric` on."""
    comparisons: dict[str, Comparison] = {each.metric: each for each in record.comparisons}
    for metric, unit, place, *limits in _exported():
        found, compared = at(record, place), comparisons.get(metric)
        if found is None and compared is None:
            continue
        device = record.cpu if metric.startswith("cpu_") else record.gpu
        cells = [metric, at(device, "device.name"), at(device, "device.emulated"), unit]
        cells += [found.value, found.low, found.high] if hasattr(found, "value") else [found, None, None]
        cells += [limit and at(record, limit) for limit in limits]
        yield [*cells, at(compared, "baseline.value"), at(compared, "outcome")]


def _cell(value: Any) -> Any:
    """Return what is written: None as an empty cell, and no text that a spreadsheet evaluates as a formula.

    An apostrophe before what could begin one makes it text; a tab or a line's end, which can begin one, too,
    is escaped (https://owasp.org/www-community/attacks/CSV_Injection). Numbers are ours, and stay.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return _FORMULA.sub("'", printable(value)) if isinstance(value, str) else value
