"""From a run to the files of tools that track one number of each test over commits."""

from typing import Any

from pytest_gpuperf.gate.metric_values import decided
from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Measurement
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import files
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.report.words.columns import format_time, times_of
from pytest_gpuperf.report.words.names import distinct

_LONGEST_NAME = 1024  # bytes: Bencher's limit of a BenchmarkName


class Bencher:
    """One benchmark for each test that was measured: its speedup or efficiency, the medians in nanoseconds.

    Results of an emulated device have measures of their own, to which no threshold for a GPU applies.
    """

    name, suffix = "bencher", ".json"
    begins_as = staticmethod(
        files.begins(
            rb"\{" + files.TEXT + rb':\{"(?:emulated-)?(?:speedup|efficiency|cpu-ns|gpu-ns)":\{"value":'
        )
    )

    def write(self, run: Run) -> str:
        """Return the benchmarks by the names of their tests."""
        benchmarks = {distinct(record.nodeid, _LONGEST_NAME): _measures(record) for record in run.records}
        measured = {name: measures for name, measures in benchmarks.items() if measures}
        return codec.plain(measured) + "\n" if measured else ""


def _measures(record: Record) -> dict[str, dict[str, float]]:
    measures = {}
    for name, value in decided(record).items():
        parts = {"value": value.value, "lower_value": value.low, "upper_value": value.high}
        bounded = {part: number for part, number in parts.items() if number is not None}  # null is no number
        measures[f"{_emulated(record.gpu)}{name}"] = bounded
    for kind, measurement in (("cpu", record.cpu), ("gpu", record.gpu)):
        if measurement and measurement.median is not None:
            measures[f"{_emulated(measurement)}{kind}-ns"] = {"value": measurement.median * 1e9}
    return measures


def _emulated(measurement: Measurement | None) -> str:
    return "emulated-" if measurement and measurement.device.emulated else ""


class GithubAction:
    """One entry for each test that has a speedup or an efficiency; a null would be charted as 0."""

    name, suffix = "github-action-benchmark", ".json"
    begins_as = staticmethod(
        files.begins(rb'\[\{"name":' + files.TEXT + rb',"unit":"(?:x|efficiency)","value":[^,"]+,"range":"')
    )

    def write(self, run: Run) -> str:
        """Return the entries, or nothing: the action fails for an empty list."""
        entries = [entry for record in run.records if (entry := _entry(record)) is not None]
        return codec.plain(entries) + "\n" if entries else ""


def _entry(record: Record) -> dict[str, Any] | None:
    if not (found := decided(record)):
        return None
    what, value = next(iter(found.items()))
    shown = units.digits if what == "speedup" else "{:.2f}".format
    suffix = " (emulated)" if record.is_emulated else ""  # no chart mixes the two
    name = distinct(record.nodeid).replace("|", r"\|")  # the action writes it into a table as it is
    return {
        "name": f"{name}{suffix}",
        "unit": "x" if what == "speedup" else what,
        "value": value.value,
        "range": units.interval(value.low, value.high, shown),
        "extra": _tooltip(record),
    }


def _tooltip(record: Record) -> str:
    """Return the chart's tooltip for a test: the times, the devices and the verdict."""
    lines = [
        f"{kind}: {format_time(measurement.median)} on {printable(measurement.device.name)}"
        for kind, measurement in times_of(record)
    ]
    emulated = ["emulated: not a GPU's speedup"] if record.is_emulated else []
    return "\n".join([*lines, record.verdict, *emulated])
