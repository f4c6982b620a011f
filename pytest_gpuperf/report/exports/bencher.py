"""From a run to Bencher Metric Format, as `bencher run --adapter json` reads it."""

from pytest_gpuperf.model.measurement import Measurement
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.escape import distinct
from pytest_gpuperf.report.json import codec

_LONGEST_NAME = 1024  # bytes: Bencher's limit of a BenchmarkName


def text(run: Run) -> str:
    """Return one benchmark for each test that was measured: its speedup, and the medians in nanoseconds.

    Results of an emulated device have measures of their own, to which no threshold for a GPU applies.
    """
    benchmarks = {distinct(record.nodeid, _LONGEST_NAME): _measures(record) for record in run.records}
    measured = {name: measures for name, measures in benchmarks.items() if measures}
    return codec.text(measured) + "\n" if measured else ""


def _measures(record: Record) -> dict[str, dict[str, float]]:
    measures = {}
    if speedup := record.speedup:
        parts = {"value": speedup.value, "lower_value": speedup.low, "upper_value": speedup.high}
        bounded = {name: part for name, part in parts.items() if part is not None}  # the format has no null
        measures[f"{_emulated(record.gpu)}speedup"] = bounded
    for kind, measurement in (("cpu", record.cpu), ("gpu", record.gpu)):
        if measurement and measurement.median is not None:
            measures[f"{_emulated(measurement)}{kind}-ns"] = {"value": measurement.median * 1e9}
    return measures


def _emulated(measurement: Measurement | None) -> str:
    return "emulated-" if measurement and measurement.device.emulated else ""
